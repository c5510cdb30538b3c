"""What comes out of a run of a handler: new tasks, of which parts are kept while it goes on, and a result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from msgspec import Raw

from taskqueue.client.tasks.reports import NewTasksGathered
from taskqueue.client.tasks.result import Result
from taskqueue.client.worker.wrong_return import WrongReturnError, as_follow_up
from taskqueue.protocol.fields import NIL, NewTask

Keep = Callable[[list[NewTask]], Coroutine[Any, Any, None]]
"""Has a part of the new tasks of a run kept, and waits until it is.

Raises:
    RunEnded: its lease is no more; the run is to end.
"""


class Produced(NamedTuple):
    """New tasks, but for parts that were kept before, and what the task leaves behind; nil: nothing."""

    new: list[NewTask]
    result: Raw


NOTHING: Final = Produced([], NIL)


class Gathering:
    """What comes out of one run, item by item, and never more of it than one part takes."""

    __slots__ = ("_result", "_tasks")

    def __init__(self) -> None:
        self._tasks = NewTasksGathered()
        self._result: Result | None = None

    def add(self, item: Any) -> list[NewTask] | None:
        """Take an item; returns the part that it has no place in any more, which is to be kept before the next item.

        Raises:
            WrongReturnError: it is no task, or a second result.
        """
        if isinstance(item, Result):
            self._set_result(item)
            return None
        task = as_follow_up(item)
        full = None if self._tasks.has_room(task) else self._tasks.take()
        self._tasks.add(task)
        return full

    def produced(self) -> Produced:
        """Return what has come since the last part, and the result."""
        return Produced(self._tasks.tasks, NIL if self._result is None else self._result.packed)

    def _set_result(self, result: Result) -> None:
        if self._result is not None:
            raise WrongReturnError("returned two results; a task has one")
        self._result = result
