"""Edges between tasks, and propagations: keys and values, how a turn looks them up, and how it writes them.

    parents      child, parent ──► mark      children     parent, child ──► mark         propagations   number ──► …

Both orders of an edge have the same life and the same mark: writing it twice costs less than looking it up. The task at
an edge's other end is looked up with it; parents are looked up with their results.

Walks follow edges, several steps in one look-up: a search that took a turn for each step would take hours.

    places ──edges──► tasks at their other ends ──edges──► …        until there are no more, or ``limit`` is reached

Void edges are followed, too: the core knows the processing tasks, and so which edges are void.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from struct import Struct as Packing
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.model.edges import (
    ONLY,
    RUN,
    TO_PARENTS,
    Edge,
    EdgePlace,
    EdgesRef,
    FoundEdge,
    FoundEdges,
    FoundParents,
    FoundPropagation,
    Mark,
    ParentsRef,
    Propagation,
    PropagationKind,
    PropagationsRef,
    TaskRef,
    WalkRef,
)
from taskqueue.core.model.needs import Found
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import CANCELLED, OVER, Task
from taskqueue.protocol.fields import MAX_PARENTS
from taskqueue.store.contract import Batch, Store, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.layout import AWAITED, join_links, join_slot
from taskqueue.store.records.reading import decode_record
from taskqueue.store.records.tasks import growing_chunks, read_results

PROPAGATIONS_A_TURN: Final = 128

RELEASED_BYTES = 16 << 20
"""Bytes of specs after which a turn reads no more of the tasks that it may release; later turns read those."""

_Step = tuple[Propagation, FoundEdges]

_MARK: Final = Packing(">BQ")
_TASK: Final = Packing(">IB")

task_key = layout.history_key
"""Encode the part of a key that is a task; its length comes first, so that no task's part begins another's."""

BELOW_TASK: Final = b"\xff" * 4
"""Bytes that sort behind all that follows a task's part in a key, because no project has that number."""

decode_mark = _MARK.unpack
_decode_propagation: Final = Decoder(tuple[PropagationKind, int, str, bytes]).decode


def encode_mark(mark: Mark) -> bytes:
    """Encode a value of PARENTS and of CHILDREN."""
    return _MARK.pack(*mark)


def edge_keys(edge: Edge) -> tuple[bytes, bytes]:
    """Return the keys of an edge in PARENTS and in CHILDREN."""
    child, parent = task_key(*edge.child), task_key(*edge.parent)
    return child + parent, parent + child


def tasks_of(key: bytes) -> tuple[TaskRef, TaskRef]:
    """Decode the two tasks in a key of PARENTS or CHILDREN, in its order; ValueError or ``struct.error`` if wrong."""
    first, rest = _task_of(key)
    second, rest = _task_of(rest)
    if rest:
        raise ValueError(f"{len(rest)} bytes too many")
    return first, second


def propagation_key(number: int) -> bytes:
    """Encode a key of PROPAGATIONS."""
    return number.to_bytes(8, "big")


def encode_propagation(propagation: Propagation) -> bytes:
    """Encode a value of PROPAGATIONS."""
    return layout.encode(propagation[1:])


def decode_propagation(key: bytes, value: bytes) -> Propagation:
    """Decode the propagation at a key."""
    return Propagation(int.from_bytes(key, "big"), *_decode_propagation(value))


def read_tasks(
    store: StoreReader, refs: Sequence[tuple[int, str]]
) -> tuple[dict[tuple[int, str], Task], dict[TaskRef, None]]:
    """Read known tasks, without specs, and find out which unknown tasks are awaited.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    keys = [layout.id_key(project, taskid) for project, taskid in refs]
    tasks: dict[tuple[int, str], Task] = {}
    awaited: dict[TaskRef, None] = {}
    for ref, key, record in zip(refs, keys, store.get(layout.IDS, keys), strict=True):
        if record is None:
            continue
        if record == AWAITED:
            awaited[TaskRef(*ref)] = None
        else:
            tasks[ref] = decode_record(layout.IDS, key, layout.task_of, *ref, record)
    return tasks, awaited


def find_edges(store: Store, refs: Iterable[EdgesRef], found: Found) -> None:
    """Answer EdgesRefs, with the tasks at the other ends.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    for ref in refs:
        found.edges[ref] = page = read_edges(store, ref)
        add_tasks(store, [edge.parent if ref.to_parents else edge.child for edge, _, _ in page.edges], found)


def find_propagations(store: Store, ref: PropagationsRef, found: Found) -> None:
    """Answer a PropagationsRef, with the sources and targets of the propagations.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    steps = list(_steps(store, ref))
    add_tasks(store, [task for propagation, page in steps for task in _named(propagation, page)], found)
    for propagation, page in _fill_released(store, steps, found):
        others = _others(store, propagation, page, found) if _goes_to_parents(propagation) else {}
        found.propagations.append(FoundPropagation(propagation, page, others))


def _steps(store: Store, ref: PropagationsRef) -> Iterator[tuple[Propagation, FoundEdges]]:
    """Yield the first propagations, each with the edges of its next step."""
    left, start = ref.edges, propagation_key(ref.first)
    for key, value in store.scan(layout.PROPAGATIONS, start, b"\xff" * 8, PROPAGATIONS_A_TURN):
        propagation = decode_record(layout.PROPAGATIONS, key, decode_propagation, key, value)
        if left <= 0:
            return
        after = propagation.after[1:] if propagation.kind == "retired" else propagation.after
        edges = EdgesRef(_goes_to_parents(propagation), propagation.project, propagation.taskid, after, left)
        page = read_edges(store, edges)
        left -= len(page.edges) + 1
        yield propagation, page
        if propagation.kind == "retired":  # no other propagation deletes many edges to one parent: see ``_others``
            return


def _goes_to_parents(propagation: Propagation) -> bool:
    """Whether the next step goes to parents; a deleted project's goes to all children of its tasks first."""
    if propagation.kind == "retired":
        return propagation.after.startswith(TO_PARENTS)
    return propagation.kind == "edges"


def _named(propagation: Propagation, page: FoundEdges) -> Iterator[TaskRef]:
    """Yield the tasks that a step needs."""
    if propagation.taskid:
        yield TaskRef(propagation.project, propagation.taskid)
    for edge, _, _ in page.edges:
        yield edge.child
        if _goes_to_parents(propagation):
            yield edge.parent


def read_edges(store: StoreReader, ref: EdgesRef) -> FoundEdges:
    """Read edges without their tasks; one entry more than asked for is read, to know whether there are further ones."""
    start = task_key(ref.project, ref.taskid) if ref.taskid else layout.project_key(ref.project)
    end = start + BELOW_TASK if ref.taskid else layout.project_key(ref.project + 1)
    family = layout.PARENTS if ref.to_parents else layout.CHILDREN
    entries = store.scan(family, max(start, ref.after + b"\0"), end, ref.limit + 1)
    page = entries[: ref.limit]
    pairs = [decode_record(family, key, tasks_of, key) for key, _ in page]
    if ref.to_parents:
        edges = [Edge(child, parent) for child, parent in pairs]
    else:
        edges = [Edge(child, parent) for parent, child in pairs]
    return FoundEdges(
        [
            FoundEdge(edge, Mark(*decode_record(family, key, decode_mark, mark)), key)
            for edge, (key, mark) in zip(edges, page, strict=True)
        ],
        end=len(page) == len(entries),
    )


def add_tasks(store: Store, refs: list[TaskRef], found: Found) -> None:
    """Look up tasks that have not been looked up yet, without specs."""
    refs = [ref for ref in dict.fromkeys(refs) if ref not in found.tasks and ref not in found.awaited]
    tasks, awaited = read_tasks(store, refs)
    found.tasks.update(tasks)
    found.awaited |= awaited


def _fill_released(store: Store, steps: Sequence[_Step], found: Found) -> list[_Step]:
    """Read specs of tasks that wait only for these edges, up to RELEASED_BYTES; return the steps that can be taken.

    A blocked task can be released without its spec, which is read before its dispatch. A finished task that is revived
    may get a new seq, under which its spec is written anew; so the steps end before the first one without its spec.
    """
    told = Counter(edge.child for _, page in steps for edge, mark, _ in page.edges if not mark.state)
    succeeded = {edge.child for step, page in steps if step.kind == "succeeded" for edge, _, _ in page.edges}
    waiting = [
        task
        for ref, count in told.items()
        if (task := found.tasks.get(ref)) is not None and _may_be_released(task, count, succeeds=ref in succeeded)
    ]
    restored = [edge.child for step, page in steps if step.kind == "restored" for edge, _, _ in page.edges]
    waiting += [task for ref in restored if (task := found.tasks.get(ref)) is not None and task.state == CANCELLED]
    size = 0
    for some in growing_chunks(waiting):
        if size > RELEASED_BYTES:
            return list(_steps_without(steps, {(task.project, task.taskid) for task in waiting if _is_unread(task)}))
        keys = [layout.seq_key(task.project, task.seq) for task in some]
        for key, task, value in zip(keys, some, store.get(layout.SPECS, keys), strict=True):
            if value is not None and task.spec is None:
                layout.fill(task, decode_record(layout.SPECS, key, layout.decode_spec, value)[1])
                size += len(value)
    return list(steps)


def _may_be_released(task: Task, count: int, *, succeeds: bool) -> bool:
    """Whether ``count`` edges may release the task: by a success, or by failures if it is finished already."""
    links = task.links
    if links is None or not 0 < links.missing <= count:
        return False
    return succeeds or (task.state in OVER and links.on_failure in (RUN, ONLY))


def _is_unread(task: Task) -> bool:
    return task.spec is None and task.state in OVER and not task.bare


def _steps_without(steps: Iterable[_Step], unread: Collection[tuple[int, str]]) -> Iterator[_Step]:
    """Yield the steps before the first edge to one of these children; at least one, as some children were read."""
    for propagation, page in steps:
        end = next((place for place, each in enumerate(page.edges) if each.edge.child in unread), None)
        if end is None:
            yield propagation, page
            continue
        if end:
            yield propagation, FoundEdges(page.edges[:end], end=False)
        return


def _others(store: Store, propagation: Propagation, page: FoundEdges, found: Found) -> dict[TaskRef, list[Edge]]:
    """Find the first edges to each awaited parent that this propagation does not delete, by parent.

    The look-up covers more than the other propagations of a turn can delete, so they can't delete all of its edges.
    """
    others: dict[TaskRef, list[Edge]] = {}
    for own, _, _ in page.edges:
        if own.parent in found.awaited and own.parent not in others:
            start = task_key(*own.parent)
            before, after = _deleted(propagation, own.child)
            entries = store.scan(layout.CHILDREN, start, start + before, PROPAGATIONS_A_TURN)
            entries += store.scan(layout.CHILDREN, start + after, start + BELOW_TASK, PROPAGATIONS_A_TURN)
            pairs = [decode_record(layout.CHILDREN, key, tasks_of, key) for key, _ in entries]
            others[own.parent] = [Edge(child, parent) for parent, child in pairs]
    return others


def _deleted(propagation: Propagation, child: TaskRef) -> tuple[bytes, bytes]:
    """Return the range of a task's children whose edges to it the propagation deletes."""
    if propagation.kind == "retired":
        return layout.project_key(propagation.project), layout.project_key(propagation.project + 1)
    return task_key(*child), task_key(*child) + b"\0"


def _task_of(key: bytes) -> tuple[TaskRef, bytes]:
    project, length = _TASK.unpack_from(key)
    end = _TASK.size + length
    if len(key) < end:
        raise ValueError("it is cut off")
    return TaskRef(project, key[_TASK.size : end].decode()), key[end:]


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


def walk(store: Store, ref: WalkRef, found: Found) -> dict[EdgePlace, FoundEdges]:
    """Answer a WalkRef, breadth first; the children of the edges are added to ``found``.

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


def add_links(batch: Batch, writes: WriteSet) -> None:
    """Add one turn's changes of links."""
    _add_edges(batch, writes)
    moved = {id(task) for task, *_ in writes.moves}
    batch.puts[layout.IDS].extend(
        (layout.id_key(task.project, task.taskid), _over_record(task))
        for task in writes.linked.values()
        if id(task) not in moved
    )
    for ref, is_awaited in writes.awaited.items():
        if is_awaited:
            batch.puts[layout.IDS].append((layout.id_key(*ref), AWAITED))
        else:
            batch.deletes[layout.IDS].append(layout.id_key(*ref))
    for number, propagation in writes.propagations.items():
        if propagation is None:
            batch.deletes[layout.PROPAGATIONS].append(propagation_key(number))
        else:
            batch.puts[layout.PROPAGATIONS].append((propagation_key(number), encode_propagation(propagation)))


def _over_record(task: Task) -> bytes:
    """Encode the record of a finished task."""
    if task.bare or task.links is None:
        return layout.encode_bare(task)
    record = layout.encode_record(task)
    size = layout.fixed_bytes(record)
    record = join_links(record, size, task.links)
    return join_slot(record, size, task) if task.slot else record


def _add_edges(batch: Batch, writes: WriteSet) -> None:
    for edge, mark in writes.edges.items():
        to_parent, to_child = edge_keys(edge)
        if mark is None:
            batch.deletes[layout.PARENTS].append(to_parent)
            batch.deletes[layout.CHILDREN].append(to_child)
            continue
        value = encode_mark(mark)
        batch.puts[layout.PARENTS].append((to_parent, value))
        batch.puts[layout.CHILDREN].append((to_child, value))
    for number in writes.dropped_edges:
        start, end = layout.project_key(number), layout.project_key(number + 1)
        batch.drops += [(layout.PARENTS, start, end), (layout.CHILDREN, start, end)]
