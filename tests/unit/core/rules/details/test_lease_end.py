"""Ends of leases: done, failed, expired; which reports count, and their effects."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.fields import Token
from taskqueue.protocol.messages import Flaw
from taskqueue.protocol.tasks import DoneReply
from taskqueue.protocol.values import TaskReport
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, body_of, task

HOUR, DAY = 3600.0, 86_400.0


def run_out(world: World, fetcher: Fetcher, seconds: float = 600.0) -> None:
    """Let the leases of a fetcher expire that is heard, but takes no further task."""
    for _ in range(int(seconds // 50)):
        fetcher.hello(capacity=0)
        world.advance(50)
    fetcher.hello(capacity=0)


def take_again(world: World, fetcher: Fetcher) -> None:
    """Sleep until the only task is due again, and give it to the fetcher."""
    fetcher.hello()
    world.advance(max(0.0, world.show("a").exetime - world.now.wall))
    fetcher.hello()


# ---------------------------------------------------------------------------------------- success


def test_an_answer_counts_once(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    token = fetcher.held["a"].token

    assert [fetcher.forge("a", token) for _ in range(2)] == ["done", "stale"]
    assert world.project().totals.success == 1


def test_a_success_after_the_same_lease_was_answered_with_a_failure_is_stale(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    token = fetcher.held["a"].token

    assert [fetcher.forge("a", token, ok=ok) for ok in (False, True)] == ["done", "stale"]
    assert world.show("a").state == "delayed"


def test_the_success_of_a_recurring_task_counts_once_for_each_lease(world: World) -> None:
    world.push("news", task("a", age=HOUR, auto_recrawl=True))
    fetcher = world.fetcher()
    token = fetcher.held["a"].token

    assert [fetcher.forge("a", token) for _ in range(2)] == ["done", "stale"]
    assert world.project().totals.success == 1


def test_two_answers_in_one_request_count_once(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    answer = fetcher.finished("a")

    reply = world.ask(DoneReply, fetcher.answers(answer, answer))
    assert reply.outcomes == ["done", "stale"]


@pytest.mark.parametrize("token", [0, 1, 2**63 - 1])
def test_an_answer_with_a_wrong_token_is_stale(world: World, token: int) -> None:
    world.push("news", task("a"), task("b", delay=9))
    fetcher = world.fetcher()

    assert [fetcher.forge(name, token) for name in ("a", "b", "unheard-of")] == ["stale"] * 3
    assert world.show("a").state == "processing"


def test_an_answer_for_an_unknown_project_is_stale(world: World) -> None:
    fetcher = world.fetcher()

    reply = world.ask(DoneReply, fetcher.answers(TaskReport("blog", "a", Token(7))))
    assert reply.outcomes == ["stale"]


def test_each_answer_of_a_batch_counts_on_its_own(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    request = fetcher.answers(fetcher.finished("a"), None, fetcher.finished("b", ok=False, retry=False))  # type: ignore[arg-type]

    reply = world.ask(DoneReply, request, {(1,): Flaw("tasks[1].token: expected int")})
    assert reply.outcomes == ["done", "rejected", "done"]
    assert [(error.index, error.parent, error.reason) for error in reply.errors] == [
        (1, None, "tasks[1].token: expected int")
    ]


def test_a_report_that_the_door_has_taken_out_changes_nothing(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    request = fetcher.answers(None, fetcher.finished("b", new=[None, task("c")]))  # type: ignore[arg-type]
    flaws = {(0,): Flaw("project: outside", "forbidden"), (1, 0): Flaw("depends_on: outside", "forbidden")}

    reply = world.ask(DoneReply, request, flaws)
    assert (reply.outcomes, reply.new) == (["rejected", "done"], [[], ["rejected", "new"]])
    assert [(error.parent, error.index, error.code) for error in reply.errors] == [
        (None, 0, "forbidden"),
        (1, 0, "forbidden"),
    ]
    assert world.show("a").state == "processing"


# ---------------------------------------------------------------------------------------- recurring


def test_a_recurring_task_waits_for_its_age_after_a_success(world: World) -> None:
    world.push("news", task("a", age=HOUR, auto_recrawl=True))
    fetcher = world.fetcher()

    world.advance(7)
    assert fetcher.done("a") == "done"
    assert world.show("a").exetime == WALL + 7 + HOUR
    world.advance(HOUR - 1)
    fetcher.hello()
    assert fetcher.taken == ["a"]
    world.advance(1)
    assert fetcher.taken == ["a", "a"]


@pytest.mark.parametrize("schedule", [{"age": HOUR}, {"auto_recrawl": True}])
def test_only_auto_recrawl_with_an_age_recurs(world: World, schedule: dict[str, Any]) -> None:
    world.push("news", task("a", **schedule))

    world.fetcher().done("a")
    assert world.show("a").state == "success"


def test_the_stored_schedule_decides_not_what_a_link_said(world: World) -> None:
    world.push("news", task("a", priority=1))
    world.push("news", task("a", priority=2, age=HOUR, auto_recrawl=True))

    world.fetcher().done("a")
    assert world.show("a").state == "success"


@pytest.mark.parametrize("age", [100.0, 10 * DAY])
def test_a_recurring_task_has_its_retries_and_then_waits_its_age_or_a_day(world: World, age: float) -> None:
    world.push("news", task("a", retries=1, age=age, auto_recrawl=True))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a")
    for _ in range(3):
        take_again(world, fetcher)
        failed_at = world.now.wall
        fetcher.fail("a")
        assert world.show("a").exetime == failed_at + min(DAY, age)


def test_a_success_gives_a_recurring_task_its_retries_and_its_good_name_back(world: World) -> None:
    world.push("news", task("a", age=HOUR, auto_recrawl=True))
    fetcher = world.fetcher()

    fetcher.fail("a", error="boom")
    assert world.show("a").error == "boom"
    take_again(world, fetcher)
    fetcher.done("a")
    shown = world.show("a")
    assert (shown.retried, shown.error) == (0, "")


# ---------------------------------------------------------------------------------------- failure


def test_failures_are_retried_after_the_delays_of_the_table_and_then_no_more(world: World) -> None:
    world.push("news", task("a", retries=6))
    fetcher = world.fetcher(capacity=1)

    for retried, delay in enumerate([30.0, HOUR, 6 * HOUR, 12 * HOUR, DAY, DAY]):
        assert fetcher.held["a"].retried == retried
        failed_at = world.now.wall
        assert fetcher.fail("a", error=f"attempt {retried}") == "done"
        assert world.show("a").exetime == failed_at + delay
        take_again(world, fetcher)
    fetcher.fail("a", error="the last one")

    shown = world.show("a")
    assert (shown.state, shown.error, shown.lastcrawltime) == ("failed", "the last one", world.now.wall)
    assert world.project().totals.retried == 6


@pytest.mark.parametrize(("own", "expected"), [(None, 1), (0, 0), (2, 2)])
def test_a_task_has_its_own_number_of_retries_or_the_projects(
    make_world: MakeWorld, own: int | None, expected: int
) -> None:
    world = make_world({"retries": 1, "retry_delay": [10.0]})
    world.push("news", task("a", retries=own))
    fetcher = world.fetcher(capacity=1)

    attempts = 0
    while fetcher.held:
        fetcher.fail("a")
        attempts += 1
        if world.show("a").state == "delayed":
            take_again(world, fetcher)
    assert attempts == expected + 1


def test_the_delay_before_a_retry_is_not_longer_than_the_age(world: World) -> None:
    world.push("news", task("a", age=12.0))

    world.fetcher().fail("a")
    assert world.show("a").exetime == WALL + 12


def test_a_failure_without_a_reason_does_not_show_that_of_the_attempt_before(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    fetcher.fail("a", error="boom")
    take_again(world, fetcher)
    fetcher.fail("a")
    assert world.show("a").error == ""


@pytest.mark.parametrize("schedule", [{}, {"age": 100.0, "auto_recrawl": True}])
def test_retry_false_fails_the_task_at_once(world: World, schedule: dict[str, Any]) -> None:
    world.push("news", task("a", **schedule))

    world.fetcher().fail("a", error="404", retry=False)
    shown = world.show("a")
    assert (shown.state, shown.error, shown.retried) == ("failed", "404", 0)
    assert world.project().totals.failed == 1


def test_retry_after_delays_by_that_much_and_uses_up_no_retry(world: World) -> None:
    world.push("news", task("a", retries=0, age=10.0))
    fetcher = world.fetcher(capacity=1)

    for _ in range(3):
        failed_at = world.now.wall
        fetcher.fail("a", retry_after=DAY)
        shown = world.show("a")
        assert (shown.exetime, shown.retried) == (failed_at + DAY, 0)
        take_again(world, fetcher)
    fetcher.fail("a")
    assert world.show("a").state == "failed"


def test_retry_after_zero_is_at_once(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()

    fetcher.fail("a", retry_after=0.0)
    assert fetcher.taken == ["a", "a"]


# ---------------------------------------------------------------------------------------- time runs out


def test_a_lease_that_runs_out_is_retried_at_once_the_first_time_and_by_the_table_after_that(world: World) -> None:
    world.push("news", task("a", retries=2))
    fetcher = world.fetcher(capacity=1)

    run_out(world, fetcher)
    shown = world.show("a")
    assert (shown.state, shown.retried, shown.error) == ("ready", 1, "timeout")
    fetcher.hello()
    run_out(world, fetcher)
    shown = world.show("a")
    assert (shown.state, shown.retried, shown.exetime) == ("delayed", 2, world.now.wall + HOUR)
    take_again(world, fetcher)
    run_out(world, fetcher)
    assert world.show("a").state == "failed"
    assert world.project().totals.timeout == 3


def test_a_lease_runs_out_at_its_deadline_and_not_before(world: World) -> None:
    world.push("news", task("a", timeout=40.0, retries=0), task("b"))
    fetcher = world.fetcher()
    assert (fetcher.held["a"].timeout, fetcher.held["b"].timeout) == (40.0, 600.0)

    world.advance(39.9)
    assert world.show("a").state == "processing"
    world.advance(0.1)
    assert (world.show("a").state, world.show("b").state) == ("failed", "processing")


def test_leases_that_run_out_together_end_over_several_turns(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=3)
    world.push("news", *[task(f"t{i}", timeout=10.0) for i in range(10)])
    fetcher = world.fetcher(capacity=10)
    fetcher.hello(capacity=0)

    world.advance(10)
    assert world.counts().ready == 10


def test_a_late_success_of_a_task_that_waits_for_its_retry_counts(world: World) -> None:
    world.push("news", task("a", retries=2))
    fetcher = world.fetcher()
    run_out(world, fetcher)
    fetcher.hello()
    run_out(world, fetcher)
    assert world.show("a").state == "delayed"

    assert fetcher.done("a") == "done"
    assert world.show("a").state == "success"


def test_a_late_success_uses_up_its_token(world: World) -> None:
    world.push("news", task("a", age=HOUR, auto_recrawl=True))
    fetcher = world.fetcher()
    token = fetcher.held["a"].token
    run_out(world, fetcher)

    assert [fetcher.forge("a", token) for _ in range(2)] == ["done", "stale"]
    assert world.project().totals.success == 1


def test_an_answer_after_the_task_was_replaced_is_stale(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    run_out(world, fetcher)
    world.push("news", task("a", body="new", force_update=True))

    assert fetcher.done("a") == "stale"
    assert world.show("a").state == "ready"


# ---------------------------------------------------------------------------------------- follow-ups


def test_each_new_task_of_an_answer_has_an_outcome_and_a_refused_one_its_reason(world: World) -> None:
    world.push("news", task("a"), task("x", delay=9))
    fetcher = world.fetcher(capacity=1)
    items = [task("b", body="b"), task("x"), task("a"), task("c", project="shop"), task("d", project="blog"), None]
    request = fetcher.answers(fetcher.finished("a", new=items))

    reply = world.ask(DoneReply, request, {(0, 5): Flaw("tasks[0].new[5].url: missing")})
    assert reply.outcomes == ["done"]
    assert reply.new == [["new", "merged", "ignored", "new", "rejected", "rejected"]]
    assert [(error.parent, error.index) for error in reply.errors] == [(0, 4), (0, 5)]
    assert reply.errors[1].reason == "tasks[0].new[5].url: missing"
    assert (world.counts("news").success, world.counts("shop").ready) == (1, 1)


def test_follow_ups_are_listed_for_each_item(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()

    answers = fetcher.answers(fetcher.finished("a"), fetcher.finished("b", ok=False, new=[task("c")]))
    assert world.ask(DoneReply, answers).new == [[], ["new"]]


def test_max_queue_does_not_hold_up_follow_ups(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 1})
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    fetcher.done("a", new=[task("b"), task("c")])
    assert world.counts().ready + world.counts().processing == 2
    assert world.push("news", task("d")) == ["rejected"]


def test_follow_ups_of_a_stale_answer_are_not_taken(world: World) -> None:
    fetcher = world.fetcher()
    item = TaskReport("news", "a", Token(5), new=[task("b")])

    reply = world.ask(DoneReply, fetcher.answers(item))
    assert (reply.outcomes, reply.new) == (["stale"], [[]])
    assert world.counts().ready == 0


def test_a_task_may_lead_to_itself(world: World) -> None:
    world.push("news", task("a", body="old"))
    fetcher = world.fetcher()

    fetcher.done("a", new=[task("a", body="new", force_update=True)])
    assert fetcher.taken == ["a", "a"]
    assert body_of(fetcher.held["a"]) == "new"
