"""``client.daemon``: the state of the daemon itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.daemon import (
    DaemonHistory,
    DaemonPoint,
    DaemonShow,
    DaemonStatus,
    KeyList,
    KeyUse,
    Verify,
)


class AsyncDaemon:
    """The daemon's process: its work, its resources, its history, and a check of its state."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def show(self) -> DaemonStatus:
        """Return the state of the daemon's process, turns, memory and store. The cost is the same at any size."""
        return without_envelope(DaemonStatus, await self._exchange.ask(DaemonShow()))

    async def key_uses(self) -> AsyncGenerator[KeyUse, None]:
        """Iterate over the use of each key since the daemon's start, by name; nothing if the daemon has no keys."""
        after, more = "", True
        while more:
            page = await self._exchange.ask(KeyList(after=after))
            for use in page.keys:
                yield use
            after, more = page.next, bool(page.next)

    async def verify(self) -> list[str]:
        """Have the daemon check its own invariants; returns a sentence for each that is broken."""
        return (await self._exchange.ask(Verify())).problems

    async def history(
        self, *, since: Moment | None = None, until: Moment | None = None
    ) -> AsyncGenerator[DaemonPoint, None]:
        """Iterate over the minutes of the last day in which the daemon took a turn, asked for page by page.

        A minute's point appears with the first turn after that minute.

        Args:
            since, until: unix seconds, or aware datetimes; None: from a day ago, to now.

        Raises:
            ValueError: ``since`` or ``until`` is a datetime without a time zone.
        """
        start, end = unix_seconds_or_0("since", since), unix_seconds_or_0("until", until)
        more = True
        while more:
            page = await self._exchange.ask(DaemonHistory(since=start, until=end))
            for point in page.points:
                yield point
            start, more = page.next, page.next > 0
