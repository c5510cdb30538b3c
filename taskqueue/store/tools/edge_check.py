"""Checks the edges between tasks: each is there in both orders, and children count those that are not satisfied.

    parents    in the order of the children, so that the edges of a child come one after the other
    children   the same edges, in the order of the parents

Edges with another number than their child has are void: they mean nothing, and are deleted by and by. An edge to a task
of a deleted project has one order only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from taskqueue.core.tasks.links import UNSATISFIED, Edge, Mark, TaskRef
from taskqueue.core.tasks.task import LIVE, PROCESSING, Task
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.edges import BELOW_TASK, decode_mark, edge_keys, task_key, tasks_of
from taskqueue.store.records.link_bytes import AWAITED

T = TypeVar("T")
Note = Callable[[Family, bytes, str, str], None]
"""Reports what is wrong with an entry: family, key, reason, taskid."""

_NO_EDGE: Final = TaskRef(0, "")


class EdgeCheck:
    """Checks pages of the two families, in the order of their keys; ``finish`` after the last one of the first."""

    def __init__(self, store: StoreReader, projects: Collection[int], note: Note) -> None:
        self._store = store
        self._projects = projects
        self._note = note
        self._child = _NO_EDGE
        self._unsatisfied: dict[int, int] = {}

    def parents(self, page: Sequence[Entry]) -> None:
        """Check a page of the edges to parents."""
        edges = self._edges(layout.PARENTS, page, lambda pair: Edge(*pair))
        values = dict(page)
        self._find_others(layout.PARENTS, edges, values)
        for key, edge in edges:
            mark = self._read(layout.PARENTS, key, decode_mark, values[key])
            if edge.child != self._child:
                self.finish()
                self._child = edge.child
            if mark is not None and Mark(*mark).state == UNSATISFIED:
                number = Mark(*mark).number
                self._unsatisfied[number] = self._unsatisfied.get(number, 0) + 1

    def children(self, page: Sequence[Entry]) -> None:
        """Check a page of the edges to children."""
        edges = self._edges(layout.CHILDREN, page, lambda pair: Edge(pair[1], pair[0]))
        self._find_others(layout.CHILDREN, edges, dict(page))

    def finish(self) -> None:
        """Compare what was counted with what the last child says."""
        child, counted = self._child, self._unsatisfied
        self._child, self._unsatisfied = _NO_EDGE, {}
        task = self._task(child) if child.project in self._projects else None
        if task is None or task.links is None:
            return
        there = counted.get(task.links.number, 0)
        if there != task.links.missing:
            reason = f"{there} of its edges are not satisfied, and it counts {task.links.missing}"
            self._note(layout.PARENTS, task_key(*child), reason, child.taskid)

    def awaited(self, key: bytes) -> None:
        """Check an unknown task that is awaited: somebody waits for it."""
        taskid = self._read(layout.IDS, key, bytes.decode, key[4:])
        if taskid is None:
            return
        start = task_key(layout.project_of(key), taskid)
        if not self._store.scan(layout.CHILDREN, start, start + BELOW_TASK, 1):
            self._note(layout.IDS, key, "it is awaited, and nobody waits for it", taskid)

    def _edges(
        self, family: Family, page: Sequence[Entry], edge_of: Callable[[tuple[TaskRef, TaskRef]], Edge]
    ) -> list[tuple[bytes, Edge]]:
        pairs = [(key, self._read(family, key, tasks_of, key)) for key, _ in page]
        return [(key, edge_of(pair)) for key, pair in pairs if pair is not None]

    def _find_others(self, family: Family, edges: Sequence[tuple[bytes, Edge]], own: Mapping[bytes, bytes]) -> None:
        """Check that the edges are the same in the other order; ``own``: their values by key."""
        other, place = (layout.CHILDREN, 1) if family == layout.PARENTS else (layout.PARENTS, 0)
        values = self._store.get(other, [edge_keys(edge)[place] for _, edge in edges])
        for (key, edge), value in zip(edges, values, strict=True):
            both = {edge.child.project, edge.parent.project} <= set(self._projects)
            if value is None and both:
                self._note(family, key, f"the edge is not among the {other}", edge.child.taskid)
            elif value is not None and value != own[key]:
                self._note(family, key, f"the edge has another mark among the {other}", edge.child.taskid)

    def _task(self, ref: TaskRef) -> Task | None:
        """The task as it is: while it is processing its lease says so."""
        key = layout.id_key(*ref)
        value = self._store.get(layout.IDS, [key])[0]
        task = None if value in (None, AWAITED) else self._read(layout.IDS, key, layout.task_of, *ref, value)
        if task is not None and task.state in LIVE:
            place = layout.order_key(task.project, task.seq)
            lease = self._store.get(layout.ORDERS[PROCESSING], [place])[0]
            if lease is not None:
                return self._read(layout.ORDERS[PROCESSING], place, layout.decode_lease, task.project, lease)
        return task

    def _read(self, family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T | None:
        try:
            return decode(*value)
        except layout.UNREADABLE as error:
            self._note(family, key, f"can't be read ({error})", "")
            return None
