"""done, ok: the task has finished, or runs again after its age; and its follow-ups."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.messages import Flaw
from taskqueue.protocol.tasks import DoneReply, ItemError
from tests.unit.core.conftest import WALL, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import DAY, HOUR, bring, comes_after, never_comes

RECURRING: dict[str, Any] = {"auto_recrawl": True, "age": 7 * HOUR}

# ---------------------------------------------------------------------------------------- success


def test_a_task_that_succeeded_is_over(world: World) -> None:
    fetcher = bring(world, "processing")
    world.advance(5)

    assert fetcher.done("a") == "done"
    shown = world.show("a")
    assert (shown.state, shown.retried) == ("success", 0)
    assert shown.lastcrawltime == shown.finished_at == WALL + 5
    assert never_comes(world, fetcher)


def test_a_task_with_an_age_alone_does_not_come_again_by_itself(world: World) -> None:
    fetcher = bring(world, "success", age=HOUR)

    assert never_comes(world, fetcher)


# ---------------------------------------------------------------------------------------- auto_recrawl


def test_with_auto_recrawl_and_an_age_a_task_comes_again_so_long_after_each_success(world: World) -> None:
    fetcher = bring(world, "processing", **RECURRING)

    for _ in range(3):
        world.advance(20)
        assert fetcher.done("a") == "done"
        assert comes_after(world, fetcher, 7 * HOUR)


def test_auto_recrawl_without_an_age_changes_nothing(world: World) -> None:
    fetcher = bring(world, "success", auto_recrawl=True)

    assert never_comes(world, fetcher)


def test_auto_recrawl_takes_no_age_from_the_task_that_it_meets(world: World) -> None:
    fetcher = bring(world, "delayed", age=7 * HOUR)
    assert world.push("news", task("a", auto_recrawl=True)) == ["merged"]
    assert not world.show("a").schedule.auto_recrawl

    assert world.push("news", task("a", auto_recrawl=True, force_update=True)) == ["replaced"]
    assert world.show("a").schedule.age is None
    fetcher.hello()
    fetcher.done("a")

    assert never_comes(world, fetcher)


def test_a_link_does_not_make_a_task_recurring_but_force_update_does(world: World) -> None:
    fetcher = bring(world, "ready")
    world.push("news", task("a", priority=1, **RECURRING))
    fetcher.hello()
    fetcher.done("a")
    assert world.show("a").state == "success"

    world.push("news", task("a", force_update=True, **RECURRING))
    fetcher.hello()
    fetcher.done("a")
    assert comes_after(world, fetcher, 7 * HOUR)


def test_force_update_ends_a_recurrence_after_one_more_run(world: World) -> None:
    fetcher = bring(world, "processing", **RECURRING)
    fetcher.done("a")

    assert world.push("news", task("a", force_update=True)) == ["replaced"]
    fetcher.hello()
    fetcher.done("a")
    assert never_comes(world, fetcher)


def test_a_success_gives_a_recurring_task_its_retries_back(world: World) -> None:
    fetcher = bring(world, "processing", **RECURRING)

    for _ in range(2):
        fetcher.fail("a")
        assert comes_after(world, fetcher, 30)
        assert fetcher.held["a"].retried == 1
        fetcher.done("a")
        assert comes_after(world, fetcher, 7 * HOUR)


@pytest.mark.parametrize(("age", "delay"), [(7 * HOUR, 7 * HOUR), (9 * DAY, DAY)])
def test_a_recurring_task_never_gives_up(world: World, age: float, delay: float) -> None:
    fetcher = bring(world, "processing", auto_recrawl=True, age=age, retries=0)

    for _ in range(3):
        fetcher.fail("a")
        assert comes_after(world, fetcher, delay)


def test_a_recurring_task_outlives_the_daemon_with_its_body(world: World) -> None:
    fetcher = bring(world, "processing", **RECURRING)
    fetcher.done("a")

    world.restart()
    assert comes_after(world, fetcher, 7 * HOUR)
    assert body_of(fetcher.held["a"]) == "old"


# ---------------------------------------------------------------------------------------- follow-ups


def test_new_tasks_that_came_out_of_a_task_are_kept_with_its_end(world: World) -> None:
    fetcher = bring(world, "processing")
    answer = fetcher.finished("a", new=[task("b"), task("a"), task("c", project="shop")])

    reply = world.ask(DoneReply, fetcher.answers(answer))

    assert (reply.outcomes, reply.new) == (["done"], [["new", "ignored", "new"]])
    world.restart()
    fetcher.capacity = 2
    fetcher.hello()
    assert sorted(fetcher.taken[1:]) == ["b", "c"]


def test_a_malformed_follow_up_is_reported_and_spoils_nothing_else(world: World) -> None:
    fetcher = bring(world, "processing")
    request = fetcher.answers(fetcher.finished("a", new=[task("b"), None, task("c", project="nwes")]))

    reply = world.ask(DoneReply, request, {(0, 1): Flaw("tasks[0].new[1].url: missing")})

    assert (reply.outcomes, reply.new) == (["done"], [["new", "rejected", "rejected"]])
    assert reply.errors[0] == ItemError(1, "tasks[0].new[1].url: missing", 0)
    assert 'project: "nwes" is unknown' in reply.errors[1].reason
    fetcher.hello()
    assert fetcher.taken == ["a", "b"]


def test_max_queue_does_not_apply_to_follow_ups(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 1})
    fetcher = bring(world, "processing")

    reply = world.ask(DoneReply, fetcher.answers(fetcher.finished("a", new=[task("b"), task("c")])))

    assert reply.new == [["new", "new"]]
    assert world.push("news", task("d")) == ["rejected"]


def test_follow_ups_of_a_failure_are_kept_too(world: World) -> None:
    fetcher = bring(world, "processing")

    reply = world.ask(DoneReply, fetcher.answers(fetcher.finished("a", ok=False, new=[task("b")])))

    assert (reply.outcomes, reply.new) == (["done"], [["new"]])


def test_a_batch_of_answers_is_decided_one_by_one(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.capacity = 2
    world.push("news", task("b"))
    fetcher.hello()
    good, bad = fetcher.finished("a"), fetcher.finished("b", ok=False, retry=False)

    reply = world.ask(DoneReply, fetcher.answers(good, good, bad))

    assert reply.outcomes == ["done", "stale", "done"]
    assert [world.show(each).state for each in "ab"] == ["success", "failed"]
