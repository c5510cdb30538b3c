"""Tasks that kill the fetcher that runs them: the suspects, and the fate of the culprit."""

from __future__ import annotations

import pytest

from taskqueue.protocol.fetchers import Release, TokensReply
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.tasks import Done, DoneReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

SILENCE = 61.0


def names(count: int) -> list[str]:
    return [f"t{number:02}" for number in range(count)]


def crash(world: World, taskid: str, times: int, priority: int = 1) -> None:
    """Let fetchers fall silent one after the other, each with this task alone."""
    world.push("news", task(taskid, priority=priority))
    for life in range(times):
        assert world.fetcher(capacity=1, name=f"{taskid}-{life}").taken == [taskid]
        world.advance(SILENCE)
    assert world.show(taskid).crashes == times


# ---------------------------------------------------------------------------------------- who is suspected


def test_a_task_whose_fetcher_falls_silent_while_it_runs_is_a_suspect(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher(name="web1:7")
    world.advance(SILENCE)

    shown = world.show("a")
    assert (shown.state, shown.crashes, shown.retried) == ("ready", 1, 0)
    assert [(attempt.outcome, attempt.fetcher, attempt.error) for attempt in shown.history] == [
        ("crashed", "web1:7", "its fetcher fell silent while it ran")
    ]


def test_what_a_fetcher_had_not_started_is_no_suspect(world: World) -> None:
    fetcher = world.fetcher(capacity=0)
    fetcher.hello(capacity=5, slots=2)
    world.push("news", *[task(name) for name in names(4)])
    world.advance(SILENCE)

    assert [world.show(name).crashes for name in names(4)] == [1, 1, 0, 0]
    assert [len(world.show(name).history) for name in names(4)] == [1, 1, 0, 0]


def test_a_task_that_was_passed_on_is_no_suspect(world: World) -> None:
    fetcher = world.fetcher(capacity=0)
    fetcher.hello(capacity=2, slots=1)
    world.push("news", task("a"), task("b"))
    fetcher.hello(capacity=2, slots=1, passed=fetcher.tokens("a"))
    world.advance(SILENCE)

    assert [world.show(name).crashes for name in ("a", "b")] == [0, 1]


def test_what_a_fetcher_held_whose_key_is_revoked_comes_back_at_once_and_is_no_suspect(world: World) -> None:
    world.push("news", *[task(name, body={"x": name}) for name in names(30)])
    cut = world.fetcher(capacity=30, name="cut")
    kept = world.fetcher(capacity=9, name="kept")
    world.restart()
    cut.hello(capacity=30)
    kept.hello(capacity=9)
    world.push("news", task("late"))
    assert kept.tokens("late")

    world.turn(cut=[Peer(cut.session.encode())])
    world.settle()

    found = [world.show(name) for name in names(30)]
    assert {each.state for each in found} == {"ready", "processing"}
    assert {(each.crashes, each.retried, len(each.history)) for each in found} == {(0, 0, 0)}
    assert len(kept.taken) == 9
    assert set(world.fetcher(capacity=99).taken) | set(kept.taken) == {*names(30), "late"}
    assert world.show("late").state == "processing"


def test_what_comes_back_by_silence_goes_behind_its_equals(world: World) -> None:
    world.push("news", task("a"), task("b"), task("urgent", priority=1))
    world.fetcher(capacity=3, name="dying")
    world.push("news", task("c"))
    world.advance(SILENCE)

    assert world.fetcher(capacity=100).taken == ["urgent", "c", "a", "b"]


def test_what_comes_back_by_silence_has_its_body_its_retries_and_its_waiting_update(world: World) -> None:
    world.push("news", task("a", body={"x": 1}, retries=7), task("b"))
    world.fetcher(capacity=2, name="dying")
    world.push("news", task("b", force_update=True, priority=3))
    world.advance(SILENCE)
    world.restart()

    fetcher = world.fetcher(capacity=9)
    assert fetcher.taken == ["b", "a"]
    assert world.show("a").schedule.retries == 7


def test_crashes_outlive_the_daemon(world: World) -> None:
    crash(world, "a", 2)

    world.restart()
    assert world.show("a").crashes == 2


@pytest.mark.parametrize("outcome", [{}, {"ok": False}, {"ok": False, "retry_after": 5.0}])
def test_whoever_tells_how_a_task_ended_clears_it_of_suspicion(world: World, outcome: dict[str, object]) -> None:
    crash(world, "a", 2)
    fetcher = world.fetcher()

    world.ask(DoneReply, Done(session="other", n=world.n(), tasks=[fetcher.finished("a", **outcome)]))
    assert world.show("a").crashes == 0


def test_a_suspect_that_is_handed_back_stays_one(world: World) -> None:
    crash(world, "a", 2)
    fetcher = world.fetcher()

    world.ask(TokensReply, Release(session="other", n=world.n(), leases=fetcher.leases("a")))
    assert world.show("a").crashes == 2


# ---------------------------------------------------------------------------------------- how many run at once


def suspects(world: World, count: int) -> None:
    world.push("news", *[task(name) for name in names(count)])
    world.fetcher(name="dying")
    world.advance(SILENCE)


def test_suspects_with_one_crash_take_a_quarter_of_a_fetchers_slots(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=64)
    suspects(world, 6)
    world.push("news", *[task(f"fresh{number}") for number in range(9)])
    fetcher = world.fetcher(capacity=0)
    fetcher.hello(capacity=10, slots=8)

    assert sorted(fetcher.taken) == [
        "fresh0",
        "fresh1",
        "fresh2",
        "fresh3",
        "fresh4",
        "fresh5",
        "fresh6",
        "fresh7",
        "t00",
        "t01",
    ]
    fetcher.done("t00")
    assert fetcher.taken[-1] == "t02"


def test_a_fetcher_with_one_place_takes_one_suspect(world: World) -> None:
    suspects(world, 2)

    assert world.fetcher(capacity=1).taken == ["t00"]


def test_suspects_with_more_crashes_run_one_at_a_time(world: World) -> None:
    crash(world, "a", 2)
    crash(world, "b", 2, priority=2)
    fetcher = world.fetcher(capacity=100)
    assert fetcher.taken == ["b"]

    fetcher.done("b")
    assert fetcher.taken == ["b", "a"]


def test_a_suspect_that_one_fetcher_may_not_have_goes_to_another(world: World) -> None:
    crash(world, "a", 2)
    crash(world, "b", 2, priority=2)
    one = world.fetcher(capacity=100, name="one")
    assert one.taken == ["b"]

    assert world.fetcher(capacity=100, name="other").taken == ["a"]


def test_a_suspect_that_one_who_waits_may_not_have_goes_to_the_next_who_waits(world: World) -> None:
    crash(world, "a", 2)
    crash(world, "b", 2, priority=2)
    world.do("pause")
    one, other = world.fetcher(capacity=100, name="one"), world.fetcher(capacity=100, name="other")

    world.do("resume")
    assert sorted(one.taken + other.taken) == ["a", "b"]
    assert len(one.taken) == len(other.taken)


# ---------------------------------------------------------------------------------------- when one is to blame


def test_the_third_crash_of_a_sole_suspect_is_a_failed_attempt(world: World) -> None:
    crash(world, "a", 2)
    world.fetcher(capacity=1)
    world.advance(SILENCE)

    shown = world.show("a")
    assert (shown.state, shown.retried, shown.crashes) == ("delayed", 1, 2)
    assert shown.error == "its fetcher fell silent while it ran"
    assert world.project().totals.retried == 1


def test_after_that_each_crash_is_one_until_it_has_failed_for_good(make_world: MakeWorld) -> None:
    world = make_world({"retries": 1, "retry_delay": [5.0]})
    crash(world, "a", 2)
    for life in range(2):
        world.fetcher(capacity=1, name=f"last{life}")
        world.advance(SILENCE + 5)

    assert world.show("a").state == "failed"


def test_max_crashes_says_how_many(make_world: MakeWorld) -> None:
    world = make_world({"max_crashes": 1, "retries": 0})
    world.push("news", task("a"))
    world.fetcher(capacity=1)
    world.advance(SILENCE)

    assert world.show("a").state == "failed"


def test_a_crash_of_several_suspects_is_nobodys_failure(world: World) -> None:
    suspects(world, 1)
    crash(world, "a", 2)
    fetcher = world.fetcher(capacity=100)
    assert fetcher.taken == ["a", "t00"]
    world.advance(SILENCE)

    assert [(world.show(name).state, world.show(name).crashes) for name in ("a", "t00")] == [("ready", 2), ("ready", 2)]


def live(world: World, machine: Fetcher, poison: str) -> None:
    """Run tasks until the one comes that kills the machine, or no more come."""
    while machine.held and poison not in machine.held:
        machine.done(next(iter(machine.held)))
    world.advance(SILENCE)


def test_among_a_hundred_that_a_dying_machine_ran_the_one_that_kills_fails_alone(make_world: MakeWorld) -> None:
    world = make_world({"retries": 0, "fail_pause_num": 0})
    world.push("news", *[task(name) for name in names(100)])
    lives = 0
    while world.project().counts.ready and lives < 50:
        live(world, world.fetcher(capacity=100, name=f"machine{lives}"), "t42")
        lives += 1

    counts = world.project().counts
    assert (counts.success, counts.failed) == (99, 1)
    assert world.show("t42").state == "failed"


def test_what_was_behind_one_that_kills_runs_all_the_same(make_world: MakeWorld) -> None:
    world = make_world({"retries": 0})
    world.push("news", *[task(name) for name in names(60)])
    for life in range(5):
        machine = world.fetcher(capacity=0, name=f"machine{life}")
        machine.hello(capacity=2, slots=1)
        live(world, machine, "t00")

    counts = world.project().counts
    assert (counts.success, counts.failed) == (59, 1)
