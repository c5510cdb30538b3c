"""``client.flow(project)``: a graph of tasks, accepted as a whole; ``client.flows``: progress of accepted flows.

The user describes a flow task by task, each after the tasks that it depends on, and submits it (``AsyncFlow``). From
then on it runs by itself; ``AsyncFlows`` shows, awaits and cancels it by its name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from math import inf
from typing import Unpack

from taskqueue.client.arguments import checked_seconds
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.tasks.new_flow import FlowPlan, FlowTask, Parent, Staging
from taskqueue.client.tasks.push_options import PushOptions, explains_options
from taskqueue.protocol.flows import (
    Flow,
    FlowCancel,
    FlowList,
    FlowTasks,
    FlowTaskStatus,
)
from taskqueue.types import Page


class AsyncFlow:
    """A flow that is being described:

        flow = client.flow("shop")
        a = flow.task("https://shop.example/prices")
        b = flow.task("https://shop.example/stock")
        flow.task("https://shop.example/report", after=[a, b])
        await flow.submit()

    Nothing is sent before ``submit``, so an error on the way leaves nothing behind.
    """

    def __init__(self, exchange: Exchange, project: str, name: str) -> None:
        self._plan = FlowPlan(project, name)
        self._staging = Staging(exchange)

    @property
    def name(self) -> str:
        """Name of the flow in its project, by which ``client.flows`` and ``taskqueue flow`` know it."""
        return self._plan.name

    @property
    def size(self) -> int:
        """Number of tasks described so far."""
        return len(self._plan.tasks)

    @explains_options
    def task(self, url: str, after: Iterable[Parent] = (), **options: Unpack[PushOptions]) -> FlowTask:
        """Describe a task; returns a reference to it for later tasks.

        The task runs when all tasks that it waits for have succeeded.

        Args:
            after: tasks to wait for, at most 1,000: values that ``task`` of this flow or another one returned, taskids
                of the same project, or pairs (project, taskid).

        Raises:
            ValueError, TypeError: the arguments make no task, or its taskid is in the flow already.
        """
        return self._plan.add(url, after, **options)

    async def submit(self, *, reuse: bool = False, progress: Callable[[int], object] | None = None) -> Flow:
        """Submit the whole flow; the daemon accepts all of it or nothing.

        When this returns, the flow is stored and runs by itself.

        The daemon checks each task first, so the answer to a large flow may take a second longer for each thousand
        tasks. If no answer came in time, call this again: it returns the flow if the daemon has accepted it, and else
        goes on.

        Args:
            reuse: tasks that the daemon knows already, including finished ones, become part of the flow as they are;
                without it such a task refuses the flow.
            progress: called with the number of tasks sent so far, after each message's answer; it must not wait,
                because the client itself calls it.

        Raises:
            ValueError: the flow has no tasks.
            RequestRejected: a task is known already, the project has no room, or a flow has this name already; nothing
                runs.
        """
        if not self._plan.tasks:
            raise ValueError("flow.submit: the flow has no tasks")
        return await self._staging.submit(self._plan, reuse, progress)


class AsyncFlows:
    """Flows as the daemon knows them, by project and name. ``client.flow`` makes them."""

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll

    async def list(self, project: str = "", after: str = "", limit: int = 100) -> Page[Flow]:
        """Return a page of flows, ordered by project and then by name.

        Args:
            project: flows of this project only; empty: of all.
            after: the ``next`` of the page before, or any ``project/name``; empty: from the first one.
            limit: flows per page, 1 to 500.
        """
        reply = await self._exchange.ask(FlowList(project=project, after=after, limit=limit))
        last = reply.flows[-1] if reply.more else None
        return Page(reply.flows, f"{last.project}/{last.flow}" if last else "")

    async def iter(self, project: str = "") -> AsyncGenerator[Flow, None]:
        """Iterate over all flows, of one project or of all, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(project, after, limit=500)
            for flow in page.items:
                yield flow
            after, more = page.next, bool(page.next)

    async def get(self, project: str, name: str, seconds: float = 0.0) -> Flow:
        """Return the progress of a flow: when it has ended, or after ``seconds`` (0 to 60), whichever comes first."""
        patience = self._exchange.patience + checked_seconds("seconds", seconds)
        return await self._long_poll.flow(project, name, seconds, patience)

    async def iter_tasks(self, project: str, name: str) -> AsyncGenerator[FlowTaskStatus, None]:
        """Iterate over the tasks of a flow with their parents, parents first, asked for page by page."""
        after = None
        while True:
            page = await self._exchange.ask(FlowTasks(project=project, flow=name, after=after))
            for task in page.tasks:
                yield task
            if page.next is None:
                return
            after = page.next

    async def wait(
        self,
        project: str,
        name: str,
        progress: Callable[[Flow], object] | None = None,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
    ) -> Flow:
        """Wait until a flow has ended; returns its progress then, or (with ``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with the flow's progress, now, twice a second, and at the end; it must not wait, because
                the client itself calls it.
            timeout: seconds to wait; None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return await self._long_poll.flow_ended(project, name, progress, timeout)

    async def cancel(self, project: str, name: str) -> Flow:
        """Cancel the unfinished tasks of a flow, step by step; of an unsubmitted flow, drop the staged tasks."""
        return (await self._exchange.ask(FlowCancel(project=project, flow=name))).flow
