"""The blocking twin of ``taskqueue.client.asynchronous.log``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.log import AsyncLog
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.insight import LogEntry, LogReply


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

    def all(self, project: str | None = None, *, since: Moment | None = None) -> Iterator[LogEntry]:
        """All changes that are kept, the newest first, asked for page by page."""
        before, more = (0, True)
        while more:
            page = self.list(project, since=since, before=before, limit=500)
            yield from page.entries
            before, more = (page.next, page.next > 0)
