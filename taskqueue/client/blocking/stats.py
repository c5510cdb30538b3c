"""The blocking twin of ``taskqueue.client.asynchronous.stats``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.client.asynchronous.stats import AsyncStats
from taskqueue.client.connection.background import Background
from taskqueue.protocol.insight import ProjectStats, StatsReply


class BlockingStats:
    """Counts of events, by project."""

    def __init__(self, background: Background, stats: AsyncStats) -> None:
        self._background = background
        self._client = stats

    def list(self, after: str = "", limit: int = 100, group: str = "") -> StatsReply:
        """What happened in the last 5 minutes, hour and day, and in all: a page of projects, as in ``status``."""
        return self._background.run(self._client.list(after, limit, group))

    def all(self, group: str = "") -> Iterator[ProjectStats]:
        """What happened to each project, by name, asked for page by page."""
        after, more = ("", True)
        while more:
            page = self.list(after, group=group)
            for project in page.projects:
                yield project
                after = project.name
            more = page.more
