"""A user's handler: how it is called, what it may return, what it may raise.

    async def handle(task)    runs in the event loop; so does an async generator
    def handle(task)          runs in a thread; so does a generator, to its end

It is called with a Task: ``task.url``, and how to fetch it, its project's settings included, in ``task.fetch``.
What it returns or yields are new tasks: None, a url, a ``new_task``, a map of its arguments, or several of these; a
``Result`` may be among them. Of many a part is kept while it goes on; a generator is asked for no more until it is.
What it raises decides the outcome: ``Retry``, ``Drop``, anything else is a failure with its traceback, ``SystemExit``
included; only ``KeyboardInterrupt`` stops the worker.

A handler may fork; where the child comes out of the handler, it ends.

    parent   handler ──fork──► returns ──► report
    child                └───► returns, or raises ──► end of the process

A child has a copy of the worker, but none of its threads: it can neither report nor take tasks, and would wait, or
spin, for ever. Its exit code is what it would be for a program: 0, that of ``sys.exit``, or 1 after a traceback.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import sys
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator
from concurrent.futures import Executor
from contextlib import aclosing
from types import CoroutineType, TracebackType
from typing import Any, Final

from taskqueue.client.connection.background import ThreadFuture
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.interruptible import ABOVE_HANDLERS, Interruptible
from taskqueue.client.worker.middleware import Around, MiddlewareChain
from taskqueue.client.worker.produced import NOTHING, Gathering, Keep, Produced, WrongReturnError, several
from taskqueue.client.worker.tracing import RunSpan, Tracing
from taskqueue.error_texts import HEAD_BYTES, cut_text, kind_line
from taskqueue.protocol.values import NewTask

Handle = Callable[[Task], Any]

PART_BYTES: Final = 700
"""Of a traceback at most so many bytes of a frame, of the message of an exception, or of a note."""


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

    async def run(self, task: Task, around: Around, code: Interruptible, keep: Keep) -> Produced:
        """Return the new tasks and the result; raise what the handler raised, or an error for other values.

        Args:
            code: learns where the handler runs.
            keep: keeps those new tasks that are more than a report takes.
        """
        span = self._tracing.span_of(task)
        try:
            if not self._in_loop:
                produced = await self._run_in_thread(task, around, span, code, keep)
            else:
                code.in_loop = True
                with span.active(), around, self._own_process:
                    try:
                        result = self._handle(task)
                        if isinstance(result, CoroutineType):  # Nearly always; to ask what else it may be is slower.
                            returned = await result
                            produced = NOTHING if returned is None else await _gathered(returned, code, keep)
                        else:
                            produced = await _waited_for(result, code, keep)
                    except asyncio.CancelledError:
                        code.check_interrupted()
                        raise
                    around.produced = produced
        except BaseException as error:
            if isinstance(error, WrongReturnError):
                error.of(self._handle)
            span.end(error)
            raise
        span.end()
        return produced

    async def _run_in_thread(
        self, task: Task, around: Around, span: RunSpan, code: Interruptible, keep: Keep
    ) -> Produced:
        loop = asyncio.get_running_loop()

        def post(call: Callable[[], None]) -> None:
            loop.call_soon_threadsafe(call)

        def keep_from_thread(new: list[NewTask]) -> None:
            kept: ThreadFuture[None] = ThreadFuture(post)
            post(lambda: kept.run(keep(new)))
            code.wait_for(kept)

        result = await loop.run_in_executor(
            self._threads, code.call, self._in_thread, task, around, span, keep_from_thread
        )
        if around.goes_on:
            code.in_loop = True
            with span.active(), around:
                try:
                    around.produced = await _waited_for(result, code, keep)
                except asyncio.CancelledError:
                    code.check_interrupted()
                    raise
        return around.produced or NOTHING

    def _in_thread(self, task: Task, around: Around, span: RunSpan, keep: Callable[[list[NewTask]], None]) -> Any:
        """What the handler returned, if that has to be waited for."""
        try:
            with span.active(), around, self._own_process:
                result = self._handle(task)
                around.goes_on = _waits(result)
                if not around.goes_on:
                    around.produced = _produced(result, keep)
                return result
        except (StopIteration, GeneratorExit) as error:
            # No future can carry the first, and the second is how Python ends a coroutine.
            raise RuntimeError(f"the handler raised {type(error).__name__}") from error


def traceback_of(error: BaseException) -> str:
    """An error's traceback from the handler's own frames on. Its long parts are cut, so that place and type stay."""
    said = traceback.format_exception(type(error), error, handler_frames(error))
    return "".join(cut_text(part, PART_BYTES, PART_BYTES // 2) for part in said).rstrip()


def kind_of(error: BaseException) -> str:
    """An error's type as its traceback has it, and the first line of its message."""
    lines = traceback.format_exception_only(type(error), error)
    said = next((line for line in lines if not line.startswith(" ")), "")  # of a SyntaxError, the place comes first
    return kind_line(re.sub(r":\s*\n\s*", ": ", said[:HEAD_BYTES]))


def handler_frames(error: BaseException) -> TracebackType | None:
    """Frames of an error's traceback below those that led to the handler, if there are any; else all of them.

    A wrong return has none: the handler has ended, and how the worker looked at what came helps no one.
    """
    if isinstance(error, WrongReturnError):
        return None
    frame = trace = error.__traceback__
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(ABOVE_HANDLERS):
        frame = frame.tb_next
    return frame or trace


def _is_async(handle: Handle) -> bool:
    call = getattr(handle, "__call__", handle)  # noqa: B004
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in (handle, call))


async def _waited_for(result: Any, code: Interruptible, keep: Keep) -> Produced:
    if inspect.isawaitable(result):
        result = await result
    return await _gathered(result, code, keep)


async def _gathered(returned: Any, code: Interruptible, keep: Keep) -> Produced:
    gathering = Gathering()
    if isinstance(returned, AsyncGenerator):
        code.generator = returned
        async with aclosing(returned):
            await _gather_async(returned, gathering, keep)
    elif isinstance(returned, AsyncIterable):
        await _gather_async(returned, gathering, keep)
    else:
        try:
            for item in several(returned):
                if (full := gathering.add(item)) is not None:
                    await keep(full)
        finally:
            _close(returned)
    return gathering.produced()


async def _gather_async(items: AsyncIterable[Any], gathering: Gathering, keep: Keep) -> None:
    async for item in items:
        if (full := gathering.add(item)) is not None:
            await keep(full)


def _waits(result: Any) -> bool:
    return inspect.isawaitable(result) or isinstance(result, AsyncIterable)


def _produced(returned: Any, keep: Callable[[list[NewTask]], None]) -> Produced:
    if returned is None:
        return NOTHING
    gathering = Gathering()
    try:
        for item in several(returned):
            if (full := gathering.add(item)) is not None:
                keep(full)
    finally:
        _close(returned)
    return gathering.produced()


def _close(returned: Any) -> None:
    """Have a generator do what it does at its end here and now, not wherever it is forgotten."""
    if isinstance(returned, Generator):
        returned.close()


class OwnProcess:
    """Entered around each run of a handler; made in the worker's process."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Nothing: which process this is matters only when it ends."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            _end(error)


def _end(error: BaseException | None) -> None:
    code = 0
    if isinstance(error, SystemExit) and isinstance(error.code, int | None):
        code = error.code or 0
    elif error is not None:
        traceback.print_exception(error)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)
