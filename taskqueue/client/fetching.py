"""What a client has fetched and not yet run, who waits for it, and the capacity to state because of that.

    select(n)      wants n once: capacity is n more than what it got before and has not finished
    tasks(...)     a standing capacity: as many leases at once, in hand or in the buffer, as long as it goes on

A task that arrives and that nobody here wants any more goes back at once, unstarted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from taskqueue.client.session import Session
from taskqueue.client.task import Task
from taskqueue.core.messages import MAX_CAPACITY, Handed, ProjectName
from taskqueue.errors import Closed


class Consumer(Struct, eq=False):
    """Somebody who takes tasks.

    Attributes:
        projects: whose; None is any project's.
        standing: leases that it wants to have at once, all the time.
        wanted: tasks that it waits for now, beside that.
    """

    projects: frozenset[str] | None
    standing: int = 0
    wanted: int = 0

    def wants(self, task: Task) -> bool:
        return (self.projects is None or task.project in self.projects) and (self.standing > 0 or self.wanted > 0)


class Waiting(NamedTuple):
    """A task in the buffer, until its lease runs out."""

    task: Task
    until: float


class Fetching:
    """The fetcher's side of a client.

    Args:
        session: told what is wanted.
        restate: called when the session has something new to say.
        release: called with tasks that nobody wants any more.
    """

    def __init__(self, session: Session, restate: Callable[[], None], release: Callable[[list[Task]], None]) -> None:
        self._session = session
        self._restate = restate
        self._release = release
        self._buffer: deque[Waiting] = deque()
        self._consumers: list[Consumer] = []
        self._selected: set[int] = set()
        self._sleepers: list[asyncio.Future[None]] = []

    def join(self, projects: Iterable[str] | None, standing: int = 0) -> Consumer:
        """Start to take tasks."""
        consumer = Consumer(_named(projects), standing)
        self._consumers.append(consumer)
        self.state()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Take no more; what is in the buffer only for this consumer goes back."""
        self._consumers.remove(consumer)
        unwanted = [waiting.task for waiting in self._buffer if not self._wanted(waiting.task)]
        self._buffer = deque(waiting for waiting in self._buffer if self._wanted(waiting.task))
        self.state()
        if unwanted:
            self._release(unwanted)

    async def take(self, consumer: Consumer, n: int) -> list[Task]:
        """At least one task, at most ``n``; waits for the first."""
        while not (tasks := self._pop(consumer, n)):
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            await sleeper
        return tasks

    async def select(self, n: int, projects: Iterable[str] | None) -> list[Task]:
        """Like ``take``, for once."""
        consumer = self.join(projects)
        consumer.wanted = n
        self.state()
        try:
            tasks = await self.take(consumer, n)
            self._selected.update(task.token for task in tasks)
            return tasks
        finally:
            consumer.wanted = 0
            self.leave(consumer)

    def arrive(self, handed: Sequence[Handed], fetch: Mapping[str, Raw], now: float) -> None:
        """Tasks have been handed to this client, with what their projects say of ``fetch``, by name."""
        # Out of the frame, which may hold a thousand tasks.
        defaults = {project: raw.copy() for project, raw in fetch.items()}
        unwanted = []
        for each in handed:
            task = Task(each, defaults.get(each.project))
            if self._wanted(task):
                self._buffer.append(Waiting(task, now + task.timeout))
            else:
                unwanted.append(task)
        if unwanted:
            self._release(unwanted)
        self._wake()

    def finished(self, tokens: Iterable[int]) -> None:
        """Their callers are done with these tasks: capacity that selected ones took is not to be filled again.

        Called before what is said of them is sent, so that the daemon hears it first.
        """
        over = self._selected.intersection(tokens)
        if over:
            self._selected -= over
            self.state()

    def state(self) -> None:
        """Tell the session what is wanted now."""
        self._session.want(self._capacity(), self._projects())
        self._restate()

    def close(self) -> None:
        """Whoever waits for a task is told that there won't be one."""
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_exception(Closed("the client was closed"))
        self._sleepers.clear()
        self._buffer.clear()

    def _pop(self, consumer: Consumer, n: int) -> list[Task]:
        now = asyncio.get_running_loop().time()
        mine: list[Task] = []
        others: deque[Waiting] = deque()
        while self._buffer and len(mine) < n:
            waiting = self._buffer.popleft()
            if not consumer.wants(waiting.task):
                others.append(waiting)
            elif waiting.until > now:
                mine.append(waiting.task)
        self._buffer.extendleft(reversed(others))
        return mine

    def _wanted(self, task: Task) -> bool:
        return any(consumer.wants(task) for consumer in self._consumers)

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def _capacity(self) -> int:
        self._selected = {token for token in self._selected if self._session.holds(token)}
        wanted = sum(consumer.standing + consumer.wanted for consumer in self._consumers)
        return min(wanted + len(self._selected), MAX_CAPACITY)

    def _projects(self) -> list[str] | None:
        """Of all consumers together; of the last one if there is none now, so that nothing changes needlessly."""
        wishes = [consumer.projects for consumer in self._consumers]
        if not wishes:
            return self._session.projects
        named = [projects for projects in wishes if projects is not None]
        return sorted(frozenset().union(*named)) if len(named) == len(wishes) else None


def _named(projects: Iterable[str] | None) -> frozenset[str] | None:
    """The wishes, if the daemon would take them: it refuses a whole hello for one name that can't be."""
    if projects is None:
        return None
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several names, such as [{projects!r}], got str")
    names = list(projects)
    for name in names:
        try:
            msgspec.convert(name, ProjectName)
        except msgspec.ValidationError:
            raise ValueError(f"projects: {name!r} is no project name: 1 to 64 letters, digits, _, - and .") from None
    return frozenset(names)
