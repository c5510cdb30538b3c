"""Blocking twin of ``taskqueue.client.asynchronous.daemon``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.daemon import AsyncDaemon
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.daemon import DaemonPoint, DaemonStatus, KeyUse


class BlockingDaemon:
    """The daemon's process: its work, its resources, its history, and a check of its state."""

    def __init__(self, background: Background, daemon: AsyncDaemon) -> None:
        self._background = background
        self._client = daemon

    def show(self) -> DaemonStatus:
        """Return the state of the daemon's process, turns, memory and store. The cost is the same at any size."""
        return self._background.run(self._client.show())

    def key_uses(self) -> Iterator[KeyUse]:
        """Iterate over the use of each key since the daemon's start, by name; nothing if the daemon has no keys."""
        return self._background.iterate(self._client.key_uses())

    def verify(self) -> list[str]:
        """Have the daemon check its own invariants; returns a sentence for each that is broken."""
        return self._background.run(self._client.verify())

    def history(self, *, since: Moment | None = None, until: Moment | None = None) -> Iterator[DaemonPoint]:
        """Iterate over the minutes of the last day in which the daemon took a turn, asked for page by page.

        A minute's point appears with the first turn after that minute.

        Args:
            since, until: unix seconds, or aware datetimes; None: from a day ago, to now.

        Raises:
            ValueError: ``since`` or ``until`` is a datetime without a time zone.
        """
        return self._background.iterate(self._client.history(since=since, until=until))
