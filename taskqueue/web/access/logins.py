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
from taskqueue.web.access.tokens import Token, Tokens

IDLE_SECONDS: Final = 12 * 3600.0
LONGEST_SECONDS: Final = 7 * 86_400.0
MAX_PER_TOKEN: Final = 16
"""Sessions per token; a further one ends the token's oldest. This bounds all sessions."""

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

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._of_token: dict[str, OrderedDict[bytes, Session]] = {}
        self._by_id: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, token: Token) -> str:
        """Begin a session; return its id."""
        self._end_of_gone_tokens()
        now = time.monotonic()
        sid = secrets.token_urlsafe(_RANDOM_BYTES)
        session = Session(token.digest, secrets.token_urlsafe(_RANDOM_BYTES), now, now)
        sessions = self._of_token.setdefault(token.digest, OrderedDict())
        while len(sessions) >= MAX_PER_TOKEN:
            oldest, _ = sessions.popitem(last=False)
            del self._by_id[oldest]
        sessions[_key(sid)] = self._by_id[_key(sid)] = session
        return sid

    def find(self, sid: str) -> tuple[Session, Token] | None:
        """Return the session with this id and its token; None if it has ended or never existed."""
        session = self._by_id.get(_key(sid))
        if session is None:
            return None
        now = time.monotonic()
        token = self._tokens.of_digest(session.digest)
        if token is None or now - session.seen_at > IDLE_SECONDS or now - session.began_at > LONGEST_SECONDS:
            self.end(sid)
            return None
        session.seen_at = now
        return session, token

    def end(self, sid: str) -> None:
        """End a session."""
        session = self._by_id.pop(_key(sid), None)
        if session is None:
            return
        sessions = self._of_token[session.digest]
        del sessions[_key(sid)]
        if not sessions:
            del self._of_token[session.digest]

    def _end_of_gone_tokens(self) -> None:
        for digest in [digest for digest in self._of_token if self._tokens.of_digest(digest) is None]:
            for key in self._of_token.pop(digest):
                del self._by_id[key]


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
