"""``client.stats``: what happened lately, and in all."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.insight import ProjectStats, Stats, StatsReply


class AsyncStats:
    """Counts of events, by project."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, as in ``status``."""
        return await self._exchange.ask(Stats(session="", n=0, after=after, limit=limit, group=group), StatsReply)

    async def all(self, group: str = "") -> AsyncGenerator[ProjectStats, None]:
        """What happened to each project, by name, asked for page by page."""
        after, more = "", True
        while more:
            page = await self.list(after, group=group)
            for project in page.projects:
                yield project
                after = project.name
            more = page.more
