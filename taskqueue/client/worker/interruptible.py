"""Code of one run, which can be ended from outside, and whose stack can be shown.

    in a thread          an exception is set in it, which Python raises between two of its instructions
    in the event loop    its asyncio task is cancelled

An exception set in a thread is removed before the thread goes on to something else, under a lock that both sides take:
it never hits another run. A thread that is blocked in C, such as in ``time.sleep`` or ``recv``, gets it when C returns.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any, Final, ParamSpec, TypeVar

from taskqueue.client.connection.background import ThreadFuture
from taskqueue.client.worker.outcome import RunEnded

P = ParamSpec("P")
R = TypeVar("R")

ABOVE_HANDLERS: Final = ("taskqueue.client.", "concurrent.futures.", "asyncio.", "threading")
"""Modules whose frames lead to a handler; they tell its author nothing."""

AWAITED: Final = ("cr_await", "ag_await", "gi_yieldfrom")
"""Attributes of coroutines and generators for the object that they wait for."""

# Python raises an instance that it makes itself, so it takes only a class.
_set_exception: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(
    ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
)


class Interruptible:
    """Code of one run.

    Args:
        running: asyncio task that waits for the run, or in which it runs.

    Attributes:
        in_loop: the code runs in the asyncio task now.
        is_interrupted: the code has been told to end.
        generator: asynchronous generator that the handler has returned; its frames can't be found otherwise.
    """

    __slots__ = ("_awaited", "_lock", "_running", "_thread", "_was_set", "generator", "in_loop", "is_interrupted")

    def __init__(self, running: asyncio.Task[Any]) -> None:
        self.in_loop = False
        self.is_interrupted = False
        self.generator: object = None
        self._running = running
        # Reentrant, because the exception may come when the thread has just acquired it, and acquires it again.
        self._lock = threading.RLock()
        self._thread: int | None = None
        self._was_set = False
        self._awaited: ThreadFuture[Any] | None = None

    def call(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Call a function that ``interrupt`` may end, in this thread.

        Raises:
            RunEnded: the function was ended.
        """
        self._thread = threading.get_ident()
        try:
            return function(*args, **named)
        finally:
            # The exception may come here, too. Only one is set at a time, and the next one much later.
            while self._thread is not None:
                try:  # noqa: SIM105 - each call of ``suppress`` would be another point at which it may come
                    self._leave(self._thread)
                except RunEnded:
                    pass

    def wait_for(self, call: ThreadFuture[R]) -> R:
        """Wait in the code's thread for a call in the event loop, which is cancelled if the code is told to end.

        Raises:
            RunEnded, ClientClosed: the call was cancelled; else its own errors.
        """
        self._awaited = call
        try:
            return call.result()
        finally:
            self._awaited = None

    def interrupt(self) -> None:
        """Tell the code to end, unless it has ended. Called in the event loop."""
        self.is_interrupted = True
        if self.in_loop:
            self._running.cancel()
            return
        with self._lock:
            if self._thread is not None:
                self._was_set = True
                _set_in(self._thread)
                # Blocked in C, it would not get the exception before the daemon has answered.
                if (awaited := self._awaited) is not None:
                    awaited.cancel()

    def check_interrupted(self) -> None:
        """Check that a cancellation of the asyncio task is not meant for this run.

        Raises:
            RunEnded: it is.
        """
        if self.is_interrupted:
            raise RunEnded

    def stack(self) -> str:
        """Return the handler's stack as a traceback shows it, the innermost call last; empty if it is unknown."""
        thread = self._thread
        return _shown(list(self._frames_in_loop() if thread is None else _frames_of_thread(thread)))

    def is_in(self, running: asyncio.Task[Any] | None) -> bool:
        """Return True if the code runs in this asyncio task now."""
        return self.in_loop and self._running is running

    def _leave(self, thread: int) -> None:
        """Remove an exception that has been set and not raised; none is set from here on."""
        self._lock.acquire()
        if not self._was_set:
            self._thread = None
            self._lock.release()
            return
        _set_in(thread)
        self._thread = None
        with suppress(RuntimeError):  # It is free: it may have been acquired more than once.
            while True:
                self._lock.release()

    def _frames_in_loop(self) -> Iterator[FrameType]:
        if self.in_loop:
            yield from _frames_of(self._running.get_coro())
            yield from _frames_of(self.generator)


def _set_in(thread: int) -> None:
    """Set the exception in a thread, and in this one, where it is raised and caught at once.

    Before 3.13, Python looks for exceptions because of one flag for all threads. While the flag stays set, such as for
    a thread that is blocked in C, 3.12 is slower, and 3.11 hangs in each thread that is traced or profiled. An
    exception raised here clears it, and the other thread sets it again when it goes on. ``SetAsyncExc`` with NULL would
    leave it set.
    """
    this = threading.get_ident()
    try:
        # No Python function is called in between: a traced thread would hang at its beginning.
        _set_exception(thread, RunEnded)
        _set_exception(this, RunEnded)
        while True:
            this += 0
    except RunEnded:
        return


def stack_of_thread(thread: int) -> str:
    """Return the stack of a handler in the event loop of this thread, as ``Interruptible.stack`` does."""
    frames = list(_frames_of_thread(thread))
    names = [_module(frame) for frame in frames]
    # Frames of the program that has started the worker come first.
    first = max((at for at, name in enumerate(names) if name.startswith("taskqueue.client.worker")), default=0)
    return _shown(frames[first:])


def _shown(frames: list[FrameType]) -> str:
    while frames and _module(frames[0]).startswith(ABOVE_HANDLERS):
        del frames[0]
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    return "".join(summary.format()).rstrip()


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _frames_of_thread(thread: int) -> Iterator[FrameType]:
    frame = sys._current_frames().get(thread)
    found: list[FrameType] = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return reversed(found)


def _frames_of(awaited: object) -> Iterator[FrameType]:
    """Iterate over the frames of a waiting coroutine, and of all that it waits for."""
    while awaited is not None:
        frames = (getattr(awaited, name, None) for name in ("cr_frame", "ag_frame", "gi_frame"))
        yield from (frame for frame in frames if frame is not None)
        awaited = next((getattr(awaited, name) for name in AWAITED if hasattr(awaited, name)), None)
