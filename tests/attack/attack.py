"""What every attacker is given: where the daemon is, for how long to go on, and over how many connections.

An attacker prepares what it needs (tasks, leases), says ``begin``, and attacks.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import msgpack
import zmq

from tests.integration.conftest import Peer

PROJECT: Final = "attacked"
BODY_BYTES: Final = 7_900_000
"""A body that just fits into a message."""
WINDOW: Final = 64
"""Requests of a flood that wait for their answers, a connection."""
SILENCE_MS: Final = 2000
"""After which a flood goes on as if it had been answered."""
TAIL_SECONDS: Final = 5.0
"""How long a flood waits for the answers to its last window."""
LONGER: Final = 6
"""An attack of a certain number of requests may take so many times as long as one that goes on for a time."""

Request = tuple[str, dict[str, Any]]


class Attack:
    """One attack.

    Attributes:
        url: of the daemon.
        connections: over which it goes.
        scale: the share of the usual number of requests, tasks or bytes; 1 in ``make attack``, less in ``make test``.
    """

    def __init__(self, url: str, seconds: float, connections: int, scale: float = 1.0) -> None:
        self.url = url
        self.connections = connections
        self.scale = scale
        self._seconds = seconds
        self._until = self._give_up_at = time.monotonic() + 1e9

    def begin(self) -> None:
        """Everything is prepared: the harness measures from now on."""
        now = time.monotonic()
        self._until, self._give_up_at = now + self._seconds, now + LONGER * self._seconds
        print("begin", flush=True)

    def goes_on(self) -> bool:
        """Its time is not over."""
        return time.monotonic() < self._until

    def rest(self, times: float = 1.0) -> None:
        """Do nothing for what is left of its time, or so many times that."""
        time.sleep(max(0.0, self._until + (times - 1) * self._seconds - time.monotonic()))

    def count(self, number: int) -> Iterator[int]:
        """Numbers up to this one as scaled, for as long as an attack of so many requests may take."""
        for each in range(max(1, round(number * self.scale))):
            if time.monotonic() > self._give_up_at:
                return
            yield each

    def each(self, what: Callable[[int], None]) -> None:
        """Do this over all connections at once."""
        with ThreadPoolExecutor(self.connections) as pool:
            list(pool.map(what, range(self.connections)))

    def peer(self, session: str | None = None) -> Peer:
        """A connected client."""
        it = Peer(self.url, session)
        it.socket.setsockopt(zmq.RCVTIMEO, SILENCE_MS * 15)
        return it

    def project(self, name: str = PROJECT) -> Peer:
        """A client, and a running project."""
        it = self.peer()
        it.ask("project-do", project=name, action="start")
        return it

    def flood(self, requests: Callable[[], Iterator[Request]], *, one_session: bool = True) -> str:
        """Ask all of that over each connection, a window at a time; what became of it, for people.

        A session of its own for each request, unless they come from one.
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
        """Requests until its time is over."""
        while self.goes_on():
            yield request()


def _answer(peer: Peer) -> str:
    try:
        return "refused" if b"\xa5error" in peer.socket.recv()[:32] else "answered"
    except zmq.Again:
        return "unanswered"


def big_body(number: int = 0) -> bytes:
    """A body of BODY_BYTES."""
    return number.to_bytes(4, "big") + bytes(BODY_BYTES - 4)


def frame(kind: str, session: str, n: int, **fields: Any) -> bytes:
    """A request as it goes over the wire."""
    return bytes(msgpack.packb({"type": kind, "v": 1, "session": session, "n": n} | fields))
