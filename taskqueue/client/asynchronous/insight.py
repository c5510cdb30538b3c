"""``client.stats``: what happened lately, when, and in all; ``client.log``: who changed what."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryPoint, Log, LogReply, ProjectStats, Stats, StatsHistory, StatsReply
from taskqueue.protocol.values import Change


class AsyncStats:
    """Counts of events, by project."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, as in ``status``."""
        return await self._exchange.ask(Stats(after=after, limit=limit, group=group))

    async def iter(self, group: str = "") -> AsyncGenerator[ProjectStats, None]:
        """What happened to each project, by name, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(after, group=group)
            for project in page.projects:
                yield project
                after = project.name
            more = page.more

    async def history(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> AsyncGenerator[HistoryPoint, None]:
        """What happened in each minute of the last day, or in each hour of the last 90 days, asked for page by page.

        Where nothing happened there is no point. A minute has one when it is over.

        Args:
            project: to this one; None: to all together.
            every: minute or hour.
            since, until: unix seconds, or aware datetimes; None: from the first, to the last.

        Raises:
            ValueError: since or until is a datetime without a zone.
        """
        start, end = unix_seconds_or_0("since", since), unix_seconds_or_0("until", until)
        more = True
        while more:
            page = await self._exchange.ask(StatsHistory(project=project, every=every, since=start, until=end))
            for point in page.points:
                yield point
            start, more = page.next, page.next > 0


class AsyncLog:
    """What people have changed."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self, project: str | None = None, *, since: Moment | None = None, before: int = 0, limit: int = 100
    ) -> LogReply:
        """A page of what people have changed, the newest change first.

        Args:
            project: changes of this project only, also of one that was deleted; None: all.
            since: unix seconds, or an aware datetime: none that were made before; None: all that are kept.
            before: the ``next`` of the page before, which is 0 on the last one; 0: from the newest on. Each page looks
                at a bounded number of changes, so it may have fewer than ``limit``, or none, and yet not be the last.
            limit: 1 to 500.

        Raises:
            ValueError: since is a datetime without a zone.
        """
        start = unix_seconds_or_0("since", since)
        return await self._exchange.ask(Log(project=project, since=start, before=before, limit=limit))

    async def iter(self, project: str | None = None, *, since: Moment | None = None) -> AsyncGenerator[Change, None]:
        """All changes that are kept, the newest first, asked for page by page."""
        before, more = 0, True
        while more:
            page = await self.list(project, since=since, before=before, limit=500)
            for entry in page.entries:
                yield entry
            before, more = page.next, page.next > 0
