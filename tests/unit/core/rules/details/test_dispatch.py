"""Dispatch: the next task, its fetcher, and the pace."""

from __future__ import annotations

from math import inf

from msgspec.msgpack import decode, encode

from taskqueue.protocol.values import PLAIN, Schedule
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task


def names(count: int, prefix: str = "t") -> list[str]:
    return [f"{prefix}{number:03}" for number in range(count)]


def push(world: World, project: str, count: int, prefix: str = "t") -> None:
    world.push(project, *[task(name) for name in names(count, prefix)])


def stay(world: World, fetcher: Fetcher, seconds: float) -> None:
    """Let time pass while the fetcher is heard."""
    end = world.elapsed + seconds
    while world.elapsed < end:
        world.advance(min(25.0, end - world.elapsed))
        fetcher.hello()


# ---------------------------------------------------------------------------------------- order


def test_higher_priorities_go_first_and_equals_in_the_order_in_which_they_came(world: World) -> None:
    priorities = [0, 5, -3, 5, 0, 2**31 - 1, -(2**31)]
    world.push("news", *[task(f"t{i}", priority=priority) for i, priority in enumerate(priorities)])

    assert world.fetcher().taken == ["t5", "t1", "t3", "t0", "t4", "t2", "t6"]


def test_order_is_kept_by_a_restart(world: World) -> None:
    push(world, "news", 7)
    fetcher = world.fetcher(capacity=1)

    for _ in range(7):
        world.restart()
        fetcher.hello()
        fetcher.done(next(iter(fetcher.held)))
    assert fetcher.taken == names(7)


def test_what_has_never_been_run_says_nothing_of_when_it_was(world: World) -> None:
    world.set("news", slot={"by": "host", "rate": 100.0})
    world.push("news", task("a", url="http://a/"))
    world.restart()
    fetcher = world.fetcher()

    world.advance(1)

    said = decode(encode(fetcher.held["a"]))
    assert said.keys() == {"project", "taskid", "url", "token", "timeout", "body", "start_within", "slot"}


def test_a_delayed_task_is_handed_out_at_its_time_and_not_before(world: World) -> None:
    world.push("news", task("late", delay=20), task("soon", delay=10))
    fetcher = world.fetcher()

    world.advance(9.999)
    assert fetcher.taken == []
    world.advance(0.001)
    assert fetcher.taken == ["soon"]
    world.advance(10)
    assert fetcher.taken == ["soon", "late"]


def test_tasks_that_are_due_together_are_promoted_over_several_turns(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=4)
    for name in names(30):
        world.push("news", task(name, delay=100 - world.elapsed))

    world.advance(99)
    assert world.counts().delayed == 30
    world.advance(1)
    assert world.counts().ready == 30
    assert world.fetcher().taken == names(30)


def test_a_turn_hands_out_no_more_than_its_bound(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=4)
    push(world, "news", 30)
    fetcher = world.fetcher()

    assert fetcher.taken == names(30)
    assert max(len(message.tasks) for message in fetcher.messages) <= 4


# ---------------------------------------------------------------------------------------- pace


def test_a_burst_goes_at_once_and_the_rest_at_the_rate(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.5, "burst": 3})
    push(world, "news", 8)
    fetcher = world.fetcher()

    assert fetcher.taken == names(3)
    stay(world, fetcher, 2)
    assert fetcher.taken == names(4)
    stay(world, fetcher, 7.9)
    assert fetcher.taken == names(7)
    stay(world, fetcher, 0.1)
    assert fetcher.taken == names(8)


def test_the_scheduler_wakes_once_for_each_token(make_world: MakeWorld) -> None:
    world = make_world({"rate": 1, "burst": 1})
    push(world, "news", 20)
    fetcher = world.fetcher()

    world.wakes = 0
    world.advance(19)
    assert fetcher.taken == names(20)
    assert world.wakes <= 2 * 19


def test_a_rate_of_zero_hands_out_nothing_and_sleeps(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0})
    push(world, "news", 2)
    fetcher = world.fetcher(capacity=2)

    fetcher.hello(capacity=0)
    world.advance(120)
    assert world.next_wake() >= 3600
    world.set(rate=inf)
    fetcher.hello()
    assert fetcher.taken == names(2)


def test_a_bucket_goes_on_after_a_restart(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 2})
    push(world, "news", 6)
    fetcher = world.fetcher()
    assert fetcher.taken == names(2)

    world.advance(5)
    world.restart()
    fetcher.hello()
    assert fetcher.taken == names(2)
    world.advance(5)
    assert fetcher.taken == names(3)


def test_after_a_power_cut_a_bucket_starts_empty(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 2})
    push(world, "news", 3)
    world.advance(100)

    world.reboot()
    fetcher = world.fetcher()
    assert fetcher.taken == []
    world.advance(10)
    assert fetcher.taken == names(1)


def test_after_an_orderly_stop_a_bucket_has_what_it_had_on_the_next_boot(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 2})
    push(world, "news", 3)

    world.reboot(clean=True)
    assert world.fetcher().taken == names(2)


# ---------------------------------------------------------------------------------------- states


def test_a_stopped_project_hands_out_nothing_until_it_is_started(world: World) -> None:
    fetcher = world.fetcher()
    world.do("stop")
    push(world, "news", 1)
    assert fetcher.taken == []

    world.do("start")
    assert fetcher.taken == ["t000"]


def test_a_paused_project_hands_out_nothing_until_it_is_resumed_across_restarts(world: World) -> None:
    world.do("pause")
    push(world, "news", 1)
    world.restart()
    fetcher = world.fetcher()
    assert fetcher.taken == []

    world.do("resume")
    assert fetcher.taken == ["t000"]


def test_what_a_paused_project_has_handed_out_still_counts(world: World) -> None:
    push(world, "news", 2)
    fetcher = world.fetcher(capacity=1)
    world.do("pause")

    assert fetcher.done("t000", new=[task("more")]) == "done"
    assert fetcher.taken == ["t000"]
    assert world.counts().ready == 2


# ---------------------------------------------------------------------------------------- shares


def test_a_project_that_can_not_give_leaves_its_share_to_others(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"rate": 0}, "shop": {}})
    push(world, "news", 50, "n")
    push(world, "shop", 50, "s")

    assert world.fetcher(capacity=50).taken == names(50, "s")


def test_fetchers_share_the_tasks(world: World) -> None:
    fetchers = [world.fetcher(capacity=100, name=f"f{i}") for i in range(4)]

    for name in names(40):
        world.push("news", task(name))
    assert [len(fetcher.taken) for fetcher in fetchers] == [10, 10, 10, 10]


def test_a_fetcher_with_few_wishes_is_not_starved_by_one_that_takes_anything(make_world: MakeWorld) -> None:
    world = make_world({"rate": 1, "burst": 1})
    push(world, "news", 60)
    greedy = world.fetcher(capacity=1000, name="greedy")
    modest = world.fetcher(capacity=1000, projects=["news"], name="modest")

    for _ in range(40):
        world.advance(1)
        greedy.hello()
        modest.hello()
    assert abs(len(greedy.taken) - len(modest.taken)) <= 2


def test_projects_that_nobody_waits_for_do_not_keep_others_waiting(world: World) -> None:
    push(world, "news", 5, "n")
    fetcher = world.fetcher(projects=["shop"])

    push(world, "shop", 5, "s")
    assert fetcher.taken == names(5, "s")
    assert world.counts("news").ready == 5


# ---------------------------------------------------------------------------------------- what a fetcher is told


def test_a_fetcher_is_told_of_the_schedule_what_is_not_the_default(world: World) -> None:
    at = world.now.wall + 5
    world.push(
        "news", task("a", priority=3, exetime=at, retries=7, age=60.0, itag="v2", force_update=True, timeout=9.0)
    )
    fetcher = world.fetcher()
    world.advance(6)

    assert fetcher.held["a"].schedule == Schedule(priority=3, exetime=at, retries=7, age=60.0, itag="v2")


def test_a_fetcher_is_told_the_priority_that_a_task_has_now(world: World) -> None:
    world.push("news", task("a"))
    world.push("news", task("a", priority=4))

    assert world.fetcher().held["a"].schedule == Schedule(priority=4)


def test_a_task_like_any_other_is_told_without_a_schedule(world: World) -> None:
    world.push("news", task("a", body={"x": 1}), task("b", timeout=9.0))
    world.restart()

    fetcher = world.fetcher()
    assert [fetcher.held[name].schedule is PLAIN for name in ("a", "b")] == [True, True]
