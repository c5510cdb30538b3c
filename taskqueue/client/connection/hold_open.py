"""Holding projects open: a project is not taken as finished while somebody is still pushing.

    first comes ──► hold ──► renewed each third of its seconds ──► last leaves ──► let go

The daemon knows one hold of a project a session; callers of one client that hold the same project share it. It ends by
itself when its seconds are over, so a producer that dies holds nothing up for long.
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

HOLD_SECONDS: Final = 60.0
"""That a hold lasts unless it is renewed."""

RENEWALS: Final = 3
"""In the time that a hold lasts."""

log = logging.getLogger("taskqueue.client")


class Hold(Struct, eq=False):
    """One project's; ``holders`` are the callers that share it."""

    seconds: float
    renewing: asyncio.Task[None]
    holders: int = 0


class Holding:
    """The holds of one client, said through an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._holds: dict[str, Hold] = {}

    async def hold(self, project: str, seconds: float) -> Project:
        """Hold a project open for so many seconds; 0: let go."""
        return project_of(await self._exchange.ask(ProjectHold(project=project, seconds=seconds)))

    @asynccontextmanager
    async def holding(self, project: str, seconds: float) -> AsyncIterator[None]:
        """Hold the project open inside; who comes second shares the seconds of the first."""
        hold = self._join(project, seconds)
        try:
            await self.hold(project, hold.seconds)
            yield
        finally:
            await self._leave(project, hold)

    def close(self) -> None:
        """Renew nothing any more; what is held ends by itself."""
        for hold in self._holds.values():
            hold.renewing.cancel()

    def _join(self, project: str, seconds: float) -> Hold:
        hold = self._holds.get(project)
        if hold is None:
            renewing = asyncio.ensure_future(self._renew(project, seconds))
            hold = self._holds[project] = Hold(seconds, renewing)
        hold.holders += 1
        return hold

    async def _leave(self, project: str, hold: Hold) -> None:
        """The last one lets go; if that can't be said, the hold ends by itself."""
        hold.holders -= 1
        if hold.holders:
            return
        del self._holds[project]
        hold.renewing.cancel()
        try:
            await self.hold(project, 0.0)
        except ClientError as error:
            _warn(project, error)

    async def _renew(self, project: str, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds / RENEWALS)
            try:
                await self.hold(project, seconds)
            except ClientError as error:
                _warn(project, error)


def _warn(project: str, error: ClientError) -> None:
    log.warning("event=unheld project=%s reason=%r", project, str(error))


def project_of(reply: ProjectReply) -> Project:
    """The project that a daemon answers with, unless it was deleted.

    Raises:
        ClientError: there is none.
    """
    if reply.project is None:
        raise ClientError("the daemon answered without the project")
    return reply.project
