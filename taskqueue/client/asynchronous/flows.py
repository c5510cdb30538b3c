"""``client.flow(project)``: a graph of tasks that is accepted at once; ``client.flows``: what has become of those.

A flow is described task by task, each after some of those before it, and submitted (``AsyncFlow``). From then on it
goes by itself, and is shown, waited for and cancelled by its name (``AsyncFlows``).
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

    Nothing of it is sent before ``submit``, so a mistake on the way leaves nothing behind.
    """

    def __init__(self, exchange: Exchange, project: str, name: str) -> None:
        self._plan = FlowPlan(project, name)
        self._staging = Staging(exchange)

    @property
    def name(self) -> str:
        """Its name in its project, by which ``client.flows`` and ``taskqueue flow`` know it."""
        return self._plan.name

    @property
    def size(self) -> int:
        """How many tasks it has so far."""
        return len(self._plan.tasks)

    @explains_options
    def task(self, url: str, after: Iterable[Parent] = (), **options: Unpack[PushOptions]) -> FlowTask:
        """Describe a task; returns what later ones name it by. It runs when all tasks that it waits for have succeeded.

        Args:
            after: what it waits for, at most 1,000: tasks of this flow, or others: what another flow's ``task``
                returned, taskids of the same project, (project, taskid).

        Raises:
            ValueError, TypeError: it is no task, or its taskid is in the flow already.
        """
        return self._plan.add(url, after, **options)

    async def submit(self, *, reuse: bool = False, progress: Callable[[int], object] | None = None) -> Flow:
        """Have all of it accepted, or nothing; when this returns, it is kept, and goes on by itself.

        The daemon looks at each task first, so the answer to a large flow may take a second longer for each thousand.
        If none has come in time, call it again: it is answered with the flow if that was accepted, and else goes on.

        Args:
            reuse: tasks that the daemon knows already become part of it as they are, those that are over too; without
                it one of these refuses the flow.
            progress: called with how many tasks have been sent, after each message's answer; it must not wait, because
                the client itself calls it.

        Raises:
            ValueError: it has no tasks.
            RequestRejected: a task is known, the project has no room, or there is a flow of this name; nothing runs.
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
        """Up to ``limit`` flows, in the order of projects and then of names.

        Args:
            project: of this one only; empty: of all.
            after: flows after this one, written as ``project/name``; who pages goes on so.
            limit: 1 to 500.
        """
        reply = await self._exchange.ask(FlowList(project=project, after=after, limit=limit))
        last = reply.flows[-1] if reply.more else None
        return Page(reply.flows, f"{last.project}/{last.flow}" if last else "")

    async def iter(self, project: str = "") -> AsyncGenerator[Flow, None]:
        """All flows, of a project or of all, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(project, after, limit=500)
            for flow in page.items:
                yield flow
            after, more = page.next, bool(page.next)

    async def get(self, project: str, name: str, seconds: float = 0.0) -> Flow:
        """How far a flow is: when it has ended, or after so many seconds (to 60), whichever comes first."""
        patience = self._exchange.patience + checked_seconds("seconds", seconds)
        return await self._long_poll.flow(project, name, seconds, patience)

    async def iter_tasks(self, project: str, name: str) -> AsyncGenerator[FlowTaskStatus, None]:
        """The tasks of a flow with what each waits for, parents first, asked for page by page."""
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
        """Wait until a flow has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included; it must not wait, because the
                client itself calls it.
            timeout: None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return await self._long_poll.flow_ended(project, name, progress, timeout)

    async def cancel(self, project: str, name: str) -> Flow:
        """End the tasks of a flow that are live, by and by; of one that is not submitted yet, drop what was staged."""
        return (await self._exchange.ask(FlowCancel(project=project, flow=name))).flow
