"""A user's handler: how it is called, its return values, its exceptions.

    async def handle(task)    runs in the event loop; so does an async generator
    def handle(task)          runs in a thread; so does a generator, to its end

It is called with a Task: ``task.url``, and the options of its fetch, project settings included, in ``task.fetch``. It
returns or yields new tasks: None, a URL, a ``new_task``, a map of its arguments, or several of these; one ``Result``
may be among them. Of many tasks a part is stored while the handler goes on; a generator is asked for no more until
then. Exceptions decide the outcome: ``Retry``, ``Drop``, anything else is a failure with its traceback, including
``SystemExit``; only ``KeyboardInterrupt`` stops the worker.

A handler may fork; where the child comes out of the handler, it ends.

    parent   handler ──fork──► returns ──► report
    child                └───► returns, or raises ──► end of the process

A child has a copy of the worker, but none of its threads: it can neither report nor take tasks, and would wait, or
spin, for ever. Its exit code is that of a program: 0, that of ``sys.exit``, or 1 after a traceback.
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
from taskqueue.protocol.values import NewTask
from taskqueue.texts.error_texts import HEAD_BYTES, cut_text, kind_line

Handle = Callable[[Task], Any]

PART_BYTES: Final = 700
"""Most bytes of a traceback's frame, an exception's message, or a note."""


class Handler:
    """Caller of the user's function.

    Args:
        handle: plain or async, returning or generating.
        threads: executor of plain functions.
        chain: middleware around each call.
    """

    def __init__(self, handle: Handle, threads: Executor, chain: MiddlewareChain) -> None:
        self._handle = handle
        self._threads = threads
        self._chain = chain
        self._tracing = Tracing()
        self._in_loop = _is_async(handle)
        self._own_process = OwnProcess()

    def around(self, task: Task) -> Around:
        """Make the middleware context of one ``run``."""
        return self._chain.around(task)

    async def run(self, task: Task, around: Around, code: Interruptible, keep: Keep) -> Produced:
        """Return the new tasks and the result; raise the handler's exception, or an error for other values.

        Args:
            code: records where the handler runs.
            keep: stores new tasks beyond the number that a report takes.
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
                        if isinstance(result, CoroutineType):  # Nearly always; checks for other types are slower.
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
        """Return the handler's value if that has to be awaited."""
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
    """Format an error's traceback from the handler's own frames on. Long parts are cut, so that place and type stay."""
    said = traceback.format_exception(type(error), error, handler_frames(error))
    return "".join(cut_text(part, PART_BYTES, PART_BYTES // 2) for part in said).rstrip()


def kind_of(error: BaseException) -> str:
    """Return an error's type as its traceback has it, and the first line of its message."""
    lines = traceback.format_exception_only(type(error), error)
    said = next((line for line in lines if not line.startswith(" ")), "")  # of a SyntaxError, the place comes first
    return kind_line(re.sub(r":\s*\n\s*", ": ", said[:HEAD_BYTES]))


def handler_frames(error: BaseException) -> TracebackType | None:
    """Return the frames of an error's traceback below those that led to the handler, if any; else all of them.

    A wrong return has none: the handler has ended, and the worker's own frames are of no use.
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
    """Close a generator here and now, not wherever it is garbage-collected."""
    if isinstance(returned, Generator):
        returned.close()


class OwnProcess:
    """Context of each run of a handler, which ends forked children; made in the worker's process."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __enter__(self) -> None:
        """Do nothing: the process matters only at the end."""

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
