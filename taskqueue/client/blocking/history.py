"""The blocking twin of ``taskqueue.client.asynchronous.history``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.history import AsyncHistory
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import HistoryReply, Point


class BlockingHistory:
    """Counts of events, by minute or hour."""

    def __init__(self, background: Background, history: AsyncHistory) -> None:
        self._background = background
        self._client = history

    def list(
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
        return self._background.run(self._client.list(project, every, since=since, until=until))

    def all(
        self,
        project: str | None = None,
        every: Resolution = "minute",
        *,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> Iterator[Point]:
        """All points of a time, as ``list`` has them, asked for page by page."""
        more = True
        while more:
            page = self.list(project, every, since=since, until=until)
            yield from page.points
            since, more = (page.next, page.next > 0)
