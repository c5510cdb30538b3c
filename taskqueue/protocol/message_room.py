"""How much has room in a message: what its parts take in it at most, and what is left beside them.

The bytes of a text are known only when it is encoded; that costs more than it is worth, so its characters are taken for
the longest there are, except where a text may fill the message. What is told here is never too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from taskqueue.protocol.fields import Assignment
from taskqueue.protocol.requests import TaskFilter
from taskqueue.protocol.views import TaskRow

_ENVELOPE_BYTES: Final = 1024
"""More than anything around a url and a body takes in a message."""

_CHARACTER_BYTES: Final = 4
"""Of the longest character in UTF-8."""

_ASSIGNMENT_BYTES: Final = 288
"""Of a task that is handed out, besides its body and the texts that are its own."""

_FETCH_BYTES: Final = 80
"""Of a project's ``fetch``, besides what it says: the name."""

_ROW_BYTES: Final = 160
"""Of a task in a list, besides its taskid, its url, its fetcher and its error."""

_ATTEMPT_BYTES: Final = 64
"""Of an attempt, besides its error and its fetcher."""

_OPERATION_BYTES: Final = 512
"""Of an operation, besides the names of its projects and the globs of its filter."""


def room_in(max_message: int) -> int:
    """Bytes for what a message of at most so many is about."""
    return max_message - _ENVELOPE_BYTES


def room_beside(url: str, max_message: int) -> int:
    """Bytes for a task's body, and for what goes with the task, in a message that carries it alone."""
    return max_message - _ENVELOPE_BYTES - _CHARACTER_BYTES * len(url)


def assignment_bytes(task: Assignment) -> int:
    """Of a task that is handed out."""
    texts = len(task.url) + len(task.taskid) + len(task.schedule.itag or "")
    return _ASSIGNMENT_BYTES + _CHARACTER_BYTES * texts + len(task.body)


def fetch_bytes(packed: Raw) -> int:
    """Of what a project's setting ``fetch`` says, under the project's name."""
    return len(packed) + _FETCH_BYTES


def row_bytes(row: TaskRow) -> int:
    """Of a task in a list."""
    return _ROW_BYTES + _CHARACTER_BYTES * (len(row.taskid) + len(row.url) + len(row.fetcher) + len(row.error))


def attempt_bytes(fetcher: str, error: str, *, errors: int = 1) -> int:
    """Of an attempt whose error is told so many times."""
    return _ATTEMPT_BYTES + len(fetcher.encode()) + errors * len(error.encode())


def operation_bytes(projects: Sequence[str], wanted: TaskFilter) -> int:
    """Of an operation."""
    return _OPERATION_BYTES + sum(map(len, projects)) + _CHARACTER_BYTES * (len(wanted.url) + len(wanted.error))
