"""A task that a client has and nobody has begun: when it may be started, and until when; and who takes tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from taskqueue.client.tasks.task import Task

WAIT_PART: Final = 0.25
"""Of its lease, that a task may wait for somebody who has patience for a while only, or that has to be started soon."""


class Consumer(Struct, eq=False):
    """What takes tasks: a stream, a select or an intake.

    Attributes:
        projects: whose; None is any project's.
        standing: leases that it wants to have at once, all the time.
        slots: how many of them it runs at once.
        patience: seconds that a task may wait in the buffer, and a quarter of its lease at most; inf: as long as that.
        priority: fetchers, and consumers of one client, with a higher one are served first.
        wanted: tasks that it waits for now, beside that.
        ahead: while tasks of it are early it wants as many others beside ``standing``, so many at most.
        returned: tasks that have gone back because they waited too long.
        is_lazy: after one went back it wants none beside those that it runs, until it says so.
        arrived: called when tasks have come, or may be started now.
        ended: called with the token of each task that it has begun and that is over. None: nobody says so, and all is
            over when it leaves.
        lost: called with the token of each task that it has begun and whose lease the daemon has ended.
        closed: called when the client is closed, after which nothing comes.
    """

    projects: frozenset[str] | None
    standing: int = 0
    slots: int = 0
    patience: float = inf
    priority: int = 0
    wanted: int = 0
    ahead: int = 0
    returned: int = 0
    is_lazy: bool = False
    arrived: Callable[[], None] | None = None
    ended: Callable[[int], None] | None = None
    lost: Callable[[int], None] | None = None
    closed: Callable[[], None] | None = None

    def wants(self, task: Task) -> bool:
        return (self.projects is None or task.project in self.projects) and (self.standing > 0 or self.wanted > 0)


class BufferedTask(NamedTuple):
    """A task, for whom it was meant when it came, and its times by the loop's clock.

    Attributes:
        starts_at: before that it must not be started; its lease counts from then.
        until: then it goes back.
    """

    task: Task
    consumer: Consumer
    starts_at: float
    until: float

    def next_at(self, now: float) -> float:
        """When something is to be done about it."""
        return self.starts_at if self.starts_at > now else self.until


def buffered(task: Task, now: float, consumer: Consumer) -> BufferedTask:
    """A task that has just come."""
    starts_at = now + task.not_before
    wait = min(consumer.patience, task.timeout * WAIT_PART) if consumer.patience < inf else task.timeout
    if task.start_within is not None:
        wait = min(wait, task.start_within, task.timeout * WAIT_PART)
        task.start_by = time.monotonic() + task.not_before + wait
    task.lease_ends_at = starts_at + task.timeout
    return BufferedTask(task, consumer, starts_at, starts_at + wait)
