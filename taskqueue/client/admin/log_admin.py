"""The part of AsyncClient that looks back: who changed what, and what happened when."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.replies import HistoryReply, LogReply
from taskqueue.protocol.requests import Log, StatsHistory
from taskqueue.protocol.views import LogEntry, Point

PAGE = 500
"""Most entries that the daemon gives at once."""


class LogAdmin:
    """Methods of AsyncClient, which gives it the attributes."""

    _exchange: Exchange

    async def log(
        self, project: str | None = None, *, since: float = 0.0, before: int = 0, limit: int = 100
    ) -> LogReply:
        """A page of what people have changed, the newest change first.

        Args:
            project: changes of this project only, also of one that was deleted; None: all.
            since: unix seconds: none that were made before.
            before: the ``next`` of the page before, which is 0 on the last one; 0: from the newest on. Each page looks
                at a bounded number of changes, so it may have fewer than ``limit``, or none, and yet not be the last.
            limit: 1 to 500.
        """
        request = Log(session="", n=0, project=project, since=since, before=before, limit=limit)
        return await self._exchange.ask(request, LogReply)

    async def whole_log(self, project: str | None = None, *, since: float = 0.0) -> AsyncGenerator[LogEntry, None]:
        """All that is kept, the newest first, asked for page by page."""
        before, more = 0, True
        while more:
            page = await self.log(project, since=since, before=before, limit=PAGE)
            for entry in page.entries:
                yield entry
            before, more = page.next, page.next > 0

    async def history(
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

    async def whole_history(
        self, project: str | None = None, every: Resolution = "minute", *, since: float = 0.0, until: float = 0.0
    ) -> AsyncGenerator[Point, None]:
        """All points of that time, asked for page by page."""
        more = True
        while more:
            page = await self.history(project, every, since=since, until=until)
            for point in page.points:
                yield point
            since, more = page.next, page.next > 0
