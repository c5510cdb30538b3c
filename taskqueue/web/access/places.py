"""How many requests are worked on at a time, so that a flood of browsers keeps this process busy and not the daemon.

    short   asks the daemon and answers: one of SHORT places, for which LINE others wait WAIT_SECONDS
    long    lasts as long as the asker likes (streams, watching, waiting, pushing): a place at once, or none

Whoever finds no place is answered 503 with Retry-After. Nobody has all long places, unless
everybody is the same visitor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from starlette.exceptions import HTTPException

SHORT: Final = 32
LINE: Final = 512
WAIT_SECONDS: Final = 5.0
SHORT_SECONDS: Final = 30.0
"""The longest that a short one may take until its response begins."""
LONG: Final = 1024
LONG_OF_ONE: Final = 128
RETRY_SECONDS: Final = 5


class Places:
    """All places of the process."""

    def __init__(self) -> None:
        self._short = asyncio.Semaphore(SHORT)
        self._line = 0
        self._long: dict[str, int] = {}

    @asynccontextmanager
    async def short(self) -> AsyncGenerator[None, None]:
        """Have a place for a short request, and give it back.

        Raises:
            HTTPException: 503: there was none in time; 408: what was done in it took too long.
        """
        if self._short.locked() and self._line >= LINE:
            raise _busy()
        self._line += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._short.acquire()
        except TimeoutError:
            raise _busy() from None
        finally:
            self._line -= 1
        try:
            async with asyncio.timeout(SHORT_SECONDS):
                yield
        except TimeoutError:
            raise HTTPException(408, f"it took longer than {SHORT_SECONDS:g} s") from None
        finally:
            self._short.release()

    @contextmanager
    def long(self, who: str) -> Generator[None, None, None]:
        """Have a place for a long request, and give it back.

        Args:
            who: asks; empty: anybody on this machine.

        Raises:
            HTTPException: 503: there is none.
        """
        taken = self._long.get(who, 0)
        if sum(self._long.values()) >= LONG or (who and taken >= LONG_OF_ONE):
            raise _busy()
        self._long[who] = taken + 1
        try:
            yield
        finally:
            self._long[who] -= 1
            if not self._long[who]:
                del self._long[who]


def _busy() -> HTTPException:
    return HTTPException(503, "too many requests are under way", {"Retry-After": str(RETRY_SECONDS)})
