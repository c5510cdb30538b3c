"""The blocking twin of ``taskqueue.client.asynchronous.flows``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taskqueue.client.asynchronous.flows import AsyncFlows
from taskqueue.client.connection.background import Background
from taskqueue.protocol.flows import (
    FlowsReply,
    FlowTaskView,
    FlowView,
)


class BlockingFlows:
    """Flows as the daemon knows them, by project and name. ``client.flow`` makes them."""

    def __init__(self, background: Background, flows: AsyncFlows) -> None:
        self._background = background
        self._client = flows

    def list(self, project: str = "", after: str = "", limit: int = 100) -> FlowsReply:
        """Up to ``limit`` flows, in the order of projects and then of names.

        Args:
            project: of this one only; empty: of all.
            after: flows after this one, written as ``project/name``; who pages goes on so.
            limit: 1 to 500.
        """
        return self._background.run(self._client.list(project, after, limit))

    def all(self, project: str = "") -> Iterator[FlowView]:
        """All flows, of a project or of all, asked for page by page."""
        page = self.list(project, limit=500)
        while True:
            yield from page.flows
            if not page.more:
                return
            last = page.flows[-1]
            page = self.list(project, f"{last.project}/{last.flow}", limit=500)

    def show(self, project: str, name: str, seconds: float = 0.0) -> FlowView:
        """How far a flow is: when it has ended, or after so many seconds (to 60), whichever comes first."""
        return self._background.run(self._client.show(project, name, seconds))

    def tasks(self, project: str, name: str) -> Iterator[FlowTaskView]:
        """The tasks of a flow with what each waits for, parents first, asked for page by page."""
        return self._background.iterate(self._client.tasks(project, name))

    def wait(
        self,
        project: str,
        name: str,
        progress: Callable[[FlowView], object] | None = None,
        timeout: float | None = None,
    ) -> FlowView:
        """Wait until a flow has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included; it must not wait, because the
                client itself calls it.
            timeout: None: for ever, also for a daemon that goes away meanwhile.
        """
        return self._background.run(self._client.wait(project, name, progress, timeout))

    def cancel(self, project: str, name: str) -> FlowView:
        """End the tasks of a flow that are live, by and by; of one that is not submitted yet, drop what was staged."""
        return self._background.run(self._client.cancel(project, name))
