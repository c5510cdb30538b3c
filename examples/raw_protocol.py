"""A producer and a fetcher that need nothing but pyzmq and msgpack: a start for a client in another language.

taskqueue project start demo
python examples/raw_protocol.py push demo https://example.com/ https://example.org/
python examples/raw_protocol.py fetch demo

docs/reference/protocol.md says what the messages mean, and which rules are not kept here: one request at a time is
under way, and a task may run no longer than a third of the fetcher_timeout, because nothing says hello meanwhile.
"""

import hashlib
import os
import sys
import time
import uuid
from collections import deque
from contextlib import suppress
from typing import Any

import msgpack
import zmq

ADDRESS = os.environ.get("TASKQUEUE_DAEMON", "tcp://127.0.0.1:7400")
PAUSES = (5, 10, 20)
"""Seconds of silence after which a request is repeated."""

Message = dict[str, Any]


class Session:
    """Requests with their numbers, and what comes back."""

    def __init__(self, address: str = ADDRESS) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # what finds no connection is repeated here, not kept there
        self._socket.setsockopt(zmq.SNDTIMEO, 1000)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, 10_000)
        self._socket.connect(address)
        self._session = uuid.uuid4().hex
        self._n = 0
        self._aside: deque[Message] = deque()

    def ask(self, kind: str, **fields: object) -> Message:
        """Send a request, again and again while it isn't answered; what else comes is put aside."""
        self._n += 1
        # The same number and the same bytes each time: it is answered again, not done again.
        frame = msgpack.packb({"type": kind, "v": 1, "session": self._session, "n": self._n, **fields})
        for pause in PAUSES:
            self._send(frame)
            until = time.monotonic() + pause
            while message := self._receive(until - time.monotonic()):
                if message.get("n") != self._n:
                    self._aside.append(message)
                elif message["type"] != "error":
                    return message
                elif message["code"] != "unavailable":
                    raise RuntimeError(f"{message['code']}: {message['reason']}")
        raise TimeoutError(f"no answer from the daemon to {kind}")

    def next(self, seconds: float) -> Message | None:
        """What comes unasked; None: nothing within so many seconds."""
        return self._aside.popleft() if self._aside else self._receive(seconds)

    def close(self) -> None:
        """Send what is still to be sent, and leave."""
        self._socket.close()

    def _send(self, frame: bytes) -> None:
        with suppress(zmq.Again):  # no connection: it is sent again
            self._socket.send(frame)

    def _receive(self, seconds: float) -> Message | None:
        if not self._socket.poll(max(0, int(1000 * seconds))):
            return None
        return dict(msgpack.unpackb(self._socket.recv(), strict_map_key=False))


def new_task(url: str, **schedule: object) -> Message:
    """A task; the same page has the same taskid, whichever client pushes it."""
    taskid = hashlib.md5(url.partition("#")[0].encode()).hexdigest()
    return {"taskid": taskid, "url": url, "schedule": schedule, "body": {"save": {"by": "raw_protocol"}}}


def push(project: str, urls: list[str]) -> None:
    """Push urls, 500 in a message; what is not rejected is kept."""
    session = Session()
    session.ask("hello")
    for start in range(0, len(urls), 500):
        tasks = [new_task(url) for url in urls[start : start + 500]]
        print(session.ask("new-task", project=project, tasks=tasks)["outcomes"])
    session.close()


def run(task: Message) -> list[Message]:
    """Fetch the page here; what is returned are new tasks, what is raised is a failure."""
    print(task["url"], task.get("body"), flush=True)
    return []


def fetch(project: str, capacity: int = 8) -> None:
    """Run the tasks of a project, one after the other, until Ctrl-C."""
    session = Session()
    held: dict[int, Message] = {}  # by token: what was handed out, until the answer to its done
    seen = 0
    hello_at = 0.0
    try:
        while True:
            if time.monotonic() >= hello_at:
                welcome = session.ask("hello", capacity=capacity, projects=[project], holds=list(held), seen=seen)
                hello_at = time.monotonic() + welcome["fetcher_timeout"] / 3
            message = session.next(hello_at - time.monotonic())
            if message is None or message["type"] != "select" or message["number"] <= seen:
                continue
            if message["number"] > seen + 1:
                hello_at = 0.0  # some are missing: hello has them sent again
                continue
            seen += 1
            held.update((task["token"], task) for task in message["tasks"])
            for task in message["tasks"]:
                session.ask("done", tasks=[outcome(task)])
                del held[task["token"]]
    except KeyboardInterrupt:
        # Whatever is not reported goes to somebody else at once.
        session.ask("hello", capacity=0, seen=seen)
    session.close()


def outcome(task: Message) -> Message:
    """Run it, and say what became of it."""
    identity = {key: task[key] for key in ("project", "taskid", "token")}
    try:
        return {**identity, "new": run(task)}
    except Exception as error:
        return {**identity, "ok": False, "error": f"{type(error).__name__}: {error}"[:2048]}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["push", project, *urls] if urls:
            push(project, urls)
        case ["fetch", project]:
            fetch(project)
        case _:
            sys.exit("usage: raw_protocol.py push PROJECT URL... | raw_protocol.py fetch PROJECT")
