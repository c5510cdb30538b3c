"""What a client has fetched and not yet run, who waits for it, and the capacity to state because of that.

    select(n)      wants n once: capacity is n more than what it got before and has not finished
    tasks(...)     a standing capacity: as many leases at once, in hand or in the buffer, as long as it goes on

To the daemon a client is one fetcher: its priority is the highest of its consumers, and what comes goes to that first.
A task that arrives and that nobody here wants any more goes back at once, unstarted; so does one that waits longer than
its consumer's patience, or whose lease runs out meanwhile. The capacity is lowered before anything goes back, because
the daemon would hand out the same again; not while the session drains, because the daemon hands out nothing then.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from taskqueue.client.connection.session import ClientSession
from taskqueue.client.tasks.parents import ParentPages
from taskqueue.client.tasks.task import Task
from taskqueue.errors import Closed
from taskqueue.protocol.fields import MAX_CAPACITY, Assignment, Priority, ProjectName

WAIT_PART: Final = 0.25
"""Of its lease, that a task may wait for somebody who has patience for a while only."""


class Consumer(Struct, eq=False):
    """Somebody who takes tasks.

    Attributes:
        projects: whose; None is any project's.
        standing: leases that it wants to have at once, all the time.
        slots: how many of them it runs at once.
        patience: seconds that a task may wait in the buffer, and a quarter of its lease at most; inf: as long as that.
        priority: fetchers, and consumers of one client, with a higher one are served first.
        wanted: tasks that it waits for now, beside that.
        returned: tasks that have gone back because they waited too long.
    """

    projects: frozenset[str] | None
    standing: int = 0
    slots: int = 0
    patience: float = inf
    priority: int = 0
    wanted: int = 0
    returned: int = 0

    def wants(self, task: Task) -> bool:
        return (self.projects is None or task.project in self.projects) and (self.standing > 0 or self.wanted > 0)


class BufferedTask(NamedTuple):
    """A task in the buffer, until it goes back or its lease ends; for whom it was meant when it came."""

    task: Task
    until: float
    ends_at: float
    consumer: Consumer


class FetchBuffer:
    """The fetcher's side of a client.

    Args:
        session: told what is wanted.
        restate: called when the session has something new to say.
        release: called with tasks that nobody wants any more.
        parents: asks for what tasks have waited for.
    """

    def __init__(
        self,
        session: ClientSession,
        restate: Callable[[], None],
        release: Callable[[list[Task]], None],
        parents: ParentPages,
    ) -> None:
        self._session = session
        self._parents = parents
        self._restate = restate
        self._release = release
        self._buffer: deque[BufferedTask] = deque()
        self._consumers: list[Consumer] = []
        self._selected: set[int] = set()
        self._begun: dict[int, Consumer | None] = {}
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    def join(
        self,
        projects: Iterable[str] | None,
        standing: int = 0,
        slots: int | None = None,
        patience: float = inf,
        priority: int = 0,
    ) -> Consumer:
        """Start to take tasks; ``slots``: how many run at once, None is all.

        Raises:
            ValueError: no project is named so, or the priority is none; nothing has changed.
        """
        running = standing if slots is None else slots
        consumer = Consumer(_named(projects), standing, running, patience, checked_priority(priority))
        insort(self._consumers, consumer, key=lambda other: -other.priority)
        self.tell_session()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Take no more; what is in the buffer only for this consumer goes back.

        What it has begun and not reported takes room for as long as its lease then: nobody may ever say that it is
        over.
        """
        self._consumers.remove(consumer)
        for token in [token for token, beginner in self._begun.items() if beginner is consumer]:
            self.end(token)
        unwanted = [waiting.task for waiting in self._buffer if not self._wanted(waiting.task)]
        self._buffer = deque(waiting for waiting in self._buffer if self._wanted(waiting.task))
        self.tell_session()
        if unwanted:
            self._release(unwanted)

    def resize(self, consumer: Consumer, standing: int) -> None:
        """From now on this consumer wants so many leases at once."""
        consumer.standing = standing
        self.tell_session()

    async def take(self, consumer: Consumer, n: int, *, until_drained: bool = False) -> list[Task]:
        """At least one task, at most ``n``; waits for the first, or ``until_drained``: none, as soon as it drains."""
        while not (tasks := self._pop(consumer, n)):
            if until_drained and self._session.draining:
                return []
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            insort(self._sleepers, (-consumer.priority, sleeper), key=itemgetter(0))
            await sleeper
        return tasks

    async def select(
        self,
        n: int,
        projects: Iterable[str] | None,
        priority: int = 0,
        asked: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Task]:
        """Take at most ``n`` tasks, for once.

        Args:
            asked: returns when the daemon has handed out what it has ready now, which may be nothing; None: wait for
                the first task.
        """
        consumer = self.join(projects, priority=priority)
        consumer.wanted = n
        self.tell_session()
        try:
            if asked is not None:
                await asked()
            tasks = self._pop(consumer, n) if asked else await self.take(consumer, n)
            for task in tasks:
                self._selected.add(task.token)
                self._session.start(task.token)
            return tasks
        finally:
            consumer.wanted = 0
            self.leave(consumer)

    def arrive(self, handed: Sequence[Assignment], fetch: Mapping[str, Raw], now: float) -> None:
        """Tasks have been handed to this client, with what their projects say of ``fetch``, by name."""
        # Out of the frame, which may hold a thousand tasks.
        defaults = {project: raw.copy() for project, raw in fetch.items()}
        self._parents.note_loop()
        wanted, unwanted = [], []
        for each in handed:
            task = Task(each, defaults.get(each.project), self._parents)
            if consumer := self._wanted(task):
                wanted.append(BufferedTask(task, now + _wait_seconds(task, consumer), now + task.timeout, consumer))
            else:
                unwanted.append(task)
        if unwanted:
            self._release(unwanted)
        self._buffer.extend(wanted)
        self._watch(wanted)
        self._wake()

    def drain(self) -> None:
        """Nothing new comes: hand back what nobody has taken, and tell those who wait."""
        unwanted = [waiting.task for waiting in self._buffer]
        self._buffer.clear()
        if unwanted:
            self._release(unwanted)
        self._wake()

    def finished(self, tokens: Iterable[int]) -> None:
        """Their callers are done with these tasks: capacity that selected ones took is not to be filled again.

        Called before what is said of them is sent, so that the daemon hears it first.
        """
        tokens = list(tokens)
        for token in tokens:
            if token in self._begun:
                self.end(token)
        over = self._selected.intersection(tokens)
        self._forget(over)
        if over:
            self.tell_session()

    def begin(self, token: int, consumer: Consumer | None = None) -> None:
        """Somebody's code works on this task from now on, whatever becomes of its lease, until ``end``.

        Args:
            consumer: nobody does any more when it leaves; None: that is said by ``end``, or a report.
        """
        self._begun[token] = consumer
        self._session.start(token)

    def end(self, token: int) -> None:
        """It does so no more."""
        self._begun.pop(token, None)
        self._session.stop(token)

    def tell_session(self) -> None:
        """Tell the session what is wanted now."""
        capacity = self._capacity()
        self._session.want(capacity, self._projects(), self._slots(capacity), priority=self._priority())
        self._restate()

    def close(self) -> None:
        """Whoever waits for a task is told that there won't be one."""
        for _, sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_exception(Closed("the client was closed"))
        self._sleepers.clear()
        self._buffer.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _pop(self, consumer: Consumer, n: int) -> list[Task]:
        now = asyncio.get_running_loop().time()
        mine: list[Task] = []
        over: list[Task] = []
        others: deque[BufferedTask] = deque()
        while self._buffer and len(mine) < n:
            waiting = self._buffer.popleft()
            if consumer.wants(waiting.task):
                (mine if waiting.ends_at > now else over).append(waiting.task)
            else:
                others.append(waiting)
        self._buffer.extendleft(reversed(others))
        if over:
            self._release(over)
        return mine

    def _watch(self, waiting: Iterable[BufferedTask]) -> None:
        """Look again when the first of these has waited for long enough; one timer for all of them."""
        at = min((each.until for each in waiting), default=inf)
        if at == inf or (self._timer is not None and self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._give_back)

    def _give_back(self) -> None:
        """Hand back what has waited too long, after lowering what is wanted to what its consumers run."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        late = [waiting for waiting in self._buffer if waiting.until <= now]
        if late:
            self._buffer = deque(waiting for waiting in self._buffer if waiting.until > now)
            for waiting in late:
                waiting.consumer.returned += 1
                waiting.consumer.standing = min(waiting.consumer.standing, waiting.consumer.slots)
            self.tell_session()
            self._release([waiting.task for waiting in late])
        self._watch(self._buffer)

    def _wanted(self, task: Task) -> Consumer | None:
        if self._session.draining:
            return None
        return next((consumer for consumer in self._consumers if consumer.wants(task)), None)

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for _, sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def _capacity(self) -> int:
        self._forget({token for token in self._selected if not self._session.holds(token)})
        wanted = sum(consumer.standing + consumer.wanted for consumer in self._consumers)
        return min(wanted + len(self._selected), MAX_CAPACITY)

    def _forget(self, tokens: set[int]) -> None:
        """Their callers are done with these tasks, or can't be waited for: the leases have ended."""
        self._selected -= tokens
        for token in tokens:
            self._session.stop(token)

    def _slots(self, capacity: int) -> int | None:
        """How many run at once; None: all that are wanted."""
        slots = len(self._selected) + sum(consumer.slots + consumer.wanted for consumer in self._consumers)
        return max(1, slots) if slots < capacity else None

    def _priority(self) -> int:
        """The highest of all consumers; of the last one if there is none now, so that nothing changes needlessly."""
        return self._consumers[0].priority if self._consumers else self._session.priority

    def _projects(self) -> list[str] | None:
        """Of all consumers together; of the last one if there is none now, so that nothing changes needlessly."""
        wishes = [consumer.projects for consumer in self._consumers]
        if not wishes:
            return self._session.projects
        named = [projects for projects in wishes if projects is not None]
        return sorted(frozenset().union(*named)) if len(named) == len(wishes) else None


def _wait_seconds(task: Task, consumer: Consumer) -> float:
    return min(consumer.patience, task.timeout * WAIT_PART) if consumer.patience < inf else task.timeout


def checked_priority(priority: int) -> int:
    """The priority, if the daemon would take it: it refuses a whole hello for one that can't be."""
    try:
        return msgspec.convert(priority, Priority)
    except msgspec.ValidationError:
        raise ValueError(f"priority: expected an integer from -2^31 to 2^31 - 1, got {priority!r}") from None


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
            raise ValueError(
                f"projects: {name!r} is no project name: 1 to 64 ASCII letters, digits, _, - and ."
            ) from None
    return frozenset(names)
