"""The blocking twin of ``taskqueue.client.asynchronous.insight``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.insight import AsyncLog, AsyncStats
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryPoint, LogReply, ProjectStats, StatsReply
from taskqueue.protocol.values import Change


class BlockingStats:
    """Counts of events, by project."""

    def __init__(self, background: Background, stats: AsyncStats) -> None:
        self._background = background
        self._client = stats

    def list(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, as in ``status``."""
        return self._background.run(self._client.list(after, limit, group))

    def iter(self, group: str = "") -> Iterator[ProjectStats]:
        """What happened to each project, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            for project in page.projects:
                yield project
                after = project.name
            more = page.more

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
        return self._background.run(self._client.list(project, since=since, before=before, limit=limit))

    def iter(self, project: str | None = None, *, since: Moment | None = None) -> Iterator[Change]:
        """All changes that are kept, the newest first, asked for page by page."""
        before, more = (0, True)
        while more:
            page = self.list(project, since=since, before=before, limit=500)
            yield from page.entries
            before, more = (page.next, page.next > 0)
