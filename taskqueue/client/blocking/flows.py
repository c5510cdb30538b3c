"""Blocking twin of ``taskqueue.client.asynchronous.flows``.

Made by ``python -m tools.blocking_client``; change the original.
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

    Nothing is sent before ``submit``, so an error on the way leaves nothing behind.
    """

    def __init__(self, background: Background, flow: AsyncFlow) -> None:
        self._background = background
        self._client = flow

    @property
    def name(self) -> str:
        """Name of the flow in its project, by which ``client.flows`` and ``taskqueue flow`` know it."""
        return self._client.name

    @property
    def size(self) -> int:
        """Number of tasks described so far."""
        return self._client.size

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
        return self._client.task(url, after, **options)

    def submit(self, *, reuse: bool = False, progress: Callable[[int], object] | None = None) -> Flow:
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
        return self._background.run(self._client.submit(reuse=reuse, progress=progress))


class BlockingFlows:
    """Flows as the daemon knows them, by project and name. ``client.flow`` makes them."""

    def __init__(self, background: Background, flows: AsyncFlows) -> None:
        self._background = background
        self._client = flows

    def list(self, project: str = "", after: str = "", limit: int = 100) -> Page[Flow]:
        """Return a page of flows, ordered by project and then by name.

        Args:
            project: flows of this project only; empty: of all.
            after: the ``next`` of the page before, or any ``project/name``; empty: from the first one.
            limit: flows per page, 1 to 500.
        """
        return self._background.run(self._client.list(project, after, limit))

    def iter(self, project: str = "") -> Iterator[Flow]:
        """Iterate over all flows, of one project or of all, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(project, after, limit=500)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def get(self, project: str, name: str, seconds: float = 0.0) -> Flow:
        """Return the progress of a flow: when it has ended, or after ``seconds`` (0 to 60), whichever comes first."""
        return self._background.run(self._client.get(project, name, seconds))

    def iter_tasks(self, project: str, name: str) -> Iterator[FlowTaskStatus]:
        """Iterate over the tasks of a flow with their parents, parents first, asked for page by page."""
        return self._background.iterate(self._client.iter_tasks(project, name))

    def wait(
        self, project: str, name: str, progress: Callable[[Flow], object] | None = None, timeout: float | None = inf
    ) -> Flow:
        """Wait until a flow has ended; returns its progress then, or (with ``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with the flow's progress, now, twice a second, and at the end; it must not wait, because
                the client itself calls it.
            timeout: seconds to wait; None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return self._background.run(self._client.wait(project, name, progress, timeout))

    def cancel(self, project: str, name: str) -> Flow:
        """Cancel the unfinished tasks of a flow, step by step; of an unsubmitted flow, drop the staged tasks."""
        return self._background.run(self._client.cancel(project, name))
