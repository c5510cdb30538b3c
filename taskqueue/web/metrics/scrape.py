"""Asks the daemon for what is scraped: once for all who scrape at the same time."""

from __future__ import annotations

import asyncio
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder

from taskqueue import AsyncClient
from taskqueue.errors import TaskQueueError
from taskqueue.protocol.daemon import DaemonReply, DaemonShow
from taskqueue.web.metrics.activity import Activity
from taskqueue.web.metrics.exposition import Exposition
from taskqueue.web.metrics.projects import Projects

SOONEST_SECONDS: Final = 0.5
"""Between two looks at the daemon, however many scrape."""

PATIENCE_SECONDS: Final = 5.0
"""That the daemon may take to answer a scrape; Prometheus waits for ten by default."""

READY_SECONDS: Final = 2.0
"""That it may take to say that it is ready; while its store is read again it refuses, and the client asks again."""


class Scrape:
    """The metrics of one daemon, in a registry of its own.

    Args:
        client: of its own, see ``projects``.
        most: projects that have series of their own; None: there are no metrics.
    """

    def __init__(self, client: AsyncClient, most: int | None) -> None:
        self.is_on = most is not None
        self._client = client
        self._activity = Activity(most or 0)
        self._projects = Projects(client)
        self._exposition = Exposition()
        self._registry = CollectorRegistry()
        self._registry.register(self._exposition)
        ProcessCollector(registry=self._registry)
        self._scraping = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._scraped_at = self._asked_at = -SOONEST_SECONDS
        self._trouble = ""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """The metrics as they are now, in the best form of those that the header Accept names, and its content type."""
        clock = asyncio.get_running_loop().time
        async with self._scraping:
            if clock() - self._scraped_at >= SOONEST_SECONDS:
                await self._scrape(clock())
                self._scraped_at = clock()
            encode, content_type = choose_encoder(accept)
            return encode(self._registry), content_type

    async def trouble(self) -> str:
        """Why the daemon is not ready; empty: it is."""
        clock = asyncio.get_running_loop().time
        async with self._asking:
            if clock() - self._asked_at >= SOONEST_SECONDS:
                self._trouble = await self._ask()
                self._asked_at = clock()
            return self._trouble

    async def _scrape(self, now: float) -> None:
        try:
            reply = await self._client.ask(DaemonShow(session="", n=0), DaemonReply, PATIENCE_SECONDS)
            rows = await self._projects.look(PATIENCE_SECONDS)
        except TaskQueueError:
            self._exposition.show_nothing()
            return
        self._activity.take(rows, self._projects.epoch, now)
        self._exposition.show(reply, rows, self._activity)

    async def _ask(self) -> str:
        try:
            await self._client.ask(DaemonShow(session="", n=0), DaemonReply, READY_SECONDS)
        except TaskQueueError as error:
            return str(error)
        return ""
