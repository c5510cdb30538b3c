"""Order of tasks, and of projects."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.core.model.task import READY
from taskqueue.protocol.fetchers import Hello
from taskqueue.settings.settings import CoreConfig, Layer
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import DAY, comes_after


def test_a_higher_priority_goes_first_and_among_equals_who_came_first(world: World) -> None:
    world.push("news", task("a"), task("b", priority=1), task("c", priority=-1), task("d"), task("e", priority=1))

    assert world.fetcher().taken == ["b", "e", "a", "d", "c"]


def test_the_order_outlives_the_daemon(world: World) -> None:
    world.push("news", task("a"), task("b", priority=1), task("c"))
    world.restart()

    assert world.fetcher().taken == ["b", "a", "c"]


def test_a_delayed_task_is_never_early_and_then_its_priority_counts(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a", delay=100, priority=9))
    world.push("news", task("b"))
    assert fetcher.taken == ["b"]
    world.push("news", task("c"))

    world.advance(50)
    fetcher.done("b")
    assert fetcher.taken == ["b", "c"]
    world.push("news", task("d"))
    world.advance(50)
    fetcher.hello()
    fetcher.done("c")
    assert fetcher.taken == ["b", "c", "a"]


def test_what_came_due_while_the_daemon_was_away_goes_before_tasks_of_lower_priority(world: World) -> None:
    world.push("news", *[task(f"low{n}") for n in range(40)])
    world.push("news", *[task(f"high{n:02}", delay=3, priority=9) for n in range(40)])
    world.elapsed += 4
    world.crash()

    fetcher = world.fetcher(capacity=20)  # its hello comes in the first turn

    assert fetcher.taken == [f"high{n:02}" for n in range(20)]


def test_what_a_turn_reads_becomes_ready_in_it_if_it_is_due() -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}))
    world.push("news", task("low"), task("high", delay=3, priority=9))
    world.elapsed += 4
    world.crash()
    fetcher = world.know(Fetcher(world, "fetcher", 2, None))

    world.turn(Hello(session="fetcher", n=world.n(), capacity=2))

    assert fetcher.taken == ["high", "low"]


@pytest.mark.parametrize("turn_tasks", [1, 4, 4096])
def test_a_project_hands_out_nothing_before_all_of_its_due_tasks_are_ready(
    make_world: MakeWorld, turn_tasks: int
) -> None:
    world = make_world(turn_tasks=turn_tasks)
    world.push("news", *[task(f"low{n}") for n in range(20)])
    world.push("news", *[task(f"due{n:02}", delay=5, priority=n) for n in range(30)])
    fetcher = world.fetcher(capacity=1)
    assert fetcher.taken == ["low0"]

    world.elapsed += 5
    fetcher.done("low0")

    assert fetcher.taken == ["low0", "due29"]


@pytest.mark.parametrize("shop", [{}, {"slot": {"by": "host"}}, {"rate": 0.0}])
@pytest.mark.parametrize("action", ["start", "stop", "pause"])
def test_many_due_tasks_of_one_project_do_not_hold_up_another(shop: Layer, action: str) -> None:
    world = World(CoreConfig(defaults={"rate": inf}, projects={"news": {}, "shop": shop}, turn_tasks=10))
    world.push("shop", *[task(f"s{n:03}", delay=4) for n in range(200)])
    world.push("news", *[task(f"n{n}", delay=5) for n in range(5)])
    world.do(action, "shop")
    fetcher = world.fetcher(projects=["news"])

    world.elapsed += 5
    world.turn()

    assert fetcher.taken == ["n0", "n1", "n2", "n3", "n4"]


def test_projects_with_more_due_tasks_than_a_turn_promotes_take_turns() -> None:
    names = [f"p{n}" for n in range(6)]
    world = World(CoreConfig(projects={name: {} for name in names}, turn_tasks=2))
    for name in names:
        world.push(name, *[task(f"{name}.{n}", delay=5) for n in range(4)])

    world.elapsed += 5
    for _ in range(3):
        world.turn()

    projects = world.scheduler._state.projects.by_name
    assert [projects[name].queue.counts[READY] for name in names] == [1] * 6


def test_leases_that_run_out_do_not_keep_due_tasks_from_becoming_ready(make_world: MakeWorld) -> None:
    world = make_world({"processing_timeout": 5}, turn_tasks=4)
    world.push("shop", *[task(f"s{n:02}") for n in range(20)])
    world.fetcher(projects=["shop"], capacity=20)
    world.push("news", task("a", delay=5))
    fetcher = world.fetcher(projects=["news"], name="other")

    world.elapsed += 5
    world.turn()

    assert fetcher.taken == ["a"]


def test_a_clock_that_is_put_back_lets_a_project_go_on_whose_tasks_are_not_due_any_more(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=4)
    world.push("news", *[task(f"low{n}") for n in range(4)])
    world.push("news", *[task(f"due{n:02}", delay=5, priority=9) for n in range(30)])
    world.elapsed += 5
    fetcher = world.know(Fetcher(world, "fetcher", 2, None))
    world.turn(Hello(session="fetcher", n=world.n(), capacity=2))
    assert fetcher.taken == []

    world.wall_step = -3600
    world.settle()
    fetcher.finish_all()

    assert sorted(fetcher.taken)[-4:] == ["low0", "low1", "low2", "low3"]


def test_it_goes_on_also_if_the_turn_before_the_clock_was_put_back_had_not_come_to_its_due_tasks(
    make_world: MakeWorld,
) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 4}, turn_tasks=1)
    world.push("shop", task("s"))
    world.fetcher(projects=["shop"]).fail("s")  # the turn in four seconds only ends the pause
    world.push("news", task("low"), task("due", delay=5, priority=9))
    fetcher = world.know(Fetcher(world, "other", 1, ["news"]))
    world.elapsed += 5
    world.turn(Hello(session="other", n=world.n(), capacity=1, projects=["news"]))
    assert fetcher.taken == []

    world.wall_step = -3600
    world.settle()

    assert fetcher.taken == ["low"]


def test_three_tasks_due_in_an_hour_do_not_delay_one_that_is_due_in_a_minute(world: World) -> None:
    fetcher = world.fetcher(capacity=4)
    world.push("news", *[task(f"late{i}", delay=3600) for i in range(3)])
    world.push("news", task("soon", delay=60))

    assert comes_after(world, fetcher, 60)
    assert fetcher.taken == ["soon"]


def share(world: World, project: str, tasks: int) -> float:
    """Return the project's share of the next tasks that a fetcher with one place gets."""
    fetcher = world.fetcher(capacity=1)
    given = 0
    for _ in range(tasks):
        (held,) = fetcher.held.values()
        given += held.project == project
        fetcher.done(held.taskid)
    return given / tasks


def test_projects_with_work_get_equal_shares(world: World) -> None:
    world.push("news", *[task(f"n{i}") for i in range(700)])
    world.push("shop", *[task(f"s{i}") for i in range(700)])

    assert share(world, "news", 640) == pytest.approx(0.5, abs=0.03)


def test_tasks_that_wait_for_their_time_give_a_project_no_larger_share(world: World) -> None:
    world.push("news", *[task(f"later{i}", delay=DAY) for i in range(500)], *[task(f"n{i}") for i in range(700)])
    world.push("shop", *[task(f"s{i}") for i in range(700)])

    assert share(world, "news", 640) == pytest.approx(0.5, abs=0.03)


def test_a_fetcher_gets_tasks_only_of_the_projects_that_it_wants(world: World) -> None:
    world.push("news", task("a"))
    world.push("shop", task("b"))

    assert world.fetcher(projects=["shop"]).taken == ["b"]


def test_a_fetcher_never_holds_more_than_its_capacity(world: World) -> None:
    world.push("news", *[task(name) for name in "abcd"])

    fetcher = world.fetcher(capacity=2)
    assert fetcher.taken == ["a", "b"]
    fetcher.done("a")
    assert fetcher.taken == ["a", "b", "c"]
    fetcher.hello()
    fetcher.hello()
    assert fetcher.taken == ["a", "b", "c"]
