"""Flows as they were last read, once for all browsers that show them.

    flow-show ──► changed? ──► flow-tasks, some pages a look ──► layers, states, edges, critical path

A flow is read from first to last task, in a bounded number of pages per look; until that is done, the last complete
reading is shown. Large flows are read less often. For a flow with more than ``EACH_MOST`` tasks, only the number of
tasks by layer and state is kept.
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
"""Largest flow whose tasks are kept one by one."""

EDGES_MOST: Final = 2_500
"""Edges that are kept, at most; a drawing with more would be unreadable."""

PAGES_A_LOOK: Final = 5
"""Pages of 1,000 tasks per look; the daemon has other work."""

SECONDS_A_THOUSAND: Final = 1.0
"""Seconds per thousand tasks after which a flow is read again, if its counts have changed."""

PATH_HALF: Final = 8
"""Tasks listed at each end of the critical path, at most."""

BAD_MOST: Final = 25
"""Failed or cancelled tasks of a large flow that are listed, at most."""

LINKS_LAYERS: Final = 400
"""Most layers of a flow whose edges are counted between layers."""

KEPT_MOST: Final = 64
"""Flows kept; the one shown longest ago is dropped first."""

Link = tuple[int, int, int, int]
"""Kind of edges: layer and state (its index in STATES) of the source, layer and state of the target."""


class FlowReading(NamedTuple):
    """Flow with what was read of its tasks.

    Attributes:
        states: state of each task, as index in STATES.
        tasks, edges: all of them, or none if there are too many.
        links: number of edges by kind, of a large flow.
        bad: the first failed or cancelled tasks.
        path: first and last tasks of the critical path; ``path_tasks``: indices of all its tasks.
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
    """Flow as it is shown.

    Attributes:
        view: the flow as it is now.
        reading: last complete reading; None if there is none yet.
        read: tasks of the running reading so far.
    """

    view: Flow
    reading: FlowReading | None
    read: int


class FlowReadings:
    """Flows that browsers show, by project and name."""

    def __init__(self) -> None:
        self._readers: dict[tuple[str, str], _Reader] = {}

    async def look(self, client: AsyncClient, project: str, flow: str) -> FlowLook:
        """Return the flow, and continue reading it if it has changed.

        Raises:
            RequestRejected: the flow is unknown.
        """
        return await self.look_at(client, await client.flows.get(project, flow))

    async def look_at(self, client: AsyncClient, view: Flow) -> FlowLook:
        """Return the flow, of which this is the present view, and continue reading it if it has changed.

        Raises:
            RequestRejected: the flow has been forgotten meanwhile.
        """
        name = (view.project, view.flow)
        reader = self._readers.pop(name, None) or _Reader()
        self._readers[name] = reader
        while len(self._readers) > KEPT_MOST:
            del self._readers[next(iter(self._readers))]
        async with reader.lock:
            await reader.go_on(client, view)
        return FlowLook(view, reader.last, reader.read)


class _Reader:
    """Reader of one flow, again and again."""

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
    """Return whether both are the same flow, not a later one with the same name."""
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
