"""What a worker says itself of a task's fetch: how long it took, and what its exception tells.

It says so of tasks of slots only, whose pace follows it: what is reported of others is what their handlers say, and
whatever a handler has said stands.
"""

from __future__ import annotations

import logging
import time

from taskqueue.client.tasks.fetched import REFUSALS
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.fetch_errors import told_by
from taskqueue.protocol.choices import ErrorKind

log = logging.getLogger("taskqueue.worker")


def note_success(task: Task, began_at: float | None) -> None:
    """The handler has returned.

    Args:
        began_at: when it was called, by ``time.monotonic``; None: it was not.
    """
    _note_seconds(task, began_at)


def note_decision(task: Task, began_at: float | None, decision: BaseException, status_code: int | None = None) -> None:
    """The handler has raised ``Retry`` or ``Drop``, perhaps because of an error, and perhaps with a status."""
    if status_code is not None:
        task.fetched(status_code)
    if began_at is not None:
        _note_error(task, decision, unknown=None)
    _note_seconds(task, began_at)


def note_failure(task: Task, began_at: float | None, error: BaseException) -> None:
    """The handler has failed."""
    if began_at is not None:
        _note_error(task, error, unknown="other")
    _note_seconds(task, began_at)


def _note_seconds(task: Task, began_at: float | None) -> None:
    """Measured up to now, shortly before the report goes: so the fetch counts as begun at its start, or later."""
    said = task.how_fetched
    if task.start_within is not None and began_at is not None and (said is None or said.seconds is None):
        task.fetched(seconds=time.monotonic() - (task.fetch_began_at or began_at))


def _note_error(task: Task, error: BaseException, unknown: ErrorKind | None) -> None:
    said = task.how_fetched
    if task.start_within is None or (said is not None and said.error_kind is not None):
        return
    if said is not None and said.status_code is not None:
        # There was an answer; what went wrong after a good one was not the fetch.
        if said.status_code >= REFUSALS:
            task.fetched(error_kind="http")
        return
    try:
        told = told_by(error)
        task.fetched(told.status_code, told.headers, error_kind=told.kind or unknown)
    except Exception:  # What an exception carries is somebody else's code.
        log.debug("event=unreadable-error error=%s", type(error).__name__, exc_info=True)
        task.fetched(error_kind=unknown)
