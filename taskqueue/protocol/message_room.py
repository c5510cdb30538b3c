"""Room in messages: upper bounds of the bytes of their parts, and the bytes that remain beside them.

Encoding each text to count its bytes costs too much, so each character counts as the longest one, except where a text
may fill the message. A bound is never too low.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Raw

from taskqueue.protocol.fields import MAX_VALIDATOR_CHARS
from taskqueue.protocol.flows import FlowTaskStatus
from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.tasks import ItemError, PackedParent, TaskRow
from taskqueue.protocol.values import PLAIN, Assignment, RerunProgress, Schedule, TaskFilter, UndoProgress

_ENVELOPE_BYTES: Final = 1024
"""Upper bound of the bytes around a URL and a body in a message."""

_CHARACTER_BYTES: Final = 4
"""Bytes of the longest character in UTF-8."""

_ASSIGNMENT_BYTES: Final = 384
"""Bytes of an assigned task besides its body and its own texts."""

VALIDATORS_BYTES: Final = 3 * (_CHARACTER_BYTES * MAX_VALIDATOR_CHARS + 20)
"""Upper bound of the bytes of etag, last_modified and content_hash of an assigned task."""

_FETCH_BYTES: Final = 80
"""Bytes of a project's ``fetch`` besides its value; includes the project's name."""

_ROW_BYTES: Final = 192
"""Bytes of a task in a list besides its texts."""

_PARENT_BYTES: Final = 80
"""Bytes of a parent besides its names and its result."""

_INDEX_BYTES: Final = 8
"""Bytes of a parent of a flow's task, besides its texts."""

_OUTCOME_BYTES: Final = 10
"""Bytes of the longest outcome of a task."""

_STATE_BYTES: Final = 11
"""Bytes of the longest state of a task."""

_LIST_BYTES: Final = 5
"""Bytes of a list besides its items."""

_ERROR_BYTES: Final = 48
"""Bytes of an item error besides its reason."""

TOKEN_BYTES: Final = 9
"""Bytes of the longest token."""

_ATTEMPT_BYTES: Final = 64
"""Bytes of an attempt besides its texts."""

_PULSE_BYTES: Final = 208
"""Bytes of a project in ``watch-reply`` besides its texts."""

PULSE_BYTES_MOST: Final = 4096
"""Upper bound of the bytes of a project in ``watch-reply``: three names of 64 and a reason of 300 characters."""

_OPERATION_BYTES: Final = 704
"""Bytes of an operation besides the names of its projects and the globs of its filter."""

_RERUN_BYTES: Final = 96
_UNDO_BYTES: Final = 512
"""Bytes of what an undo has brought back, besides its names."""
_LAYER_BYTES: Final = 32
_TEXT_BYTES: Final = 5
"""Bytes of a text besides its characters."""


def room_in(max_message: int) -> int:
    """Return the bytes for the content of a message of at most ``max_message`` bytes."""
    return max_message - _ENVELOPE_BYTES


def room_beside(url: str, schedule: Schedule, max_message: int) -> int:
    """Return the bytes for a task's body and its other values in a message with this task alone."""
    texts = len(url) if schedule is PLAIN else len(url) + _texts(schedule)
    return max_message - _ENVELOPE_BYTES - _CHARACTER_BYTES * texts


def _texts(schedule: Schedule) -> int:
    """Count the characters of a schedule's texts."""
    itag, slot, job = schedule.itag, schedule.slot, schedule.job
    texts = (0 if itag is None else len(itag)) + (0 if slot is None else len(slot))
    return texts if job is None else texts + len(job)


def errors_that_fit(
    errors: list[ItemError], outcomes: int, lists: int, max_message: int, states: int = 0
) -> list[ItemError]:
    """Return the first errors that fit into a message beside that many outcomes, lists of outcomes and states."""
    room = max_message - _ENVELOPE_BYTES - _OUTCOME_BYTES * outcomes - _LIST_BYTES * lists - _STATE_BYTES * states
    for place, error in enumerate(errors):
        room -= _ERROR_BYTES + len(error.reason.encode())
        if room < 0:
            return errors[:place]
    return errors


def assignment_bytes(task: Assignment) -> int:
    """Return an upper bound of the bytes of an assigned task."""
    texts = len(task.url) + len(task.taskid) + (0 if task.schedule is PLAIN else _texts(task.schedule))
    texts += len(task.etag) + len(task.last_modified) + len(task.content_hash) + len(task.slot)
    return _ASSIGNMENT_BYTES + _CHARACTER_BYTES * texts + len(task.body)


def fetch_bytes(packed: Raw) -> int:
    """Return an upper bound of the bytes of a project's ``fetch``, including the project's name."""
    return len(packed) + _FETCH_BYTES


def row_bytes(row: TaskRow) -> int:
    """Return an upper bound of the bytes of a task in a list."""
    texts = len(row.taskid) + len(row.url) + len(row.fetcher) + len(row.error) + len(row.kind) + len(row.job)
    return _ROW_BYTES + _CHARACTER_BYTES * texts


def parent_bytes(parent: PackedParent) -> int:
    """Return an upper bound of the bytes of a parent in a list of parents."""
    return _PARENT_BYTES + _CHARACTER_BYTES * (len(parent.project) + len(parent.taskid)) + len(parent.result)


def flow_task_bytes(view: FlowTaskStatus) -> int:
    """Return an upper bound of the bytes of a flow's task."""
    texts = len(view.taskid) + len(view.url)
    texts += sum(len(each[0]) + len(each[1]) for each in view.depends_on if not isinstance(each, int))
    return _ROW_BYTES + _INDEX_BYTES * len(view.depends_on) + _CHARACTER_BYTES * texts


def attempt_bytes(fetcher: str, error: str, kind: str, *, errors: int = 1) -> int:
    """Return an upper bound of the bytes of an attempt whose error occurs ``errors`` times."""
    return _ATTEMPT_BYTES + len(fetcher.encode()) + len(kind.encode()) + errors * len(error.encode())


def pulse_bytes(pulse: ProjectPulse) -> int:
    """Return an upper bound of the bytes of a project in ``watch-reply``."""
    texts = len(pulse.name) + len(pulse.group) + len(pulse.bucket) + len(pulse.reason)
    return _PULSE_BYTES + _CHARACTER_BYTES * texts


def operation_bytes(
    projects: Sequence[str], wanted: TaskFilter, rerun: RerunProgress | None, undo: UndoProgress | None
) -> int:
    """Return an upper bound of the bytes of an operation."""
    globs = _CHARACTER_BYTES * (len(wanted.url) + len(wanted.error))
    size = _OPERATION_BYTES + sum(map(len, projects)) + globs + len(wanted.job)
    if undo is not None:
        names = [*undo.children_named, *undo.finished_named, *undo.flows_named]
        return size + _UNDO_BYTES + sum(_TEXT_BYTES + _CHARACTER_BYTES * len(name) for name in names)
    if rerun is None:
        return size
    taskids = [rerun.taskid, *(taskid for layer in rerun.layers for taskid in layer.taskids)]
    texts = sum(_TEXT_BYTES + _CHARACTER_BYTES * len(taskid) for taskid in taskids)
    return size + _RERUN_BYTES + _LAYER_BYTES * len(rerun.layers) + texts
