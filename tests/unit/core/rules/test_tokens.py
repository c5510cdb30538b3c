"""Tokens: the reports that count."""

from __future__ import annotations

import pytest

from taskqueue.protocol.fetchers import Extend, LeaseRef, Release, TokensReply
from taskqueue.protocol.fields import Token
from taskqueue.protocol.operations import Bulk, OperationReply
from taskqueue.protocol.tasks import DoneReply, TaskRetry, TasksReply
from taskqueue.protocol.values import TaskReport
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
    assert world.show("a").state == "ready"

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


# ---------------------------------------------------------------------------------------- guessed


def test_guesses_around_a_token_of_ones_own_end_no_lease_of_others(world: World) -> None:
    world.push("news", *(task(f"t{n}") for n in range(50)), task("own"))
    victim = world.fetcher(capacity=50)
    attacker = world.fetcher(capacity=1, name="attacker")
    own = attacker.held["own"].token

    tokens = [Token(token) for token in range(own - 60, own + 60) if token != own]
    for n in range(50):
        guesses = attacker.answers(*[TaskReport("news", f"t{n}", token) for token in tokens])
        assert set(world.ask(DoneReply, guesses).outcomes) == {"stale"}
    leases = [LeaseRef("news", f"t{n}", Token(own - 50 + n)) for n in range(50)]
    assert world.ask(TokensReply, Release(session="attacker", n=world.n(), leases=leases)).counted == 0
    assert world.ask(TokensReply, Extend(session="attacker", n=world.n(), leases=leases)).counted == 0

    victim.finish_all()
    assert world.counts().success == 50


def test_guesses_from_numbers_that_anybody_may_know_end_no_lease(world: World) -> None:
    victim = bring(world, "processing")
    number = world.ask(OperationReply, Bulk(session="x", n=world.n(), action="cancel", project="shop")).operation.id

    assert {victim.forge("a", number + n) for n in range(-50, 50)} == {"stale"}


def test_the_tokens_of_a_session_go_on_after_a_restart_and_none_comes_twice(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    tokens = set()
    for n in range(20):
        world.push("news", task(f"t{n}"))
        tokens.add(fetcher.held[f"t{n}"].token)
        if n % 5 == 4:
            world.restart()
            fetcher.hello()
        assert fetcher.done(f"t{n}") == "done"

    assert len(tokens) == 20
    assert all(0 < token < 2**63 for token in tokens)


@pytest.mark.parametrize("is_in_force", [False, True])
def test_a_token_that_would_be_none_or_is_in_force_is_passed_over(world: World, is_in_force: bool) -> None:
    world.push("news", task("a"))
    first = world.fetcher(capacity=1, name="first")
    unwanted = first.held["a"].token if is_in_force else 0
    second = world.fetcher(capacity=1, name="second")
    state = world.scheduler._state
    last = state.next_number()

    # As if the hash of the id were such that last + 1 is the seq of b, and last + 2 its token.
    state.sessions["second"].mask = (last + 2) ^ unwanted
    world.push("news", task("b"))

    assert second.held["b"].token == (last + 3) ^ (last + 2) ^ unwanted
    assert (first.done("a"), second.done("b")) == ("done", "done")


@pytest.mark.parametrize("is_from_before", [False, True])
def test_leases_come_back_in_the_order_in_which_they_were_given(world: World, is_from_before: bool) -> None:
    world.push("news", *(task(f"t{n:02}") for n in range(30)))
    fetchers = [world.fetcher(capacity=0, name=name) for name in ("one", "two")]
    for fetcher in fetchers:
        if is_from_before:  # there were masks
            world.scheduler._state.sessions[fetcher.session].mask = 0
        fetcher.capacity = 15
        fetcher.hello()
    world.reboot()

    leases = [list(world.scheduler._state.sessions[name].leases) for name in ("one", "two")]
    assert leases == [fetcher.tokens(*fetcher.held) for fetcher in fetchers]
    for fetcher in fetchers:
        fetcher.finish_all()
