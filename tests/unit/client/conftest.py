"""Double of a daemon behind a real socket: it answers by script and records all requests."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import pytest
import zmq

from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import decode_request, encode, request_number
from taskqueue.protocol.fetchers import Extend, Hello, Note, NoteReply, Release, Select, TokensReply, Welcome
from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import AnyOutgoing, AnyRequest
from taskqueue.protocol.tasks import Done, DoneReply, NewTasks, NewTasksReply
from taskqueue.protocol.values import Assignment, TaskReport

R = TypeVar("R", bound=AnyRequest)
T = TypeVar("T")
Script = Callable[[AnyRequest], Iterable[AnyOutgoing]]

WAIT_SECONDS = 60.0
"""Time that a test waits for an expected event before it fails."""


def friendly(request: AnyRequest) -> list[AnyOutgoing]:
    """Answers of a daemon that accepts everything."""
    match request:
        case Hello():
            return [Welcome(n=request.n, epoch=1, fetcher_timeout=60.0, max_message=8 << 20)]
        case NewTasks():
            count = len(request.tasks)
            return [NewTasksReply(n=request.n, outcomes=["new"] * count, states=[""] * count if request.states else [])]
        case Done():
            return [DoneReply(n=request.n, outcomes=["kept" if _is_part(each) else "done" for each in request.tasks])]
        case Extend() | Release():
            return [TokensReply(n=request.n, counted=len(request.leases))]
        case Note():
            return [NoteReply(n=request.n, outcomes=["noted"] * len(request.notes))]
    return [ErrorReply(n=request.n, code="malformed", reason="not in the script")]


def _is_part(report: TaskReport | None) -> bool:
    return report is not None and report.part


class Daemon:
    """Double of a daemon, on a port and in a thread of its own.

    Attributes:
        script: makes its answers.
        url: its address, also after ``stop`` and ``start``.
    """

    def __init__(self, url: str = "tcp://127.0.0.1:*") -> None:
        self.script: Script = friendly
        self.url = url
        self.heard: list[AnyRequest] = []
        self._news: queue.Queue[AnyRequest] = queue.Queue()
        self._session = ""
        self._number = 0
        self._peer = b""
        self.start()

    def start(self) -> None:
        """Listen, at the same address as before."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._router = context.socket(zmq.ROUTER)
        self._router.linger = 0
        self._bind()
        self.url = self._router.getsockopt_string(zmq.LAST_ENDPOINT)
        commands = f"inproc://{uuid.uuid4()}"
        self._commands = context.socket(zmq.PAIR)
        self._commands.linger = 0
        self._commands.bind(commands)
        self._control = context.socket(zmq.PAIR)
        self._control.connect(commands)
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def _bind(self) -> None:
        """Bind the port again and again: it is free only some time after its socket has been closed."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                self._router.bind(self.url)
                return
            except zmq.ZMQError:
                if time.monotonic() > until:
                    raise

    def stop(self) -> None:
        """Disappear, as after kill -9."""
        self._control.send(b"")
        self._thread.join()
        self._control.close(0)

    def hear(self, kind: type[R]) -> R:
        """Return the next request of this kind within WAIT_SECONDS; skip others."""
        until = time.monotonic() + WAIT_SECONDS
        while True:
            # A client that says hello again and again must not make a test wait for ever.
            request = self._news.get(timeout=max(0.0, until - time.monotonic()))
            if isinstance(request, kind):
                return request

    def say(self, message: AnyOutgoing) -> None:
        """Send a message to the last sender, which it did not ask for."""
        self._control.send(encode(message))

    def hand_out(self, *tokens: int, timeout: float = 600.0, **fields: Any) -> None:
        """Send the last sender a select with a task per token."""
        self._number += 1
        tasks = [Assignment("p", f"t{token}", f"http://a/{token}", Token(token), timeout, **fields) for token in tokens]
        self.say(Select(number=self._number, tasks=tasks))

    def _live(self) -> None:
        poller = zmq.Poller()
        poller.register(self._router, zmq.POLLIN)
        poller.register(self._commands, zmq.POLLIN)
        with closing(self._router), closing(self._commands):
            while True:
                ready = dict(poller.poll())
                if self._router in ready:
                    self._answer(*self._router.recv_multipart())
                if self._commands in ready:
                    command = self._commands.recv()
                    if not command:
                        break
                    self._router.send_multipart([self._peer, command])

    def _answer(self, peer: bytes, frame: bytes) -> None:
        try:
            request, _ = decode_request(frame)
        except Rejected as rejected:
            refusal = ErrorReply(n=request_number(frame), code=rejected.code, reason=rejected.reason)
            self._router.send_multipart([peer, encode(refusal)])
            return
        if request.session != self._session:
            self._session, self._number = request.session, 0
        self._peer = peer
        messages = self.script(request)
        self.heard.append(request)  # recorded first: a test that has the answer finds the request here
        for message in messages:
            self._router.send_multipart([peer, encode(message)])
        self._news.put(request)


class LeapingLoop(asyncio.SelectorEventLoop):
    """Loop whose clock runs as usual, and leaps ahead on request.

    So a test needs no short times, which end too soon on a busy machine.
    """

    _ahead_seconds = 0.0

    def time(self) -> float:
        return super().time() + self._ahead_seconds

    def leap(self, seconds: float) -> None:
        """Make all timers of the next ``seconds`` due now; from any thread."""
        self._ahead_seconds += seconds
        self.call_soon_threadsafe(lambda: None)  # makes the loop look at its timers again


def run_leaping(main: Callable[[LeapingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in a loop that leaps; returns its result."""
    loop = LeapingLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    double = Daemon()
    yield double
    double.stop()
