"""Timers: each delayed task is dispatched in the first turn at or after its time, and the daemon sleeps until then.

Thousands of tasks wait while a head holds two, so that most are read from the store only when their time is near. Time
is virtual, and the world wakes the scheduler when it asked for it, so lateness is exactly 0.
"""

from __future__ import annotations

from heapq import heapify, heappush
from math import inf, nextafter
from random import Random
from typing import Any

import pytest

from taskqueue.core.state import BOOT_OF_PROJECT, OF_SESSION, WALL_OF_PROJECT
from taskqueue.core.timers import TIMERS
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.values import NewTask
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, task

FOR_EVER = 1e7
CLOSE = 2e-6
"""Seconds: a due time is rounded up to a microsecond, and wall time is a float."""


class LargeWorld(World):
    """World that does not check the whole disk after each turn."""

    def _check_disk(self) -> None:
        pass


class Watch(Fetcher):
    """Fetcher that records when it was sent each task, and reports success at once.

    Attributes:
        sent_at: by taskid, seconds since the world began.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world, "watch", 1_000_000, None)
        self.sent_at: dict[str, float] = {}

    def hear(self, message: Select) -> None:
        super().hear(message)
        for each in message.tasks:
            assert each.taskid not in self.sent_at, "it comes once"
            self.sent_at[each.taskid] = self.world.elapsed


def watched(world: World) -> Watch:
    """Make the world's only fetcher, which takes everything."""
    watch = Watch(world)
    world.know(watch)
    watch.hello()
    return watch


def assert_on_time(watch: Watch, due: dict[str, float]) -> None:
    """Check that exactly these tasks came, each when it was due: not earlier, and not in a later turn."""
    assert watch.sent_at.keys() == due.keys()
    for taskid, at in due.items():
        assert 0 <= WALL + watch.sent_at[taskid] - (WALL + at) < CLOSE, taskid


CALM: dict[str, Any] = {
    "defaults": {"processing_timeout": FOR_EVER, "rate": inf},
    "fetcher_timeout": FOR_EVER,
    "session_timeout": FOR_EVER,
}
"""Config in which only timers are ever due."""


def in_batches(world: World, tasks: list[NewTask], size: int = 500) -> None:
    for first in range(0, len(tasks), size):
        assert set(world.push("news", *tasks[first : first + size])) == {"new"}


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    """Make a world in which sessions and leases last for ever."""
    return make_world(**CALM)


@pytest.mark.parametrize(("head_tasks", "count"), [(2, 400), (64, 2000)])
def test_thousands_of_timers_are_each_handed_out_when_they_are_due(head_tasks: int, count: int) -> None:
    world = LargeWorld(CoreConfig(projects={"news": {}}, head_tasks=head_tasks, **CALM))
    rng = Random(head_tasks)
    near = {f"near{n}": rng.choice((rng.uniform(5, 10), float(rng.randrange(5, 10)))) for n in range(count)}
    far = {f"far{n}": rng.uniform(86_400, 30 * 86_400) for n in range(count)}
    tasks = [task(name, exetime=WALL + at) for name, at in {**far, **near}.items()]
    rng.shuffle(tasks)
    in_batches(world, tasks)
    watch = watched(world)

    world.advance(10)

    assert_on_time(watch, near)
    assert world.counts().delayed == count


def test_each_of_many_times_in_one_batch_is_its_own(world: World) -> None:
    due = {f"t{n:02}": 10.0 + (n * 37) % 50 for n in range(50)}
    world.push("news", *[task(name, delay=at) for name, at in due.items()])
    watch = watched(world)

    world.advance(9)
    assert watch.sent_at == {}
    world.advance(60)
    assert_on_time(watch, due)


def test_many_tasks_of_one_time_all_come_at_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=10)
    world.push("news", *[task(f"t{n:02}", delay=5, priority=n % 3) for n in range(60)])
    watch = watched(world)

    world.advance(5)

    assert_on_time(watch, {f"t{n:02}": 5.0 for n in range(60)})
    assert world.counts().processing == 60


def test_a_turn_promotes_no_more_than_turn_tasks(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=10, head_tasks=4096)
    world.push("news", *[task(f"t{n:02}", delay=5) for n in range(25)])

    world.elapsed = 5
    ready = []
    for _ in range(3):
        world.turn()
        ready.append(world.scheduler._state.projects.by_name["news"].queue.counts[1])

    assert ready == [10, 20, 25]


class InOrder(Watch):
    """Fetcher that records tasks that it was sent before due ones that had to go first.

    Attributes:
        passed_over: pairs of a task that it was sent, and one that ought to have come instead.
    """

    def __init__(self, world: World, capacity: int, tasks: list[NewTask]) -> None:
        super().__init__(world)
        self.capacity = capacity
        self.passed_over: list[tuple[str, str]] = []
        self._waiting = sorted((each.schedule.exetime, n, each) for n, each in enumerate(tasks))[::-1]
        self._ready: list[tuple[int, int, str]] = []

    def hear(self, message: Select) -> None:
        super().hear(message)
        while self._waiting and self._waiting[-1][0] <= self.world.now.wall:
            _, n, each = self._waiting.pop()
            heappush(self._ready, (-each.schedule.priority, n, each.taskid))
        for sent in message.tasks:
            first = self._ready[0]
            if first[2] != sent.taskid:
                self.passed_over.append((sent.taskid, first[2]))
            self._ready.remove(next(row for row in self._ready if row[2] == sent.taskid))
            heapify(self._ready)

    def report_all(self) -> None:
        self.world.answer(self.answers(*[self.finished(taskid) for taskid in list(self.held)]))


def test_no_task_is_handed_out_before_a_better_one_that_is_due_however_often_the_daemon_starts() -> None:
    world = LargeWorld(CoreConfig(projects={"news": {}}, head_tasks=16, turn_tasks=64, **CALM))
    rng = Random(0)
    times = [WALL, *(WALL + second for second in range(1, 60))]
    tasks = [task(f"t{n}", priority=rng.randrange(10), exetime=rng.choice(times)) for n in range(4_650)]
    in_batches(world, tasks)
    fetcher = InOrder(world, 20, tasks)
    world.know(fetcher)

    for starts_at in (0, 20, 40):
        world.elapsed = starts_at
        world.crash()
        fetcher.hello()  # in its first turn
        while world.elapsed < starts_at + 10:
            fetcher.report_all()
            world.advance(0.25)
    world.advance(60)
    while fetcher.held:
        fetcher.report_all()

    assert fetcher.passed_over == []
    assert len(fetcher.sent_at) == len(tasks)


def test_rescheduled_timers_come_at_their_new_times_and_cancelled_ones_never(world: World) -> None:
    due = {f"t{n:02}": 20.0 + n for n in range(40)}
    world.push("news", *[task(name, delay=at) for name, at in due.items()])
    earlier = {f"t{n:02}": 2.5 + n for n in range(39, 30, -1)}
    later = {f"t{n:02}": 100.0 - n for n in range(0, 30, 3)}
    gone = [f"t{n:02}" for n in range(1, 30, 3)]
    watch = watched(world)

    moved = [task(name, exetime=WALL + at, force_update=True) for name, at in {**earlier, **later}.items()]
    assert set(world.push("news", *moved)) == {"replaced"}
    assert set(world.push("news", *[task(name, force_update=True, cancel=True) for name in gone])) == {"cancelled"}
    world.advance(120)

    assert_on_time(watch, {name: at for name, at in {**due, **earlier, **later}.items() if name not in gone})


def test_a_timer_that_is_rescheduled_again_and_again_comes_once_at_the_last_time(world: World) -> None:
    world.push("news", task("t", delay=5), *[task(f"o{n}", delay=8 + n) for n in range(6)])
    watch = watched(world)

    for _ in range(10):
        world.advance(4)
        world.push("news", task("t", delay=5, force_update=True))
    world.advance(5)

    assert watch.sent_at["t"] == pytest.approx(45, abs=CLOSE)


def test_a_link_hurries_a_timer_from_anywhere(world: World) -> None:
    world.push("news", *[task(f"t{n:02}", delay=100 + n) for n in range(20)])
    watch = watched(world)

    assert world.push("news", task("t19", delay=3), task("t10", delay=2)) == ["merged", "merged"]
    world.advance(50)

    assert_on_time(watch, {"t10": 2.0, "t19": 3.0})


def test_timers_that_became_due_while_the_daemon_was_away_come_at_once_and_no_others(world: World) -> None:
    world.push("news", *[task(f"t{n:02}", delay=10 * (n + 1)) for n in range(20)])
    world.elapsed += 75

    world.restart()
    watch = watched(world)

    assert sorted(watch.sent_at) == [f"t{n:02}" for n in range(7)]
    world.advance(125)
    assert {name: round(at, 5) for name, at in watch.sent_at.items()} == {
        f"t{n:02}": max(75, 10 * (n + 1)) for n in range(20)
    }


def test_a_restart_before_each_timer_makes_none_early_or_late(world: World) -> None:
    due = {f"t{n:02}": 10.0 * (n + 1) for n in range(12)}
    world.push("news", *[task(name, delay=at) for name, at in due.items()])
    watch = watched(world)

    for _ in due:
        world.advance(9)
        world.restart()
        watch.hello()
        world.advance(1)

    assert_on_time(watch, due)


def test_it_sleeps_until_the_next_timer_and_wakes_for_nothing_else(make_world: MakeWorld) -> None:
    world = make_world(**CALM)
    times = [3.0, 3.5, 3.500001, 7.25, 12.0, 12.0, 12.0, 18.0]
    world.push("news", *[task(f"t{n}", delay=at) for n, at in enumerate(times)])
    wakes: list[float] = []

    for _ in times:
        world.settle()
        wakes.append(world.next_wake())
        world.elapsed = wakes[-1]

    assert wakes[:6] == pytest.approx([3.0, 3.5, 3.500001, 7.25, 12.0, 18.0], abs=CLOSE)
    assert wakes[6] > 18 + CLOSE


def test_a_timer_that_was_moved_or_cancelled_wakes_nobody(make_world: MakeWorld) -> None:
    world = make_world(**CALM)
    world.push("news", *[task(f"t{n}", delay=10 + n) for n in range(8)])

    world.push("news", task("t0", force_update=True, cancel=True), task("t1", delay=60, force_update=True))

    assert world.next_wake() == pytest.approx(12, abs=CLOSE)


def test_a_sooner_timer_above_the_floor_of_a_far_head_wakes_it_in_time(world: World) -> None:
    world.push("news", *[task(f"far{n}", delay=1000 + n) for n in range(20)])
    world.restart()
    watch = watched(world)

    world.push("news", task("soon", delay=1))
    world.push("news", task("far19", delay=2, force_update=True))
    world.advance(5)

    assert_on_time(watch, {"soon": 1.0, "far19": 2.0})


@pytest.mark.parametrize("digits", [1840956982.6860461, 1700000000.1234567, 1700000123.9999999, 1799999999.0000002])
def test_a_timer_of_any_fraction_of_a_second_is_not_early_by_a_hair(world: World, digits: float) -> None:
    world.push("news", task("t", exetime=digits))
    watch = watched(world)

    world.wall_step = nextafter(digits, 0.0) - WALL
    world.settle()
    assert watch.sent_at == {}
    world.wall_step = digits + CLOSE - WALL
    world.settle()
    assert list(watch.sent_at) == ["t"]


def test_each_kind_of_timer_that_an_appointment_can_have_is_a_row() -> None:
    others = ("shared", "operation", "flow", "watch", "task_wait", "failures", "stage", "undo")

    assert {*TIMERS} == {*BOOT_OF_PROJECT, *WALL_OF_PROJECT, *OF_SESSION, *others}
