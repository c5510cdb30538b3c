"""What a handler must not return: which handler it was, what it returned, and what is expected."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from taskqueue.client.tasks.push_many import as_new_task
from taskqueue.client.tasks.result import Result
from taskqueue.protocol.fields import NewTask

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
    if isinstance(item, str) and (item.startswith("<") or "\n" in item):
        raise WrongReturnError(f"returned {_told(item)}, which is not a url; {EXPECTED}")
    try:
        return as_new_task(item)
    except (TypeError, ValueError) as error:
        # Of a map the error says which fields there are.
        expected = "" if isinstance(item, Mapping) else f"; {EXPECTED}"
        raise WrongReturnError(f"returned {_told(item)}: {error}{expected}") from None


def _told(value: Any) -> str:
    return f"{type(value).__name__} {reprlib.repr(value)}"
