"""Browsers that have signed in, by a random id in a cookie, and what wrong tokens cost whoever shows them.

A session lasts as long as its token does, at most ``LONGEST_SECONDS``, and ends after ``IDLE_SECONDS`` without a
request. Nothing is on disk: after a restart people sign in again.

Nobody guesses 256 bits, so counting wrong tokens does not keep guessers out: it bounds what they cost, and a right
token is never made to wait for the wrong ones of others behind the same address. The first wrong ones of an address are
answered at once, the next ones late, and if too many wait already, or the address has too many of its own waiting, at
once with 429.
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
"""A further one ends the token's oldest. So there are never more than this many times the tokens of the file."""

_RANDOM_BYTES: Final = 32


@dataclass(slots=True)
class Session:
    """A browser.

    Attributes:
        digest: of the token with which it came.
        csrf: what its pages send along with a change.
        began_at, seen_at: on the clock of this process.
    """

    digest: str
    csrf: str
    began_at: float
    seen_at: float


class Sessions:
    """All browsers that have signed in, by token and by the digest of their id.

    What is kept is not the id, so that how long a search takes says nothing about ids.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self._of_token: dict[str, OrderedDict[bytes, Session]] = {}
        self._by_id: dict[bytes, Session] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, token: Token) -> str:
        """Let a browser in; returns its id."""
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
        """The session of this id and its token; None: it is over, or never was."""
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
        """Forget a session."""
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
        return min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0 ** min(over - 1, 10)) if over > 0 else 0.0
