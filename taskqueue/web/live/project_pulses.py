"""All projects of the daemon, as short as can be, kept up to date by one subscription for everybody: ``watch``.

nobody follows    a question each time somebody wants to know: what has changed since the last one?
somebody follows  a question waits at the daemon all the time, and is answered when something has changed
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from taskqueue import AsyncClient
from taskqueue.errors import TaskQueueError
from taskqueue.protocol.insight import ProjectPulse

WAIT_SECONDS: Final = 30.0
"""That one question waits at the daemon for something to change."""

ROWS_A_SECOND: Final = 500
"""That are asked for: where thousands of projects change all the time, each is seen a little later, and it costs the
daemon less than a hundredth of a core."""

AGAIN_SECONDS: Final = 1.0
"""After the daemon did not answer."""


class ProjectPulses:
    """The projects of one daemon.

    Attributes:
        version: grows with each answer that told of something.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pulses: dict[str, ProjectPulse] = {}
        self._since = ""
        self._asking = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._failure: TaskQueueError | None = None
        self._known = asyncio.Event()
        self._news = asyncio.Event()
        self.version = 0

    async def now(self) -> Mapping[str, ProjectPulse]:
        """All of them by name, as they are now; to be read before anything else is awaited.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        if self._following is None:
            async with self._asking:
                await self._ask(0.0)
        else:
            await self._known.wait()
            if self._failure is not None:
                raise self._failure
        return self._pulses

    async def after(self, version: int) -> None:
        """Wait until something has been told since that version; somebody has to follow."""
        while self.version <= version:
            await self._news.wait()

    def follow(self) -> None:
        """Have a question wait at the daemon from now on; nothing if one does already."""
        if self._following is None:
            self._known.clear()
            self._following = asyncio.create_task(self._follow())
            self._following.add_done_callback(self._note_end)

    async def unfollow(self) -> None:
        """Ask only when somebody wants to know."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def aclose(self) -> None:
        """Ask no more."""
        await self.unfollow()

    def _note_end(self, following: asyncio.Task[None]) -> None:
        """Whoever wants to know asks by himself when following has failed."""
        if not following.cancelled() and following.exception() is not None:
            self._following = None
            self._known.set()

    async def _follow(self) -> None:
        async with self._asking:
            wait = 0.0
            while True:
                pause = AGAIN_SECONDS
                try:
                    pause = await self._ask(wait) / ROWS_A_SECOND
                    self._failure, wait = None, WAIT_SECONDS
                except TaskQueueError as error:
                    self._failure = error
                self._known.set()
                await asyncio.sleep(pause)

    async def _ask(self, seconds: float) -> int:
        """Take in what has changed, and say how many have; waits so long for something to change if nothing has."""
        more, rows = True, 0
        found = self._pulses
        while more:
            reply = await self._client.projects.watch(self._since, seconds)
            if reply.anew:
                found = {}
            for name in reply.gone:
                found.pop(name, None)
            found.update((pulse.name, pulse) for pulse in reply.projects)
            rows += len(reply.projects)
            self._since, more, seconds = reply.since, reply.more, 0.0
        # Not before: of a list that begins anew nobody sees a part.
        self._pulses = found
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()
        return rows
