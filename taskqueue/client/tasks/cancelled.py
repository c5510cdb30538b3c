"""Flag and event that tell the handler of a task that its lease is lost: the result is not wanted any more.

    if task.lost: …                  anywhere
    if task.lost.wait(5): …          in a thread: sleep up to 5 s
    await task.lost                  in an event loop

A module of its own, because it belongs to neither a thread nor a loop: it is set in one of them and waited for in
another. It has no lock, so a thread that is ended by an exception leaves none behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from threading import TIMEOUT_MAX, Event

from taskqueue.client.connection.patience import limit


class Cancelled:
    """Event that is set once, for good, from any thread."""

    __slots__ = ("_is_set", "_wakers")

    def __init__(self) -> None:
        self._is_set = False
        self._wakers: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return self._is_set

    def is_set(self) -> bool:
        """Return True if the lease is lost."""
        return self._is_set

    def set(self) -> None:
        """Set it, and wake all that wait for it."""
        # Before the wakers are looked at: one that is added later finds it set.
        self._is_set = True
        for wake in tuple(self._wakers):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Block this thread until it is set, for at most ``timeout`` seconds; return True if it is set.

        Raises:
            TypeError, ValueError: ``timeout`` can't be.
            RuntimeError: this would block an event loop, in which it may never be set then.
        """
        seconds = limit("timeout", timeout)
        if self._is_set or seconds == 0:
            return self._is_set
        if _is_in_loop():
            raise RuntimeError("wait: it would block the event loop; there say `await task.lost`")
        event = Event()
        wake = event.set
        self._wakers.append(wake)
        try:
            return self._is_set or event.wait(None if seconds is None else min(seconds, TIMEOUT_MAX))
        finally:
            self._wakers.remove(wake)

    def __await__(self) -> Generator[object, None, None]:
        return self._waited().__await__()

    async def _waited(self) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        wake = partial(_resolve_soon, loop, future)
        self._wakers.append(wake)
        try:
            if not self._is_set:
                await future
        finally:
            self._wakers.remove(wake)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _resolve_soon(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # The loop has been closed meanwhile.
        loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
