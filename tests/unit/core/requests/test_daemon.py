"""Figures of the daemon in the core: sessions, durations of attempts, lateness of tasks."""

from __future__ import annotations

import pytest

from taskqueue.protocol.daemon import DaemonReply, DaemonShow, Histogram, ProjectStand
from taskqueue.protocol.values import Fetched
from tests.unit.core.conftest import MakeWorld, World, task


def figures(world: World) -> DaemonReply:
    return world.ask(DaemonReply, DaemonShow(session="person", n=world.n()))


def within(histogram: Histogram, bound: float) -> int:
    """Count the values up to ``bound``."""
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

    world.elapsed = 107  # the scheduler was not woken when the task was due
    world.settle()

    late = figures(world).histograms["lateness_seconds"]
    assert (within(late, 5), within(late, 10)) == (1, 2)
    assert late.sum == pytest.approx(7)


def test_cron_entries_are_counted_by_how_late_they_ran(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"cron": {"often": {"every": "5m"}}}})
    world.advance(600)

    late = figures(world).histograms["lateness_seconds"]

    assert (sum(late.counts), within(late, 0.01)) == (2, 2)


def stand(world: World, *names: str) -> list[ProjectStand]:
    return world.ask(DaemonReply, DaemonShow(session="person", n=world.n(), projects=list(names))).projects_stand


def idle(world: World, name: str = "news") -> float:
    [found] = stand(world, name)
    return found.idle_seconds


def test_only_projects_that_were_asked_for_and_are_known_are_told(world: World) -> None:
    world.push("news", task("a"))

    assert stand(world) == []
    assert [each.name for each in stand(world, "shop", "unknown", "news")] == ["shop", "news"]


def test_a_project_is_idle_from_when_it_has_ready_tasks(world: World) -> None:
    world.advance(100)
    world.push("news", task("a"))
    world.advance(7)
    world.push("news", task("b"))
    world.advance(3)

    assert idle(world) == 10
    assert idle(world, "shop") == 0


def test_a_project_is_idle_from_its_last_dispatch(world: World) -> None:
    world.push("news", task("a"), task("b"))
    world.advance(100)
    world.fetcher(capacity=1)
    world.advance(7)

    assert idle(world) == 7


def test_a_project_without_ready_tasks_is_not_idle(world: World) -> None:
    world.push("news", task("a"), task("later", delay=1000))
    world.fetcher(capacity=1)
    world.advance(7)

    assert idle(world) == 0


@pytest.mark.parametrize(
    "settings",
    [{"rate": 0}, {"max_processing": 1}, {"active": "Mon 00:00-00:01"}, {"rate": 0.001, "burst": 1},
     {"slot": {"by": "host", "delay": 1000}}],
    ids=lambda settings: next(iter(settings)),
)  # fmt: skip
def test_a_project_that_may_not_dispatch_is_not_idle(make_world: MakeWorld, settings: dict[str, object]) -> None:
    world = make_world(projects={"news": settings})
    world.push("news", task("a"), task("b"))
    world.fetcher(capacity=1)
    world.fetcher(capacity=1, name="other")
    world.advance(7)

    assert idle(world) == 0


def test_a_paused_project_is_idle_again_when_it_is_resumed(world: World) -> None:
    world.push("news", task("a"))
    world.do("pause")
    world.advance(7)
    assert idle(world) == 0

    world.do("resume")

    assert idle(world) == 7


def test_after_a_restart_a_project_is_idle_from_the_start(world: World) -> None:
    world.push("news", task("a"))
    world.advance(50)
    world.restart()
    world.advance(7)
    world.push("news", task("b"))

    assert idle(world) == 7


def test_slots_are_counted_while_they_back_off(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"slot": {"by": "host", "delay": 1}, "retries": 5}})
    world.push("news", *(task(host, url=f"http://{host}/") for host in ("a", "b", "c")))
    fetcher = world.fetcher(capacity=3)
    world.advance(7)
    for host in ("a", "b"):
        fetcher.fail(host, fetched=Fetched(error_kind="connection"))
    fetcher.done("c")
    assert stand(world, "news", "shop")[0].backoffs == 2

    world.advance(600)

    assert stand(world, "news")[0].backoffs == 0
