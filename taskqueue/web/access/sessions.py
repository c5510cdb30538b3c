"""Browsers that have signed in: a random id in a cookie, and what it stands for here.

A session lasts as long as its token does, at most ``LONGEST_SECONDS``, and ends after ``IDLE_SECONDS`` without a
request. Nothing is on disk: after a restart people sign in again.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from taskqueue.web.access.token_file import Token
from taskqueue.web.access.tokens import Tokens

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
