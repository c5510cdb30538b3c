"""Looks up results: those of single tasks, and those of all that a task waits for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Raw

from taskqueue.core.tasks.edge_needs import EdgesRef, FoundParents, ParentsRef
from taskqueue.core.tasks.needs import Found, TaskRef
from taskqueue.protocol.fields import MAX_PARENTS
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.edges import find_edges
from taskqueue.store.records.orders import growing_chunks


def read_results(store: Store, refs: Sequence[TaskRef]) -> dict[TaskRef, Raw]:
    """The results of these tasks, of those that have one.

    Raises:
        StoreError: the store failed.
    """
    values = store.get(layout.RESULTS, [layout.id_key(*ref) for ref in refs])
    return {ref: Raw(value) for ref, value in zip(refs, values, strict=True) if value is not None}


def find_parents(store: Store, refs: Iterable[ParentsRef], found: Found) -> None:
    """Answer ParentsRefs, with the parents and their results.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    for ref in refs:
        found.parents[ref] = _parents(store, ref, found)


def _parents(store: Store, ref: ParentsRef, found: Found) -> FoundParents:
    wanted = EdgesRef(True, ref.project, ref.taskid, b"", MAX_PARENTS)
    find_edges(store, [wanted], found)
    edges = found.edges[wanted].edges[ref.skip :]
    seen = size = 0
    for some in growing_chunks(edges):
        results = read_results(store, [TaskRef(*each.edge.parent) for each in some])
        found.results |= results
        seen += len(some)
        size += sum(map(len, results.values()))
        if size >= ref.limit_bytes:
            break
    return FoundParents(edges[:seen], end=seen == len(edges))
