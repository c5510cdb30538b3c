"""Tokens: which answer counts."""

from __future__ import annotations

import pytest

from taskqueue.core.replies import TasksReply
from taskqueue.core.requests import TaskRetry
from tests.unit.core.conftest import World, body_of, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, HOUR, bring, comes_after, never_comes, run_out

# ---------------------------------------------------------------------------------------- repeated


def test_a_second_answer_of_the_same_lease_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    token = fetcher.held["a"].token

    assert [fetcher.forge("a", token) for _ in range(2)] == ["done", "stale"]
    assert world.project().totals.success == 1


def test_a_success_after_a_failure_of_the_same_lease_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    token = fetcher.held["a"].token

    assert [fetcher.forge("a", token, ok=ok) for ok in (False, True)] == ["done", "stale"]
    assert world.show("a").state == "delayed"


@pytest.mark.parametrize("restart", [False, True])
def test_a_repeated_request_is_answered_as_before_and_counted_once(world: World, restart: bool) -> None:
    fetcher = bring(world, "processing")
    request = fetcher.answers(fetcher.finished("a", new=[task("b")]))

    first = world.answer(request)
    if restart:
        world.restart()
    assert world.answer(request) == first
    totals = world.project().totals
    assert (totals.success, totals.new) == (1, 2)


@pytest.mark.parametrize("token", [0, 1, 2**63 - 1])
def test_an_answer_with_a_token_of_nobody_is_stale(world: World, token: int) -> None:
    fetcher = bring(world, "processing")

    assert [fetcher.forge(taskid, token) for taskid in ("a", "never-heard-of")] == ["stale", "stale"]
    assert fetcher.done("a") == "done"


# ---------------------------------------------------------------------------------------- late


def test_a_late_success_counts_if_nobody_else_was_given_the_task(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)

    assert fetcher.done("a") == "done"
    assert never_comes(world, fetcher)
    assert world.project().totals.success == 1


def test_a_late_success_counts_also_while_the_task_waits_for_its_next_attempt(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)
    fetcher.hello(holds=[])
    run_out(world, fetcher)
    assert world.show("a").state == "delayed"

    assert fetcher.done("a") == "done"
    assert never_comes(world, fetcher)


def test_a_late_success_of_a_recurring_task_lets_it_wait_for_its_age(world: World) -> None:
    fetcher = bring(world, "processing", age=HOUR, auto_recrawl=True)
    run_out(world, fetcher)

    assert fetcher.done("a") == "done"
    assert comes_after(world, fetcher, HOUR)


def test_a_success_after_silence_counts_if_nobody_else_was_given_the_task(world: World) -> None:
    fetcher = bring(world, "processing")
    world.advance(61)
    assert world.show("a").state == "ready"

    assert fetcher.done("a") == "done"
    assert world.show("a").state == "success"


def test_a_late_answer_changes_nothing_for_the_one_who_was_given_the_task_next(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)
    other = world.fetcher(name="other")
    assert other.taken == ["a"]

    assert fetcher.done("a") == "stale"
    assert world.show("a").session == world.pseudonym("other")
    assert other.done("a") == "done"
    assert world.project().totals.success == 1


def test_a_late_failure_changes_nothing(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)

    assert fetcher.fail("a", retry=False) == "stale"
    assert comes_after(world, fetcher, 0)


def test_a_late_success_of_a_task_that_has_failed_for_good_is_stale(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)
    run_out(world, fetcher)

    assert fetcher.done("a") == "stale"
    assert world.show("a").state == "failed"


# ---------------------------------------------------------------------------------------- overtaken


def test_the_answer_of_a_lease_that_was_replaced_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)
    assert world.push("news", task("a", body="new", **FORCE)) == ["replaced"]

    assert fetcher.done("a") == "stale"
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "new"


def test_the_answer_of_a_lease_from_before_a_restart_of_the_task_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    old = fetcher.finished("a")
    run_out(world, fetcher)
    assert world.push("news", task("a", **CANCEL), task("a", **FORCE)) == ["cancelled", "restarted"]

    assert fetcher.forge("a", old.token) == "stale"
    fetcher.hello()
    assert fetcher.done("a") == "done"


def test_the_answer_of_a_lease_that_was_released_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    old = fetcher.held["a"].token
    fetcher.release("a")

    assert fetcher.forge("a", old) == "stale"
    assert comes_after(world, fetcher, 0)


def test_the_answer_of_a_lease_from_before_a_retry_by_hand_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    run_out(world, fetcher)
    fetcher.hello(holds=[])
    run_out(world, fetcher)
    assert world.show("a").state == "delayed"
    request = TaskRetry(session="person", n=world.n(), project="news", taskids=["a"])
    assert world.ask(TasksReply, request).outcomes == ["done"]

    assert fetcher.done("a") == "stale"
    assert comes_after(world, fetcher, 0)


def test_an_answer_and_a_force_update_in_one_turn_see_each_other(world: World) -> None:
    fetcher = bring(world, "processing")
    answer = fetcher.answers(fetcher.finished("a"))

    world.turn(answer, world.new_tasks("news", task("a", body="new", **FORCE)))
    world.settle()
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "new"
    assert world.project().totals.success == 1
