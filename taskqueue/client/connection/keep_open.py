"""Projects kept open: a project does not count as finished while a producer still pushes to it.

    first comes ──► keep open ──► renewed each third of its seconds ──► last leaves ──► release

The daemon knows one request to keep a project open per session; callers of one client share it. It expires by itself
after its seconds, so a producer that dies delays nothing for long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from taskqueue.client.connection.exchange import Exchange
from taskqueue.errors import ClientError
from taskqueue.protocol.projects import Project, ProjectHold, ProjectReply

KEEP_OPEN_SECONDS: Final = 60.0
"""Time for which a project stays open unless that is renewed."""

RENEWALS: Final = 3
"""Renewals in the time for which a project stays open."""

log = logging.getLogger("taskqueue.client")


class KeptOpen(Struct, eq=False):
    """Project that is kept open; ``callers`` is the number of callers that share it."""

    seconds: float
    renewing: asyncio.Task[None]
    callers: int = 0


class OpenProjects:
    """Projects that one client keeps open."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._kept: dict[str, KeptOpen] = {}

    async def keep_open(self, project: str, seconds: float) -> Project:
        """Keep a project open for ``seconds``; 0: no longer."""
        return project_of(await self._exchange.ask(ProjectHold(project=project, seconds=seconds)))

    @asynccontextmanager
    async def kept_open(self, project: str, seconds: float) -> AsyncIterator[None]:
        """Keep the project open inside the block; a second caller shares the seconds of the first."""
        kept = self._join(project, seconds)
        try:
            await self.keep_open(project, kept.seconds)
            yield
        finally:
            await self._leave(project, kept)

    def close(self) -> None:
        """Stop all renewals; the projects stay open until their seconds are over."""
        for kept in self._kept.values():
            kept.renewing.cancel()

    def _join(self, project: str, seconds: float) -> KeptOpen:
        kept = self._kept.get(project)
        if kept is None:
            renewing = asyncio.ensure_future(self._renew(project, seconds))
            kept = self._kept[project] = KeptOpen(seconds, renewing)
        kept.callers += 1
        return kept

    async def _leave(self, project: str, kept: KeptOpen) -> None:
        """Release the project after its last caller; if that fails, its seconds run out."""
        kept.callers -= 1
        if kept.callers:
            return
        del self._kept[project]
        kept.renewing.cancel()
        try:
            await self.keep_open(project, 0.0)
        except ClientError as error:
            _warn(project, error)

    async def _renew(self, project: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / RENEWALS)
            try:
                await self.keep_open(project, seconds)
            except ClientError as error:
                _warn(project, error)


def _warn(project: str, error: ClientError) -> None:
    log.warning("event=unheld project=%s reason=%r", project, str(error))


def project_of(reply: ProjectReply) -> Project:
    """Return the project of a reply.

    Raises:
        ClientError: the reply has none.
    """
    if reply.project is None:
        raise ClientError("the daemon answered without the project")
    return reply.project
