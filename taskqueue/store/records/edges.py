"""Edges between tasks, and propagations: keys and values, and how a turn looks them up.

    parents      child, parent ──► mark      children     parent, child ──► nothing      propagations   number ──► …

Both orders of an edge have the same life. What an edge leads to is looked up with it: the task at its other end, and a
mark, which only the order to the parents has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct as Packing
from typing import Final

from msgspec.msgpack import Decoder

from taskqueue.core.tasks.links import Edge, Mark, Propagation, PropagationKind, TaskRef
from taskqueue.core.tasks.needs import (
    EdgesRef,
    Found,
    FoundEdge,
    FoundEdges,
    FoundPropagation,
    PropagationsRef,
)
from taskqueue.core.tasks.task import Task
from taskqueue.store.contract import Store, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.link_bytes import AWAITED
from taskqueue.store.records.orders import growing_chunks

PROPAGATIONS_A_TURN: Final = 64

RELEASED_BYTES: Final = 16 << 20
"""Bytes of bodies of tasks that one turn may release; of further ones the specs are read later."""

_MARK: Final = Packing(">BQ")
_TASK: Final = Packing(">IB")

task_key = layout.history_key
"""The part of a key that is a task; its length comes first, so that no task's part begins another's."""

BELOW_TASK: Final = b"\xff" * 4
"""After a task's part: above all that follows it in a key, because no project has that number."""

decode_mark = _MARK.unpack
_decode_propagation: Final = Decoder(tuple[PropagationKind, int, str, bytes]).decode


def encode_mark(mark: Mark) -> bytes:
    """A value of PARENTS."""
    return _MARK.pack(*mark)


def edge_keys(edge: Edge) -> tuple[bytes, bytes]:
    """The keys of an edge in PARENTS and in CHILDREN."""
    child, parent = task_key(*edge.child), task_key(*edge.parent)
    return child + parent, parent + child


def tasks_of(key: bytes) -> tuple[TaskRef, TaskRef]:
    """The two tasks in a key of PARENTS or CHILDREN, in its order; ValueError or ``struct.error`` if it is none."""
    first, rest = _task_of(key)
    second, rest = _task_of(rest)
    if rest:
        raise ValueError(f"{len(rest)} bytes too many")
    return first, second


def propagation_key(number: int) -> bytes:
    """A key of PROPAGATIONS."""
    return number.to_bytes(8, "big")


def encode_propagation(propagation: Propagation) -> bytes:
    """A value of PROPAGATIONS."""
    return layout.encode(propagation[1:])


def decode_propagation(key: bytes, value: bytes) -> Propagation:
    """The propagation at a key."""
    return Propagation(int.from_bytes(key, "big"), *_decode_propagation(value))


def read_tasks(store: StoreReader, refs: Sequence[TaskRef]) -> tuple[dict[tuple[int, str], Task], dict[TaskRef, None]]:
    """The tasks that the store knows, without specs, and those that are awaited.

    Raises:
        StoreError: the store failed.
        Corrupt: a record can't be decoded.
    """
    keys = [layout.id_key(project, taskid) for project, taskid in refs]
    tasks: dict[tuple[int, str], Task] = {}
    awaited: dict[TaskRef, None] = {}
    for ref, key, record in zip(refs, keys, store.get(layout.IDS, keys), strict=True):
        if record is None:
            continue
        if record == AWAITED:
            awaited[ref] = None
        else:
            tasks[ref] = decode_record(layout.IDS, key, layout.task_of, *ref, record)
    return tasks, awaited


def find_edges(store: Store, refs: Iterable[EdgesRef], found: Found) -> None:
    """Answer EdgesRefs, with the tasks at the other ends.

    Raises:
        StoreError: the store failed.
        Corrupt: a record can't be decoded.
    """
    for ref in refs:
        found.edges[ref] = page = read_edges(store, ref)
        _find_ends(store, ref.to_parents, page, found)


def find_propagations(store: Store, ref: PropagationsRef, found: Found) -> None:
    """Answer a PropagationsRef: with the tasks that the propagations are of, and those that they come to.

    Raises:
        StoreError: the store failed.
        Corrupt: a record can't be decoded.
    """
    left = ref.edges
    last = b"\xff" * 8
    for key, value in store.scan(layout.PROPAGATIONS, propagation_key(ref.first), last, PROPAGATIONS_A_TURN):
        propagation = decode_record(layout.PROPAGATIONS, key, decode_propagation, key, value)
        if left <= 0:
            break
        step = _step_of(store, propagation, left, found)
        left -= len(step.edges.edges) + 1
        found.propagations.append(step)


def _step_of(store: Store, propagation: Propagation, limit: int, found: Found) -> FoundPropagation:
    _, kind, project, taskid, after = propagation
    to_parents = kind == "edges"
    if kind == "retired":  # of all tasks of the project: first their children, then their parents
        to_parents, after = after.startswith(b"p"), after[1:]
    else:
        add_tasks(store, [TaskRef(project, taskid)], found)
    page = read_edges(store, EdgesRef(to_parents, project, taskid, after, limit))
    _find_ends(store, to_parents, page, found)
    if to_parents:
        add_tasks(store, [edge.child for edge, _, _ in page.edges], found)
        return FoundPropagation(propagation, page, _others(store, page, found))
    if kind != "retired":
        _fill_released(store, page, found)
    return FoundPropagation(propagation, page, {})


def read_edges(store: StoreReader, ref: EdgesRef) -> FoundEdges:
    """The edges alone; one entry more than asked for is read, to know whether there are further ones."""
    start = task_key(ref.project, ref.taskid) if ref.taskid else layout.project_key(ref.project)
    end = start + BELOW_TASK if ref.taskid else layout.project_key(ref.project + 1)
    family = layout.PARENTS if ref.to_parents else layout.CHILDREN
    entries = store.scan(family, ref.after + b"\0" if ref.after else start, end, ref.limit + 1)
    page = entries[: ref.limit]
    pairs = [decode_record(family, key, tasks_of, key) for key, _ in page]
    if ref.to_parents:
        edges = [Edge(child, parent) for child, parent in pairs]
        marks: Iterable[bytes | None] = [value for _, value in page]
    else:
        edges = [Edge(child, parent) for parent, child in pairs]
        marks = store.get(layout.PARENTS, [edge_keys(edge)[0] for edge in edges])
    return FoundEdges(
        [
            FoundEdge(edge, Mark(*decode_record(layout.PARENTS, key, decode_mark, mark or b"")), key)
            for edge, mark, (key, _) in zip(edges, marks, page, strict=True)
        ],
        end=len(page) == len(entries),
    )


def _find_ends(store: Store, to_parents: bool, page: FoundEdges, found: Found) -> None:
    """Look up the tasks at the other ends of the edges."""
    add_tasks(store, [edge.parent if to_parents else edge.child for edge, _, _ in page.edges], found)


def add_tasks(store: Store, refs: list[TaskRef], found: Found) -> None:
    """Look up tasks, without specs, as far as they have not been looked up yet."""
    refs = [ref for ref in dict.fromkeys(refs) if ref not in found.tasks and ref not in found.awaited]
    tasks, awaited = read_tasks(store, refs)
    found.tasks.update(tasks)
    found.awaited |= awaited


def _fill_released(store: Store, page: FoundEdges, found: Found) -> None:
    """Read the specs of tasks that wait for this edge only; what is not read now is read before it is handed out."""
    children = [found.tasks.get(edge.child) for edge, mark, _ in page.edges if not mark.state]
    waiting = [task for task in children if task is not None and task.links is not None and task.links.missing == 1]
    size = 0
    for some in growing_chunks(waiting):
        keys = [layout.seq_key(task.project, task.seq) for task in some]
        for key, task, value in zip(keys, some, store.get(layout.SPECS, keys), strict=True):
            if value is not None and task.spec is None:
                layout.fill(task, decode_record(layout.SPECS, key, layout.decode_spec, value)[1])
                size += len(value)
        if size > RELEASED_BYTES:
            break


def _others(store: Store, page: FoundEdges, found: Found) -> dict[TaskRef, list[Edge]]:
    """By parent, of those that are awaited: the first edges to it but for the page's own.

    More than one turn can delete are looked up, so that what it deletes can't be all.
    """
    others: dict[TaskRef, list[Edge]] = {}
    for own, _, _ in page.edges:
        if own.parent in found.awaited:
            start = task_key(*own.parent)
            entries = store.scan(layout.CHILDREN, start, start + BELOW_TASK, PROPAGATIONS_A_TURN + 2)
            pairs = [decode_record(layout.CHILDREN, key, tasks_of, key) for key, _ in entries]
            others[own.parent] = [Edge(child, parent) for parent, child in pairs if child != own.child]
    return others


def _task_of(key: bytes) -> tuple[TaskRef, bytes]:
    project, length = _TASK.unpack_from(key)
    end = _TASK.size + length
    if len(key) < end:
        raise ValueError("it is cut off")
    return TaskRef(project, key[_TASK.size : end].decode()), key[end:]
