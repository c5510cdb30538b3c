"""What a worker takes its tasks from: a standing order at its client, which follows what the slots finish.

daemon ──► buffer of the client ──take──► slot ──start … stop──► free
                   └── waited too long ──┴── begun too late: back, unstarted; less is ordered before that
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final, Self

from taskqueue.client.fetcher.fetch_buffer import FetchBuffer
from taskqueue.client.fetcher.prefetch import Prefetch
from taskqueue.client.tasks.task import Task
from taskqueue.protocol.requests import Hung

WAIT_SECONDS: Final = 1.0
"""A task that has waited for a slot so long goes back, or after a quarter of its lease if that is less."""


class TaskSupply:
    """Entered, it takes tasks; left, what was not started goes back.

    Args:
        fetching: of the client.
        projects: whose tasks; None is any project's.
        slots: tasks that run at once.
        prefetch: see ``Prefetch``.
        priority: fetchers with a higher one are served first.
    """

    def __init__(
        self,
        fetching: FetchBuffer,
        projects: Iterable[str] | None,
        slots: int,
        prefetch: int | None = None,
        priority: int = 0,
    ) -> None:
        self._fetching = fetching
        self._projects = projects
        self._slots = slots
        self._prefetch = Prefetch(slots, prefetch)
        self._priority = priority

    def __enter__(self) -> Self:
        self._time = asyncio.get_running_loop().time
        standing = self._slots + self._prefetch.size
        self._consumer = self._fetching.join(self._projects, standing, self._slots, WAIT_SECONDS, self._priority)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._fetching.leave(self._consumer)

    async def take(self) -> Task:
        """The next task, as soon as there is one."""
        if (task := self._fetching.take_now(self._consumer, self._time())) is not None:
            return task
        return (await self._fetching.take(self._consumer, 1))[0]

    def start(self, task: Task, when_lost: Callable[[], None] | None = None) -> None:
        """A handler begins with a task; ``when_lost`` is called if the daemon ends its lease meanwhile."""
        self._fetching.begin(task.token, when_lost=when_lost)

    def holds(self, task: Task) -> bool:
        """The task's lease is in force, as far as is known here."""
        return self._fetching.holds(task.token)

    def tell_hung(self, hung: Hung | None, since: float) -> None:
        """Tell the daemon which places hang; None: none. ``since``: when the first lease ended, by the loop's clock."""
        self._fetching.tell_hung(self._consumer, hung, since)

    def stop(self, task: Task, seconds: float, now: float) -> None:
        """It works on it no more, after so many seconds.

        Args:
            now: the loop's time.
        """
        self._fetching.end(task.token)
        if self._consumer.returned:
            self._consumer.returned = 0
            self._prefetch.waited_too_long()
        if self._prefetch.ran(seconds, now):
            self._fetching.resize(self._consumer, self._slots + self._prefetch.size, self._prefetch.ahead)

    def give_back(self, task: Task) -> None:
        """It was too late for its handler to be called: it goes back, and its slot is free."""
        self._fetching.end(task.token)
        self._fetching.give_back([task], self._consumer)
