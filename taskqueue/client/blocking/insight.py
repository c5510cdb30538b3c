"""Blocking twin of ``taskqueue.client.asynchronous.insight``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.insight import AsyncLog, AsyncStats
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryPoint, ProjectStats
from taskqueue.protocol.values import Change, TaskCounts
from taskqueue.types import Page


class BlockingStats:
    """Counts of events, by project."""

    def __init__(self, background: Background, stats: AsyncStats) -> None:
        self._background = background
        self._client = stats

    def list(self, after: str = "", limit: int = 100, group: str = "") -> Page[ProjectStats]:
        """Return a page of projects, by name, with their events of the last 5 minutes, hour and day, and of all time.

        Args:
            after: the ``next`` of the page before, or any name; empty: from the first one.
            limit: projects per page, 1 to 100.
            group: projects of this group only; empty: all.
        """
        return self._background.run(self._client.list(after, limit, group))

    def iter(self, group: str = "") -> Iterator[ProjectStats]:
        """Iterate over the counts of all projects, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def job(self, project: str, job: str) -> TaskCounts:
        """Count the tasks of a job in a project, by state.

        The daemon scans all tasks of the project, page by page: about 7 s for a million. Each counts once, in its state
        at that moment.
        """
        return self._background.run(self._client.job(project, job))

    def history(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[HistoryPoint]:
        """Iterate over counts per minute of the last day, or per hour of the last 90 days, asked for page by page.

        Minutes without events have no point. A minute's point appears after its end.

        Args:
            project: counts of this project; None: of all together.
            every: minute or hour.
            since, until: unix seconds, or aware datetimes; None: from the first, to the last.

        Raises:
            ValueError: ``since`` or ``until`` is a datetime without a time zone.
        """
        return self._background.iterate(self._client.history(project, every, since=since, until=until))


class BlockingLog:
    """Changes that users have made, with their authors."""

    def __init__(self, background: Background, log: AsyncLog) -> None:
        self._background = background
        self._client = log

    def list(
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
        return self._background.run(self._client.list(project, since=since, after=after, limit=limit))

    def iter(self, project: str | None = None, *, since: Moment | None = None) -> Iterator[Change]:
        """Iterate over all changes that are kept, newest first, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(project, since=since, after=after, limit=500)
            yield from page.items
            after, more = (page.next, bool(page.next))
