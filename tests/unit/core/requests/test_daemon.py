"""What the core knows of the daemon itself: who is connected, how long attempts took, how late tasks became ready."""

from __future__ import annotations

import pytest

from taskqueue.protocol.daemon import DaemonReply, DaemonShow, HistogramView
from tests.unit.core.conftest import MakeWorld, World, task


def figures(world: World) -> DaemonReply:
    return world.ask(DaemonReply, DaemonShow(session="person", n=world.n()))


def within(histogram: HistogramView, bound: float) -> int:
    """How many values were this large at most."""
    return sum(histogram.counts[: sum(each <= bound for each in histogram.bounds)])


def test_fetchers_are_counted_with_what_they_want_and_hold(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))
    world.fetcher(capacity=2)
    world.fetcher(capacity=5, projects=["shop"], name="other")

    found = figures(world)

    assert (found.fetchers, found.capacity, found.holds) == (2, 7, 2)
    assert found.epoch == 1
    assert found.projects == 2
    assert 0 < found.task_bytes < found.task_bytes_most


def test_attempts_are_counted_by_how_long_they_took(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c", timeout=40))
    fetcher = world.fetcher(capacity=3)
    world.advance(1)
    fetcher.done("a")
    world.advance(9)
    fetcher.fail("b", retry=False)
    assert within(figures(world).histograms["attempt_seconds"], 2) == 1
    fetcher.capacity = 0
    fetcher.hello()
    world.advance(30)

    took = figures(world).histograms["attempt_seconds"]

    assert (within(took, 2), within(took, 12), sum(took.counts)) == (1, 2, 3)
    assert took.sum == pytest.approx(51)


def test_delayed_tasks_are_counted_by_how_late_they_became_ready(world: World) -> None:
    world.push("news", task("in time", delay=10), task("late", delay=100))
    world.advance(20)
    assert within(figures(world).histograms["lateness_seconds"], 0.01) == 1

    world.elapsed = 107  # nobody woke it when the task was due
    world.settle()

    late = figures(world).histograms["lateness_seconds"]
    assert (within(late, 5), within(late, 10)) == (1, 2)
    assert late.sum == pytest.approx(7)


def test_cron_jobs_are_counted_by_how_late_they_ran(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"often": {"every": "5m"}}}})
    world.advance(600)

    late = figures(world).histograms["lateness_seconds"]

    assert (sum(late.counts), within(late, 0.01)) == (2, 2)
