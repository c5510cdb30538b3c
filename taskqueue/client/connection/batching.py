"""Singles that leave together: requests of many callers go to the daemon in messages of many.

    add ──► waiting ──gather──► under way ──answer──► to each caller its own outcome, or its own error
               ▲ while one message is unanswered, new singles wait here

A message costs both sides far more than a task in it. A single caller does not wait: with no message under way its
single leaves at the end of the loop's turn. The longer answers take, the more singles leave with the next message.

Rules:
1. First come, first served; a message has at most MOST singles, and about MOST_BYTES unless a single alone is larger.
2. Callers that were answered together are given COMPANY_SECONDS to come again, so that they stay together: threads come
   back one by one, and the first would leave in a message of its own. Measured with 8 threads: 8 tasks per message
   instead of 4, and a third less CPU time of both the client and the daemon.
3. If a message is too large, can't be encoded, or is refused as a whole for a reason that may lie in one single, it is
   sent again in halves, so that no caller gets the error of another. This is safe: nothing of it was done. A single
   that is refused alone may be sent in parts. Any other refusal, such as for a full disk, goes to all callers at once:
   halves would be refused, too, down to the last single.
4. A single whose caller has given up is skipped. A message that no caller waits for is forgotten.
5. Any thread may ``add``; all the rest happens in the event loop. A thread that adds while an answer is awaited need
   not wake the loop: that answer does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from math import inf, isinf
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from taskqueue.client.connection.exchange import OTHER_LOOP, Answer, Exchange
from taskqueue.errors import ClientClosed, ClientError, MessageTooLarge, RequestRejected, RequestTimeout
from taskqueue.protocol.base import Request

MOST: Final = 256
"""Singles per message."""

MOST_BYTES: Final = 1 << 20
"""Approximate bytes per message."""

ABOUT_ONE: Final = ("malformed", "too-large")
"""Codes of refusals of a whole message whose reason may lie in a single of it."""

UNENCODABLE: Final = (TypeError, ValueError, RecursionError)
"""Errors that are raised, before anything is sent, for a message that can't be encoded."""

COMPANY_SECONDS: Final = 0.001
"""Shortest time that an event loop on epoll sleeps."""

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")


class Single(Struct, Generic[I, A], eq=False):
    """Request of one caller; ``size`` is its approximate bytes in a message."""

    item: I
    answer: Answer[A]
    size: int


class Batching(Generic[I, A]):
    """Singles of one kind, of one client; itself the Answer of their message under way.

    Args:
        exchange: sends the messages.
        size_of: returns the approximate bytes of an item in a message.
        message: makes a message of some items; called when it leaves.
        outcomes: returns, from the reply, an outcome or an error per item, in order.
        send_alone: sends a single that was refused although it was alone, for example in parts; raises its error if
            that is impossible.
        ended: called with the items of a message that was answered, with whatever outcome, or given up; may be None.

    Attributes:
        size_of: as given.
        patience: seconds that each caller waits for its answer; inf: for ever.
    """

    def __init__(
        self,
        exchange: Exchange,
        size_of: Callable[[I], int],
        message: Callable[[list[I]], Request[Any]],
        outcomes: Callable[[Any], Sequence[A | Exception]],
        send_alone: Callable[[I, Exception], Awaitable[A]],
        ended: Callable[[list[I]], None] | None = None,
    ) -> None:
        self.size_of = size_of
        self.patience = exchange.patience
        self._exchange = exchange
        self._message = message
        self._outcomes = outcomes
        self._send_alone = send_alone
        self._ended = ended
        self._waiting: deque[Single[I, A]] = deque()
        self._under_way: list[Single[I, A]] = []
        self._n = 0
        self._give_up: Callable[[], object] | None = None
        self._expected = False
        self._company = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ask(self, item: I) -> A:
        """Send an item with the next message, and wait for its outcome.

        Raises:
            RequestTimeout, RequestRejected, MessageTooLarge, ClientClosed: see ``taskqueue.errors``.
        """
        loop = asyncio.get_running_loop()
        if self._loop not in (None, loop):
            raise ClientError(OTHER_LOOP)
        self._loop = loop
        answer: asyncio.Future[A] = loop.create_future()
        timer = self.tell(item, answer)
        try:
            return await answer
        except asyncio.CancelledError:
            self.forget()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def tell(self, item: I, answer: Answer[A]) -> asyncio.TimerHandle | None:
        """Send an item with the next message, and set its outcome, or its error, in an answer of the caller's.

        This costs less than ``ask``, and needs no asyncio task. A caller that gives up makes the answer's ``done``
        return True, and calls ``forget``.

        Returns:
            Timer that ends the waiting, which the caller cancels; None: the caller waits for ever.

        Raises:
            ClientClosed: see ``taskqueue.errors``; the answer is not set.
        """
        loop = asyncio.get_running_loop()
        if self.add(Single(item, answer, self.size_of(item))):
            loop.call_soon(self.gather)
        # Not asyncio.timeout: that alone would cost as much as all the rest here.
        return None if isinf(self.patience) else loop.call_later(self.patience, self._expire, answer)

    def add(self, single: Single[I, A]) -> bool:
        """Add a single to the next message. True: call ``gather`` in the loop; False: a call of it is due anyway.

        Raises:
            ClientClosed: nothing is sent any more.
        """
        self._waiting.append(single)
        # Checked only now: ``close`` answers singles that were added before it.
        if self._closed:
            raise _closed()
        if 0 < self._company <= len(self._waiting):
            self._company = 0
            return True
        if self._expected:
            return False
        self._expected = True
        return True

    def gather(self) -> None:
        """Send the waiting singles, unless a message is under way."""
        self._stop_waiting()
        if self._under_way:
            return
        # Before taking: a caller that comes later has to call ``gather`` again.
        self._expected = False
        self._under_way = self._take()
        if self._under_way:
            self._expected = True
            self._leave()

    def forget(self) -> None:
        """Forget the message under way if no caller waits for it any more; called after a caller has given up."""
        if self._give_up is not None and all(single.answer.done() for single in self._under_way):
            self._give_up()

    def late(self) -> RequestTimeout:
        """Make the error of a caller that has waited for its patience."""
        return self._exchange.late(self.patience)

    def close(self) -> None:
        """Answer all waiting callers with ClientClosed."""
        self._closed = True
        self._stop_waiting()
        for single in self._under_way:
            _fail(single, _closed())
        while self._waiting:
            _fail(self._waiting.popleft(), _closed())

    def _take(self) -> list[Single[I, A]]:
        singles: list[Single[I, A]] = []
        size = 0
        while self._waiting and len(singles) < MOST and (not singles or size + self._waiting[0].size <= MOST_BYTES):
            single = self._waiting.popleft()
            if not single.answer.done():
                singles.append(single)
                size += single.size
        return singles

    # ------------------------------------------------------------------------------------ a message

    def done(self) -> bool:
        """Return True if no reply is awaited."""
        return self._give_up is None

    def set_result(self, reply: Any) -> None:
        """Give each single of the message its outcome."""
        self._end()
        try:
            outcomes = self._outcomes(reply)
        except Exception as error:  # An invalid reply; its callers get the error.
            self._fail_message(error)
            return
        _tell_each(self._under_way, outcomes)
        self._go_on_soon()

    def set_exception(self, error: Exception) -> None:
        """Give each single of the message its error, or send them again in halves."""
        self._end()
        self._fail_message(error)

    async def send(self, items: list[I]) -> Sequence[A | Exception]:
        """Send a message when that is possible; returns an outcome or an error per item, in order.

        Raises:
            RequestRejected, MessageTooLarge, ClientClosed: see ``taskqueue.errors``.
        """
        await self._exchange.ready(inf)
        try:
            return self._outcomes(await self._exchange.ask(self._message(items), inf))
        finally:
            if self._ended is not None:
                self._ended(items)

    def _leave(self) -> None:
        """Send the message under way, at once if possible: a coroutine and a timer would cost more than the message."""
        if not self._exchange.is_free:
            self._run(self._send_each(self._under_way))
            return
        try:
            self._n = self._exchange.send(self._message(_items(self._under_way)), self)
        except Exception as error:
            self._fail_message(error)
        else:
            self._give_up = self._give_up_message

    def _give_up_message(self) -> None:
        self._exchange.forget(self._n)
        self._end()
        self._go_on_soon()

    def _end(self) -> None:
        self._give_up = None
        if self._ended is not None:
            self._ended(_items(self._under_way))

    def _fail_message(self, error: Exception) -> None:
        if _may_be_about_one(error):
            self._run(self._go_apart(self._under_way, error))
            return
        _fail_each(self._under_way, error)
        self._go_on_soon()

    def _run(self, sending: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(sending)
        task.add_done_callback(self._go_on)
        self._give_up = task.cancel

    def _go_on_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self, _: object = None) -> None:
        """Continue after the coroutines that were answered have run, so that their next requests are here already."""
        company, self._under_way, self._give_up = len(self._under_way), [], None
        if 1 < company > len(self._waiting) and not self._closed:
            self._company = company
            self._timer = asyncio.get_running_loop().call_later(COMPANY_SECONDS, self.gather)
        else:
            self.gather()

    def _stop_waiting(self) -> None:
        self._company = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _send_each(self, singles: list[Single[I, A]]) -> None:
        try:
            outcomes = await self.send(_items(singles))
        except Exception as error:
            if _may_be_about_one(error):
                await self._go_apart(singles, error)
            else:
                _fail_each(singles, error)
        else:
            _tell_each(singles, outcomes)

    async def _go_apart(self, singles: list[Single[I, A]], error: Exception) -> None:
        half = len(singles) // 2
        if half == 0:
            await self._go_alone(singles[0], error)
            return
        for part in (singles[:half], singles[half:]):
            if wanted := [single for single in part if not single.answer.done()]:
                await self._send_each(wanted)

    async def _go_alone(self, single: Single[I, A], error: Exception) -> None:
        try:
            outcome = await self._send_alone(single.item, error)
        except Exception as final:
            _fail(single, final)
        else:
            _tell_each([single], [outcome])

    def _expire(self, answer: Answer[A]) -> None:
        if not answer.done():
            answer.set_exception(self.late())
            self.forget()


def _may_be_about_one(error: Exception) -> bool:
    """Return True if the daemon may accept the message without one of its singles."""
    if isinstance(error, RequestRejected):
        return error.code in ABOUT_ONE
    return isinstance(error, (MessageTooLarge, *UNENCODABLE))


def _items(singles: list[Single[I, A]]) -> list[I]:
    return [single.item for single in singles]


def _tell_each(singles: Sequence[Single[I, A]], outcomes: Sequence[A | Exception]) -> None:
    for single, outcome in zip(singles, outcomes, strict=False):
        if isinstance(outcome, Exception):
            _fail(single, outcome)
        elif not single.answer.done():
            single.answer.set_result(outcome)
    if len(singles) != len(outcomes):
        told = f"the daemon's answer has {len(outcomes)} outcomes, and {len(singles)} were asked for"
        _fail_each(singles, ClientError(told))


def _fail_each(singles: Sequence[Single[I, A]], error: Exception) -> None:
    for single in singles:
        _fail(single, error)


def _fail(single: Single[I, A], error: Exception) -> None:
    if not single.answer.done():
        single.answer.set_exception(error)


def _closed() -> ClientClosed:
    return ClientClosed("the client was closed")
