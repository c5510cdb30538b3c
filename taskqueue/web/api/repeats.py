"""Sessions and numbers that identify requests to the daemon with an Idempotency-Key.

    visitor, key ──digest──► session ┐
    the request ───digest──► number ─┴──► daemon: number known in this session? kept answer : carry out, keep

A change that is repeated with its key is answered again, and done once. Nothing is kept here: the daemon keeps the
outcome of a request by session and number, in the same commit as its changes. So the promise holds across restarts of
either process, and with several web processes, for as long as the daemon remembers a session: ``session_timeout`` (an
hour) after its last request, but above ``max_sessions`` the user with most sessions loses those silent for longest.

The number is a digest of the request. The daemon accepts no number in a session that is far from the known ones, so it
refuses a key that comes with another request: ``too-old`` or ``too-far``; or from another owner: ``not-yours``.

Each key is a session of the daemon. So that keys don't push out the sessions of fetchers, one web process opens at most
KEYS_MOST in KEYS_SECONDS, and refuses more.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request

from taskqueue.errors import RequestRejected
from taskqueue.protocol.codec import encode
from taskqueue.web.access.visitors import Visitor, visitor_of
from taskqueue.web.api.problems import Problem

HEADER: Final = "Idempotency-Key"
KEY_CHARS: Final = 255

KEYS_MOST: Final = 2_000
"""Keys of a web process in KEYS_SECONDS: a fifth of the sessions that a daemon remembers by default."""
KEYS_SECONDS: Final = 3600.0

FIRST_NUMBER: Final = 1 << 61
"""First number of repeatable requests; numbers of ordinary sessions are smaller."""

Known = tuple[str, int]
"""Session and number of a request."""


class Repeats:
    """Idempotency keys of one web process."""

    def __init__(self) -> None:
        self._asking: set[Known] = set()
        self._recent: deque[tuple[float, str]] = deque()
        self._known: set[str] = set()

    @contextmanager
    def known_as(self, request: Request, asked: Any) -> Iterator[Known | None]:
        """Yield session and number that identify a change to the daemon; None without a key.

        Raises:
            Problem: the key is invalid or in use, or there are too many.
        """
        if request.method == "GET" or (key := request.headers.get(HEADER)) is None:
            yield None
            return
        if not 0 < len(key) <= KEY_CHARS or not key.isprintable():
            raise Problem(400, f"{HEADER}: expected 1 to {KEY_CHARS} printable characters", HEADER, "malformed")
        known = _known(_whose(visitor_of(request)), key, asked)
        if known in self._asking:
            raise Problem(409, f"{HEADER}: the first request with this key is not answered yet", HEADER)
        self._count(known[0], time.monotonic())
        self._asking.add(known)
        try:
            yield known
        except RequestRejected as error:
            if error.code in ("too-old", "too-far", "not-yours"):
                detail = f"{HEADER}: this key came with another request before; each request needs its own"
                raise Problem(422, detail, HEADER, "key-reused") from None
            raise
        finally:
            self._asking.discard(known)

    def _count(self, session: str, now: float) -> None:
        while self._recent and self._recent[0][0] <= now - KEYS_SECONDS:
            self._known.discard(self._recent.popleft()[1])
        if session in self._known:
            return
        if len(self._known) >= KEYS_MOST:
            wait = str(round(self._recent[0][0] + KEYS_SECONDS - now) + 1)
            raise Problem(429, f"{HEADER}: more than {KEYS_MOST} keys in an hour", HEADER, Retry_After=wait)
        self._known.add(session)
        self._recent.append((now, session))


def _whose(visitor: Visitor) -> str:
    """Return whose keys a visitor uses: those of a name that was revoked belong to no later one."""
    return visitor.owner or visitor.name


def _known(visitor: str, key: str, asked: Any) -> Known:
    session = hashlib.sha256(f"{len(visitor)} {visitor} {key}".encode()).hexdigest()[:48]
    digest = hashlib.sha256(encode(asked)).digest()
    return f"http-{session}", FIRST_NUMBER + int.from_bytes(digest[:7])
