"""Sessions of signed-in browsers, by a random id in a cookie, and the delay that wrong tokens cost.

A session lasts as long as its token, at most ``LONGEST_SECONDS``, and ends after ``IDLE_SECONDS`` without a request.
Nothing is on disk: after a restart users sign in again.

A token has 256 bits and can't be guessed, so counting wrong tokens only bounds their cost, and a right token never
waits for wrong ones from the same address. The first wrong tokens of an address are answered at once, later ones with a
delay, and if too many wait already, in all or from this address, at once with 429.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from taskqueue.web.access.arrival import network_of

IDLE_SECONDS: Final = 12 * 3600.0
LONGEST_SECONDS: Final = 7 * 86_400.0
MAX_PER_TOKEN: Final = 16
"""Sessions per token; a further one ends the token's oldest."""
MAX_SESSIONS: Final = 16_384
"""Sessions of all tokens; a further one ends the oldest."""

_RANDOM_BYTES: Final = 32


@dataclass(slots=True)
class Session:
    """Session of a browser.

    Attributes:
        digest: digest of the token that it signed in with.
        csrf: CSRF token that its pages send with changes.
        began_at, seen_at: seconds of this process's monotonic clock.
    """

    digest: str
    csrf: str
    began_at: float
    seen_at: float


class Sessions:
    """Sessions of all signed-in browsers, by token and by the digest of their id.

    Digests instead of ids are stored, so that the time of a search reveals nothing of ids.
    """

    def __init__(self) -> None:
        self._of_token: dict[str, OrderedDict[bytes, Session]] = {}
        self._by_id: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, digest: str) -> str:
        """Begin a session of a token's digest; return its id."""
        now = time.monotonic()
        sid = secrets.token_urlsafe(_RANDOM_BYTES)
        session = Session(digest, secrets.token_urlsafe(_RANDOM_BYTES), now, now)
        if len(self._of_token.get(digest, ())) >= MAX_PER_TOKEN:
            self._end(next(iter(self._of_token[digest])))
        while len(self._by_id) >= MAX_SESSIONS:
            self._end(next(iter(self._by_id)))
        self._of_token.setdefault(digest, OrderedDict())[_key(sid)] = self._by_id[_key(sid)] = session
        return sid

    def find(self, sid: str) -> Session | None:
        """Return the session with this id; None if it has ended or never existed. Its token may have been revoked."""
        session = self._by_id.get(_key(sid))
        if session is None:
            return None
        now = time.monotonic()
        if now - session.seen_at > IDLE_SECONDS or now - session.began_at > LONGEST_SECONDS:
            self.end(sid)
            return None
        session.seen_at = now
        return session

    def end(self, sid: str) -> None:
        """End a session."""
        self._end(_key(sid))

    def _end(self, key: bytes) -> None:
        session = self._by_id.pop(key, None)
        if session is None:
            return
        sessions = self._of_token[session.digest]
        del sessions[key]
        if not sessions:
            del self._of_token[session.digest]


def _key(sid: str) -> bytes:
    return sha256(sid.encode(errors="replace")).digest()


# --------------------------------------------------------------------------------------------------------- wrong tokens

FREE: Final = 5
"""Wrong tokens of an address that are answered at once."""

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 8.0
FORGET_SECONDS: Final = 900.0
MAX_ADDRESSES: Final = 4096
MAX_WAITING: Final = 64
MAX_WAITING_OF_ONE: Final = 4


class FailedLogins:
    """Counts of wrong tokens by address; the address that was silent longest is forgotten first."""

    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()
        """Rows of (number of wrong tokens, time of the last one)."""
        self._waiting: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._failed)

    async def wait(self, address: str) -> bool:
        """Count a wrong token, and wait for its delay; return False if too many wait, for an answer 429."""
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
        """Forget the wrong tokens of an address that has sent a right one."""
        self._failed.pop(network_of(address), None)

    def _count(self, key: str) -> float:
        now = time.monotonic()
        failed, last = self._failed.pop(key, (0, now))
        failed = failed + 1 if now - last < FORGET_SECONDS else 1
        self._failed[key] = failed, now
        if len(self._failed) > MAX_ADDRESSES:
            self._failed.popitem(last=False)
        over = failed - FREE
        return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(over - 1, 10)) if over > 0 else 0.0
