"""Requests and their answers over one connection: the session, its socket, its clock and the callers that wait.

All rules of the protocol are in ``session``; here they meet the event loop. It sleeps until a frame arrives, a caller
asks, or the session's next deadline comes.

    ask ──► room in flight? ──► session ──frames──► connection
                                  ▲ timer             │
    caller ◄── future ◄── Answered ◄┴──── receive ◄───┘
                    tasks ◄── HandedOut

An ``Answer`` receives a reply: it is the future of ``ask``, or a ``Batching`` for its message, which checks itself
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

from taskqueue.access.key_file import KeyFile
from taskqueue.client.arguments import time_limit
from taskqueue.client.connection.addresses import REMEDIES
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
from taskqueue.defaults import START_DAEMON
from taskqueue.errors import ClientClosed, ClientError, RequestRejected, RequestTimeout, Unauthorised
from taskqueue.protocol.base import AnyReply, ErrorReply, Reply, Request
from taskqueue.protocol.messages import REPLY_TO, AnyRequest

log = logging.getLogger("taskqueue.client")

OTHER_LOOP: Final = "the client belongs to the event loop in which it was used first; make one in each loop"
"""Error of a call in another loop, where no answer could arrive."""

A_contra = TypeVar("A_contra", contravariant=True)


class Answer(Protocol[A_contra]):
    """Receiver of one outcome: a result or an error, set once. A future of asyncio is one."""

    def done(self) -> bool:
        """Return True if there is an outcome, or the caller has given up."""

    def set_result(self, result: A_contra, /) -> None:
        """Set the result."""

    def set_exception(self, error: Exception, /) -> None:
        """Set the error."""


class Reachability:
    """State of the connection to the daemon, set by the exchange and awaited by its users.

    Attributes:
        answers: set while there is a connection on which the daemon has answered a hello.
        lost: set while it is known that there is no connection.
        version: version of the daemon in its last answer; empty before the first.
    """

    def __init__(self) -> None:
        self.answers = Event()
        self.lost = Event()
        self.version = ""

    def welcomed(self, version: str) -> None:
        """Record that the daemon has answered a hello."""
        self.version = version
        self.answers.set()
        self.lost.clear()

    def disconnected(self) -> None:
        """Record that there is no connection any more, or that none can be made."""
        self.answers.clear()
        self.lost.set()

    async def known(self, seconds: float) -> None:
        """Wait until either event is set, for at most ``seconds``."""
        waiting = [asyncio.ensure_future(event.wait()) for event in (self.answers, self.lost)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()


GOODBYE_SECONDS: Final = 1.0
"""Time that closing waits for the daemon to acknowledge that this client holds no lease any more."""

R = TypeVar("R", bound=AnyReply)

KnownAs = tuple[str, int] | None
"""Session and number (from 2^61 on) by which the daemon is to know a request, instead of the session's own.

A caller that repeats the request under the same two, even from another process, gets the first answer, and the daemon
does nothing twice. Two callers must not ask it at the same time.
"""


class Exchange:
    """Requests and answers of one client; it connects on first use, in the event loop of that moment.

    Args:
        url: address of the daemon.
        session: session of this client; only the exchange sends its frames.
        patience: seconds that an answer may take; inf: for ever.
        on_tasks: called with dispatched tasks, and the loop's time.
        on_ended: called with the tokens of leases that the daemon has ended.
        on_heard: called when the daemon has answered a hello, and while it drains this client after every frame.
        connect_patience: seconds after which a caller that waits for the first answer gets an error if it is known by
            then that the daemon can't be reached; inf: never.
        key: of this client; None: it has none.
        on_forbidden: called when the daemon refuses to send tasks, because the role of the key has no right to work.

    Attributes:
        patience: as given.
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
        key: KeyFile | None = None,
        on_forbidden: Callable[[RequestRejected], None] = lambda error: None,
    ) -> None:
        self._on_forbidden = on_forbidden
        self._forbidden: RequestRejected | None = None
        self._key = key
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

    @property
    def holds_leases(self) -> bool:
        """True if the session holds leases and the daemon still lets it."""
        return bool(self._session.held) and self._forbidden is None and self._refusal is None

    def speak_for(self, name: str) -> None:
        """Ask for this name from the first request on, as a web process does."""
        self._session.for_name = name

    async def ask(self, request: Request[R], patience: float | None = None, known_as: KnownAs = None) -> R:
        """Send a request and wait for its reply.

        Args:
            patience: seconds to wait; None: the client's; inf: for ever.
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
        """Send a request at once (``is_free`` must be True); returns its number, for ``forget``.

        Args:
            answer: receives the daemon's reply, or an error.
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
        """Stop waiting for the answer to this request."""
        if self._unanswered.pop(n, None) is not None:
            self._session.forget(n)
            self._admit_next()

    def post(self, request: AnyRequest) -> None:
        """Send a request and ignore its answer."""
        self._session.submit(request)
        self.pump()

    async def ready(self, patience: float | None = None) -> None:
        """Wait until the daemon has answered a hello; from then on its limits are known. ``patience``: see ``ask``."""
        self._check_open()
        if self._is_ready():
            return
        await self._in_time(self._greet(), self.patience if patience is None else patience)

    async def handed_out(self) -> None:
        """Wait until the daemon has dispatched its ready tasks, as ``ClientSession.ask_hand_out`` has just asked."""
        self._handed_out.clear()
        await self._in_time(self._hear(), self.patience)

    async def _hear(self) -> None:
        await self._handed_out.wait()
        self._check_welcomed()
        if self._forbidden is not None:
            raise self._forbidden

    def pump(self) -> None:
        """Send the session's due frames, and set the timer to its next deadline."""
        if self._connection is None:
            return
        loop = self._connection.loop
        for frame in self._session.frames(loop.time()):
            self._connection.send(frame)
        self._sleep_until(self._session.next_at(), loop)

    async def close(self) -> None:
        """Give back all leases, and disconnect; callers that wait for an answer get ClientClosed."""
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

        The caller stays in the queue until then, so that no later call can see a free session before.
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
        """Make the error of a caller that has waited for ``patience`` seconds."""
        silence = f"no answer from {self._url} in {patience:g} s"
        if said := self._trouble:
            return RequestTimeout(f"{silence}: it says: {said}", said, heard=True)
        if trouble := self._key_trouble():
            return Unauthorised(f"{self._url}: {trouble}", trouble)
        if why := self._why_not():
            return RequestTimeout(f"{silence}: {why}. {START_DAEMON}", why)
        return RequestTimeout(f"{silence}. Is the daemon running there? If it is, it may have done what was asked.")

    def obstacle(self) -> str:
        """Describe in sentences why the daemon does not answer, as far as that is known now, and what to do."""
        if said := self._trouble or self._key_trouble():
            return f"{said}."
        why = self._why_not()
        silence = f"{why}." if why else "no answer: is the daemon running there?"
        return f"{silence} {START_DAEMON}."

    def _why_not(self) -> str:
        """Reason why there is no connection; empty if it is unknown."""
        return self._connection.why_not() if self._connection else ""

    def _key_trouble(self) -> str:
        """Describe trouble with the keys and its remedy; empty if none is known."""
        trouble = self._connection.attempts.key_trouble if self._connection else ""
        key = {"name": self._key.name, "public": self._key.public} if self._key else {}
        return f"{trouble}; {REMEDIES[trouble].format(**key)}" if trouble else ""

    @property
    def max_message(self) -> int:
        """Bytes of the longest message that the daemon accepts, from its last welcome, or the default."""
        return self._session.max_message

    @property
    def is_free(self) -> bool:
        """True if a request can be sent at once."""
        return self._is_ready() and self._session.has_room and not self._queue

    def _is_ready(self) -> bool:
        return self._welcomed.is_set() and self._refusal is None and not self._closed

    async def _greet(self) -> None:
        """Connect if need be, and wait for the first welcome.

        Raises:
            RequestTimeout: after ``connect_patience`` it was known that no daemon can be reached.
            RequestRejected: the daemon speaks another version of the protocol.
        """
        self.open()
        if self._connect_patience < inf and not self._welcomed.is_set():
            await self._reach()
        await self._welcomed.wait()
        self._check_welcomed()

    async def _reach(self) -> None:
        """Wait for the first welcome; after ``connect_patience`` only while a daemon may still be reached."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._welcomed.wait(), self._connect_patience)
        while not self._welcomed.is_set():
            if self._connection and self._connection.attempts.obstacle:
                raise self.late(self._connect_patience)
            self._news.clear()
            await self._news.wait()

    def _wake(self) -> None:
        """Wake all callers that wait for the first welcome: it has come, or never will."""
        self._welcomed.set()
        self._news.set()
        self._admit_next()

    def _check_welcomed(self) -> None:
        self._check_open()
        if self._refusal is not None:
            raise RequestRejected(self._refusal.code, self._refusal.reason)

    def open(self) -> None:
        """Connect, unless there is a connection; doesn't wait.

        Raises:
            ClientClosed: the client has been closed.
            ClientError: the URL is invalid.
        """
        self._check_open()
        if self._connection is None:
            self._connection = Connection(self._url, self._on_frames, self._on_connected, self._on_lost, self._key)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the client was closed")
        if self._connection is not None and self._connection.loop is not asyncio.get_running_loop():
            raise ClientError(OTHER_LOOP)

    def _admit_next(self) -> None:
        """Let the first of the queue go on, if there is room or it must learn of an error."""
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
        """Give back a fetcher's leases now, not when the daemon finds it silent."""
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
            self._take_in(self._session.receive(frame, now), now)
        if self._session.draining:
            self._on_heard()
        self.pump()

    def _take_in(self, event: SessionEvent | None, now: float) -> None:
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
                log.warning("event=renewed daemon=%s code=%s reason=%r", self._url, error.code, error.reason)
            case Gap(expected, number):
                log.info("event=gap expected=%d number=%d", expected, number)
            case Unreadable(reason):
                log.warning("event=unreadable daemon=%s reason=%r", self._url, reason)

    def _settle(self, n: int, reply: AnyReply) -> None:
        """Give the reply to its answer, or an error if it does not fit the request."""
        answer, kind = self._unanswered.pop(n, (None, Reply))
        if answer is None or answer.done():
            pass  # No caller waits for it any more.
        elif isinstance(reply, kind):
            answer.set_result(reply)
        elif isinstance(reply, ErrorReply):
            answer.set_exception(RequestRejected(reply.code, reply.reason))
        else:
            kinds = f"{type(reply).__name__}, not {kind.__name__}"
            answer.set_exception(ClientError(f"{self._url} answered with {kinds}"))
        self._admit_next()

    def _welcome(self, restarted: bool) -> None:
        self._refusal = self._forbidden = None
        self._trouble = ""
        self._wake()
        if restarted:
            log.info("event=restarted daemon=%s epoch=%d", self._url, self._session.epoch)

    def _refuse(self, error: ErrorReply) -> None:
        """Record a refused hello; one that is refused for good, such as for another version, fails every caller.

        If the daemon is unavailable, callers that time out get its reason.
        """
        if error.reason != self._trouble:
            log.warning("event=refused daemon=%s code=%s reason=%r", self._url, error.code, error.reason)
        if error.code == "unavailable":
            self._trouble = error.reason
        elif error.code == "forbidden" and self._welcomed.is_set():
            # The key may not take tasks. What else it may do goes on.
            self._forbidden = RequestRejected(error.code, error.reason)
            self._handed_out.set()
            self._on_forbidden(self._forbidden)
        else:
            self._refusal = error
            self._handed_out.set()
            self._wake()

    # ------------------------------------------------------------------------------------ sleeping

    def _sleep_until(self, at: float, loop: asyncio.AbstractEventLoop) -> None:
        """Set the timer; one that rings too early stays, because that costs less than a new timer for each message."""
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = None if at == inf else loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.pump()
