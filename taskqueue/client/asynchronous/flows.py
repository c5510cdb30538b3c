"""``client.flows``: graphs of tasks that were submitted, and what has become of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.connection.patience import checked_seconds
from taskqueue.protocol.flows import (
    FlowCancel,
    FlowList,
    FlowReply,
    FlowsReply,
    FlowTasks,
    FlowTasksReply,
    FlowTaskView,
    FlowView,
)


class AsyncFlows:
    """Flows as the daemon knows them, by project and name. ``client.flow`` makes them."""

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll

    async def list(self, project: str = "", after: str = "", limit: int = 100) -> FlowsReply:
        """Up to ``limit`` flows, in the order of projects and then of names.

        Args:
            project: of this one only; empty: of all.
            after: flows after this one, written as ``project/name``; who pages goes on so.
            limit: 1 to 500.
        """
        request = FlowList(session="", n=0, project=project, after=after, limit=limit)
        return await self._exchange.ask(request, FlowsReply)

    async def all(self, project: str = "") -> AsyncGenerator[FlowView, None]:
        """All flows, of a project or of all, asked for page by page."""
        page = await self.list(project, limit=500)
        while True:
            for flow in page.flows:
                yield flow
            if not page.more:
                return
            last = page.flows[-1]
            page = await self.list(project, f"{last.project}/{last.flow}", limit=500)

    async def show(self, project: str, name: str, seconds: float = 0.0) -> FlowView:
        """How far a flow is: when it has ended, or after so many seconds (to 60), whichever comes first."""
        patience = self._exchange.patience + checked_seconds("seconds", seconds)
        return await self._long_poll.flow(project, name, seconds, patience)

    async def tasks(self, project: str, name: str) -> AsyncGenerator[FlowTaskView, None]:
        """The tasks of a flow with what each waits for, parents first, asked for page by page."""
        after = None
        while True:
            request = FlowTasks(session="", n=0, project=project, flow=name, after=after)
            page = await self._exchange.ask(request, FlowTasksReply)
            for task in page.tasks:
                yield task
            if page.next is None:
                return
            after = page.next

    async def wait(
        self,
        project: str,
        name: str,
        progress: Callable[[FlowView], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - ends without an error
    ) -> FlowView:
        """Wait until a flow has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included; it must not wait, because the
                client itself calls it.
            timeout: None: for ever, also for a daemon that goes away meanwhile.
        """
        return await self._long_poll.flow_ended(project, name, progress, timeout)

    async def cancel(self, project: str, name: str) -> FlowView:
        """End the tasks of a flow that are live, by and by; of one that is not submitted yet, drop what was staged."""
        return (await self._exchange.ask(FlowCancel(session="", n=0, project=project, flow=name), FlowReply)).flow
