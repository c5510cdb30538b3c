"""The blocking twin of ``taskqueue.client.asynchronous.flows``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Unpack

from taskqueue.client.asynchronous.flows import AsyncFlow, AsyncFlows
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.new_flow import FlowTask, Parent
from taskqueue.client.tasks.push_options import PushOptions, explains_options
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.types import Page


class BlockingFlow:
    """A flow that is being described:

        flow = client.flow("shop")
        a = flow.task("https://shop.example/prices")
        b = flow.task("https://shop.example/stock")
        flow.task("https://shop.example/report", after=[a, b])
        flow.submit()

    Nothing of it is sent before ``submit``, so a mistake on the way leaves nothing behind.
    """

    def __init__(self, background: Background, flow: AsyncFlow) -> None:
        self._background = background
        self._client = flow

    @property
    def name(self) -> str:
        """Its name in its project, by which ``client.flows`` and ``taskqueue flow`` know it."""
        return self._client.name

    @property
    def size(self) -> int:
        """How many tasks it has so far."""
        return self._client.size

    @explains_options
    def task(self, url: str, after: Iterable[Parent] = (), **options: Unpack[PushOptions]) -> FlowTask:
        """Describe a task; returns what later ones name it by. It runs when all tasks that it waits for have succeeded.

        Args:
            after: what it waits for, at most 1,000: tasks of this flow, or others: what another flow's ``task``
                returned, taskids of the same project, (project, taskid).

        Raises:
            ValueError, TypeError: it is no task, or its taskid is in the flow already.
        """
        return self._client.task(url, after, **options)

    def submit(self, *, reuse: bool = False, progress: Callable[[int], object] | None = None) -> Flow:
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
        return self._background.run(self._client.submit(reuse=reuse, progress=progress))


class BlockingFlows:
    """Flows as the daemon knows them, by project and name. ``client.flow`` makes them."""

    def __init__(self, background: Background, flows: AsyncFlows) -> None:
        self._background = background
        self._client = flows

    def list(self, project: str = "", after: str = "", limit: int = 100) -> Page[Flow]:
        """Up to ``limit`` flows, in the order of projects and then of names.

        Args:
            project: of this one only; empty: of all.
            after: flows after this one, written as ``project/name``; who pages goes on so.
            limit: 1 to 500.
        """
        return self._background.run(self._client.list(project, after, limit))

    def iter(self, project: str = "") -> Iterator[Flow]:
        """All flows, of a project or of all, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(project, after, limit=500)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def get(self, project: str, name: str, seconds: float = 0.0) -> Flow:
        """How far a flow is: when it has ended, or after so many seconds (to 60), whichever comes first."""
        return self._background.run(self._client.get(project, name, seconds))

    def iter_tasks(self, project: str, name: str) -> Iterator[FlowTaskStatus]:
        """The tasks of a flow with what each waits for, parents first, asked for page by page."""
        return self._background.iterate(self._client.iter_tasks(project, name))

    def wait(
        self, project: str, name: str, progress: Callable[[Flow], object] | None = None, timeout: float | None = inf
    ) -> Flow:
        """Wait until a flow has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included; it must not wait, because the
                client itself calls it.
            timeout: None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return self._background.run(self._client.wait(project, name, progress, timeout))

    def cancel(self, project: str, name: str) -> Flow:
        """End the tasks of a flow that are live, by and by; of one that is not submitted yet, drop what was staged."""
        return self._background.run(self._client.cancel(project, name))
