"""Shares of projects in the dispatches, and the exactness of paces."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import floor, inf

import pytest

from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.values import Assignment
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, World, task

MIXED = [1.0 + index % 5 for index in range(20)]
"""Weights of 20 projects."""

PACES = ((0.2, 1.0), (1.0, 1.0), (3.0, 1.0), (10.0, 10.0), (50.0, 10.0), (1000.0, 1.0))
"""Rate and burst."""

BATCH = 1_000
"""Tasks of a message."""

CAPACITY = 100
STOCK = 2_000
"""Waiting tasks at the beginning of a pace; about a fourth is dispatched before they are replaced."""

HEARD = 30.0
"""Seconds between hellos of a fetcher, so that it never counts as silent."""


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


class LargeWorld(World):
    """World without checks: with tens of thousands of tasks they would be most of its cost."""

    def check(self) -> None:
        pass


class Watch(Fetcher):
    """Fetcher that records when it was sent each task, in seconds since the world began."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "watch", 10_000, None)
        self.sent_at: list[float] = []

    def hear(self, message: Select) -> None:
        super().hear(message)
        self.sent_at += [self.world.elapsed] * len(message.tasks)


def push(world: World, project: str, tasks: int, delay: float | None = None) -> None:
    """Push this many new tasks."""
    for first in range(0, tasks, BATCH):
        made = [task(f"t{world.n()}", delay=delay) for _ in range(min(BATCH, tasks - first))]
        assert set(world.push(project, *made)) == {"new"}


def finish(fetcher: Fetcher, tasks: int) -> list[Assignment]:
    """Succeed with the ``tasks`` tasks that the fetcher has had for longest; return them."""
    done = list(islice(fetcher.held.values(), tasks))
    fetcher.world.answer(fetcher.answers(*[fetcher.finished(each.taskid) for each in done]))
    return done


def parts(weights: list[float], tasks: int, delayed: int = 0, step: int = 10) -> list[float]:
    """Measure the share of each project, one per weight, as a multiple of the share that its weight deserves.

    Args:
        delayed: further tasks of the first project, none of them due.
        step: tasks that the fetcher reports at once.
    """
    layers = {f"p{index:02}": {"weight": weight} for index, weight in enumerate(weights)}
    due = {name: tasks * layer["weight"] / sum(weights) for name, layer in layers.items()}
    world = LargeWorld(CoreConfig(defaults={"rate": inf}, projects={**layers}))
    push(world, "p00", delayed, delay=86_400.0)
    for name in due:
        push(world, name, int(due[name] * 1.2) + CAPACITY)
    fetcher = world.fetcher(CAPACITY)
    got = Counter(each.project for _ in range(tasks // step) for each in finish(fetcher, step))
    return [got[name] / due[name] for name in due]


def dispatched_at(rate: float, burst: float, seconds: float) -> list[float]:
    """List the dispatch times of a project with endless work, to a fetcher that takes all."""
    world = LargeWorld(CoreConfig(defaults={"rate": rate, "burst": burst}, projects={"p": {}}))
    push(world, "p", STOCK)
    watch = Watch(world)
    world.know(watch)
    watch.hello()
    pause = min(HEARD, STOCK / 4 / rate)
    while world.elapsed < seconds:
        world.advance(min(pause, seconds - world.elapsed))
        watch.hello()
        push(world, "p", len(finish(watch, len(watch.held))))
    return watch.sent_at


def worst_window(times: list[float], rate: float, burst: float) -> float:
    """Compute the tasks above the limit in the worst interval: 0 is exactly at the limit, less is below it.

    From task i to task j there are j - i + 1 tasks; that is at most burst + rate * (t_j - t_i) for all i <= j
    if no k - rate * t_k is more than burst - 1 above the least of those before it.
    """
    least, worst = inf, -inf
    for number, at in enumerate(times):
        height = number - rate * at
        least = min(least, height)
        worst = max(worst, height - least + 1 - burst)
    return worst
