"""Users of the web process, whom the daemon knows: the holder of a token, or a user that a reverse proxy has let in.

    token ──digest──► who ──daemon──► name, role, projects: those of its access file

An answer is used for FRESH_SECONDS, so that the requests of a page ask once. A user who was revoked meanwhile gets
nothing: each request to the daemon names its user, and the daemon looks again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, cast

from taskqueue.access.tokens import digest_of
from taskqueue.protocol.callers import ALL_PROJECTS, Role
from taskqueue.protocol.daemon import WhoIs, WhoReply

FRESH_SECONDS: Final = 0.25
"""Seconds for which an answer of the daemon is used."""

ANSWERS_MOST: Final = 1024
"""Answers that are remembered; the one asked for longest ago is forgotten first."""

Ask = Callable[[WhoIs], Awaitable[WhoReply]]
"""Function that asks the daemon.

Raises:
    TaskQueueError: the daemon does not answer, or refuses.
"""


class User(NamedTuple):
    """User of the daemon's access file.

    Attributes:
        owner: name, and when it was authorised, by which a name that was revoked and authorised anew is told from the
            former one.
        reach: owner, role and projects: what was shown by another reach may be more than it may see now.
        sees_all: whether all projects are its own.
    """

    name: str
    role: Role
    owner: str
    reach: tuple[str, ...]
    sees_all: bool


class Users:
    """Users by token and by name, as the daemon has just said."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._answers: OrderedDict[tuple[str, str], tuple[float, asyncio.Task[User | None]]] = OrderedDict()

    async def with_token(self, token: str) -> User | None:
        """Return the user with this token; None if there is none, or it has expired.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        digest = digest_of(token)
        return await self.with_digest(digest) if digest else None

    async def with_digest(self, digest: str) -> User | None:
        """Return the user with the token of this digest; see ``with_token``."""
        return await self._find(digest, "")

    async def named(self, name: str) -> User | None:
        """Return the user of this name, if it has a token; see ``with_token``."""
        return await self._find("", name)

    async def _find(self, digest: str, name: str) -> User | None:
        began_at, asking = self._answers.pop((digest, name), (0.0, None))
        if asking is None or (asking.done() and time.monotonic() - began_at >= FRESH_SECONDS):
            began_at, asking = time.monotonic(), asyncio.create_task(self._look_up(digest, name))
            asking.add_done_callback(_note_error)
        self._answers[digest, name] = began_at, asking
        while len(self._answers) > ANSWERS_MOST:
            self._answers.popitem(last=False)
        # Others wait for the same answer, so a visitor that leaves does not end the question.
        return await asyncio.shield(asking)

    async def _look_up(self, digest: str, name: str) -> User | None:
        said = await self._ask(WhoIs(digest=digest, name=name))
        if not said.name:
            return None
        owner = f"{said.name} {said.created_at!r}"
        reach = (owner, said.role, *said.projects)
        return User(said.name, cast(Role, said.role), owner, reach, ALL_PROJECTS in said.projects)


def _note_error(asking: asyncio.Task[User | None]) -> None:
    """Take note of an error for which no visitor waits any more."""
    if not asking.cancelled():
        asking.exception()
