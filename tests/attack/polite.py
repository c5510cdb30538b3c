"""Polite client beside an attacker: it pushes a task, receives it, reports it, and repeats.

    python -m tests.attack.polite URL      until it is killed; a key file on stdin, if the daemon has keys

Each step is a line on stdout: when it ended (seconds of the monotonic clock), how long it took, and which step it was.
It speaks the protocol with plain zmq and msgpack, one step at a time, with a pause between tasks.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from typing import Any, Final

import msgpack
import zmq

PROJECT: Final = "polite"
PAUSE_SECONDS: Final = 0.02
"""Pause between two tasks."""
REPEAT_MS: Final = 2000
"""Silence after which it repeats a request."""
HELLO_SECONDS: Final = 10.0
"""Time between two hellos without news."""

Message = dict[str, Any]


class Polite:
    """Session that produces and fetches."""

    def __init__(self, url: str, key: dict[str, str] | None) -> None:
        self._session = uuid.uuid4().hex
        self._n = self._seen = 0
        self._handed: list[Message] = []
        self._hello_at = 0.0
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 100)
        self._socket.setsockopt(zmq.RCVTIMEO, REPEAT_MS)
        if key:
            self._socket.setsockopt(zmq.CURVE_PUBLICKEY, bytes.fromhex(key["public"]))
            self._socket.setsockopt(zmq.CURVE_SECRETKEY, bytes.fromhex(key["secret"]))
            self._socket.setsockopt(zmq.CURVE_SERVERKEY, bytes.fromhex(key["server"]))
        self._socket.connect(url)

    def run(self) -> None:
        """Process one task after the other, for ever."""
        while True:
            if time.monotonic() - self._hello_at > HELLO_SECONDS:
                self._hello()
            self._one()
            time.sleep(PAUSE_SECONDS)

    def _one(self) -> None:
        taskid = uuid.uuid4().hex
        began = time.monotonic()
        answer = self._ask("new-task", project=PROJECT, tasks=[{"taskid": taskid, "url": f"http://polite/{taskid}"}])
        pushed = _tell("push", began)
        if answer["type"] == "error":
            return
        while not self._handed:
            if not self._receive():
                self._hello()
        handed = _tell("select", pushed)
        tasks = [{"project": PROJECT, "taskid": each["taskid"], "token": each["token"]} for each in self._handed]
        self._ask("done", tasks=tasks)
        self._handed = []
        _tell("done", handed)

    def _ask(self, kind: str, **fields: Any) -> Message:
        self._n += 1
        n, frame = self._n, self._frame(kind, fields)
        self._socket.send(frame)
        while (message := self._receive()) is None or message.get("n") != n:
            if message is None:
                self._socket.send(frame)
        if message["type"] == "error" and message["code"] not in ("disk-full", "unavailable"):
            raise SystemExit(f"refused: {message}")
        return message

    def _hello(self) -> None:
        self._n += 1
        facts = {"capacity": 1, "projects": [PROJECT], "holds": [each["token"] for each in self._handed]}
        self._socket.send(self._frame("hello", facts | {"seen": self._seen}))
        self._hello_at = time.monotonic()

    def _frame(self, kind: str, fields: Message) -> bytes:
        return bytes(msgpack.packb({"type": kind, "v": 1, "session": self._session, "n": self._n} | fields))

    def _receive(self) -> Message | None:
        """Return the next message; None after a silence."""
        try:
            message: Message = msgpack.unpackb(self._socket.recv())
        except zmq.Again:
            return None
        if message["type"] == "select" and message["number"] == self._seen + 1:
            self._seen += 1
            self._handed += message["tasks"]
        elif message["type"] == "hello-wanted":
            self._hello()
        return message


def _tell(step: str, began: float) -> float:
    ended = time.monotonic()
    print(f"{ended:.6f} {ended - began:.6f} {step}", flush=True)
    return ended


if __name__ == "__main__":
    Polite(sys.argv[1], json.loads(sys.stdin.read() or "null")).run()
