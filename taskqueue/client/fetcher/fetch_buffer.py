"""Buffer of tasks that a client has fetched and not yet run, its consumers, and the capacity to state for them.

    select(n)      wants n once: capacity is n more than the tasks that it got before and has not finished
    stream(...)    a standing capacity: as many leases at once, in hand or in the buffer, as long as it goes on

To the daemon a client is one fetcher: its priority is the highest of its consumers, and tasks that arrive go to that
consumer first. A task that arrives and that no consumer wants any more goes back at once, unstarted; so does one that
waits longer than its consumer's patience, or whose lease runs out meanwhile. The capacity is lowered before a task goes
back, because the daemon would dispatch the same one again; not while the session drains, because the daemon dispatches
nothing then.

    arrival ──► early ──not_before──► in the buffer ──► taken
                                         └── later than start_within, its consumer's patience, its lease ──► back

Early tasks stand apart: they delay nothing, and a consumer may want as many others meanwhile (``ahead``). Tasks of a
slot that a running task of this client may put off are not taken; see ``put_offs``.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right, insort
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from math import inf
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from msgspec import Raw, Struct
from msgspec.structs import replace

from taskqueue.client.arguments import checked_capacity, checked_names, checked_priority
from taskqueue.client.connection.session import ClientSession
from taskqueue.client.tasks.notes import Notes
from taskqueue.client.tasks.parents import ParentPages
from taskqueue.client.tasks.put_offs import PutOffs, SlotOf
from taskqueue.client.tasks.task import Task
from taskqueue.errors import ClientClosed, ClientError
from taskqueue.protocol.fetchers import Hung
from taskqueue.protocol.fields import MAX_CAPACITY
from taskqueue.protocol.values import Assignment

WAIT_PART: Final = 0.25
"""Part of a lease for which its task may wait for a consumer with limited patience, or before a required start."""


class Consumer(Struct, eq=False):
    """Caller that takes tasks: a stream, a select or an intake.

    Attributes:
        projects: projects to take tasks of; None: all.
        standing: leases that it wants to have at once, all the time.
        places: tasks that it runs at once.
        patience: seconds that a task may wait in the buffer, at most a quarter of its lease; inf: its whole lease.
        priority: fetchers, and consumers of one client, with a higher priority are served first.
        wanted: tasks that it waits for now, beside those.
        ahead: most other tasks that it wants, beside ``standing``, while as many of its tasks are early.
        returned: tasks that have gone back because they waited too long.
        is_lazy: after a task went back it wants none beside those that it runs, until it asks again.
        arrived: called when tasks have arrived, or may be started now.
        ended: called with the token of each task that it has begun and that has ended. None: nothing reports ends, and
            all its tasks end when it leaves.
        lost: called with the token of each task that it has begun and whose lease the daemon has ended.
        closed: called when the client is closed, after which no task comes.
    """

    projects: frozenset[str] | None
    standing: int = 0
    places: int = 0
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
    """A task, the consumer that it was meant for on arrival, and its times by the loop's clock.

    Attributes:
        starts_at: earliest start; its lease counts from then.
        until: time at which it goes back.
    """

    task: Task
    consumer: Consumer
    starts_at: float
    until: float

    def next_at(self, now: float) -> float:
        """Return the time at which it may start, or else goes back."""
        return self.starts_at if self.starts_at > now else self.until


def buffered(task: Task, now: float, consumer: Consumer) -> BufferedTask:
    """Make the buffered task of one that has just arrived."""
    starts_at = now + task.not_before
    wait = min(consumer.patience, task.timeout * WAIT_PART) if consumer.patience < inf else task.timeout
    if task.start_within is not None:
        wait = min(wait, task.start_within, task.timeout * WAIT_PART)
        task.start_by = time.monotonic() + task.not_before + wait
    task.lease_ends_at = starts_at + task.timeout
    return BufferedTask(task, consumer, starts_at, starts_at + wait)


EARLY_SECONDS: Final = 0.1
"""Shortest time between two hellos that only report other early tasks."""


class FetchBuffer:
    """Fetching side of a client.

    Args:
        session: states what is wanted.
        restate: called when the session has something new to state.
        release: called with tasks that no consumer wants any more.
        parents: asks for the tasks that others have waited for.
        notes: sends the notes of tasks.
    """

    def __init__(
        self,
        session: ClientSession,
        restate: Callable[[], None],
        release: Callable[[Sequence[Task]], None],
        parents: ParentPages,
        notes: Notes,
    ) -> None:
        self._session = session
        self._parents = parents
        self._notes = notes
        self._put_offs = PutOffs(session.holds, self._wake_soon)
        self._restate = restate
        self._release = release
        self._buffer: deque[BufferedTask] = deque()
        self._early: list[BufferedTask] = []
        self._early_told = 0
        self._early_told_at = -inf
        self._consumers: list[Consumer] = []
        self._selected: set[int] = set()
        self._begun: dict[int, Consumer] = {}
        self._hung: dict[Consumer, tuple[float, Hung]] = {}
        self._sleepers: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def join(
        self,
        projects: Iterable[str] | None,
        standing: int = 0,
        places: int | None = None,
        patience: float = inf,
        priority: int = 0,
        wanted: int = 0,
    ) -> Consumer:
        """Start to take tasks.

        Args:
            places: tasks that run at once; None: all.
            wanted: tasks to take once, beside the standing ones.

        Raises:
            ValueError: a project's name, the capacity or the priority is invalid; nothing has changed.
        """
        standing = checked_capacity("capacity", standing)
        running = standing if places is None else places
        consumer = Consumer(checked_names(projects), standing, running, patience, checked_priority(priority), wanted)
        insort(self._consumers, consumer, key=lambda other: -other.priority)
        self.tell_session()
        return consumer

    def leave(self, consumer: Consumer) -> None:
        """Stop taking tasks; tasks in the buffer that only this consumer wants go back.

        Tasks that it has begun and not reported occupy places until their leases end, unless it has ``ended``.
        """
        self._consumers.remove(consumer)
        if consumer.ended is None:
            for token in [token for token, beginner in self._begun.items() if beginner is consumer]:
                self.end(token)
        unwanted = [waiting.task for waiting in self._all() if not self._wanted(waiting.task)]
        self._buffer = deque(waiting for waiting in self._buffer if self._wanted(waiting.task))
        self._early = [waiting for waiting in self._early if self._wanted(waiting.task)]
        self.tell_session()
        if unwanted:
            self._release(unwanted)
        if consumer.ended is not None:  # Its caller may wait in another coroutine.
            self._wake()

    def resize(self, consumer: Consumer, standing: int, ahead: int = 0) -> None:
        """Change the number of leases that a consumer wants at once, and of others that it wants for early ones."""
        consumer.standing, consumer.ahead = standing, ahead
        self.tell_session()

    async def take(self, consumer: Consumer, n: int, *, until_drained: bool = False) -> list[Task]:
        """Take at least one task, at most ``n``; wait for the first.

        With ``until_drained`` the list is empty when the client is drained.
        """
        while not (tasks := self._pop(consumer, n)):
            if until_drained and self._session.draining:
                return []
            if consumer.standing < consumer.places and self._begun_by(consumer) >= consumer.standing:
                self.resize(consumer, min(2 * consumer.standing, consumer.places))
            await self.news(consumer)
        return tasks

    async def news(self, consumer: Consumer) -> None:
        """Wait until there may be a task for this consumer; those with a higher priority look first."""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        insort(self._sleepers, (-consumer.priority, sleeper), key=itemgetter(0))
        await sleeper

    def take_now(self, consumer: Consumer, now: float) -> Task | None:
        """Take the task that ``take`` would begin with, if there is one."""
        if not self._early and not self._put_offs:
            if not self._buffer:
                return None
            first = self._buffer[0]
            if first.until > now and consumer.wants(first.task):  # Nearly always.
                return self._buffer.popleft().task
        return next(iter(self._pop(consumer, 1)), None)

    def has_one(self, consumer: Consumer, now: float) -> bool:
        """Return True if there is a task that this consumer may begin."""
        return any(
            each.starts_at <= now < each.until and consumer.wants(each.task) and not each.task.is_put_off
            for each in self._all()
        )

    async def select(
        self,
        n: int,
        projects: Iterable[str] | None,
        priority: int = 0,
        handed_out: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Task]:
        """Take at most ``n`` tasks, once.

        Args:
            handed_out: returns when the daemon has dispatched its ready tasks, of which there may be none; None: wait
                for the first task.
        """
        wanted = checked_capacity("limit", n)
        if handed_out is not None:
            self._session.ask_hand_out()
        consumer = self.join(projects, priority=priority, wanted=wanted)
        try:
            if handed_out is not None:
                await handed_out()
            tasks = self._pop(consumer, n) if handed_out else await self.take(consumer, n)
            for task in tasks:
                self._selected.add(task.token)
                self._session.start(task.token)
            return tasks
        finally:
            consumer.wanted = 0
            self.leave(consumer)

    def arrive(self, handed: Sequence[Assignment], fetch: Mapping[str, Raw], now: float) -> None:
        """Take in dispatched tasks, with the setting ``fetch`` of their projects, by project."""
        # Copied out of the frame, which may contain a thousand tasks.
        defaults = {project: raw.copy() for project, raw in fetch.items()}
        self._parents.note_loop()
        self._notes.note_loop()
        self._loop = asyncio.get_running_loop()
        wanted, unwanted = [], []
        for each in handed:
            task = Task(each, defaults.get(each.project), self._parents, self._put_offs, self._notes)
            if consumer := self._wanted(task):
                wanted.append(buffered(task, now, consumer))
            else:
                unwanted.append(task)
        if unwanted:
            self._release(unwanted)
        early = [waiting for waiting in wanted if waiting.starts_at > now]
        self._buffer.extend(waiting for waiting in wanted if waiting.starts_at <= now)
        self._watch(wanted, now)
        if early:
            self._early = sorted(self._early + early, key=attrgetter("starts_at"))
            self._tell_early(now)
        self._wake()

    def drain(self) -> None:
        """Give back all tasks in the buffer, and wake the callers that wait for one."""
        unwanted = [waiting.task for waiting in self._all()]
        self._buffer.clear()
        self._early.clear()
        if unwanted:
            self._release(unwanted)
        self._wake()

    def finished(self, tokens: Iterable[int]) -> None:
        """End tasks that their callers have finished, and lower the capacity by the selected ones.

        Called before their reports are sent, so that the daemon learns the capacity first.
        """
        tokens = list(tokens)
        for token in tokens:
            if token in self._begun:
                self.end(token)
        over = self._selected.intersection(tokens)
        self._forget(over)
        if over:
            self.tell_session()

    def leaving(self, tokens: Sequence[int]) -> None:
        """Give back, right after the reports of these tasks, buffered tasks of slots that the reports put off."""
        if slots := self._put_offs.leave(tokens):
            asyncio.get_running_loop().call_soon(self._give_back_of, slots)

    def released(self, tokens: Iterable[int]) -> None:
        """Forget tasks that go back without a report, and put nothing off."""
        for token in tokens:
            self._put_offs.forget(token)

    def answered(self, tokens: Sequence[int]) -> None:
        """Give back tasks that have arrived meanwhile, of slots that accepted reports put off."""
        if self._put_offs:
            self._give_back_of(self._put_offs.answer(tokens))

    def _give_back_of(self, slots: set[SlotOf]) -> None:
        """Give back buffered tasks of these slots. The capacity stays: the daemon dispatches none of them now."""
        back = [each.task for each in self._all() if SlotOf(each.task.project, each.task.slot) in slots]
        if back:
            self._drop({task.token for task in back})
            self._release(back)
        self._wake()

    def _drop(self, tokens: Collection[int]) -> None:
        """Remove tasks from the buffer, which makes room."""
        waiting = len(self._buffer) + len(self._early)
        self._buffer = deque(each for each in self._buffer if each.task.token not in tokens)
        self._early = [each for each in self._early if each.task.token not in tokens]
        if len(self._buffer) + len(self._early) < waiting:
            self.tell_session()

    def lose(self, tokens: Iterable[int]) -> None:
        """Drop buffered tasks whose leases the daemon has ended, and tell the consumers that run such tasks."""
        self._drop(frozenset(tokens))
        if self._put_offs:
            self._wake()
        for token in tokens:
            consumer = self._begun.get(token)
            if consumer is not None and consumer.lost is not None:
                consumer.lost(token)

    def begin(self, token: int, consumer: Consumer) -> None:
        """Count a task as running in a consumer until ``end`` or a report, even if its lease ends."""
        self._begun[token] = consumer
        self._session.start(token)

    def end(self, token: int) -> None:
        """Count a task as no longer running."""
        consumer = self._begun.pop(token, None)
        self._session.stop(token)
        if consumer is not None and consumer.ended is not None:
            consumer.ended(token)

    def holds(self, token: int) -> bool:
        """Return True if the token's lease is in force, as far as is known here."""
        return self._session.holds(token)

    def tell_hung(self, consumer: Consumer, hung: Hung | None, since: float) -> None:
        """State which places of a consumer hang, beside those of the others; None: none.

        Args:
            since: time at which the first of their leases ended, by the loop's clock.
        """
        self._hung.pop(consumer, None)
        if hung is not None:
            self._hung[consumer] = (since, hung)
        if not self._hung:
            self._session.report_hung(None)
        else:
            since, first = min(self._hung.values(), key=itemgetter(0))
            places = sum(each.places for _, each in self._hung.values())
            self._session.report_hung(replace(first, places=places), since)
        self._restate()

    def give_back(self, late: Sequence[Task], consumer: Consumer) -> None:
        """Give back tasks that a consumer has not begun in time, after lowering its wants to what it can begin."""
        consumer.returned += len(late)
        consumer.ahead = 0
        consumer.standing = min(consumer.standing, self._begun_by(consumer) if consumer.is_lazy else consumer.places)
        if consumer.standing and consumer.patience == inf and any(task.start_within is not None for task in late):
            # Its caller's concurrency is unknown: assume what it has begun now, until it waits for more.
            consumer.standing = max(1, self._begun_by(consumer))
        self.tell_session()
        self._release(late)

    def give_back_excess(self, consumer: Consumer) -> None:
        """Give back tasks beyond a consumer's room: early ones first, then the last to arrive."""
        mine = [each.task for each in self._all() if each.consumer is consumer]
        excess = mine[max(0, consumer.standing - self._begun_by(consumer)) :]
        if excess:
            self._drop({task.token for task in excess})
            self._release(excess)

    def tell_session(self) -> None:
        """State what is wanted now."""
        self._early_told = len(self._early)
        capacity = self._capacity()
        self._session.want(capacity, self._projects(), self._places(capacity), priority=self._priority())
        self._restate()

    def fail_waiting(self, error: ClientError) -> None:
        """Raise an error for the callers that wait for a task."""
        sleepers, self._sleepers = self._sleepers, []
        for _, sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_exception(error)

    def close(self) -> None:
        """Answer callers that wait for a task with ClientClosed."""
        self.fail_waiting(ClientClosed("the client was closed"))
        for consumer in self._consumers:
            if consumer.closed is not None:
                consumer.closed()
        self._buffer.clear()
        self._early.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _pop(self, consumer: Consumer, n: int) -> list[Task]:
        now = asyncio.get_running_loop().time()
        if self._early:
            self._ripen(now)
        mine: list[Task] = []
        over: list[Task] = []
        late: list[Task] = []
        others: list[BufferedTask] = []
        while self._buffer and len(mine) < n:
            waiting = self._buffer.popleft()
            if not consumer.wants(waiting.task) or waiting.task.is_put_off:
                others.append(waiting)
            elif waiting.task.lease_ends_at <= now:
                over.append(waiting.task)
            elif waiting.task.start_within is not None and waiting.until <= now:
                late.append(waiting.task)
            else:
                mine.append(waiting.task)
        if others:
            self._buffer.extendleft(reversed(others))
        if over:
            self._release(over)
        if late:
            self.give_back(late, consumer)
        return mine

    def _all(self) -> Iterator[BufferedTask]:
        return chain(self._buffer, self._early)

    def _begun_by(self, consumer: Consumer) -> int:
        return sum(beginner is consumer for beginner in self._begun.values())

    def _ripen(self, now: float) -> bool:
        """Move tasks whose time has come into the buffer; returns whether there were any."""
        due = bisect_right(self._early, now, key=attrgetter("starts_at"))
        self._buffer.extend(self._early[:due])
        del self._early[:due]
        return due > 0

    def _tell_early(self, now: float) -> None:
        """State the number of early tasks, unless it was just stated; else set the timer."""
        if now >= self._early_told_at + EARLY_SECONDS:
            self._early_told_at = now
            self.tell_session()
        else:
            self._ring_at(self._early_told_at + EARLY_SECONDS)

    def _watch(self, waiting: Iterable[BufferedTask], now: float) -> None:
        """Set the timer to the time when the first of these may start, or has waited for too long."""
        self._ring_at(min((each.next_at(now) for each in waiting), default=inf))

    def _ring_at(self, at: float) -> None:
        """Set the only timer to that time, unless it rings before."""
        if at == inf or (self._timer is not None and self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        """Let early tasks start whose time has come, and give back tasks that have waited too long."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        if self._ripen(now):
            self._wake()
        if self._early_told != len(self._early):
            self._tell_early(now)
        late = [waiting for waiting in self._buffer if waiting.until <= now]
        if late:
            self._buffer = deque(waiting for waiting in self._buffer if waiting.until > now)
            for consumer in {waiting.consumer: None for waiting in late}:
                self.give_back([waiting.task for waiting in late if waiting.consumer is consumer], consumer)
        self._watch(self._all(), now)

    def _wanted(self, task: Task) -> Consumer | None:
        if self._session.draining:
            return None
        for consumer in self._consumers:  # Not by ``next``: a generator per task takes three times as long.
            if consumer.wants(task):
                return consumer
        return None

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for _, sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
        for consumer in self._consumers:
            if consumer.arrived is not None:
                consumer.arrived()

    def _wake_soon(self) -> None:
        """Wake waiting callers, from any thread."""
        if self._loop is not None:
            with suppress(RuntimeError):  # The loop has been closed meanwhile.
                self._loop.call_soon_threadsafe(self._wake)

    def _capacity(self) -> int:
        self._forget({token for token in self._selected if not self._session.holds(token)})
        wanted = sum(consumer.standing + consumer.wanted for consumer in self._consumers)
        if self._early:
            early = Counter(waiting.consumer for waiting in self._early)
            wanted += sum(min(early[consumer], consumer.ahead) for consumer in self._consumers)
        return min(wanted + len(self._selected), MAX_CAPACITY)

    def _forget(self, tokens: set[int]) -> None:
        """Forget selected tasks that are reported, or whose leases have ended."""
        self._selected -= tokens
        for token in tokens:
            self._session.stop(token)

    def _places(self, capacity: int) -> int | None:
        """Return how many tasks run at once; None: all that are wanted."""
        places = len(self._selected) + sum(consumer.places + consumer.wanted for consumer in self._consumers)
        return max(1, places) if places < capacity else None

    def _priority(self) -> int:
        """Return the highest priority of all consumers; without any, the last one, so that no hello is needed."""
        return self._consumers[0].priority if self._consumers else self._session.priority

    def _projects(self) -> list[str] | None:
        """Return the projects of all consumers; without any, those of the last one, so that no hello is needed."""
        wishes = [consumer.projects for consumer in self._consumers]
        if not wishes:
            return self._session.projects
        named = [projects for projects in wishes if projects is not None]
        return sorted(frozenset().union(*named)) if len(named) == len(wishes) else None
