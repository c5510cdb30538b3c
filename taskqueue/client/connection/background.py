"""An event loop in a thread of its own, for callers that wait: coroutines and singles in, results out.

    thread ──► inbox ──one wake-up for many──► loop
    thread ◄── lock ◄──────────────────────────┘

Waking the loop and waking a caller are what a blocking call costs. So the loop is woken only if it is not going to look
into the inbox anyway, and a caller waits for a plain lock: a ``concurrent.futures.Future`` costs twice as much.

A forked process has the inbox and the pipe that wakes the loop, but no loop, and an interpreter that is ending has
stopped the loop's thread: what they asked would never be answered. So that is looked at first.
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
        post: has something called in the loop.
        forget: called there when the thread waits no more.
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
        """Run a coroutine, of which it is the future; called in the loop."""
        task = asyncio.ensure_future(coroutine)
        self._forget = task.cancel
        task.add_done_callback(self._copy)

    def done(self) -> bool:
        """Whether it is set, or was cancelled."""
        return self._done

    def set_result(self, result: T) -> None:
        """Let ``result`` return this."""
        self._result = result
        self._done = True
        self._lock.release()

    def set_exception(self, error: BaseException) -> None:
        """Let ``result`` raise this."""
        self._error = error
        self._done = True
        self._lock.release()

    def result(self, seconds: float = inf) -> T:
        """Wait for the result; raises what was set instead.

        Raises:
            TimeoutError: it was not set in so many seconds.
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
        """Have the loop forget it, if it is not set; any thread may call it."""
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
    """Runs until ``close``. Any thread of its process may call it; in a forked one it raises ClientClosed."""

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
        """Run it, and wait for nothing.

        Raises:
            ClientClosed: nothing is run any more, or not in this process.
        """
        running: ThreadFuture[T] = ThreadFuture(self._post)
        self._begin(coroutine, running)
        return running

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it, and wait for its result."""
        running: ThreadFuture[T] = ThreadFuture(self._post)
        # What the loop has been told of is given up whenever a Ctrl-C comes, also before the thread waits.
        try:
            self._begin(coroutine, running)
            return running.result()
        finally:
            running.cancel()

    def _begin(self, coroutine: Coroutine[Any, Any, T], running: ThreadFuture[T]) -> None:
        if not self._is_alive():
            coroutine.close()
            raise self._dead()
        # What is posted is begun, and ended: the loop looks once more after the last coroutine.
        with self._closing:
            if not self._closed:
                self._post(partial(running.run, coroutine))
                return
        coroutine.close()
        raise ClientClosed("the client was closed")

    def call(self, function: Callable[[], T]) -> T:
        """Have a function called in the loop, and wait for what it returns; the loop's own thread just calls it."""
        if threading.current_thread() is self._thread:
            return function()
        return self.run(_called(function))

    def future(self, make: Callable[[], asyncio.Future[T]]) -> Future[T]:
        """Have a future made in the loop; returns one for threads, which gets the same. It can't be cancelled."""
        made: Future[T] = Future()
        made.set_running_or_notify_cancel()
        self.call(lambda: make().add_done_callback(partial(_copy, made)))
        return made

    def ask(self, singles: Batching[I, T], item: I) -> T:
        """What ``singles.ask`` does, for a thread, and without a coroutine."""
        if not self._is_alive():
            raise self._dead()
        answer: ThreadFuture[T] = ThreadFuture(self._post, singles.forget)
        must_gather = singles.add(Single(item, answer, singles.size_of(item)))
        # What the loop has been told of is given up whenever a Ctrl-C comes, also before anybody waits.
        try:
            if must_gather:
                self._post(singles.gather)
            return answer.result(singles.patience)
        except TimeoutError:
            raise singles.late() from None
        finally:
            answer.cancel()

    def iterate(self, items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Go through what a generator gives, one by one; left, it is closed."""
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
        """Be inside of it; it is left without an error, whatever the caller's was."""
        entered = self.run(_entered(block))
        try:
            yield entered
        finally:
            with suppress(ClientClosed):
                self.run(_left(block))

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last coroutine, then nothing any more. A forked process has nothing to close."""
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
        """Asked before any lock is taken: another thread may have held it when the process was forked."""
        return self._process == os.getpid() and not is_finalizing()

    def _dead(self) -> ClientClosed:
        if is_finalizing():
            return ClientClosed("the program is ending, so the client is closed; use it before that, not in __del__")
        return ClientClosed(
            f"the client belongs to process {self._process}, which forked this one; make a Client in each process"
        )

    def _post(self, call: Callable[[], None]) -> None:
        """Have it called in the loop, which is woken once for all that comes before it looks."""
        self._inbox.append(call)
        if not self._woken:
            try:
                self._woken = True
                self._loop.call_soon_threadsafe(self._look)
            except RuntimeError:  # It is closed: nobody waits for this any more.
                return
            except BaseException:  # A Ctrl-C: the loop may sleep on, so whoever posts next wakes it.
                self._woken = False
                raise

    def _look(self) -> None:
        # Before looking: what comes after the look needs another one.
        self._woken = False
        while self._inbox:
            call = self._inbox.popleft()
            try:
                call()
            except Exception as error:  # As the loop does: nobody else has to wait for it.
                self._loop.call_exception_handler({"message": f"{call!r} failed", "exception": error})

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _end(self) -> None:
        """Nobody may wait for ever for what still runs, or was about to."""
        self._look()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


class BlockingSingles(Generic[I, T]):
    """The singles of one kind, for threads."""

    def __init__(self, background: Background, singles: Batching[I, T]) -> None:
        self._background = background
        self._singles = singles

    def ask(self, item: I) -> T:
        """See ``Batching.ask``."""
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
