"""Values of a run of a handler: new tasks, of which parts are stored while it goes on, and a result.

Any other value is a ``WrongReturnError``: it names the handler, the value, and the expected ones.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Raw

from taskqueue.client.tasks.new_task import RELATIVE, scheme_of
from taskqueue.client.tasks.pushes import as_new_task
from taskqueue.client.tasks.reports import NewTasksGathered, Result
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.values import NewTask

EXPECTED: Final = (
    "expected None, a URL, a new_task(...), a map of its arguments, or several of these; "
    "return a value that is to be kept with the task as Result(value)"
)

_BINARY: Final = (bytes, bytearray, memoryview)


class WrongReturnError(TypeError):
    """A handler returned, or yielded, a value that is neither a new task nor a result."""

    __module__ = "taskqueue"  # its own module would take 46 of the 200 characters that lists have for an error

    def of(self, handle: Callable[..., Any]) -> None:
        """Add the handler's name."""
        function = getattr(handle, "func", handle)  # of a partial
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.args = (f"{getattr(function, '__module__', '')}.{name} {self.args[0]}",)


def several(returned: Any) -> Iterable[Any]:
    """Return the items of a handler's return value.

    Raises:
        WrongReturnError: a handler must not return this value.
    """
    if returned is None:
        return ()
    if isinstance(returned, str | NewTask | Mapping | Result):
        return (returned,)
    if isinstance(returned, _BINARY) or not isinstance(returned, Iterable):
        raise WrongReturnError(f"returned {_shown(returned)}; {EXPECTED}")
    return returned


def as_follow_up(item: Any) -> NewTask:
    """Return the new task that a handler returned, or yielded.

    Raises:
        WrongReturnError: the value makes no task.
    """
    if isinstance(item, str) and ("\n" in item or not (scheme_of(item) or item.startswith(RELATIVE))):
        raise WrongReturnError(f"returned {_shown(item)}, which is not a URL; {EXPECTED}")
    try:
        return as_new_task(item)
    except (TypeError, ValueError) as error:
        # The error of a map lists the fields.
        expected = "" if isinstance(item, Mapping) else f"; {EXPECTED}"
        raise WrongReturnError(f"returned {_shown(item)}: {error}{expected}") from None


def _shown(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"


Keep = Callable[[list[NewTask]], Coroutine[Any, Any, None]]
"""Function that stores a part of the new tasks of a run, and waits for the answer.

Raises:
    RunEnded: its lease has ended, so the run is to end.
"""


class Produced(NamedTuple):
    """New tasks, except for parts that were stored before, and the task's result; nil: none."""

    new: list[NewTask]
    result: Raw


NOTHING: Final = Produced([], NIL)


class Gathering:
    """Values of one run, item by item, never more than one part takes."""

    __slots__ = ("_result", "_tasks")

    def __init__(self) -> None:
        self._tasks = NewTasksGathered()
        self._result: Result | None = None

    def add(self, item: Any) -> list[NewTask] | None:
        """Add an item; returns a full part, which is to be stored before the next item, or None.

        Raises:
            WrongReturnError: the item makes no task, or is a second result.
        """
        if isinstance(item, Result):
            self._set_result(item)
            return None
        task = as_follow_up(item)
        full = None if self._tasks.has_room(task) else self._tasks.take()
        self._tasks.add(task)
        return full

    def produced(self) -> Produced:
        """Return the tasks since the last part, and the result."""
        return Produced(self._tasks.tasks, NIL if self._result is None else self._result.packed)

    def _set_result(self, result: Result) -> None:
        if self._result is not None:
            raise WrongReturnError("returned two results; a task has one")
        self._result = result
