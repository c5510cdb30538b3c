"""Sets of reruns, and rows for undos: keys, values, and how a step looks them up and writes them.

    m, place in the walk                     ──► RerunMember
    p, project, length, taskid               ──► place in the walk
    e, two places, of parent and child       ──► nothing
    o, place in the order                    ──► place in the walk, layer

All keys begin with the id of the operation, so that the set is dropped as one range. Places and layers are 4 bytes.
Rows for undos lie in pages, by position, under the id of the operation that made them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from struct import Struct as Packing
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.model.edges import EdgesRef, TaskRef
from taskqueue.core.model.needs import Found
from taskqueue.core.model.records import OperationRecord, WriteSet
from taskqueue.core.model.rerun_set import HELD, FoundChildren, FoundRerun, Ordered, RerunMember, RerunRef
from taskqueue.core.model.undo_rows import FoundUndo, UndoPage, UndoRef, UndoRows
from taskqueue.store.contract import Batch, Store
from taskqueue.store.records import layout
from taskqueue.store.records.edges import add_tasks, decode_propagation, propagation_key, read_edges, task_key
from taskqueue.store.records.reading import decode_record

EDGES_MOST: Final = 1 << 14
"""Edges to parents of a task, void ones included, that are read at once; if there are more, void ones come first."""

SUCCESSES_MOST: Final = 1024
"""Propagations that are searched for successes not yet passed on."""

_PLACE: Final = Packing(">I")
_PLACES: Final = Packing(">II")
_UNDO: Final = Packing(">QI")

_decode_member: Final = Decoder(RerunMember).decode
_decode_place: Final = _PLACE.unpack
_decode_places: Final = _PLACES.unpack


def add_reruns(batch: Batch, writes: WriteSet) -> None:
    """Write the results of steps, and drop the sets of reruns that have ended."""
    puts = batch.puts[layout.RERUNS]
    for step in writes.reruns:
        prefix = layout.operation_key(step.operation)
        members, order = step.members.items(), step.order.items()
        puts += [(prefix + b"m" + _PLACE.pack(place), layout.encode(member)) for place, member in members]
        puts += [(prefix + b"p" + task_key(*ref), _PLACE.pack(place)) for ref, place in step.positions.items()]
        puts += [(prefix + b"e" + _PLACES.pack(*places), b"") for places in step.edges]
        puts += [(prefix + b"o" + _PLACE.pack(index), _PLACES.pack(*ordered)) for index, ordered in order]
    for operation in writes.dropped_reruns:
        batch.drops.append((layout.RERUNS, layout.operation_key(operation), layout.operation_key(operation + 1)))


def find_rerun(store: Store, ref: RerunRef, found: Found) -> FoundRerun:
    """Answer a RerunRef; tasks that the step may reach are added to ``found``.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    answer = FoundRerun()
    _FIND[ref.phase](store, ref, found, answer)
    return answer


def _find_walk(store: Store, ref: RerunRef, found: Found, answer: FoundRerun) -> None:
    answer.members = _next_members(store, ref)
    left = ref.limit
    coming = deque(member.ref for member in answer.members.values())
    known = dict.fromkeys(coming)
    after = ref.after
    while coming and left > 0:
        task = coming.popleft()
        page = answer.edges[task] = read_edges(store, EdgesRef(ref.to_parents, *task, after, left))
        after = b""
        left -= len(page.edges) + 1
        ends = [each.edge.parent if ref.to_parents else each.edge.child for each in page.edges]
        coming.extend(end for end in ends if end not in known)
        known |= dict.fromkeys(ends)
    add_tasks(store, list(known), found)
    _find_positions(store, ref.operation, known, answer)


def _find_order(store: Store, ref: RerunRef, found: Found, answer: FoundRerun) -> None:
    answer.order = _next_ordered(store, ref)
    left = ref.limit
    coming = deque(ordered.position for ordered in answer.order.values())
    known = dict.fromkeys(coming)
    after = ref.after
    while coming and left > 0:
        position = coming.popleft()
        page = answer.children[position] = _children(store, ref.operation, position, after, left)
        after = b""
        left -= len(page.positions) + 1
        coming.extend(child for child in page.positions if child not in known)
        known |= dict.fromkeys(page.positions)
    _find_members(store, ref.operation, known, answer)


def _find_reset(store: Store, ref: RerunRef, found: Found, answer: FoundRerun) -> None:
    order = _next_ordered(store, ref)
    _find_members(store, ref.operation, [ordered.position for ordered in order.values()], answer)
    left = ref.limit
    parents: dict[TaskRef, None] = {}
    for index, ordered in order.items():
        if left <= 0:
            break
        answer.order[index] = ordered
        member = answer.members[ordered.position]
        left -= 1
        if member.is_meant:
            page = answer.edges[member.ref] = read_edges(store, EdgesRef(True, *member.ref, b"", EDGES_MOST))
            parents |= dict.fromkeys(each.edge.parent for each in page.edges)
            left -= len(page.edges)
    add_tasks(store, [*answer.edges, *parents], found)
    _find_positions(store, ref.operation, parents, answer)
    _find_successes(store, ref, answer)


def _find_successes(store: Store, ref: RerunRef, answer: FoundRerun) -> None:
    entries = store.scan(layout.PROPAGATIONS, propagation_key(ref.propagations), b"\xff" * 8, SUCCESSES_MOST)
    answer.has_all_successes = len(entries) < SUCCESSES_MOST
    for key, value in entries:
        propagation = decode_record(layout.PROPAGATIONS, key, decode_propagation, key, value)
        if propagation.kind == "succeeded":
            answer.successes[TaskRef(propagation.project, propagation.taskid)] = propagation.number


def _find_release(store: Store, ref: RerunRef, found: Found, answer: FoundRerun) -> None:
    answer.order = _next_ordered(store, ref)
    _find_members(store, ref.operation, [ordered.position for ordered in answer.order.values()], answer)
    add_tasks(store, [member.ref for member in answer.members.values() if member.fate == HELD], found)


_FIND: Final = {"walk": _find_walk, "order": _find_order, "reset": _find_reset, "release": _find_release}


def _next_members(store: Store, ref: RerunRef) -> dict[int, RerunMember]:
    prefix = layout.operation_key(ref.operation) + b"m"
    entries = store.scan(layout.RERUNS, prefix + _PLACE.pack(ref.position), prefix + b"\xff" * 4, ref.limit)
    return {
        ref.position + index: decode_record(layout.RERUNS, key, _decode_member, value)
        for index, (key, value) in enumerate(entries)
    }


def _next_ordered(store: Store, ref: RerunRef) -> dict[int, Ordered]:
    prefix = layout.operation_key(ref.operation) + b"o"
    entries = store.scan(layout.RERUNS, prefix + _PLACE.pack(ref.position), prefix + b"\xff" * 4, ref.limit)
    return {
        ref.position + index: Ordered(*decode_record(layout.RERUNS, key, _decode_places, value))
        for index, (key, value) in enumerate(entries)
    }


def _children(store: Store, operation: int, position: int, after: bytes, limit: int) -> FoundChildren:
    prefix = layout.operation_key(operation) + b"e" + _PLACE.pack(position)
    entries = store.scan(layout.RERUNS, after + b"\0" if after else prefix, prefix + b"\xff" * 5, limit + 1)
    page = entries[:limit]
    children = [decode_record(layout.RERUNS, key, _decode_places, key[9:])[1] for key, _ in page]
    return FoundChildren(children, page[-1][0] if page else b"", end=len(page) == len(entries))


def _find_positions(store: Store, operation: int, refs: Iterable[TaskRef], answer: FoundRerun) -> None:
    """Look up the places of tasks in the walk, and the members there."""
    refs = list(refs)
    prefix = layout.operation_key(operation) + b"p"
    keys = [prefix + task_key(*ref) for ref in refs]
    for ref, key, value in zip(refs, keys, store.get(layout.RERUNS, keys), strict=True):
        if value is not None:
            (answer.positions[ref],) = decode_record(layout.RERUNS, key, _decode_place, value)
    _find_members(store, operation, answer.positions.values(), answer)


def _find_members(store: Store, operation: int, positions: Iterable[int], answer: FoundRerun) -> None:
    wanted = [position for position in dict.fromkeys(positions) if position not in answer.members]
    prefix = layout.operation_key(operation) + b"m"
    keys = [prefix + _PLACE.pack(position) for position in wanted]
    for position, key, value in zip(wanted, keys, store.get(layout.RERUNS, keys), strict=True):
        answer.members[position] = decode_record(layout.RERUNS, key, _decode_member, value or b"")


# ------------------------------------------------------------------------------------------------ undos


PAGES_MOST: Final = 64
"""Pages of rows that one step reads, at most: those of an operation that changed few tasks a step are short."""

PAGES_BYTES: Final = 4 << 20
"""Bytes of pages after which a step reads no more: some have deferred updates."""


def add_undo_rows(batch: Batch, writes: WriteSet) -> None:
    """Write the rows of the steps of operations, and drop those of operations that can't be undone any more."""
    batch.puts[layout.UNDO_ROWS].extend(
        (undo_key(operation, position), layout.encode(page)) for operation, position, page in writes.undo_pages
    )
    for operation in writes.dropped_rows:
        batch.drops.append((layout.UNDO_ROWS, layout.operation_key(operation), layout.operation_key(operation + 1)))


def undo_key(operation: int, position: int) -> bytes:
    """Encode a key of UNDO_ROWS."""
    return layout.operation_key(operation) + _PLACE.pack(position)


def undo_place(key: bytes) -> tuple[int, int]:
    """Decode operation and position in a key of UNDO_ROWS; ``struct.error`` if it is malformed."""
    operation, position = _UNDO.unpack(key)
    return operation, position


def rows_of(record: OperationRecord) -> tuple[int, UndoRows] | None:
    """Return the id of the operation whose rows this one has, itself or as its undo, and how many; None if none."""
    if record.rows is not None:
        return record.progress.id, record.rows
    if record.undo is not None and not record.progress.ended_at:
        return record.undo.operation, record.undo.rows
    return None


def find_undo(store: Store, ref: UndoRef, found: Found) -> FoundUndo:
    """Answer an UndoRef; the tasks of the rows, their children, and parents of updates, are added to ``found``.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    answer = FoundUndo(_pages_of_rows(store, ref))
    tasks: list[TaskRef] = []
    updated: list[TaskRef] = []
    first = ref.row
    for page in answer.pages:
        if page is not None:
            rows = [TaskRef(page.project, row.taskid) for row in page.rows[first : first + ref.limit - len(tasks)]]
            tasks += rows
            updated += [each for each in rows if each.taskid in page.updates]
        first = 0
    add_tasks(store, tasks, found)
    if ref.children:
        _find_children(store, ref, tasks, found, answer)
        _find_parents(store, ref.limit, updated, found, answer)
    return answer


def _find_children(store: Store, ref: UndoRef, parents: Sequence[TaskRef], found: Found, answer: FoundUndo) -> None:
    """Read the next edges to the children of tasks that have been looked up, and these children."""
    left, after = ref.limit, ref.after
    children: list[TaskRef] = []
    for parent in parents:
        task = found.tasks.get(parent)
        if left > 0 and task is not None and task.links is not None and task.links.has_children:
            edges = answer.edges[parent] = read_edges(store, EdgesRef(False, *parent, after, left))
            left -= len(edges.edges) + 1
            children += [each.edge.child for each in edges.edges]
        after = b""
    add_tasks(store, children, found)


def _find_parents(store: Store, limit: int, children: Sequence[TaskRef], found: Found, answer: FoundUndo) -> None:
    """Read the edges to the parents of tasks with updates, at least those of the first one, and these parents."""
    parents: list[TaskRef] = []
    for child in children:
        if limit <= 0:
            break
        page = answer.parents[child] = read_edges(store, EdgesRef(True, *child, b"", EDGES_MOST))
        limit -= len(page.edges) + 1
        parents += [each.edge.parent for each in page.edges]
    add_tasks(store, parents, found)


def _pages_of_rows(store: Store, ref: UndoRef) -> list[UndoPage | None]:
    """Read pages from the present one on, until they have as many rows as the step may undo."""
    answer: list[UndoPage | None] = []
    rows, count, size = -ref.row, 1, 0
    last = min(ref.pages, ref.position + PAGES_MOST)
    while rows < ref.limit and size < PAGES_BYTES and (position := ref.position + len(answer)) < last:
        keys = [undo_key(ref.operation, each) for each in range(position, min(last, position + count))]
        for key, value in zip(keys, store.get(layout.UNDO_ROWS, keys), strict=True):
            page = None if value is None else decode_record(layout.UNDO_ROWS, key, layout.decode_undo_page, value)
            answer.append(page)
            rows += 0 if page is None else len(page.rows)
            size += 0 if value is None else len(value)
        count *= 2
    return answer
