"""new-task: the outcome of a pushed or linked task, by its present state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.protocol.callers import Caller
from taskqueue.protocol.messages import Flaw
from taskqueue.protocol.tasks import NewTasks, NewTasksReply
from taskqueue.protocol.values import NewTask
from tests.unit.core.conftest import WALL, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import (
    BACK_OFFS,
    DAY,
    FORCE,
    HOUR,
    LIVE,
    OVER,
    bring,
    bring_back_off,
    comes_after,
    never_comes,
)

# ---------------------------------------------------------------------------------------- unknown


def test_an_unknown_task_is_new_and_handed_out(world: World) -> None:
    fetcher = world.fetcher()

    assert world.push("news", task("a", body="hello")) == ["new"]
    assert body_of(fetcher.held["a"]) == "hello"


def test_an_unknown_task_with_a_time_is_handed_out_then_and_not_before(world: World) -> None:
    fetcher = world.fetcher()

    assert world.push("news", task("a", exetime=WALL + 500)) == ["new"]
    assert comes_after(world, fetcher, 500)


def test_a_delay_counts_from_arrival_and_wins_over_a_time(world: World) -> None:
    fetcher = world.fetcher()
    world.advance(40)

    assert world.push("news", task("a", exetime=WALL + 9999, delay=500)) == ["new"]
    assert comes_after(world, fetcher, 500)


def test_cancelling_an_unknown_task_is_ignored_and_runs_nothing(world: World) -> None:
    fetcher = world.fetcher()

    assert world.push("news", task("a", cancel=True), task("b", cancel=True, **FORCE)) == ["ignored", "ignored"]
    assert never_comes(world, fetcher)


# ---------------------------------------------------------------------------------------- ready


def test_a_link_to_a_ready_task_is_ignored(world: World) -> None:
    fetcher = bring(world, "ready", priority=5)

    assert world.push("news", task("a", body="new"), task("a", priority=5, itag="new", age=1)) == ["ignored"] * 2
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "old"


def test_a_link_with_a_higher_priority_brings_a_ready_task_forward(world: World) -> None:
    world.push("news", task("a"), task("b"), task("c"))

    assert world.push("news", task("c", priority=1)) == ["merged"]
    assert world.fetcher().taken == ["c", "a", "b"]


def test_a_link_with_a_lower_priority_does_not_put_a_task_back(world: World) -> None:
    world.push("news", task("a", priority=5), task("b", priority=4))

    assert world.push("news", task("a", priority=3)) == ["ignored"]
    assert world.fetcher().taken == ["a", "b"]


def test_a_merged_task_keeps_its_body_and_its_place_among_equals(world: World) -> None:
    world.push("news", task("a", body="first"), task("b", priority=1), task("c", priority=1))

    assert world.push("news", task("a", body="second", priority=1)) == ["merged"]
    fetcher = world.fetcher()
    assert fetcher.taken == ["a", "b", "c"]
    assert body_of(fetcher.held["a"]) == "first"


def test_a_merged_task_keeps_its_retries(world: World) -> None:
    fetcher = bring(world, "ready", retries=0)

    assert world.push("news", task("a", priority=1, retries=9)) == ["merged"]
    fetcher.hello()
    fetcher.fail("a")
    assert world.show("a").state == "failed"


# ---------------------------------------------------------------------------------------- delayed, not run yet


def test_a_link_hurries_a_task_that_has_not_been_handed_out_yet(world: World) -> None:
    fetcher = bring(world, "delayed")

    assert world.push("news", task("a", delay=10)) == ["merged"]
    assert comes_after(world, fetcher, 10)


def test_a_link_without_a_time_makes_a_delayed_task_ready_at_once(world: World) -> None:
    fetcher = bring(world, "delayed")

    assert world.push("news", task("a")) == ["merged"]
    assert comes_after(world, fetcher, 0)


def test_a_link_with_a_later_time_does_not_delay_a_task(world: World) -> None:
    fetcher = bring(world, "delayed")

    assert world.push("news", task("a", delay=200)) == ["ignored"]
    assert comes_after(world, fetcher, 100)


def test_a_link_with_a_later_time_may_raise_the_priority_of_a_delayed_task(world: World) -> None:
    fetcher = bring(world, "delayed")
    world.push("news", task("b", delay=90, priority=1))

    assert world.push("news", task("a", delay=200, priority=2)) == ["merged"]
    world.advance(100)
    fetcher.hello()
    assert fetcher.taken == ["a"]


# ---------------------------------------------------------------------------------------- held back


@pytest.mark.parametrize("why", BACK_OFFS)
def test_a_link_does_not_shorten_a_back_off(world: World, why: str) -> None:
    fetcher = bring_back_off(world, why, 500)

    assert world.push("news", task("a"), task("a", delay=1), task("a", exetime=WALL + 2)) == ["ignored"] * 3
    assert comes_after(world, fetcher, 500)


@pytest.mark.parametrize("why", BACK_OFFS)
def test_a_link_may_raise_the_priority_of_a_task_in_a_back_off(world: World, why: str) -> None:
    fetcher = bring_back_off(world, why, 500)
    world.push("news", task("b", delay=400, priority=1))

    assert world.push("news", task("a", priority=2)) == ["merged"]
    world.advance(500)
    fetcher.hello()
    assert fetcher.taken == ["a", "a"]


def test_a_back_off_outlives_the_daemon(world: World) -> None:
    fetcher = bring_back_off(world, "retry", 500)
    world.restart()

    assert world.push("news", task("a")) == ["ignored"]
    assert comes_after(world, fetcher, 500)


# ---------------------------------------------------------------------------------------- processing


def test_a_link_to_a_task_that_is_processing_is_ignored(world: World) -> None:
    fetcher = bring(world, "processing")

    assert world.push("news", task("a", priority=9, itag="new", age=1, body="new")) == ["ignored"]
    assert fetcher.done("a") == "done"
    assert never_comes(world, fetcher)


# ---------------------------------------------------------------------------------------- over


@pytest.mark.parametrize("state", OVER)
def test_a_link_to_a_task_that_is_over_is_ignored(world: World, state: str) -> None:
    fetcher = bring(world, state, itag="v1")

    assert world.push("news", task("a"), task("a", priority=9, delay=5), task("a", itag="v1")) == ["ignored"] * 3
    assert never_comes(world, fetcher)


@pytest.mark.parametrize("state", OVER)
def test_a_new_itag_restarts_a_task_that_is_over(world: World, state: str) -> None:
    fetcher = bring(world, state, itag="v1")

    assert world.push("news", task("a", itag="v2", body="new")) == ["restarted"]
    fetcher.hello()
    assert body_of(fetcher.held["a"]) == "new"


def test_an_itag_restarts_a_task_once(world: World) -> None:
    fetcher = bring(world, "success", itag="v1")
    world.push("news", task("a", itag="v2"))
    fetcher.hello()
    fetcher.done("a")

    assert world.push("news", task("a", itag="v2")) == ["ignored"]


@pytest.mark.parametrize("state", LIVE)
def test_a_new_itag_changes_nothing_of_a_live_task(world: World, state: str) -> None:
    bring(world, state, itag="v1")

    assert world.push("news", task("a", itag="v2", delay=WALL)) == ["ignored"]
    assert world.show("a").state == state


@pytest.mark.parametrize("state", ["success", "failed"])
def test_an_age_restarts_a_task_whose_last_run_is_longer_ago(world: World, state: str) -> None:
    fetcher = bring(world, state)

    world.advance(HOUR)
    assert world.push("news", task("a", age=HOUR)) == ["ignored"]
    world.advance(1)
    assert world.push("news", task("a", age=HOUR)) == ["restarted"]
    assert comes_after(world, fetcher, 0)


def test_without_an_age_a_success_is_good_for_ever(world: World) -> None:
    bring(world, "success")
    world.advance(1000 * DAY)

    assert world.push("news", task("a")) == ["ignored"]


def test_the_age_of_the_link_counts_and_not_the_one_of_the_task(world: World) -> None:
    bring(world, "success", age=10)
    world.advance(100)

    assert world.push("news", task("a"), task("a", age=1000), task("a", age=50)) == ["ignored", "ignored", "restarted"]


@pytest.mark.parametrize("schedule", [FORCE, {"itag": "v2"}])
def test_a_restarted_task_queues_up_behind_those_that_wait(world: World, schedule: dict[str, Any]) -> None:
    fetcher = bring(world, "success")
    world.push("news", task("b"))

    assert world.push("news", task("a", **schedule)) == ["restarted"]
    fetcher.capacity = 2
    fetcher.hello()
    assert fetcher.taken == ["a", "b", "a"]


def test_a_restarted_task_has_all_its_retries_again(world: World) -> None:
    fetcher = bring(world, "processing", retries=1)
    fetcher.fail("a")
    assert comes_after(world, fetcher, 30)
    fetcher.fail("a")

    assert world.push("news", task("a", itag="v2", retries=1)) == ["restarted"]
    fetcher.hello()
    assert fetcher.held["a"].retried == 0
    fetcher.fail("a")
    assert comes_after(world, fetcher, 30)


def test_a_restarted_task_tells_its_fetcher_when_it_was_last_run(world: World) -> None:
    fetcher = bring(world, "success")
    world.advance(50)

    world.push("news", task("a", itag="v2"))
    fetcher.hello()
    assert fetcher.held["a"].lastcrawltime == WALL


# ---------------------------------------------------------------------------------------- rejected


def test_a_malformed_task_is_rejected_with_the_field_and_the_others_are_taken(world: World) -> None:
    request = world.new_tasks("news", task("a"), None, task("b"))

    reply = world.ask(NewTasksReply, request, {(1,): Flaw("tasks[1].schedule.priority: expected int")})

    assert reply.outcomes == ["new", "rejected", "new"]
    assert [(each.index, each.reason) for each in reply.errors] == [(1, "tasks[1].schedule.priority: expected int")]
    assert world.fetcher().taken == ["a", "b"]


def test_a_task_for_an_unknown_project_is_rejected_and_the_others_are_taken(world: World) -> None:
    reply = world.ask(NewTasksReply, world.new_tasks("news", task("a"), task("b", project="nwes"), task("c")))

    assert reply.outcomes == ["new", "rejected", "new"]
    assert 'project: "nwes" is unknown' in reply.errors[0].reason


def test_with_auto_create_a_task_makes_its_project(make_world: MakeWorld) -> None:
    world = make_world(auto_create=True)

    assert world.push("blog", task("a")) == ["new"]
    assert world.fetcher().taken == ["a"]


def test_who_may_not_make_projects_makes_none_by_a_task(make_world: MakeWorld) -> None:
    world = make_world(auto_create=True)
    world.push("news", task("a"))
    world.caller = Caller("web1", "producer")

    elsewhere = replace(task("c"), project="blog")
    answer = world.ask(NewTasksReply, world.new_tasks("news", elsewhere, task("b")))

    assert answer.outcomes == ["rejected", "new"]
    assert "making one takes an admin" in answer.errors[0].reason


def test_over_max_queue_what_would_be_one_more_live_task_is_rejected(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 2})
    fetcher = bring(world, "success")

    reply = world.ask(NewTasksReply, world.new_tasks("news", *[task(name) for name in "bcd"], task("a", **FORCE)))

    assert reply.outcomes == ["new", "new", "rejected", "rejected"]
    assert all("max_queue is 2" in each.reason for each in reply.errors)
    assert world.push("news", task("b", priority=1), task("c", **FORCE)) == ["merged", "replaced"]
    fetcher.hello()
    fetcher.done("b")
    assert world.push("news", task("d")) == ["new"]


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_a_stopped_or_paused_project_still_accepts_tasks(world: World, action: str) -> None:
    world.do(action)
    fetcher = world.fetcher()

    assert world.push("news", task("a")) == ["new"]
    assert fetcher.taken == []
    world.do("start")
    assert fetcher.taken == ["a"]


def test_tasks_of_a_batch_are_decided_in_their_order(world: World) -> None:
    tasks = [task("a"), task("a"), task("a", priority=1), task("a", **FORCE)]

    assert world.push("news", *tasks) == ["new", "ignored", "merged", "replaced"]


def test_who_pushes_is_told_what_became_of_each_task(world: World) -> None:
    bring(world, "processing")
    world.push("news", task("b"))

    tasks = [task("a"), task("a", **FORCE), task("b", priority=1), task("b", **FORCE), task("c"), None]
    assert world.push("news", *tasks) == ["ignored", "deferred", "merged", "replaced", "new", "rejected"]


# ---------------------------------------------------------------------------------------- the state before


def pushed_with_states(world: World, *tasks: NewTask | None) -> list[tuple[str, str]]:
    """Push tasks; return their outcomes, and their states before."""
    request = NewTasks(session="producer", n=world.n(), project="news", tasks=list(tasks), states=True)
    reply = world.ask(NewTasksReply, request)
    return list(zip(reply.outcomes, reply.states, strict=True))


@pytest.mark.parametrize("state", [*LIVE, *OVER])
def test_whoever_asks_is_told_in_which_state_a_task_was_known(world: World, state: str) -> None:
    bring(world, state)

    assert pushed_with_states(world, task("b"), task("a", delay=DAY)) == [("new", ""), ("ignored", state)]
    ((outcome, before),) = pushed_with_states(world, task("a", **FORCE))
    assert (before, outcome in ("replaced", "deferred", "restarted")) == (state, True)


def test_a_task_that_stands_twice_in_a_message_is_known_the_second_time(world: World) -> None:
    assert pushed_with_states(world, task("a"), task("a"), task("a", delay=60.0, **FORCE), task("a")) == [
        ("new", ""), ("ignored", "ready"), ("replaced", "ready"), ("merged", "delayed"),
    ]  # fmt: skip


def test_what_is_rejected_has_a_place_among_the_states_too(world: World) -> None:
    elsewhere = task("a", project="nowhere")
    world.set(max_queue=1)

    told = pushed_with_states(world, None, elsewhere, task("a"), task("b"))
    assert told == [("rejected", ""), ("rejected", ""), ("new", ""), ("rejected", "")]


def test_nobody_who_does_not_ask_is_told_states(world: World) -> None:
    assert world.ask(NewTasksReply, world.new_tasks("news", task("a"))).states == []
