"""A producer and a fetcher with only pyzmq and msgpack: a start for a client in another language.

taskqueue project start demo
python examples/raw_protocol.py push demo https://example.com/ https://example.org/
python examples/raw_protocol.py fetch demo

docs/reference/protocol.md explains the messages. Two of its rules are simplified here: only one request is under way at
a time, and a task may run no longer than a third of the fetcher_timeout, because no hello is sent meanwhile.
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
    """Requests with their numbers, and their answers."""

    def __init__(self, address: str = ADDRESS) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IMMEDIATE, 1)  # frames without a connection are repeated here, not queued there
        self._socket.setsockopt(zmq.SNDTIMEO, 1000)
        self._socket.setsockopt(zmq.LINGER, 1000)
        self._socket.setsockopt(zmq.HEARTBEAT_IVL, 10_000)
        self._socket.connect(address)
        self._session = uuid.uuid4().hex
        self._n = 0
        self._aside: deque[Message] = deque()

    def ask(self, kind: str, **fields: object) -> Message:
        """Send a request, again and again until it is answered; put other messages aside."""
        self._n += 1
        # The same number and the same bytes each time: the daemon answers again, and does nothing twice.
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
        """Return the next message that is not an answer; None: none within ``seconds``."""
        return self._aside.popleft() if self._aside else self._receive(seconds)

    def close(self) -> None:
        """Send the remaining frames, and disconnect."""
        self._socket.close()

    def _send(self, frame: bytes) -> None:
        with suppress(zmq.Again):  # no connection: ``ask`` sends it again
            self._socket.send(frame)

    def _receive(self, seconds: float) -> Message | None:
        if not self._socket.poll(max(0, int(1000 * seconds))):
            return None
        return dict(msgpack.unpackb(self._socket.recv(), strict_map_key=False))


def new_task(url: str, **schedule: object) -> Message:
    """Make a task; the same page has the same taskid from every client."""
    taskid = hashlib.md5(url.partition("#")[0].encode()).hexdigest()
    return {"taskid": taskid, "url": url, "schedule": schedule, "body": {"save": {"by": "raw_protocol"}}}


def push(project: str, urls: list[str]) -> None:
    """Push URLs, 500 per message; the daemon stores all that it does not reject."""
    session = Session()
    session.ask("hello")
    for start in range(0, len(urls), 500):
        tasks = [new_task(url) for url in urls[start : start + 500]]
        print(session.ask("new-task", project=project, tasks=tasks)["outcomes"])
    session.close()


def run(task: Message) -> list[Message]:
    """Fetch the page here; return new tasks, or raise an error to fail."""
    print(task["url"], task.get("body"), flush=True)
    return []


def fetch(project: str, capacity: int = 8) -> None:
    """Run the tasks of a project, one after the other, until Ctrl-C."""
    session = Session()
    held: dict[int, Message] = {}  # dispatched tasks by token, until the answer to their done
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
        # The daemon dispatches unreported tasks to other fetchers at once.
        session.ask("hello", capacity=0, seen=seen)
    session.close()


def outcome(task: Message) -> Message:
    """Run a task, and make its report."""
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
