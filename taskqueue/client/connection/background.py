"""An event loop in a thread of its own, for blocking callers: coroutines and singles in, results out.

    thread ──► inbox ──one wake-up for many──► loop
    thread ◄── lock ◄──────────────────────────┘

Waking the loop and waking the caller are the main cost of a blocking call. So a caller wakes the loop only if the loop
is not about to read the inbox anyway, and waits for a plain lock: a ``concurrent.futures.Future`` costs twice as much.

A forked process has the inbox and the pipe that wakes the loop, but no loop, and an ending interpreter has stopped the
loop's thread. Calls there would never be answered, so that is checked first.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from math import inf
from sys import is_finalizing
from typing import Any, Generic, TypeVar, cast

from taskqueue.client.connection.batching import Batching, Single
from taskqueue.errors import ClientClosed

I = TypeVar("I")  # noqa: E741 - an item
T = TypeVar("T")


class ThreadFuture(Generic[T]):
    """An answer for which one thread waits, and which the loop sets, once: an ``Answer``.

    Args:
        post: schedules a call in the loop.
        forget: called in the loop when the thread stops waiting.
    """

    __slots__ = ("_done", "_error", "_forget", "_lock", "_post", "_result")

    def __init__(self, post: Callable[[Callable[[], None]], None], forget: Callable[[], object] | None = None) -> None:
        self._post = post
        self._forget = forget
        self._done = False
        self._error: BaseException | None = None
        self._result: T | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Run a coroutine in the loop, and set its outcome here; call this in the loop."""
        task = asyncio.ensure_future(coroutine)
        self._forget = task.cancel
        task.add_done_callback(self._copy)

    def done(self) -> bool:
        """Return True if the outcome is set, or the call was cancelled."""
        return self._done

    def set_result(self, result: T) -> None:
        """Make ``result`` return this value."""
        self._result = result
        self._done = True
        self._lock.release()

    def set_exception(self, error: BaseException) -> None:
        """Make ``result`` raise this error."""
        self._error = error
        self._done = True
        self._lock.release()

    def result(self, seconds: float = inf) -> T:
        """Wait for the result and return it, or raise the error that was set.

        Raises:
            TimeoutError: neither was set within ``seconds``.
        """
        try:
            if not self._lock.acquire(timeout=max(0.0, seconds) if seconds < threading.TIMEOUT_MAX else -1):
                raise TimeoutError
        except BaseException:
            # A Ctrl-C must not leave the call waiting in the loop.
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def cancel(self) -> None:
        """Have the loop forget the call, if it is not done; any thread may call this."""
        if not self._done:
            self._done = True
            self._post(self._cancel)

    def _cancel(self) -> None:
        if self._forget is not None:
            self._forget()

    def _copy(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.set_exception(ClientClosed("the client was closed"))
        elif (error := task.exception()) is not None:
            self.set_exception(error)
        else:
            self.set_result(task.result())


class Background:
    """Event loop that runs until ``close``. Any thread of its process may use it; a forked one gets ClientClosed."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._closed = False
        self._closing = threading.Lock()
        self._inbox: deque[Callable[[], None]] = deque()
        self._woken = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._live, name="taskqueue-client", daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> ThreadFuture[T]:
        """Run a coroutine without waiting for it.

        Raises:
            ClientClosed: the client is closed, or belongs to another process.
        """
        running: ThreadFuture[T] = ThreadFuture(self._post)
        self._begin(coroutine, running)
        return running

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and wait for its result."""
        running: ThreadFuture[T] = ThreadFuture(self._post)
        # A Ctrl-C cancels the call at any time, also before the thread waits.
        try:
            self._begin(coroutine, running)
            return running.result()
        finally:
            running.cancel()

    def _begin(self, coroutine: Coroutine[Any, Any, T], running: ThreadFuture[T]) -> None:
        if not self._is_alive():
            coroutine.close()
            raise self._dead()
        # Posted calls are begun and ended: the loop reads its inbox once more after the last coroutine.
        with self._closing:
            if not self._closed:
                self._post(partial(running.run, coroutine))
                return
        coroutine.close()
        raise ClientClosed("the client was closed")

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the loop, and return its result; the loop's own thread calls it directly."""
        if threading.current_thread() is self._thread:
            return function()
        return self.run(_called(function))

    def future(self, make: Callable[[], asyncio.Future[T]]) -> Future[T]:
        """Make a future in the loop; returns one for threads with the same outcome. It can't be cancelled."""
        made: Future[T] = Future()
        made.set_running_or_notify_cancel()
        self.call(lambda: make().add_done_callback(partial(_copy, made)))
        return made

    def ask(self, singles: Batching[I, T], item: I) -> T:
        """Do ``singles.ask`` for a thread, without a coroutine."""
        if not self._is_alive():
            raise self._dead()
        answer: ThreadFuture[T] = ThreadFuture(self._post, singles.forget)
        must_gather = singles.add(Single(item, answer, singles.size_of(item)))
        # A Ctrl-C cancels the call at any time, also before this thread waits.
        try:
            if must_gather:
                self._post(singles.gather)
            return answer.result(singles.patience)
        except TimeoutError:
            raise singles.late() from None
        finally:
            answer.cancel()

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Iterate over an asynchronous generator, and close it at the end."""
        try:
            while True:
                yield self.run(_next(items))
        except StopAsyncIteration:
            return
        finally:
            with suppress(ClientClosed):
                self.run(items.aclose())

    @contextmanager
    def within(self, block: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter an asynchronous context manager; leave it without an error, whatever the caller's block raised."""
        entered = self.run(_entered(block))
        try:
            yield entered
        finally:
            with suppress(ClientClosed):
                self.run(_left(block))

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last coroutine and stop the loop. In a forked process this does nothing."""
        if not self._is_alive():
            last.close()
            return
        closing: ThreadFuture[None] = ThreadFuture(self._post)
        with self._closing:
            closed, self._closed = self._closed, True
        if closed:
            last.close()
            return
        self._post(partial(closing.run, last))
        closing.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _is_alive(self) -> bool:
        """Check, before a lock is taken, because another thread may have held it when the process was forked."""
        return self._process == os.getpid() and not is_finalizing()

    def _dead(self) -> ClientClosed:
        if is_finalizing():
            return ClientClosed("the program is ending, so the client is closed; use it before that, not in __del__")
        return ClientClosed(
            f"the client belongs to process {self._process}, which forked this one; make a Client in each process"
        )

    def _post(self, call: Callable[[], None]) -> None:
        """Call a function in the loop, which is woken once for all calls that come before it reads them."""
        self._inbox.append(call)
        if not self._woken:
            try:
                self._woken = True
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:  # The loop is closed, so no caller waits for this any more.
                return
            except BaseException:  # A Ctrl-C: the loop may sleep on, so the next call wakes it.
                self._woken = False
                raise

    def _look(self) -> None:
        # Before reading: a call that comes later needs another wake-up.
        self._woken = False
        while self._inbox:
            call = self._inbox.popleft()
            try:
                call()
            except Exception as error:  # As the loop does: the other calls have to go on.
                self._loop.call_exception_handler({"message": f"{call!r} failed", "exception": error})

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _end(self) -> None:
        """Cancel all that still runs or is about to run, so that no caller waits for ever."""
        self._look()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


class BlockingSingles(Generic[I, T]):
    """Singles of one kind, for threads."""

    def __init__(self, background: Background, singles: Batching[I, T]) -> None:
        self._background = background
        self._singles = singles

    def ask(self, item: I) -> T:
        """Send an item with the next message, and wait for its outcome, as ``Batching.ask`` does."""
        return self._background.ask(self._singles, item)


async def _called(function: Callable[[], T]) -> T:
    return function()


def _copy(copy: Future[T], outcome: asyncio.Future[T]) -> None:
    if (error := outcome.exception()) is not None:
        copy.set_exception(error)
    else:
        copy.set_result(outcome.result())


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await anext(items)


async def _entered(block: AbstractAsyncContextManager[T]) -> T:
    return await block.__aenter__()


async def _left(block: AbstractAsyncContextManager[Any]) -> None:
    await block.__aexit__(None, None, None)
