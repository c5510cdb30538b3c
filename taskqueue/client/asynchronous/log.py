"""``client.log``: who changed what."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.insight import Log, LogEntry, LogReply


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
        request = Log(session="", n=0, project=project, since=start, before=before, limit=limit)
        return await self._exchange.ask(request, LogReply)

    async def all(self, project: str | None = None, *, since: Moment | None = None) -> AsyncGenerator[LogEntry, None]:
        """All changes that are kept, the newest first, asked for page by page."""
        before, more = 0, True
        while more:
            page = await self.list(project, since=since, before=before, limit=500)
            for entry in page.entries:
                yield entry
            before, more = page.next, page.next > 0
