"""The blocking twin of ``taskqueue.client.asynchronous.insight``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.insight import AsyncLog, AsyncStats
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryPoint, ProjectStats
from taskqueue.protocol.values import Change
from taskqueue.types import Page


class BlockingStats:
    """Counts of events, by project."""

    def __init__(self, background: Background, stats: AsyncStats) -> None:
        self._background = background
        self._client = stats

    def list(self, after: str = "", limit: int = 100, group: str = "") -> Page[ProjectStats]:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, by name.

        Args:
            after: the ``next`` of the page before, or any name; empty: from the first one.
            limit: 1 to 100.
            group: projects of this group only; empty: all.
        """
        return self._background.run(self._client.list(after, limit, group))

    def iter(self, group: str = "") -> Iterator[ProjectStats]:
        """What happened to each project, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            yield from page.items
            after, more = (page.next, bool(page.next))

    def history(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[HistoryPoint]:
        """What happened in each minute of the last day, or in each hour of the last 90 days, asked for page by page.

        Where nothing happened there is no point. A minute has one when it is over.

        Args:
            project: to this one; None: to all together.
            every: minute or hour.
            since, until: unix seconds, or aware datetimes; None: from the first, to the last.

        Raises:
            ValueError: since or until is a datetime without a zone.
        """
        return self._background.iterate(self._client.history(project, every, since=since, until=until))


class BlockingLog:
    """What people have changed."""

    def __init__(self, background: Background, log: AsyncLog) -> None:
        self._background = background
        self._client = log

    def list(
        self, project: str | None = None, *, since: Moment | None = None, after: str = "", limit: int = 100
    ) -> Page[Change]:
        """A page of what people have changed, the newest change first.

        Args:
            project: changes of this project only, also of one that was deleted; None: all.
            since: unix seconds, or an aware datetime: none that were made before; None: all that are kept.
            after: the ``next`` of the page before; empty: from the newest on. Each page looks at a bounded number of
                changes, so it may have fewer than ``limit``, or none, and yet not be the last.
            limit: 1 to 500.

        Raises:
            ValueError: since is a datetime without a zone.
        """
        return self._background.run(self._client.list(project, since=since, after=after, limit=limit))

    def iter(self, project: str | None = None, *, since: Moment | None = None) -> Iterator[Change]:
        """All changes that are kept, the newest first, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(project, since=since, after=after, limit=500)
            yield from page.items
            after, more = (page.next, bool(page.next))
