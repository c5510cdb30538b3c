"""Shares: which part of what fetchers take each project gets, and how exactly a pace is kept."""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import floor, inf

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.parts.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.core.settings.settings import CoreConfig
from taskqueue.protocol.fields import Assignment, Boot, NewTask, Peer, Schedule, TaskReport, Wall
from taskqueue.protocol.replies import Select
from taskqueue.protocol.requests import AnyRequest, Done, Hello, Incoming, NewTasks
from taskqueue.store.ledger import Ledger
from tests.memory_store import Disk, MemoryStore

MIXED = [1.0 + index % 5 for index in range(20)]
"""Weights of 20 projects."""

PACES = ((0.2, 1.0), (1.0, 1.0), (3.0, 1.0), (10.0, 10.0), (50.0, 10.0), (1000.0, 1.0))
"""Rate and burst."""

BATCH = 1_000
"""Tasks of a message."""

CAPACITY = 100
STOCK = 2_000
"""Tasks that wait at the beginning of a pace; a fourth of them is replaced at once."""


@pytest.mark.parametrize("step", [1, 10, 100])
def test_twenty_projects_get_shares_in_proportion_to_their_weights(step: int) -> None:
    assert parts(MIXED, 6_000 if step == 1 else 20_000, step=step) == pytest.approx([1.0] * 20, abs=0.05)


def test_twenty_projects_of_equal_weight_get_equal_shares() -> None:
    assert parts([1.0] * 20, 20_000) == pytest.approx([1.0] * 20, abs=0.05)


def test_a_weight_may_be_a_part_of_one() -> None:
    assert parts([0.1, 0.5, 1.0, 2.5], 4_000) == pytest.approx([1.0] * 4, abs=0.05)


def test_a_project_with_very_many_delayed_tasks_gets_no_more_than_its_share() -> None:
    assert parts([1.0] * 20, 4_000, delayed=30_000)[0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("rate", "burst"), PACES)
def test_a_pace_is_used_to_the_full_and_never_exceeded_in_any_window(rate: float, burst: float) -> None:
    seconds = min(3600.0, 6000.0 / rate)
    allowed = floor(burst + rate * seconds)

    times = dispatched_at(rate, burst, seconds)

    assert abs(len(times) - allowed) <= 1 or len(times) / allowed == pytest.approx(1, abs=0.0005)
    assert worst_window(times, rate, burst) <= 1e-5


class Line:
    """A scheduler on virtual time and its only fetcher; the disk is not checked, which would be most of a turn.

    Attributes:
        elapsed: seconds since it began.
        held: what the fetcher has, in the order in which it came.
        taken: how many tasks it was ever given.
    """

    def __init__(self, config: CoreConfig, capacity: int) -> None:
        self.elapsed = 0.0
        self.held: list[Assignment] = []
        self.taken = 0
        self._seen = 0
        self._capacity = capacity
        self._numbers = count(1)
        self._ledger = Ledger(MemoryStore(Disk()))
        self._scheduler = Scheduler(self._ledger.begin("boot"), config, Calendar(), self._now)
        self._settle()

    def turn(self, *requests: AnyRequest) -> None:
        """Take one turn; the fetcher takes what it is given."""
        turn = self._scheduler.begin(self._now, [Incoming(Peer(each.session.encode()), each) for each in requests])
        result = turn.decide(self._ledger.find(turn.needs))
        self._ledger.commit(result.writes)
        for select in (said.message for said in result.outgoing if isinstance(said.message, Select)):
            self._seen = select.number
            self.held += select.tasks
            self.taken += len(select.tasks)

    def next_wake(self) -> float:
        """When the scheduler wants its next turn."""
        return self._scheduler.next_event_at(self._now) - 1_000.0

    def push(self, project: str, tasks: int, delay: float | None = None) -> None:
        """Push this many new tasks."""
        for first in range(0, tasks, BATCH):
            made = [self._task(delay) for _ in range(min(BATCH, tasks - first))]
            self.turn(NewTasks(session="producer", n=next(self._numbers), project=project, tasks=list(made)))
        self._settle()

    def hello(self) -> None:
        """Say what the fetcher holds, and take more."""
        n, holds = next(self._numbers), [int(task.token) for task in self.held]
        self.turn(Hello(session="fetcher", n=n, capacity=self._capacity, holds=holds, seen=self._seen))
        self._settle()

    def finish(self, tasks: int) -> list[Assignment]:
        """Succeed with this many tasks, those that the fetcher has had for longest; return them."""
        done, self.held = self.held[:tasks], self.held[tasks:]
        reports = [TaskReport(each.project, each.taskid, each.token) for each in done]
        self.turn(Done(session="fetcher", n=next(self._numbers), tasks=list(reports)))
        self._settle()
        return done

    def _task(self, delay: float | None) -> NewTask:
        return NewTask(f"t{next(self._numbers)}", "http://example.org/", Schedule(delay=delay))

    def _settle(self) -> None:
        while self.next_wake() <= self.elapsed:
            self.turn()

    @property
    def _now(self) -> Now:
        return Now(wall=Wall(1_700_000_000.0 + self.elapsed), boot=Boot(1_000.0 + self.elapsed))


def parts(weights: list[float], tasks: int, delayed: int = 0, step: int = 10) -> list[float]:
    """What each of as many projects as there are weights gets, as a multiple of what its weight is due.

    Args:
        delayed: tasks that the first project has besides, none of them due.
        step: tasks that the fetcher answers for at once.
    """
    layers = {f"p{index:02}": {"weight": weight} for index, weight in enumerate(weights)}
    due = {name: tasks * layer["weight"] / sum(weights) for name, layer in layers.items()}
    line = Line(CoreConfig(defaults={"rate": inf}, projects={**layers}), CAPACITY)
    line.push("p00", delayed, delay=86_400.0)
    for name in due:
        line.push(name, int(due[name] * 1.2) + CAPACITY)
    line.hello()
    got = Counter(each.project for _ in range(tasks // step) for each in line.finish(step))
    return [got[name] / due[name] for name in due]


def dispatched_at(rate: float, burst: float, seconds: float) -> list[float]:
    """When each task of a project with work without end was given to a fetcher that takes all."""
    line = Line(CoreConfig(defaults={"rate": rate, "burst": burst}, projects={"p": {}}), capacity=10_000)
    line.push("p", STOCK)
    line.hello()
    times = [0.0] * line.taken
    while (at := line.next_wake()) <= seconds:
        line.elapsed = max(line.elapsed, at)
        line.turn()
        if len(line.held) >= STOCK // 4:
            line.push("p", len(line.finish(STOCK // 4)))
        elif line.taken == len(times):
            line.hello()
        times += [line.elapsed] * (line.taken - len(times))
    return times


def worst_window(times: list[float], rate: float, burst: float) -> float:
    """Tasks above what is allowed in the worst of all windows: 0 is exactly at the limit, less is below it.

    From task i to task j there are j - i + 1 tasks; that is at most burst + rate * (t_j - t_i) for all i <= j
    if no k - rate * t_k is more than burst - 1 above the least of those before it.
    """
    least, worst = inf, -inf
    for number, at in enumerate(times):
        height = number - rate * at
        least = min(least, height)
        worst = max(worst, height - least + 1 - burst)
    return worst
