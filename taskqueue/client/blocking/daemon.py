"""The blocking twin of ``taskqueue.client.asynchronous.daemon``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.daemon import AsyncDaemon
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.daemon import DaemonPoint, DaemonStatus


class BlockingDaemon:
    """The daemon's process: what it does, needs and has done, and whether its state is sound."""

    def __init__(self, background: Background, daemon: AsyncDaemon) -> None:
        self._background = background
        self._client = daemon

    def show(self) -> DaemonStatus:
        """How the daemon itself is: its process, its turns, its memory, its store. Costs it the same at any size."""
        return self._background.run(self._client.show())

    def verify(self) -> list[str]:
        """Have the daemon check its own invariants; returns what is wrong, in words."""
        return self._background.run(self._client.verify())

    def history(self, *, since: Moment | None = None, until: Moment | None = None) -> Iterator[DaemonPoint]:
        """How the daemon was in each minute of the last day in which it took a turn, asked for page by page.

        A minute has a point when the first turn after it was taken.

        Args:
            since, until: unix seconds, or aware datetimes; None: from a day ago, to now.

        Raises:
            ValueError: since or until is a datetime without a zone.
        """
        return self._background.iterate(self._client.history(since=since, until=until))
