"""Sessions and numbers by which the daemon knows requests: those with an Idempotency-Key, and those that wait.

    visitor, key ──digest──► session ┐
    the request ───digest──► number ─┴──► daemon: this number of this session is done? the kept answer : do it, keep it

A change that is asked for again with its key is answered again, and done once. Nothing is kept here. The daemon keeps
the outcome of a request by its session and number, in the same commit as what it changed; so the promise holds across
restarts of either process, and with several web processes, for as long as it remembers a session: ``session_timeout``
(an hour) after its last request, unless ``max_sessions`` others came after.

The number is a digest of what is asked. In a session the daemon takes no number that is far from the ones it knows, so
a key that comes with something else is refused by the daemon itself: ``too-old`` or ``too-far``.

Each key is a session of the daemon. So that nobody drives out those of fetchers, one web process opens KEYS_MOST in
KEYS_SECONDS, and refuses more.

A request that waits has a session of its own, because a session waits once for one thing. Sessions are used again, so
there are as many as ever waited at once.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request

from taskqueue.errors import RequestRejected
from taskqueue.protocol.codec import encode
from taskqueue.web.access.visitors import visitor_of
from taskqueue.web.api.problems import Problem

HEADER: Final = "Idempotency-Key"
KEY_CHARS: Final = 255

KEYS_MOST: Final = 2_000
"""A fifth of the sessions that a daemon remembers if nothing else is set."""
KEYS_SECONDS: Final = 3600.0

FIRST_NUMBER: Final = 1 << 61
"""Of a repeatable request; those of ordinary sessions are smaller."""

Known = tuple[str, int]
"""Session and number of a request."""


class Repeats:
    """The keys of one web process."""

    def __init__(self) -> None:
        self._asking: set[Known] = set()
        self._recent: deque[tuple[float, str]] = deque()
        self._known: set[str] = set()

    @contextmanager
    def known_as(self, request: Request, asked: Any) -> Iterator[Known | None]:
        """The session and number by which the daemon is to know a change; None: its sender gave it no key.

        Raises:
            Problem: the key can't be, is being used, or there are too many.
        """
        if request.method == "GET" or (key := request.headers.get(HEADER)) is None:
            yield None
            return
        if not 0 < len(key) <= KEY_CHARS or not key.isprintable():
            raise Problem(400, f"{HEADER}: expected 1 to {KEY_CHARS} printable characters", HEADER, "malformed")
        known = _known(visitor_of(request).name, key, asked)
        if known in self._asking:
            raise Problem(409, f"{HEADER}: the first request with this key is not answered yet", HEADER)
        self._count(known[0], time.monotonic())
        self._asking.add(known)
        try:
            yield known
        except RequestRejected as error:
            if error.code in ("too-old", "too-far"):
                detail = f"{HEADER}: it came with another request before; each request needs a key of its own"
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


def _known(visitor: str, key: str, asked: Any) -> Known:
    session = hashlib.sha256(f"{len(visitor)} {visitor} {key}".encode()).hexdigest()[:48]
    digest = hashlib.sha256(encode(asked)).digest()
    return f"http-{session}", FIRST_NUMBER + int.from_bytes(digest[:7])


# --------------------------------------------------------------------------------------------------- requests that wait

FIRST_WAITING_NUMBER: Final = 1 << 62
"""Of requests that wait; those of requests with a key are smaller."""


class WaitingSessions:
    """Those of one web process."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._number = FIRST_WAITING_NUMBER

    @contextmanager
    def known_as(self) -> Iterator[Known]:
        """A session that waits for nothing, and a number in it."""
        session = self._free.pop() if self._free else f"wait-{secrets.token_hex(16)}"
        self._number += 1
        try:
            yield session, self._number
        finally:
            self._free.append(session)
