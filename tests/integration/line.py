"""Connection of fetcher and producer processes that outlive the daemon.

Uses plain zmq and msgpack instead of the package, so that a proof holds for any client that keeps to the protocol. A
request is repeated, with the same number and bytes, until it is answered; so are all unanswered requests whenever the
daemon is silent for a while. An answer ``unavailable`` counts as silence.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgpack
import zmq

SILENCE_MS, SILENCE_MOST_MS = 1000, 4000
"""Silence of the daemon before unanswered requests are repeated, and at most while it may only be slow."""

WINDOW = 48
"""Unanswered requests at once; the protocol allows 64, hellos included."""

Message = dict[str, Any]


class Line:
    """DEALER socket with a session; ignores the daemon's permission, in its wish for a hello, to drop unanswered
    requests.

    Attributes:
        unanswered: frames by request number.
    """

    def __init__(self, url: str, session: str) -> None:
        self.session = session
        self.unanswered: dict[int, bytes] = {}
        self._n = 0
        self._socket = self._connected(url)

    def say(self, kind: str, **fields: Any) -> None:
        """Send once, such as a hello."""
        self._send(self._frame(kind, fields))

    def ask(self, kind: str, **fields: Any) -> int:
        """Send until it is answered; return its number."""
        frame = self._frame(kind, fields)
        self.unanswered[self._n] = frame
        self._send(frame)
        return self._n

    def receive(self) -> Message | None:
        """Return the next message; None after a silence, when unanswered requests have been sent again."""
        try:
            message: Message = msgpack.unpackb(self._socket.recv())
            while message.get("code") == "unavailable":
                message = msgpack.unpackb(self._socket.recv())
        except zmq.Again:
            self._send_again()
            return None
        if message["type"] == "hello-wanted":
            self._send_again()
            return None
        if message["type"] == "error":
            raise SystemExit(f"{self.session}: {message}")
        return message

    def answered(self, message: Message) -> bool:
        """Record an answer; return False if it is a repeated one."""
        return self.unanswered.pop(message["n"], None) is not None

    def _send_again(self) -> None:
        for frame in self.unanswered.values():
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        self._socket.send(frame)

    def _connected(self, url: str) -> zmq.Socket[bytes]:
        made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        made.setsockopt(zmq.RCVTIMEO, SILENCE_MS)
        made.setsockopt(zmq.RECONNECT_IVL, 20)
        made.connect(url)
        return made

    def _frame(self, kind: str, fields: Message) -> bytes:
        self._n += 1
        request = {"type": kind, "v": 1, "session": self.session, "n": self._n} | fields
        return bytes(msgpack.packb(request))


class OrderlyLine(Line):
    """Line whose requests arrive in the order of their numbers, however often the daemon is killed.

    Repeats go through a new connection, and a lost connection is not made again: requests that had not left when it was
    lost would arrive first, and the lost ones afterwards.
    """

    def __init__(self, url: str, session: str) -> None:
        self._url = url
        self._silence_ms = SILENCE_MS
        super().__init__(url, session)

    def receive(self) -> Message | None:
        """Return the next message; None after a silence, when unanswered requests have been sent again."""
        message = super().receive()
        if message is not None:
            self._silence_ms = SILENCE_MS
        return message

    def _send(self, frame: bytes) -> None:
        with suppress(zmq.Again):  # the connection is lost: sent again with all others
            self._socket.send(frame, zmq.DONTWAIT)

    def _send_again(self) -> None:
        self._socket.close(0)
        self._silence_ms = min(2 * self._silence_ms, SILENCE_MOST_MS)
        self._socket = self._connected(self._url)
        super()._send_again()

    def _connected(self, url: str) -> zmq.Socket[bytes]:
        wait_until_somebody_listens(url)
        made: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        made.setsockopt(zmq.RCVTIMEO, self._silence_ms)
        made.setsockopt(zmq.RECONNECT_IVL, -1)
        made.connect(url)
        return made


def wait_until_somebody_listens(url: str) -> None:
    address = urlsplit(url)
    while True:
        with suppress(OSError), socket.create_connection((address.hostname, address.port)):
            return
        select.select([], [], [], 0.02)


class Record:
    """File of lines that survives kill -9 of its writer: the kernel has a line before ``write`` returns."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *lines: str) -> None:
        """Append lines, all at once."""
        os.write(self._fd, "".join(f"{line}\n" for line in lines).encode())


def tell(count: int) -> None:
    """Report to the test that ``count`` more tasks have been counted as done; the pipe is shared, a line is atomic."""
    os.write(1, f"{count}\n".encode())
