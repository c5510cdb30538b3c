"""Exceptions by which a handler decides about its task, and the test whether an exception is a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from taskqueue.client.tasks.push_options import Duration
from taskqueue.client.tasks.pushes import Item
from taskqueue.client.tasks.reports import checked_after, new_of_failure, next_attempt
from taskqueue.errors import TaskQueueError
from taskqueue.protocol.fields import STATUS_CODES
from taskqueue.protocol.values import Again, NewTask


class Retry(TaskQueueError):
    """Exception of a handler: not now; run the task again later.

    Args:
        after: time to wait: seconds, a text such as "5m", or a timedelta, up to a day, without using up a retry, for
            example a site's Retry-After; None: an ordinary failure, after the delay of the project's table.
        reason: text for operators.
        status_code: status of the site's answer, such as 429: the pace of the task's slot follows it. ``task.fetched``
            takes more facts, such as the headers.
        counts: True: this run uses up a retry; None: it does unless ``after`` is given.
        body, priority: new values for the task; None: unchanged.
        new: new tasks, stored together with this or not at all, as for ``client.failed``.
    """

    new: Sequence[NewTask] = ()
    again: Again | None = None

    def __init__(
        self,
        after: Duration | None = None,
        reason: str = "",
        *,
        status_code: int | None = None,
        counts: bool | None = None,
        body: Any = None,
        priority: int | None = None,
        new: Iterable[Item] = (),
    ) -> None:
        if status_code is not None and status_code not in STATUS_CODES:
            raise ValueError(f"Retry: status_code must be 100 to 999, not {status_code!r}")
        super().__init__(reason or "the handler asked for a retry")
        self.after = checked_after(after)
        self.status_code = status_code
        self.new = new_of_failure(new)
        self.counts, self.body, self.priority = counts, body, priority
        self.again = next_attempt(counts, body, priority)


class Drop(TaskQueueError):
    """Exception of a handler: the task has failed for good; trying again would not help.

    Args:
        reason: text for operators.
        new: new tasks, stored together with this or not at all, as for ``client.failed``.
    """

    new: Sequence[NewTask] = ()

    def __init__(self, reason: str = "", *, new: Iterable[Item] = ()) -> None:
        super().__init__(reason or "dropped by the handler")
        self.new = new_of_failure(new)


class PassedOn(TaskQueueError):
    """Exception of a handler: another process has the task now, and reports it with a client of its own.

    Raise it when the other process has the task, as ``Task.to_bytes`` or otherwise. The place is free then, and the
    lease goes on; if no process reports the task in time, it fails as if its handler had hung.
    """

    def __init__(self) -> None:
        super().__init__("passed on to another process")


class TooLate(TaskQueueError):
    """Exception in place of a handler's call: the task was not started in time, and goes back.

    No handler raises it.
    """

    def __init__(self) -> None:
        super().__init__("not started in time")


class RunEnded(BaseException):
    """Exception in a plain handler whose lease has ended, or was taken away, or whose worker stops.

    The run is to end.

    It comes between any two instructions, also in a ``finally``. Clean up, and let it pass. An ``async`` handler is
    cancelled instead, by asyncio.
    """

    def __init__(self) -> None:
        super().__init__("the worker ended this run: its lease ended, or was taken away, or the worker was stopped")


def is_failure(error: BaseException) -> bool:
    """Return True if the exception is a failure: neither a decision nor the end of its worker."""
    return (
        not isinstance(error, Retry | Drop | PassedOn | TooLate | RunEnded | KeyboardInterrupt | GeneratorExit)
        and not is_cancelled()
    )


def is_cancelled() -> bool:
    """Return True if the worker, not the handler, cancelled the code that runs here."""
    try:
        running = asyncio.current_task()
    except RuntimeError:  # A thread, which can't be cancelled.
        return False
    return running is not None and running.cancelling() > 0
