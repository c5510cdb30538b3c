"""Walks along edges, several steps in one look-up: a search that took a turn for each step would take hours.

    places ──edges──► tasks at their other ends ──edges──► …        until there are no more, or ``limit`` is reached

Void edges are followed, too: which ones are void the core can tell, for it knows what is being processed.
"""

from __future__ import annotations

from taskqueue.core.tasks.edge_needs import EdgePlace, EdgesRef, FoundEdges, WalkRef
from taskqueue.core.tasks.needs import Found
from taskqueue.store.contract import Store
from taskqueue.store.records.edges import add_tasks, read_edges


def walk(store: Store, ref: WalkRef, found: Found) -> dict[EdgePlace, FoundEdges]:
    """Answer a WalkRef, breadth first; the children of the edges are added to what was found.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    pages: dict[EdgePlace, FoundEdges] = {}
    met = {place.task: None for place in ref.places}
    level = list(ref.places)
    left = ref.limit
    while level and left > 0:
        read = []
        for task, after in level:
            if left <= 0:
                break
            page = read_edges(store, EdgesRef(ref.to_parents, *task, after, left))
            left -= 1 + len(page.edges)
            pages[EdgePlace(task, after)] = page
            read += [edge for edge, _, _ in page.edges]
        add_tasks(store, [edge.child for edge in read], found)
        ends = dict.fromkeys(edge.parent if ref.to_parents else edge.child for edge in read)
        level = [EdgePlace(end, b"") for end in ends if end not in met]
        met.update(dict.fromkeys(ends))
    return pages
