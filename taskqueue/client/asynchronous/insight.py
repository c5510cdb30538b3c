"""``client.stats``: counts of recent and of all events; ``client.log``: who changed what."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryPoint, JobCounts, Log, ProjectStats, Stats, StatsHistory
from taskqueue.protocol.values import Change, TaskCounts
from taskqueue.types import Page


class AsyncStats:
    """Counts of events, by project."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(self, after: str = "", limit: int = 100, group: str = "") -> Page[ProjectStats]:
        """Return a page of projects, by name, with their events of the last 5 minutes, hour and day, and of all time.

        Args:
            after: the ``next`` of the page before, or any name; empty: from the first one.
            limit: projects per page, 1 to 100.
            group: projects of this group only; empty: all.
        """
        reply = await self._exchange.ask(Stats(after=after, limit=limit, group=group))
        return Page(reply.projects, reply.projects[-1].name if reply.more else "")

    async def iter(self, group: str = "") -> AsyncGenerator[ProjectStats, None]:
        """Iterate over the counts of all projects, by name, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(after, group=group)
            for project in page.items:
                yield project
            after, more = page.next, bool(page.next)

    async def job(self, project: str, job: str) -> TaskCounts:
        """Count the tasks of a job in a project, by state.

        The daemon scans all tasks of the project, page by page: about 7 s for a million. Each counts once, in its state
        at that moment.
        """
        totals = dict.fromkeys(TaskCounts.__struct_fields__, 0)
        after, more = "", True
        while more:
            page = await self._exchange.ask(JobCounts(project=project, job=job, after=after))
            for name in totals:
                totals[name] += getattr(page.counts, name)
            after, more = page.next, bool(page.next)
        return TaskCounts(**totals)

    async def history(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> AsyncGenerator[HistoryPoint, None]:
        """Iterate over counts per minute of the last day, or per hour of the last 90 days, asked for page by page.

        Minutes without events have no point. A minute's point appears after its end.

        Args:
            project: counts of this project; None: of all together.
            every: minute or hour.
            since, until: unix seconds, or aware datetimes; None: from the first, to the last.

        Raises:
            ValueError: ``since`` or ``until`` is a datetime without a time zone.
        """
        start, end = unix_seconds_or_0("since", since), unix_seconds_or_0("until", until)
        more = True
        while more:
            page = await self._exchange.ask(StatsHistory(project=project, every=every, since=start, until=end))
            for point in page.points:
                yield point
            start, more = page.next, page.next > 0


class AsyncLog:
    """Changes that users have made, with their authors."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self, project: str | None = None, *, since: Moment | None = None, after: str = "", limit: int = 100
    ) -> Page[Change]:
        """Return a page of changes that users have made, newest first.

        Args:
            project: changes of this project only, even if it was deleted; None: of all.
            since: unix seconds, or an aware datetime: changes made at that time or later; None: all that are kept.
            after: the ``next`` of the page before; empty: from the newest on. The daemon scans a bounded number of
                changes per page, so a page may have fewer than ``limit``, or none, and yet not be the last.
            limit: changes per page, 1 to 500.

        Raises:
            ValueError: ``since`` is a datetime without a time zone.
        """
        start = unix_seconds_or_0("since", since)
        before = int(after) if after else 0
        reply = await self._exchange.ask(Log(project=project, since=start, before=before, limit=limit))
        return Page(reply.entries, str(reply.next) if reply.next else "")

    async def iter(self, project: str | None = None, *, since: Moment | None = None) -> AsyncGenerator[Change, None]:
        """Iterate over all changes that are kept, newest first, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(project, since=since, after=after, limit=500)
            for change in page.items:
                yield change
            after, more = page.next, bool(page.next)
