"""Parts that attacks share: the daemon's address, their time, and their connections.

An attacker prepares what it needs (tasks, leases), says ``begin``, and attacks.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgpack
import zmq

from tests import zmtp
from tests.integration.conftest import Peer

PROJECT: Final = "attacked"
BODY_BYTES: Final = 7_900_000
"""Largest body of a message."""
WINDOW: Final = 64
"""Unanswered requests of a flood per connection."""
SILENCE_MS: Final = 2000
"""Silence after which a flood goes on as if it had been answered."""
TAIL_SECONDS: Final = 5.0
"""Time that a flood waits for the answers to its last window."""
LONGER: Final = 6
"""Longest time of an attack with a fixed number of requests, in multiples of the time of an endless one."""

CONNECT_SECONDS: Final = 10.0

Request = tuple[str, dict[str, Any]]


class Refused(Exception):
    """A daemon with keys has closed a connection without one."""


class Attack:
    """Attack on a daemon.

    Attributes:
        url: address of the daemon.
        connections: number of its connections.
        scale: share of the usual number of requests, tasks or bytes; 1 in ``make attack``, less in ``make test``.
        server: public key of the daemon; empty if it has no keys. Attackers have none that it knows.
        has_begun: True after ``begin``.
    """

    def __init__(self, url: str, seconds: float, connections: int, scale: float = 1.0, server: str = "") -> None:
        self.url = url
        self.connections = connections
        self.scale = scale
        self.server = server
        self.has_begun = False
        self._seconds = seconds
        self._until = self._give_up_at = time.monotonic() + 1e9

    def begin(self) -> None:
        """Report that everything is prepared, so that the harness measures from now on."""
        self.has_begun = True
        now = time.monotonic()
        self._until, self._give_up_at = now + self._seconds, now + LONGER * self._seconds
        print("begin", flush=True)

    def goes_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self._until

    def rest(self, times: float = 1.0) -> None:
        """Wait for the rest of its time, or of a multiple of it."""
        time.sleep(max(0.0, self._until + (times - 1) * self._seconds - time.monotonic()))

    def count(self, number: int) -> Iterator[int]:
        """Yield numbers up to the scaled one, as long as an attack of that many requests may take."""
        for each in range(max(1, round(number * self.scale))):
            if time.monotonic() > self._give_up_at:
                return
            yield each

    def each(self, what: Callable[[int], None]) -> None:
        """Call this for all connections at once."""
        with ThreadPoolExecutor(self.connections) as pool:
            list(pool.map(what, range(self.connections)))

    def connected(self, wait_seconds: float = CONNECT_SECONDS, identity: bytes = b"") -> socket.socket:
        """Open a connection as ``zmtp.connected`` does.

        Raises:
            Refused: the daemon has keys, and closed it.
            OSError: nothing listens there.
        """
        try:
            return zmtp.connected(self.url, wait_seconds, identity)
        except ConnectionError as error:
            if self.server:
                raise Refused from error
            raise

    def peer(self, session: str | None = None) -> Peer:
        """Connect a client.

        Raises:
            Refused: the daemon has keys.
        """
        if self.server:
            self.connected().close()
        it = Peer(self.url, session)
        it.socket.setsockopt(zmq.RCVTIMEO, SILENCE_MS * 15)
        return it

    def project(self, name: str = PROJECT) -> Peer:
        """Connect a client, and create a project."""
        it = self.peer()
        it.ask("project-do", project=name, action="start")
        return it

    def flood(self, requests: Callable[[], Iterator[Request]], *, one_session: bool = True) -> str:
        """Send all requests over each connection, a window at a time; return a summary of the answers.

        Each request has a session of its own, unless ``one_session``.
        """
        answers: Counter[str] = Counter()
        self.each(lambda _: answers.update(self._flood(requests(), one_session)))
        return ", ".join(f"{count:,} {what}" for what, count in sorted(answers.items()))

    def _flood(self, requests: Iterator[Request], one_session: bool) -> Iterator[str]:
        peer, waiting = self.peer(), 0
        peer.socket.setsockopt(zmq.RCVTIMEO, SILENCE_MS)
        for kind, fields in requests:
            if not one_session:
                peer.session, peer.n = uuid.uuid4().hex, 0
            peer.send(kind, **fields)
            waiting += 1
            if waiting >= WINDOW:
                yield _answer(peer)
                waiting -= 1
        last = time.monotonic() + TAIL_SECONDS
        for _ in range(waiting):
            yield _answer(peer) if time.monotonic() < last else "unanswered"
        peer.close()

    def for_ever(self, request: Callable[[], Request]) -> Iterator[Request]:
        """Yield requests until its time is up."""
        while self.goes_on():
            yield request()


def _answer(peer: Peer) -> str:
    try:
        return "refused" if b"\xa5error" in peer.socket.recv()[:32] else "answered"
    except zmq.Again:
        return "unanswered"


def big_body(number: int = 0) -> bytes:
    """Make a body of BODY_BYTES."""
    return number.to_bytes(4, "big") + bytes(BODY_BYTES - 4)


def frame(kind: str, session: str, n: int, **fields: Any) -> bytes:
    """Encode a request."""
    return bytes(msgpack.packb({"type": kind, "v": 1, "session": session, "n": n} | fields))
