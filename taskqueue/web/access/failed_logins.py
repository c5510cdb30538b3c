"""What wrong tokens cost whoever shows them.

Nobody guesses 256 bits, so this does not keep guessers out: it bounds what they cost, and a right token is never made
to wait for the wrong ones of others behind the same address. The first wrong ones of an address are answered at once,
the next ones late, and if too many wait already, or the address has too many of its own waiting, at once with 429.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Final

from taskqueue.web.access.arrival import network_of

FREE: Final = 5
"""Wrong tokens of an address that are answered at once."""

FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 8.0
FORGET_SECONDS: Final = 900.0
MAX_ADDRESSES: Final = 4096
MAX_WAITING: Final = 64
MAX_WAITING_OF_ONE: Final = 4


class FailedLogins:
    """Wrong tokens by address; those that were silent for longest are forgotten first."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Rows of (number of wrong tokens, time of the last one)."""
        self._waiting: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._failed)

    async def wait(self, address: str) -> bool:
        """Count a wrong token, and wait as long as it costs; False: too many wait, so say 429."""
        key = network_of(address)
        seconds = self._count(key)
        if not seconds:
            return True
        if sum(self._waiting.values()) >= MAX_WAITING or self._waiting.get(key, 0) >= MAX_WAITING_OF_ONE:
            return False
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
        return True

    def forget(self, address: str) -> None:
        """A right token came from there."""
        self._failed.pop(network_of(address), None)

    def _count(self, key: str) -> float:
        now = time.monotonic()
        failed, last = self._failed.pop(key, (0, now))
        failed = failed + 1 if now - last < FORGET_SECONDS else 1
        self._failed[key] = failed, now
        if len(self._failed) > MAX_ADDRESSES:
            self._failed.popitem(last=False)
        over = failed - FREE
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(over - 1, 10)) if over > 0 else 0.0
