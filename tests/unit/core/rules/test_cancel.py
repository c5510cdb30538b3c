"""cancel with force_update: the task ends from any state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.core.steps.bulk import HOLLOW_MOST
from taskqueue.protocol.tasks import DoneReply, TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import TaskFilter
from taskqueue.store.records import layout
from tests.unit.core.conftest import World, body_of, task
from tests.unit.core.rules.conftest import BACK_OFFS, CANCEL, FORCE, LIVE, bring, bring_back_off, never_comes, rest
from tests.unit.core.rules.test_operations import bulk


@pytest.mark.parametrize("state", [*LIVE, "success", "failed"])
def test_a_cancelled_task_is_never_run(world: World, state: str) -> None:
    fetcher = bring(world, state)

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    assert world.show("a").state == "cancelled"
    fetcher.held.clear()
    assert never_comes(world, fetcher)


@pytest.mark.parametrize("why", BACK_OFFS)
def test_a_task_in_a_back_off_can_be_cancelled(world: World, why: str) -> None:
    fetcher = bring_back_off(world, why, 500)

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    assert never_comes(world, fetcher)


def test_the_answer_for_a_task_that_was_cancelled_meanwhile_is_stale(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    assert fetcher.done("a") == "stale"
    assert world.show("a").state == "cancelled"


def test_follow_ups_of_a_task_that_was_cancelled_meanwhile_are_not_taken(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    reply = world.ask(DoneReply, fetcher.answers(fetcher.finished("a", new=[task("b")])))
    assert reply.outcomes == ["stale"]
    assert never_comes(world, fetcher)


def test_a_cancelled_lease_takes_room_until_its_fetcher_says_that_nobody_works_on_it(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.hello()
    world.push("news", task("b"))
    assert fetcher.taken == ["a"]

    world.push("news", task("a", **CANCEL))
    fetcher.hello()
    assert fetcher.taken == ["a"]
    fetcher.hello()
    assert fetcher.taken == ["a", "b"]


def test_what_was_deferred_does_not_run_after_a_cancel(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **FORCE))

    assert world.push("news", task("a", **CANCEL)) == ["cancelled"]
    fetcher.done("a")
    rest(fetcher)
    assert never_comes(world, fetcher)


@pytest.mark.parametrize("how", ["push", "request", "bulk"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_task_that_is_retried_after_a_cancel_is_what_its_deferred_update_made_of_it(
    world: World, how: str, restarts: bool
) -> None:
    world.push("news", task("root"), task("parent", delay=50))
    world.fetcher(capacity=1).done("root", new=[task("a", "old", retries=5)])
    update = task("a", "new", url="http://new/", priority=7, job="j", **FORCE)
    assert world.push("news", replace(update, depends_on=("parent",))) == ["deferred"]
    if restarts:
        world.restart()
    if how == "push":
        world.push("news", task("a", **CANCEL))
    elif how == "request":
        world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=["a"]))
    else:
        bulk(world, "cancel", filter=TaskFilter(states=["processing"]))
    shown = world.show("a")
    assert (shown.state, shown.url, body_of(shown), shown.priority) == ("cancelled", "http://new/", "new", 7)
    assert (shown.job, shown.depth) == ("j", 1)

    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))

    assert world.show("a").state == "blocked"
    world.advance(50)
    other = world.fetcher(name="other")
    other.done("parent")
    world.settle()
    assert (body_of(other.held["a"]), other.held["a"].retried) == ("new", 0)


def test_a_cancel_reads_few_specs_of_running_tasks_with_updates_a_step(world: World) -> None:
    names = [f"t{number:02}" for number in range(2 * HOLLOW_MOST + 4)]
    world.push("news", task("root"))
    world.fetcher(capacity=len(names)).done("root", new=[task(name, "old") for name in names])
    world.push("news", *[task(name, "new", **FORCE) for name in names])
    world.restart()

    operation = bulk(world, "cancel")

    assert (operation.matched, len(world.disk.families[layout.UNDO_ROWS].keys)) == (len(names), 3)
    assert {(body_of(world.show(name)), world.show(name).depth) for name in names} == {("new", 1)}


def test_cancelling_twice_is_ignored(world: World) -> None:
    bring(world, "cancelled")

    assert world.push("news", task("a", **CANCEL)) == ["ignored"]


@pytest.mark.parametrize("state", [*LIVE, "success", "failed"])
def test_cancel_without_force_update_is_ignored(world: World, state: str) -> None:
    bring(world, state)

    assert world.push("news", task("a", cancel=True, priority=9)) == ["ignored"]
    shown = world.show("a")
    assert (shown.state, shown.priority) == (state, 0)


@pytest.mark.parametrize("schedule", [FORCE, {"itag": "v2"}, {"age": 1.0}])
def test_a_cancelled_task_can_be_restarted_but_not_by_a_link(world: World, schedule: dict[str, Any]) -> None:
    fetcher = bring(world, "cancelled")

    assert world.push("news", task("a"), task("a", **schedule)) == ["ignored", "restarted"]
    fetcher.hello()
    assert fetcher.taken == ["a"]


def test_a_cancel_outlives_the_daemon(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", **CANCEL))

    world.restart()
    rest(fetcher)
    assert fetcher.done("a") == "stale"
    assert never_comes(world, fetcher)
