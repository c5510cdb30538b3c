"""Tasks that were passed on to another process: the daemon is told that they take no room here any more.

Each hello lists all that is held, so the more has been passed on, the rarer it is said: at once if nothing was said
lately, else together with what follows. What was passed on and not reported yet is bounded, too: beyond PASSED_MOST it
keeps its room, so that a fetcher whose processors are gone comes to rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from taskqueue.client.connection.session import ClientSession

PASSED_MOST: Final = 10_000
"""Tasks that are passed on and not reported, as far as is known here."""

PAUSE_SECONDS: Final = 0.001
"""Between two hellos, at least."""
PAUSE_EACH_SECONDS: Final = 0.000_01
"""Between two hellos, for each task that they list as passed on."""
FULL_SECONDS: Final = 1.0
"""Between two hellos that only ask whether some of them have been reported."""


class Relay:
    """The passed on tasks of one client.

    Args:
        session: knows them.
        restate: called when the session has something new to say.
    """

    def __init__(self, session: ClientSession, restate: Callable[[], None]) -> None:
        self._session = session
        self._restate = restate
        self._untold: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def pass_on(self, tokens: Iterable[int]) -> None:
        """Others report the tasks of these tokens."""
        self._untold.extend(tokens)
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Tell no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell_all(self._untold)

    def _tell(self) -> None:
        self._timer = None
        if not self._untold:
            return
        room = max(0, PASSED_MOST - self._session.passed)
        told, self._untold = self._untold[:room], self._untold[room:]
        self._tell_all(told)
        if not told:
            self._session.say_hello()
        self._restate()
        pause = max(PAUSE_SECONDS, PAUSE_EACH_SECONDS * self._session.passed) if told else FULL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(pause, self._tell)

    def _tell_all(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._session.pass_on(token)
