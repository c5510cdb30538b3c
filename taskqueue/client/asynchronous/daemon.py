"""``client.daemon``: how the daemon itself is."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.daemon import DaemonHistory, DaemonPoint, DaemonShow, DaemonStatus, Verify


class AsyncDaemon:
    """The daemon's process: what it does, needs and has done, and whether its state is sound."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def show(self) -> DaemonStatus:
        """How the daemon itself is: its process, its turns, its memory, its store. Costs it the same at any size."""
        return without_envelope(DaemonStatus, await self._exchange.ask(DaemonShow()))

    async def verify(self) -> list[str]:
        """Have the daemon check its own invariants; returns what is wrong, in words."""
        return (await self._exchange.ask(Verify())).problems

    async def history(
        self, *, since: Moment | None = None, until: Moment | None = None
    ) -> AsyncGenerator[DaemonPoint, None]:
        """How the daemon was in each minute of the last day in which it took a turn, asked for page by page.

        A minute has a point when the first turn after it was taken.

        Args:
            since, until: unix seconds, or aware datetimes; None: from a day ago, to now.

        Raises:
            ValueError: since or until is a datetime without a zone.
        """
        start, end = unix_seconds_or_0("since", since), unix_seconds_or_0("until", until)
        more = True
        while more:
            page = await self._exchange.ask(DaemonHistory(since=start, until=end))
            for point in page.points:
                yield point
            start, more = page.next, page.next > 0
