"""A user's handler: how it is called, what it may return, what it may raise.

    async def handle(task)    runs in the event loop; so does an async generator
    def handle(task)          runs in a thread; so does a generator, to its end

It is called with a Task: ``task.url``, and how to fetch it, its project's settings included, in ``task.fetch``.
What it returns or yields are new tasks: None, a url, a ``new_task``, a map of its arguments, or several of these; a
``Result`` may be among them.
What it raises decides the outcome: ``Retry``, ``Drop``, anything else is a failure with its traceback, ``SystemExit``
included; only ``KeyboardInterrupt`` stops the worker.
"""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import aclosing
from types import CoroutineType, TracebackType
from typing import Any

from taskqueue.client.tasks.push_many import as_new_task
from taskqueue.client.tasks.result import Result
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.interruptible import ABOVE_HANDLERS, Interruptible
from taskqueue.client.worker.middleware import Around, MiddlewareChain
from taskqueue.client.worker.own_process import OwnProcess
from taskqueue.client.worker.produced import NOTHING, Produced
from taskqueue.client.worker.tracing import RunSpan, Tracing
from taskqueue.protocol.fields import MAX_ERROR_CHARS, NIL, NewTask

Handle = Callable[[Task], Any]


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
        self._tracing = Tracing()
        self._in_loop = _is_async(handle)
        self._own_process = OwnProcess()

    def around(self, task: Task) -> Around:
        """For one ``run``: what is called around it, and what is known of it."""
        return self._chain.around(task)

    async def run(self, task: Task, around: Around, code: Interruptible) -> Produced:
        """Return the new tasks and the result; raise what the handler raised, or an error for other values.

        Args:
            code: learns where the handler runs.
        """
        span = self._tracing.span_of(task)
        try:
            if not self._in_loop:
                produced = await self._run_in_thread(task, around, span, code)
            else:
                code.in_loop = True
                with span.active(), around, self._own_process:
                    try:
                        result = self._handle(task)
                        if isinstance(result, CoroutineType):  # Nearly always; to ask what else it may be is slower.
                            returned = await result
                            produced = NOTHING if returned is None else await _gathered(returned, code)
                        else:
                            produced = await _waited_for(result, code)
                    except asyncio.CancelledError:
                        code.check_interrupted()
                        raise
                    around.produced = produced
        except BaseException as error:
            span.end(error)
            raise
        span.end()
        return produced

    async def _run_in_thread(self, task: Task, around: Around, span: RunSpan, code: Interruptible) -> Produced:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._threads, code.call, self._in_thread, task, around, span)
        if around.goes_on:
            code.in_loop = True
            with span.active(), around:
                try:
                    around.produced = await _waited_for(result, code)
                except asyncio.CancelledError:
                    code.check_interrupted()
                    raise
        return around.produced or NOTHING

    def _in_thread(self, task: Task, around: Around, span: RunSpan) -> Any:
        """What the handler returned, if that has to be waited for."""
        try:
            with span.active(), around, self._own_process:
                result = self._handle(task)
                around.goes_on = _waits(result)
                if not around.goes_on:
                    around.produced = _produced(result)
                return result
        except (StopIteration, GeneratorExit) as error:
            # No future can carry the first, and the second is how Python ends a coroutine.
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error


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


async def _waited_for(result: Any, code: Interruptible) -> Produced:
    if inspect.isawaitable(result):
        result = await result
    return await _gathered(result, code)


async def _gathered(returned: Any, code: Interruptible) -> Produced:
    if isinstance(returned, AsyncGenerator):
        code.generator = returned
        async with aclosing(returned):
            returned = [item async for item in returned]
    elif isinstance(returned, AsyncIterable):
        returned = [item async for item in returned]
    return _produced(returned)


def _waits(result: Any) -> bool:
    return inspect.isawaitable(result) or isinstance(result, AsyncIterable)


def _produced(returned: Any) -> Produced:
    if returned is None:
        return NOTHING
    if isinstance(returned, str | NewTask | Mapping | Result):
        returned = [returned]
    if not isinstance(returned, Iterable):
        raise TypeError(
            f"the handler returned {type(returned).__name__}, not a url, a task, several of them or a Result"
        )
    try:
        return _sorted(returned)
    finally:
        # What it does at its end, it does here and now, not wherever it is forgotten.
        if isinstance(returned, Generator):
            returned.close()


def _sorted(items: Iterable[Any]) -> Produced:
    new: list[NewTask] = []
    result: Result | None = None
    for item in items:
        if not isinstance(item, Result):
            new.append(as_new_task(item))
        elif result is None:
            result = item
        else:
            raise TypeError("the handler returned two results; a task has one")
    return Produced(new, NIL if result is None else result.packed)
