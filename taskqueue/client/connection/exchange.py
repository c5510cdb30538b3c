"""Requests and their answers over one connection: the session, its socket, its clock and the callers that wait.

All rules of the protocol are in ``session``; here they meet the event loop. It sleeps until a frame arrives, somebody
asks, or the session's next deadline.

    ask ──► room in the window? ──► session ──frames──► connection
                                      ▲ timer             │
    caller ◄── future ◄── Answered ◄──┴───── receive ◄────┘
                    tasks ◄── HandedOut

What waits for a reply is an ``Answer``: the future of ``ask``, or a ``Batching`` for its message, which looks itself
whether there is room and needs no coroutine for ``send``.

``Reachability`` is what the client knows of its daemon:

    (unknown) ──hello answered──► answers ──connection lost──► lost ──hello answered──► answers
        └────────no connection────────────────────────────────►┘
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Event
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from math import inf, isinf
from typing import Any, Final, Protocol, TypeVar

from taskqueue.client.arguments import time_limit
from taskqueue.client.connection.connection import Connection
from taskqueue.client.connection.session import (
    Answered,
    ClientSession,
    Gap,
    HandedOut,
    Refused,
    Renewed,
    SessionEvent,
    Unreadable,
    Welcomed,
)
from taskqueue.errors import ClientClosed, ClientError, RequestRejected, RequestTimeout
from taskqueue.protocol.base import AnyReply, ErrorReply, Reply, Request
from taskqueue.protocol.messages import REPLY_TO, AnyRequest

log = logging.getLogger("taskqueue.client")

OTHER_LOOP: Final = "the client belongs to the event loop in which it was used first; make one in each loop"
"""Said to a caller in another one, where no answer could arrive."""

A_contra = TypeVar("A_contra", contravariant=True)


class Answer(Protocol[A_contra]):
    """Where what somebody waits for is put, once: its result, or why there is none. A future of asyncio is one."""

    def done(self) -> bool:
        """There is an outcome, or the caller has given up."""

    def set_result(self, result: A_contra, /) -> None:
        """The outcome."""

    def set_exception(self, error: Exception, /) -> None:
        """There won't be one."""


class Reachability:
    """Told by the client's connection; waited for by whoever wants to know.

    Attributes:
        answers: set while there is a connection and the daemon has said hello on it.
        lost: set while it is known that there is no connection.
        version: of the daemon, as it said last; empty: it has not.
    """

    def __init__(self) -> None:
        self.answers = Event()
        self.lost = Event()
        self.version = ""

    def welcomed(self, version: str) -> None:
        """The daemon has answered a hello."""
        self.version = version
        self.answers.set()
        self.lost.clear()

    def disconnected(self) -> None:
        """There is no connection any more, or none can be made."""
        self.answers.clear()
        self.lost.set()

    async def known(self, seconds: float) -> None:
        """Wait until either is known, for so many seconds at most."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.answers, self.lost)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()


GOODBYE_SECONDS: Final = 1.0
"""How long closing waits for the daemon to hear that nothing is held any more."""

R = TypeVar("R", bound=AnyReply)

KnownAs = tuple[str, int] | None
"""A session and a number from 2^61 on, by which the daemon is to know a request, instead of those that it would get.

Whoever asks the same under the same two, even another process, is answered what was answered then, and nothing is done
twice. Nobody may ask it twice at a time.
"""


class Exchange:
    """Connects on first use, in the event loop of that moment.

    Args:
        url: of the daemon.
        session: of this client; nobody else sends its frames.
        patience: seconds that an answer may take; inf: for ever.
        on_tasks: called with tasks that are handed out, and the loop's time.
        on_ended: called with the tokens of leases that the daemon has ended.
        on_heard: called when the daemon has answered a hello, and while it drains whenever anything was heard.
        connect_patience: seconds after which whoever wants the first answer is told, if it is known by then, that
            nobody can be reached; inf: never.

    Attributes:
        patience: as it was given.
        reachability: whether the daemon can be reached.
    """

    def __init__(
        self,
        url: str,
        session: ClientSession,
        patience: float,
        on_tasks: Callable[[HandedOut, float], None],
        on_ended: Callable[[list[int]], None],
        on_heard: Callable[[], None],
        connect_patience: float = inf,
    ) -> None:
        self._connect_patience = connect_patience
        self._url = url
        self._session = session
        self.patience = patience
        self.reachability = Reachability()
        self._on_tasks = on_tasks
        self._on_ended = on_ended
        self._on_heard = on_heard
        self._connection: Connection | None = None
        self._closed = False
        self._trouble = ""
        self._welcomed = asyncio.Event()
        self._news = asyncio.Event()
        self._handed_out = asyncio.Event()
        self._refusal: ErrorReply | None = None
        self._unanswered: dict[int, tuple[Answer[Any], type[AnyReply]]] = {}
        self._queue: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def ask(self, request: Request[R], patience: float | None = None, known_as: KnownAs = None) -> R:
        """Send a request and wait for its reply.

        Args:
            patience: seconds that it may take; None: the client's; inf: for ever.
            known_as: see ``KnownAs``.

        Raises:
            RequestTimeout, RequestRejected, MessageTooLarge, ClientClosed: see ``taskqueue.errors``.
        """
        patience = self.patience if patience is None else patience
        self._check_open()
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        if not self.is_free:
            await self._in_time(self._turn(), patience)
        answer: asyncio.Future[R] = loop.create_future()
        n = self.send(request, answer, known_as)
        # Not asyncio.timeout, which costs more than all the rest here.
        timer = None if isinf(until) else loop.call_at(until, self._expire, answer, patience)
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            self.forget(n)

    def send(self, request: Request[R], answer: Answer[R], known_as: KnownAs = None) -> int:
        """Send a request at once, because ``is_free``; returns its number, by which it may be forgotten.

        Args:
            answer: gets the daemon's reply, or why there is none.
            known_as: see ``KnownAs``.

        Raises:
            MessageTooLarge, ValueError, TypeError: nothing was sent.
        """
        try:
            n = self._session.submit(request) if known_as is None else self._session.submit_known(request, *known_as)
            self._unanswered[n] = answer, REPLY_TO[type(request)]
            self.pump()
        finally:
            self._admit_next()
        return n

    def forget(self, n: int) -> None:
        """Nobody waits for the answer to this request any more, if there is none yet."""
        if self._unanswered.pop(n, None) is not None:
            self._session.forget(n)
            self._admit_next()

    def post(self, request: AnyRequest) -> None:
        """Send a request whose answer nobody waits for."""
        self._session.submit(request)
        self.pump()

    async def ready(self, patience: float | None = None) -> None:
        """Wait until the daemon has said hello; from then on its limits are known. ``patience``: see ``ask``."""
        self._check_open()
        if self._is_ready():
            return
        await self._in_time(self._greet(), self.patience if patience is None else patience)

    async def handed_out(self) -> None:
        """Wait until the daemon has handed out what it has ready, as ``ClientSession.ask_hand_out`` has just asked."""
        self._handed_out.clear()
        await self._in_time(self._hear(), self.patience)

    async def _hear(self) -> None:
        await self._handed_out.wait()
        self._check_welcomed()

    def pump(self) -> None:
        """Send what the session has to send, and sleep until it has something again."""
        if self._connection is None:
            return
        loop = self._connection.loop
        for frame in self._session.frames(loop.time()):
            self._connection.send(frame)
        self._sleep_until(self._session.next_at(), loop)

    async def close(self) -> None:
        """Give back what is held, and disconnect; whoever waits for an answer gets ClientClosed."""
        if self._closed:
            return
        self._closed = True
        self._fail_all(ClientClosed("the client was closed"))
        if self._connection is None:
            return
        await self._say_goodbye()
        if self._timer is not None:
            self._timer.cancel()
        connection, self._connection = self._connection, None
        await connection.close()

    # ------------------------------------------------------------------------------------ waiting

    async def _in_time(self, waiting: Coroutine[Any, Any, None], patience: float) -> None:
        try:
            async with asyncio.timeout(time_limit("patience", patience)):
                await waiting
        except TimeoutError:
            raise self.late(patience) from None

    async def _turn(self) -> None:
        """Wait for a welcome and for room, first come, first served; then the caller has to submit at once.

        The caller's place in the queue is kept until then, so that no later call can see a free session before.
        """
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await self._greet()
            self._admit_next()
            await turn
            self._check_welcomed()
        except (ClientError, asyncio.CancelledError):
            self._queue.remove(turn)
            self._admit_next()
            raise
        self._queue.remove(turn)

    def late(self, patience: float) -> RequestTimeout:
        """The error of a caller that has waited for so many seconds."""
        silence = f"no answer from {self._url} in {patience:g} s"
        if said := self._trouble:
            return RequestTimeout(f"{silence}: it says that {said}", said, heard=True)
        if why := self._connection.why_not() if self._connection else "":
            return RequestTimeout(f"{silence}: {why}", why)
        return RequestTimeout(f"{silence}. Is the daemon running there? If it is, it may have done what was asked.")

    @property
    def max_message(self) -> int:
        """Bytes of the longest message that the daemon takes, as it has told, or its default."""
        return self._session.max_message

    @property
    def is_free(self) -> bool:
        """A request can be sent at once."""
        return self._is_ready() and self._session.has_room and not self._queue

    def _is_ready(self) -> bool:
        return self._welcomed.is_set() and self._refusal is None and not self._closed

    async def _greet(self) -> None:
        """Connect if need be, and wait for the first welcome.

        Raises:
            RequestTimeout: after ``connect_patience`` it was known that there can be none.
            RequestRejected: the daemon speaks another version of the protocol.
        """
        self.open()
        if self._connect_patience < inf and not self._welcomed.is_set():
            await self._reach()
        await self._welcomed.wait()
        self._check_welcomed()

    async def _reach(self) -> None:
        """Wait for the first welcome; after ``connect_patience`` only while it is not known that there can be none."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._welcomed.wait(), self._connect_patience)
        while not self._welcomed.is_set():
            if self._connection and self._connection.attempts.obstacle:
                raise self.late(self._connect_patience)
            self._news.clear()
            await self._news.wait()

    def _wake(self) -> None:
        """Let all go on who wait for the first welcome: there is one, or there will be none."""
        self._welcomed.set()
        self._news.set()
        self._admit_next()

    def _check_welcomed(self) -> None:
        self._check_open()
        if self._refusal is not None:
            raise RequestRejected(self._refusal.code, self._refusal.reason)

    def open(self) -> None:
        """Connect, unless there is a connection; doesn't wait for anything.

        Raises:
            ClientClosed: the client has been closed.
            ClientError: the url is none.
        """
        self._check_open()
        if self._connection is None:
            self._connection = Connection(self._url, self._on_frames, self._on_connected, self._on_lost)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client was closed")
        if self._connection is not None and self._connection.loop is not asyncio.get_running_loop():
            raise ClientError(OTHER_LOOP)

    def _admit_next(self) -> None:
        """Let the first of the queue go on if it may, or has to hear that it never will."""
        if not self._queue or self._queue[0].done():  # Nearly always.
            return
        is_over = self._closed or self._refusal is not None
        if is_over or (self._welcomed.is_set() and self._session.has_room):
            self._queue[0].set_result(None)

    def _expire(self, answer: Answer[R], patience: float) -> None:
        if not answer.done():
            answer.set_exception(self.late(patience))

    def _fail_all(self, error: ClientError) -> None:
        for n, (answer, _) in list(self._unanswered.items()):
            self.forget(n)
            if not answer.done():
                answer.set_exception(error)
        self._handed_out.set()
        self._wake()

    async def _say_goodbye(self) -> None:
        """A fetcher's leases go back now, not when it has been silent for long."""
        if not self._session.held and not self._session.capacity:
            return
        self._welcomed.clear()
        self._session.leave()
        self.pump()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._welcomed.wait(), GOODBYE_SECONDS)

    # ------------------------------------------------------------------------------------ events

    def _on_connected(self) -> None:
        self._session.connected()
        self.pump()

    def _on_lost(self) -> None:
        self.reachability.disconnected()
        self._news.set()

    def _on_frames(self, frames: list[bytes]) -> None:
        now = asyncio.get_running_loop().time()
        for frame in frames:
            self._heed(self._session.receive(frame, now), now)
        if self._session.draining:
            self._on_heard()
        self.pump()

    def _heed(self, event: SessionEvent | None, now: float) -> None:
        match event:
            case Answered(n, reply):
                self._trouble = ""
                self._settle(n, reply)
            case HandedOut():
                self._on_tasks(event, now)
            case Welcomed(welcome, restarted, ended, handed_out):
                if handed_out:
                    self._handed_out.set()
                self.reachability.welcomed(welcome.version)
                if self._connection is not None:
                    self._connection.allow(welcome.max_message)
                self._welcome(restarted)
                self._on_heard()
                if ended:
                    self._on_ended(ended)
            case Refused(error):
                self._refuse(error)
            case Renewed(error):
                log.warning("event=renewed url=%s code=%s reason=%r", self._url, error.code, error.reason)
            case Gap(expected, number):
                log.info("event=gap expected=%d number=%d", expected, number)
            case Unreadable(reason):
                log.warning("event=unreadable url=%s reason=%r", self._url, reason)

    def _settle(self, n: int, reply: AnyReply) -> None:
        """Give the reply to what waits for it, or say why it is none to such a request."""
        answer, kind = self._unanswered.pop(n, (None, Reply))
        if answer is None or answer.done():
            pass  # Nobody waits for it any more.
        elif isinstance(reply, kind):
            answer.set_result(reply)
        elif isinstance(reply, ErrorReply):
            answer.set_exception(RequestRejected(reply.code, reply.reason))
        else:
            kinds = f"{type(reply).__name__}, not {kind.__name__}"
            answer.set_exception(ClientError(f"{self._url} answered with {kinds}"))
        self._admit_next()

    def _welcome(self, restarted: bool) -> None:
        self._refusal = None
        self._trouble = ""
        self._wake()
        if restarted:
            log.info("event=restarted url=%s epoch=%d", self._url, self._session.epoch)

    def _refuse(self, error: ErrorReply) -> None:
        """A hello that is refused for good, such as one of another version, is what every caller has to know.

        Who has waited for too long is told what the daemon could not do meanwhile.
        """
        if error.reason != self._trouble:
            log.warning("event=refused url=%s code=%s reason=%r", self._url, error.code, error.reason)
        if error.code == "unavailable":
            self._trouble = error.reason
        else:
            self._refusal = error
            self._handed_out.set()
            self._wake()

    # ------------------------------------------------------------------------------------ sleeping

    def _sleep_until(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        """A timer that rings too early stays: it looks again, which is cheaper than another one for each message."""
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = None if at == inf else loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.pump()
