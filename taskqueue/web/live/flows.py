"""Flows as they were last read, each once for all browsers that look at it.

    flow-show ──► has anything changed? ──► flow-tasks, some pages a look ──► layers, states, edges, critical path

A flow is read from its first task to its last, a bounded number of pages each time that somebody looks; until that is
done, what was read before is shown. Large flows are read less often. Of a flow with more than ``EACH_MOST`` tasks no
task is kept, but how many tasks of each layer are in which state.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from typing import Final, NamedTuple

from taskqueue import AsyncClient
from taskqueue.display.flows import STATES, FlowGraph
from taskqueue.protocol.flows import Flow, FlowTasks, FlowTaskStatus

EACH_MOST: Final = 500
"""Tasks of a flow of which each is kept."""

EDGES_MOST: Final = 2_500
"""Edges of such a flow; with more nobody could tell them apart."""

PAGES_A_LOOK: Final = 5
"""Of 1,000 tasks each; their daemon has other things to do."""

SECONDS_A_THOUSAND: Final = 1.0
"""A flow is read again after so long for each thousand of its tasks, if its counts have changed."""

PATH_HALF: Final = 8
"""Of the critical path, the first and the last so many are told."""

BAD_MOST: Final = 25
"""Tasks that failed or were cancelled, of a large flow, that are told one by one."""

LINKS_LAYERS: Final = 400
"""Of a flow with more layers, it is not counted between which of them its edges lead."""

KEPT_MOST: Final = 64
"""Flows; those that were looked at longest ago are forgotten first."""

Link = tuple[int, int, int, int]
"""Of edges: layer and state (its place in STATES) from which, layer and state to which they lead."""


class FlowReading(NamedTuple):
    """A flow with what was read of its tasks.

    Attributes:
        states: of each task, as places in STATES.
        tasks, edges: all of them, or none if there are too many.
        links: edges of a large flow.
        bad: the first that failed or were cancelled.
        path: the first and the last tasks of the critical path; ``path_tasks``: how many it has.
    """

    view: Flow
    graph: FlowGraph
    states: array[int]
    tasks: list[FlowTaskStatus]
    edges: list[tuple[int, int]]
    links: Counter[Link]
    bad: list[FlowTaskStatus]
    path: list[FlowTaskStatus]
    path_tasks: list[int]


class FlowLook(NamedTuple):
    """What there is to be shown of a flow.

    Attributes:
        view: as it is now.
        reading: the last that was complete; None: there is none yet.
        read: tasks of the one that is under way.
    """

    view: Flow
    reading: FlowReading | None
    read: int


class FlowReadings:
    """All flows that somebody looks at, by project and name."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str], _Reader] = {}

    async def look(self, client: AsyncClient, project: str, flow: str) -> FlowLook:
        """Read on, if there is need to.

        Raises:
            RequestRejected: there is no such flow.
        """
        view = await client.flows.get(project, flow)
        reader = self._readers.pop((project, flow), None) or _Reader()
        self._readers[project, flow] = reader
        while len(self._readers) > KEPT_MOST:
            del self._readers[next(iter(self._readers))]
        async with reader.lock:
            await reader.go_on(client, view)
        return FlowLook(view, reader.last, reader.read)


class _Reader:
    """Reads one flow, over and over."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.last: FlowReading | None = None
        self._next: FlowReading | None = None
        self._after: int | None = None
        self._began_at = 0.0

    @property
    def read(self) -> int:
        return len(self._next.states) if self._next is not None else 0

    async def go_on(self, client: AsyncClient, view: Flow) -> None:
        if self._next is not None and not _is_same(self._next.view, view):
            self._next = None
        if self._next is None:
            if self._is_fresh(view):
                return
            self._next, self._after, self._began_at = _nothing(view), None, time.monotonic()
        for _ in range(PAGES_A_LOOK):
            page = await client._ask(FlowTasks(project=view.project, flow=view.flow, after=self._after))
            for task in page.tasks:
                _add(self._next, task)
            self._after = page.next
            if page.next is None:
                self.last = await _complete(client, self._next)
                self._next = None
                return

    def _is_fresh(self, view: Flow) -> bool:
        last = self.last
        if last is None or not _is_same(last.view, view):
            return False
        if last.view == view:
            return True
        return time.monotonic() - self._began_at < view.tasks / 1000 * SECONDS_A_THOUSAND


def _is_same(before: Flow, now: Flow) -> bool:
    """Whether it is that flow, or one that was submitted later under its name."""
    return (before.tasks, before.began_at) == (now.tasks, now.began_at)


def _nothing(view: Flow) -> FlowReading:
    return FlowReading(view, FlowGraph(), array("B"), [], [], Counter(), [], [], [])


def _add(reading: FlowReading, task: FlowTaskStatus) -> None:
    graph, index = reading.graph, len(reading.states)
    parents = [parent for parent in task.depends_on if isinstance(parent, int)]
    graph.add(parents, task.state, task.seconds)
    state = STATES.index(task.state)
    reading.states.append(state)
    if task.state in ("failed", "cancelled") and len(reading.bad) < BAD_MOST:
        reading.bad.append(task)
    if reading.view.tasks <= EACH_MOST:
        reading.tasks.append(task)
        reading.edges.extend((parent, index) for parent in parents)
    if len(graph.layers) <= LINKS_LAYERS:
        layer = graph.layer_of[index]
        reading.links.update((graph.layer_of[parent], reading.states[parent], layer, state) for parent in parents)


async def _complete(client: AsyncClient, reading: FlowReading) -> FlowReading:
    if len(reading.edges) > EDGES_MOST:
        reading.tasks.clear()
        reading.edges.clear()
    if len(reading.graph.layers) > LINKS_LAYERS:
        reading.links.clear()
    path = reading.graph.critical_path()
    told = path if len(path) <= 2 * PATH_HALF else path[:PATH_HALF] + path[-PATH_HALF:]
    tasks = [reading.tasks[index] if reading.tasks else await _task(client, reading.view, index) for index in told]
    return reading._replace(path=tasks, path_tasks=path)


async def _task(client: AsyncClient, view: Flow, index: int) -> FlowTaskStatus:
    return (await client._ask(FlowTasks(project=view.project, flow=view.flow, after=index, limit=1))).tasks[0]
