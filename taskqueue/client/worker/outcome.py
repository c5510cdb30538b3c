"""What a handler may raise to decide what becomes of its task, and what of the rest is a failure."""

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
    """Raised by a handler: not now; run the task again later.

    Args:
        after: seconds, a text such as "5m", or a timedelta, up to a day, without using up a retry, such as what a
            site's Retry-After says; None: an ordinary failure, after the delay of the project's table.
        reason: for people.
        status_code: of the site's answer, such as 429: the pace of the task's slot follows it. ``task.fetched`` can say
            more, its headers among others.
        counts: this run uses up a retry; None: it does unless ``after`` is given.
        body, priority: of the task from now on; None: as they were.
        new: new tasks, kept together with this or not at all, as for ``client.failed``.
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
    """Raised by a handler: the task has failed for good; trying again would not help.

    Args:
        reason: for people.
        new: new tasks, kept together with this or not at all, as for ``client.failed``.
    """

    new: Sequence[NewTask] = ()

    def __init__(self, reason: str = "", *, new: Iterable[Item] = ()) -> None:
        super().__init__(reason or "dropped by the handler")
        self.new = new_of_failure(new)


class PassedOn(TaskQueueError):
    """Raised by a handler: another process has the task now, and reports it with a client of its own.

    Raise it when the task is out of your hands, as ``Task.to_bytes`` or otherwise. Its slot is free then, its lease
    goes on; if nobody reports it in time it has failed, as if its handler had hung.
    """

    def __init__(self) -> None:
        super().__init__("passed on to another process")


class TooLate(TaskQueueError):
    """Raised instead of calling a handler: its task was not started in time, and goes back. No handler raises it."""

    def __init__(self) -> None:
        super().__init__("not started in time")


class RunEnded(BaseException):
    """Raised in a plain handler whose lease is over, or was taken away, or whose worker stops: the run is to end.

    It comes between any two instructions, also in a ``finally``. Clean up, and let it pass. An ``async`` handler is
    cancelled instead, as asyncio does it.
    """

    def __init__(self) -> None:
        super().__init__("the worker ended this run: its lease was over, or was taken away, or the worker was stopped")


def is_failure(error: BaseException) -> bool:
    """The handler failed: what it raised is no decision, and not the end of its worker."""
    return (
        not isinstance(error, Retry | Drop | PassedOn | TooLate | RunEnded | KeyboardInterrupt | GeneratorExit)
        and not is_cancelled()
    )


def is_cancelled() -> bool:
    """It was the worker, not the handler, that cancelled what is running here."""
    try:
        running = asyncio.current_task()
    except RuntimeError:  # A thread, which nobody can cancel.
        return False
    return running is not None and running.cancelling() > 0
