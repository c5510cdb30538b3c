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

from taskqueue.client.tasks.push_many import as_new_task
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.middleware import Around, MiddlewareChain
from taskqueue.protocol.fields import MAX_ERROR_CHARS, NewTask

Handle = Callable[[Task], Any]

ABOVE_HANDLERS: Final = ("taskqueue.client.", "concurrent.futures.", "asyncio.")
"""Modules whose frames lead to a handler; they tell its author nothing."""


class Handler:
    """Calls the user's function.

    Args:
        handle: plain or async, returning or generating.
        threads: where a plain one runs.
        chain: what is called around it.
    """

    def __init__(self, handle: Handle, threads: Executor, chain: MiddlewareChain) -> None:
        self._handle = handle
        self._threads = threads
        self._chain = chain
        self._in_loop = _is_async(handle)

    async def run(self, task: Task) -> list[NewTask]:
        """The new tasks that came out of a task; raises what the handler raised, or that they are none."""
        around = self._chain.around(task)
        if self._in_loop:
            with around:
                around.new = await _waited_for(self._handle(task))
                return around.new
        result = await asyncio.get_running_loop().run_in_executor(self._threads, self._in_thread, task, around)
        if around.goes_on:
            with around:
                around.new = await _waited_for(result)
        return around.new or []

    def _in_thread(self, task: Task, around: Around) -> Any:
        """What the handler returned, if that has to be waited for."""
        try:
            with around:
                result = self._handle(task)
                around.goes_on = _waits(result)
                if not around.goes_on:
                    around.new = _new_tasks(result)
                return result
        except StopIteration as error:
            # No future can carry it.
            raise RuntimeError("the handler raised StopIteration") from error


def traceback_of(error: BaseException) -> str:
    """The end of an error's traceback, short enough for the daemon; from the handler's own frames on."""
    said = traceback.format_exception(type(error), error, below_worker(error.__traceback__))
    return "".join(said).rstrip()[-MAX_ERROR_CHARS:]


def below_worker(trace: TracebackType | None) -> TracebackType | None:
    """The frames below those that led to the handler, if there are any; else all of them."""
    frame = trace
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(ABOVE_HANDLERS):
        frame = frame.tb_next
    return frame or trace


def _is_async(handle: Handle) -> bool:
    call = getattr(handle, "__call__", handle)  # noqa: B004
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (handle, call))


async def _waited_for(result: Any) -> list[NewTask]:
    if inspect.isawaitable(result):
        result = await result
    if isinstance(result, AsyncIterable):
        result = [item async for item in result]
    return _new_tasks(result)


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
