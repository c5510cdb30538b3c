"""A connection of a process of its own to the daemon, for fetchers and producers that outlive it.

Plain zmq and msgpack, apart from the package: what is proved with it holds for any client that keeps to the protocol.
A request is sent again, with its number and its bytes, until it is answered; so is everything unanswered whenever the
daemon has been silent for a while. That its store can't be used at the moment is as good as silence.
"""

from __future__ import annotations

import os
from typing import Any

import msgpack
import zmq

SILENCE_MS = 200

WINDOW = 48
"""Requests unanswered at once; the protocol allows 64, hellos included."""

Message = dict[str, Any]


class Line:
    """A DEALER and a session.

    Attributes:
        unanswered: frames by their numbers.
    """

    def __init__(self, url: str, session: str) -> None:
        self.session = session
        self.unanswered: dict[int, bytes] = {}
        self._n = 0
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.RCVTIMEO, SILENCE_MS)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 20)
        self._socket.connect(url)

    def say(self, kind: str, **fields: Any) -> None:
        """Send once, such as a hello."""
        self._socket.send(self._frame(kind, fields))

    def ask(self, kind: str, **fields: Any) -> int:
        """Send until it is answered; returns its number."""
        frame = self._frame(kind, fields)
        self.unanswered[self._n] = frame
        self._socket.send(frame)
        return self._n

    def receive(self) -> Message | None:
        """The next message; None: there was silence, and what is unanswered has been sent again."""
        try:
            message: Message = msgpack.unpackb(self._socket.recv())
            while message.get("code") == "unavailable":
                message = msgpack.unpackb(self._socket.recv())
        except zmq.Again:
            for frame in self.unanswered.values():
                self._socket.send(frame)
            return None
        if message["type"] == "error":
            raise SystemExit(f"{self.session}: {message}")
        return message

    def answered(self, message: Message) -> bool:
        """Take note of an answer; False if it is a repeated one."""
        return self.unanswered.pop(message["n"], None) is not None

    def _frame(self, kind: str, fields: Message) -> bytes:
        self._n += 1
        request = {"type": kind, "v": 1, "session": self.session, "n": self._n} | fields
        return bytes(msgpack.packb(request))


class Record:
    """A file of lines that survives kill -9 of its writer: a line is with the kernel before ``write`` returns."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *lines: str) -> None:
        """Append lines, all at once."""
        os.write(self._fd, "".join(f"{line}\n" for line in lines).encode())


def tell(count: int) -> None:
    """Tell the test that so many tasks more have been counted as done; the pipe is shared, a line is atomic."""
    os.write(1, f"{count}\n".encode())
