"""A user's handler: how it is called, what it may return, what it may raise.

    async def handle(task)    runs in the event loop; so does an async generator
    def handle(task)          runs in a thread; so does a generator, to its end

It is called with a Task: ``task.url``, and how to fetch it, its project's settings included, in ``task.fetch``.
What it returns or yields are new tasks: None, a url, a ``new_task``, a map of its arguments, or several of these.
What it raises decides the outcome: ``Retry``, ``Drop``, anything else is a failure with its traceback, ``SystemExit``
included; only ``KeyboardInterrupt`` stops the worker.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Final

from taskqueue.client.pushing import as_new_task
from taskqueue.client.task import Task
from taskqueue.core.messages import MAX_ERROR_CHARS, MAX_RETRY_AFTER_SECONDS, NewTask
from taskqueue.errors import TaskQueueError

Handle = Callable[[Task], Any]

ABOVE_HANDLERS: Final = ("taskqueue.client.", "concurrent.futures.", "asyncio.")
"""Modules whose frames lead to a handler; they tell its author nothing."""


class Retry(TaskQueueError):
    """Raised by a handler: not now; run the task again later.

    Args:
        after: seconds, 0 to 86,400, without using up a retry, such as what a site's Retry-After says; None: an
            ordinary failure, after the delay of the project's table.
        reason: for people.
    """

    def __init__(self, after: float | None = None, reason: str = "") -> None:
        if after is not None and not 0 <= after <= MAX_RETRY_AFTER_SECONDS:
            raise ValueError(f"Retry: after must be 0 to {MAX_RETRY_AFTER_SECONDS:g} seconds, not {after!r}")
        super().__init__(reason or "the handler asked for a retry")
        self.after = after


class Drop(TaskQueueError):
    """Raised by a handler: the task has failed for good; trying again would not help."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "dropped by the handler")


class Handler:
    """Calls the user's function.

    Args:
        handle: plain or async, returning or generating.
        threads: where a plain one runs.
    """

    def __init__(self, handle: Handle, threads: Executor) -> None:
        self._handle = handle
        self._threads = threads
        self._in_loop = _is_async(handle)

    async def run(self, task: Task) -> list[NewTask]:
        """The new tasks that came out of a task; raises what the handler raised, or that they are none."""
        if self._in_loop:
            result = self._handle(task)
        else:
            result = await asyncio.get_running_loop().run_in_executor(self._threads, self._in_thread, task)
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, AsyncIterable):
            result = [item async for item in result]
        return _new_tasks(result)

    def _in_thread(self, task: Task) -> Any:
        try:
            result = self._handle(task)
            return result if _waits(result) else _new_tasks(result)
        except StopIteration as error:
            # No future can carry it.
            raise RuntimeError("the handler raised StopIteration") from error


def traceback_of(error: BaseException) -> str:
    """The end of an error's traceback, short enough for the daemon; from the handler's own frames on."""
    said = traceback.format_exception(type(error), error, _below(error.__traceback__))
    return "".join(said).rstrip()[-MAX_ERROR_CHARS:]


def _below(trace: TracebackType | None) -> TracebackType | None:
    """The frames below those that led to the handler, if there are any."""
    frame = trace
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(ABOVE_HANDLERS):
        frame = frame.tb_next
    return frame or trace


def _is_async(handle: Handle) -> bool:
    call = getattr(handle, "__call__", handle)  # noqa: B004
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (handle, call))


def _waits(result: Any) -> bool:
    return inspect.isawaitable(result) or isinstance(result, AsyncIterable)


def _new_tasks(result: Any) -> list[NewTask]:
    if result is None:
        return []
    if isinstance(result, str | NewTask | Mapping):
        return [as_new_task(result)]
    if not isinstance(result, Iterable):
        raise TypeError(f"the handler returned {type(result).__name__}, not a url, a task or several of them")
    return [as_new_task(item) for item in result]
