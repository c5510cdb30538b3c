"""``client.flow(project)``: a graph of tasks, described one by one and accepted at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Unpack

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.flows.plan import FlowPlan, FlowTask, Parent
from taskqueue.client.flows.staging import Staging
from taskqueue.client.tasks.push_options import PushOptions, explains_options
from taskqueue.protocol.flows import FlowView


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

    async def submit(self, *, reuse: bool = False, progress: Callable[[int], object] | None = None) -> FlowView:
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
