"""What comes out of a run of a handler: new tasks, of which parts are kept while it goes on, and a result.

What is neither is a ``WrongReturnError``: it says which handler it was, what it returned, and what is expected.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Raw

from taskqueue.client.tasks.new_task import scheme_of
from taskqueue.client.tasks.pushes import as_new_task
from taskqueue.client.tasks.reports import NewTasksGathered, Result
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.values import NewTask

EXPECTED: Final = (
    "expected None, a url, a new_task(...), a map of its arguments, or several of these; "
    "a value that is to be kept with the task is a Result(value)"
)

_BINARY: Final = (bytes, bytearray, memoryview)


class WrongReturnError(TypeError):
    """A handler returned, or yielded, what is no new task and no result."""

    __module__ = "taskqueue"  # of 200 characters that lists have of an error, where it is defined would take 46

    def of(self, handle: Callable[..., Any]) -> None:
        """Say which handler it was."""
        function = getattr(handle, "func", handle)  # of a partial
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.args = (f"{getattr(function, '__module__', '')}.{name} {self.args[0]}",)


def several(returned: Any) -> Iterable[Any]:
    """What a handler returned, as several items.

    Raises:
        WrongReturnError: it is none of what a handler may return.
    """
    if returned is None:
        return ()
    if isinstance(returned, str | NewTask | Mapping | Result):
        return (returned,)
    if isinstance(returned, _BINARY) or not isinstance(returned, Iterable):
        raise WrongReturnError(f"returned {_told(returned)}; {EXPECTED}")
    return returned


def as_follow_up(item: Any) -> NewTask:
    """The new task that a handler returned, or yielded.

    Raises:
        WrongReturnError: it is none.
    """
    if isinstance(item, str) and ("\n" in item or not scheme_of(item)):
        raise WrongReturnError(f"returned {_told(item)}, which is not a url; {EXPECTED}")
    try:
        return as_new_task(item)
    except (TypeError, ValueError) as error:
        # Of a map the error says which fields there are.
        expected = "" if isinstance(item, Mapping) else f"; {EXPECTED}"
        raise WrongReturnError(f"returned {_told(item)}: {error}{expected}") from None


def _told(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"


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
