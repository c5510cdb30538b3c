"""``client.history``: what happened when."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryReply, Point, StatsHistory


class AsyncHistory:
    """Counts of events, by minute or hour."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> HistoryReply:
        """What happened in each minute of the last day, or in each hour of the last 90 days: a page by time.

        Where nothing happened there is no point. A minute has one when it is over.

        Args:
            project: to this one; None: to all together.
            every: minute or hour.
            since, until: unix seconds, or aware datetimes; None: from the first, to the last. The ``next`` of a page,
                if it is not 0, is ``since`` for the one after it; a page may have few points, or none, and yet not be
                the last.

        Raises:
            ValueError: since or until is a datetime without a zone.
        """
        start, end = unix_seconds_or_0("since", since), unix_seconds_or_0("until", until)
        request = StatsHistory(session="", n=0, project=project, every=every, since=start, until=end)
        return await self._exchange.ask(request, HistoryReply)

    async def all(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> AsyncGenerator[Point, None]:
        """All points of a time, as ``list`` has them, asked for page by page."""
        more = True
        while more:
            page = await self.list(project, every, since=since, until=until)
            for point in page.points:
                yield point
            since, more = page.next, page.next > 0
