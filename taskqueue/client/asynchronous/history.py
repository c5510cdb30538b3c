"""``client.history``: what happened when."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.replies import HistoryReply
from taskqueue.protocol.requests import StatsHistory
from taskqueue.protocol.views import Point


class AsyncHistory:
    """Counts of events, by minute or hour."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self, project: str | None = None, every: Resolution = "minute", *, since: float = 0.0, until: float = 0.0
    ) -> HistoryReply:
        """What happened in each minute of the last day, or in each hour of the last 90 days: a page by time.

        Where nothing happened there is no point. A minute has one when it is over.

        Args:
            project: to this one; None: to all together.
            every: minute or hour.
            since, until: unix seconds; 0: from the first, to the last. The ``next`` of a page, if it is not 0, is
                ``since`` for the one after it; a page may have few points, or none, and yet not be the last.
        """
        request = StatsHistory(session="", n=0, project=project, every=every, since=since, until=until)
        return await self._exchange.ask(request, HistoryReply)

    async def all(
        self, project: str | None = None, every: Resolution = "minute", *, since: float = 0.0, until: float = 0.0
    ) -> AsyncGenerator[Point, None]:
        """All points of a time, as ``list`` has them, asked for page by page."""
        more = True
        while more:
            page = await self.list(project, every, since=since, until=until)
            for point in page.points:
                yield point
            since, more = page.next, page.next > 0
