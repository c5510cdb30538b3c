"""Middleware: calls around every run of a worker's handler, by the conventions of Dramatiq.

    before ─► before ─► handler ─► error ─► error ─► after ─► after
    first     second               second   first    second   first

1. ``before`` is called in the order in which the middleware was given, ``error`` and ``after`` in the opposite one.
2. ``before`` may raise ``Retry`` or ``Drop``, which count as if the handler had raised them; the handler is not called
   then.
3. Any other exception of middleware is logged, and changes nothing.
4. ``after`` is called with ``TooLate`` if ``before`` took so long that a task with a time to start goes back.
5. All are called where the handler runs: in its thread, or in the event loop, where they must not block.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import inf
from types import TracebackType
from typing import Any, Self

from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.outcome import Drop, Retry, TooLate, is_failure
from taskqueue.client.worker.produced import Produced
from taskqueue.protocol.values import NewTask

OnError = Callable[[Task, BaseException], object]

log = logging.getLogger("taskqueue.worker")


class Middleware:
    """Base class of middleware; derive from it, and write the methods that you need."""

    def before(self, task: Task) -> object:
        """Act before the handler is called."""

    def after(self, task: Task, *, new: list[NewTask] | None = None, error: BaseException | None = None) -> object:
        """Act after the handler, whatever its outcome.

        Args:
            new: its new tasks, except for parts that were stored before; None: it did not succeed.
            error: its exception, including ``Retry``, ``Drop`` and ``PassedOn``; None: it has succeeded.
        """

    def error(self, task: Task, error: BaseException) -> object:
        """Act after a failed handler: it raised an exception that is not a decision, such as ``Retry``."""


class OnErrorOnly(Middleware):
    """Middleware that calls a function with each failed task, and its handler's exception."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error

    def error(self, task: Task, error: BaseException) -> object:
        return self._on_error(task, error)


class MiddlewareChain:
    """All of a worker's middleware."""

    def __init__(self, middleware: Sequence[Middleware] = ()) -> None:
        self._middleware = middleware
        self._reversed = middleware[::-1]

    def around(self, task: Task) -> Around:
        """Make a context for one run."""
        return Around(self, task)

    def before(self, task: Task) -> None:
        """Call ``before`` of each; raises a decision of one of them."""
        for each in self._middleware:
            try:
                each.before(task)
            except (Retry, Drop):
                raise
            except Exception:
                _tell(each, "before")

    def ended(self, task: Task, new: list[NewTask] | None, error: BaseException | None) -> None:
        """Call ``error``, if the handler has failed, and ``after`` of each."""
        if error is not None and is_failure(error):
            for each in self._reversed:
                _call(each, "error", task, error)
        for each in self._reversed:
            _call(each, "after", task, new=new, error=error)


class Around:
    """Context of one run: calls ``before`` on entering, the rest on leaving, unless the run goes on elsewhere.

    Attributes:
        produced: values of the handler; None: it has not succeeded.
        goes_on: the run has not ended on leaving; ``ended`` is called later.
        began_at: time of the handler's call, by ``time.monotonic``; None: it was not called.
    """

    def __init__(self, chain: MiddlewareChain, task: Task) -> None:
        self._chain = chain
        self._task = task
        self.produced: Produced | None = None
        self.goes_on = False
        self.began_at: float | None = None

    def __enter__(self) -> Self:
        if not self.goes_on:
            has_limit = self._task.start_by < inf
            if has_limit:
                self._check_time()
            try:
                self._chain.before(self._task)
                if has_limit:
                    self._check_time()
            except BaseException as error:
                self._chain.ended(self._task, None, error)
                raise
            self.began_at = time.monotonic()
        self.goes_on = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or not self.goes_on:
            self._chain.ended(self._task, None if self.produced is None else self.produced.new, error)

    def _check_time(self) -> None:
        """Check that the task may still be started: in time, and while no other one has put its slot off.

        Raises:
            TooLate: it may not.
        """
        if self._task.start_by < time.monotonic() or self._task.is_put_off:
            raise TooLate


def _call(middleware: Middleware, name: str, *arguments: Any, **named: Any) -> None:
    try:
        getattr(middleware, name)(*arguments, **named)
    except Exception:
        _tell(middleware, name)


def _tell(middleware: Middleware, name: str) -> None:
    log.exception("event=middleware-failed middleware=%s method=%s", type(middleware).__name__, name)
