"""new-task: each row of the table of outcomes, and the bounds of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.messages import Flaw, Flaws
from taskqueue.protocol.tasks import NewTasksReply
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, body_of, task


def end(world: World, taskid: str, state: str) -> None:
    """Make a task that has finished in this state."""
    world.push("news", task(taskid, itag="v1"))
    if state == "cancelled":
        world.push("news", task(taskid, force_update=True, cancel=True))
        return
    fetcher = world.fetcher(name=f"ender of {taskid}")
    fetcher.done(taskid, ok=state == "success", retry=False)
    fetcher.hello(capacity=0)


def hold_back(world: World, why: str) -> float:
    """Make a task "a" that waits after an attempt; return until when (unix seconds)."""
    recurring: dict[str, Any] = {"age": 3600.0, "auto_recrawl": True} if why == "recrawl" else {}
    world.push("news", task("a", **recurring))
    fetcher = world.fetcher()
    if why == "retry":
        fetcher.fail("a")
    elif why == "retry_after":
        fetcher.fail("a", retry_after=30.0)
    else:
        fetcher.done("a")
    fetcher.hello(capacity=0)
    return world.show("a").exetime


# ---------------------------------------------------------------------------------------- unknown


def test_an_unknown_task_is_new(world: World) -> None:
    assert world.push("news", task("a")) == ["new"]

    assert world.show("a").state == "ready"
    assert world.project().totals.new == 1


@pytest.mark.parametrize("force_update", [False, True])
def test_cancelling_an_unknown_task_is_ignored(world: World, force_update: bool) -> None:
    assert world.push("news", task("a", cancel=True, force_update=force_update)) == ["ignored"]

    assert world.counts().cancelled == 0


def test_a_task_of_the_same_name_in_another_project_is_another_task(world: World) -> None:
    assert world.push("news", task("a"), task("a", project="shop")) == ["new", "new"]

    assert (world.counts("news").ready, world.counts("shop").ready) == (1, 1)


# ---------------------------------------------------------------------------------------- ready, delayed


def test_pushing_a_ready_task_again_is_ignored(world: World) -> None:
    world.push("news", task("a", priority=5))

    assert world.push("news", task("a", priority=5), task("a", priority=4)) == ["ignored", "ignored"]
    assert world.show("a").priority == 5


def test_a_higher_priority_is_merged_and_moves_the_task_forward(world: World) -> None:
    world.push("news", *[task(name) for name in "abcdef"])

    assert world.push("news", task("f", priority=1)) == ["merged"]
    assert world.fetcher().taken == list("fabcde")


def test_an_earlier_time_is_merged_before_the_first_hand_out(world: World) -> None:
    world.push("news", task("a", delay=100))

    assert world.push("news", task("a", delay=50), task("a", delay=80)) == ["merged", "ignored"]
    assert world.show("a").exetime == WALL + 50


def test_a_link_without_a_time_makes_a_scheduled_task_ready_at_once(world: World) -> None:
    world.push("news", task("a", exetime=WALL + 100))

    assert world.push("news", task("a")) == ["merged"]
    assert world.show("a").state == "ready"


def test_priority_and_time_are_merged_together(world: World) -> None:
    world.push("news", *[task(name, delay=10) for name in "abc"])

    assert world.push("news", task("c", priority=3, delay=5), task("b", priority=2, delay=50)) == ["merged", "merged"]
    world.advance(5)
    assert world.show("c").state == "ready"
    world.advance(5)
    assert world.fetcher().taken == ["c", "b", "a"]


@pytest.mark.parametrize("why", ["retry", "retry_after", "recrawl"])
def test_a_link_does_not_hurry_a_task_that_is_held_back(world: World, why: str) -> None:
    until = hold_back(world, why)

    assert world.push("news", task("a"), task("a", delay=1)) == ["ignored", "ignored"]
    assert world.show("a").exetime == until > WALL


@pytest.mark.parametrize("why", ["retry", "retry_after", "recrawl"])
def test_a_link_may_raise_the_priority_of_a_task_that_is_held_back(world: World, why: str) -> None:
    until = hold_back(world, why)

    assert world.push("news", task("a", priority=7)) == ["merged"]
    shown = world.show("a")
    assert (shown.priority, shown.exetime) == (7, until)


@pytest.mark.parametrize("why", ["retry", "retry_after", "recrawl"])
def test_force_update_replaces_also_a_task_that_is_held_back(world: World, why: str) -> None:
    hold_back(world, why)

    assert world.push("news", task("a", force_update=True)) == ["replaced"]
    shown = world.show("a")
    assert (shown.state, shown.retried) == ("ready", 0)


def test_a_replaced_task_is_as_the_message_says_also_downwards(world: World) -> None:
    world.push("news", task("a", body="old", priority=9), task("b", priority=5))

    assert world.push("news", task("a", body="new", priority=1, url="http://new", force_update=True)) == ["replaced"]
    fetcher = world.fetcher()
    assert fetcher.taken == ["b", "a"]
    assert body_of(fetcher.held["a"]) == "new"
    assert fetcher.held["a"].url == "http://new"


@pytest.mark.parametrize("delay", [10.0, 200.0])
def test_a_replaced_task_may_be_due_earlier_or_later(world: World, delay: float) -> None:
    world.push("news", task("a", delay=100))

    assert world.push("news", task("a", delay=delay, force_update=True)) == ["replaced"]
    assert world.show("a").exetime == WALL + delay


def test_after_a_replacement_a_link_hurries_the_task_again(world: World) -> None:
    hold_back(world, "retry")

    assert world.push("news", task("a", delay=500, force_update=True), task("a")) == ["replaced", "merged"]


# ---------------------------------------------------------------------------------------- processing


def test_pushing_a_task_that_is_processing_is_ignored(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()

    assert world.push("news", task("a", priority=9, itag="other", age=1)) == ["ignored"]
    assert fetcher.done("a") == "done"
    assert world.show("a").state == "success"


def end_lease(world: World, fetcher: Fetcher, how: str) -> None:
    if how == "done":
        assert fetcher.done("a") == "done"
    elif how == "failed":
        assert fetcher.fail("a", retry=False) == "done"
    elif how == "retried":
        assert fetcher.fail("a") == "done"
    elif how == "released":
        fetcher.capacity = 0
        fetcher.hello()
        fetcher.release("a")
    elif how == "lost":
        fetcher.hello(holds=[], capacity=0)
    elif how == "silent":
        world.advance(60)
    else:
        fetcher.hello(capacity=0)
        for _ in range(20):
            world.advance(30)
            fetcher.hello(capacity=0)


@pytest.mark.parametrize("how", ["done", "failed", "retried", "released", "lost", "silent", "timeout"])
def test_a_deferred_update_takes_effect_when_the_lease_ends_however_it_ends(world: World, how: str) -> None:
    world.push("news", task("a", body="old", retries=9))
    fetcher = world.fetcher(capacity=1)
    fetcher.capacity = 0

    assert world.push("news", task("a", body="lost", force_update=True)) == ["deferred"]
    assert world.push("news", task("a", body="new", delay=5000, force_update=True, retries=1)) == ["deferred"]
    assert world.show("a").state == "processing"
    end_lease(world, fetcher, how)

    shown = world.show("a")
    assert (shown.state, shown.retried, body_of(shown)) == ("delayed", 0, "new")
    assert shown.exetime == WALL + 5000


def test_a_deferred_update_survives_a_restart(world: World) -> None:
    world.push("news", task("a", body="old"))
    fetcher = world.fetcher()
    world.push("news", task("a", body="new", force_update=True))

    world.restart()
    fetcher.hello()
    assert fetcher.done("a") == "done"
    fetcher.hello()

    assert body_of(fetcher.held["a"]) == "new"


def test_a_deferred_update_is_due_so_long_after_its_arrival(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    world.push("news", task("a", delay=100, force_update=True))

    world.advance(40)
    fetcher.done("a")

    assert world.show("a").exetime == WALL + 100


def test_a_cancel_applies_what_was_deferred_and_revokes_the_lease(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    world.push("news", task("a", body="new", force_update=True))

    assert world.push("news", task("a", cancel=True, force_update=True)) == ["cancelled"]
    assert fetcher.done("a") == "stale"
    assert (world.show("a").state, body_of(world.show("a"))) == ("cancelled", "new")


# ---------------------------------------------------------------------------------------- over


@pytest.mark.parametrize("state", ["success", "failed", "cancelled"])
def test_a_task_that_is_over_stays_over_when_it_is_merely_linked_to(world: World, state: str) -> None:
    end(world, "a", state)

    assert world.push("news", task("a"), task("a", itag="v1"), task("a", priority=9)) == ["ignored"] * 3
    assert world.show("a").state == state


@pytest.mark.parametrize("state", ["success", "failed", "cancelled"])
@pytest.mark.parametrize("schedule", [{"itag": "v2"}, {"force_update": True}])
def test_another_itag_or_force_restarts_a_task_that_is_over(world: World, state: str, schedule: dict[str, Any]) -> None:
    end(world, "a", state)

    assert world.push("news", task("a", body="again", **schedule)) == ["restarted"]
    shown = world.show("a")
    assert (shown.state, shown.retried, body_of(shown), shown.error) == ("ready", 0, "again", "")


def test_an_age_restarts_a_task_only_when_it_has_passed(world: World) -> None:
    end(world, "a", "success")

    world.advance(100)
    assert world.push("news", task("a", age=100.0)) == ["ignored"]
    world.advance(1)
    assert world.push("news", task("a", age=100.0)) == ["restarted"]


def test_a_restart_tells_the_fetcher_when_the_task_was_last_run(world: World) -> None:
    end(world, "a", "success")
    world.advance(50)

    world.push("news", task("a", force_update=True))
    assert world.fetcher().held["a"].lastcrawltime == WALL


# ---------------------------------------------------------------------------------------- cancel


@pytest.mark.parametrize("state", ["ready", "delayed", "processing", "success", "failed"])
def test_cancel_with_force_update_cancels_a_task_in_any_state(world: World, state: str) -> None:
    if state in ("success", "failed"):
        end(world, "a", state)
    else:
        world.push("news", task("a", delay=10 if state == "delayed" else None))
    if state == "processing":
        world.fetcher()
    assert world.show("a").state == state

    assert world.push("news", task("a", cancel=True, force_update=True)) == ["cancelled"]
    assert world.show("a").state == "cancelled"


def test_cancel_without_force_update_changes_nothing(world: World) -> None:
    world.push("news", task("a"))

    assert world.push("news", task("a", cancel=True, priority=9)) == ["ignored"]
    assert world.show("a").priority == 0


# ---------------------------------------------------------------------------------------- rejected


def test_a_malformed_task_is_rejected_and_the_others_are_taken(world: World) -> None:
    request = world.new_tasks("news", task("a"), None, task("b"))

    reply = world.ask(NewTasksReply, request, {(1,): Flaw("tasks[1].schedule.priority: expected int")})
    assert reply.outcomes == ["new", "rejected", "new"]
    assert [(error.index, error.reason) for error in reply.errors] == [(1, "tasks[1].schedule.priority: expected int")]


def test_a_task_that_the_door_has_taken_out_is_rejected_with_its_code(world: World) -> None:
    request = world.new_tasks("news", None, None, task("b"))
    flaws: Flaws = {(0,): Flaw("project: outside", "forbidden"), (1,): Flaw("tasks[1]: odd")}

    reply = world.ask(NewTasksReply, request, flaws)
    assert reply.outcomes == ["rejected", "rejected", "new"]
    assert [(error.reason, error.code) for error in reply.errors] == [
        ("project: outside", "forbidden"),
        ("tasks[1]: odd", ""),
    ]


def test_a_task_for_an_unknown_project_is_rejected(world: World) -> None:
    reply = world.ask(NewTasksReply, world.new_tasks("blog", task("a"), task("b", project="news")))

    assert reply.outcomes == ["rejected", "new"]
    assert 'project: "blog" is unknown' in reply.errors[0].reason


def test_auto_create_makes_an_unknown_project(make_world: MakeWorld) -> None:
    world = make_world(auto_create=True)

    assert world.push("blog", task("a")) == ["new"]
    world.restart()
    assert world.counts("blog").ready == 1


def test_a_full_project_rejects_what_would_be_one_task_more(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 2})

    reply = world.ask(NewTasksReply, world.new_tasks("news", *[task(name) for name in "abc"]))
    assert reply.outcomes == ["new", "new", "rejected"]
    assert "max_queue is 2" in reply.errors[0].reason
    assert world.push("news", task("a", priority=1), task("b", force_update=True)) == ["merged", "replaced"]


def test_a_full_project_has_room_again_when_a_task_is_over(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 1})
    world.push("news", task("a"))
    fetcher = world.fetcher()

    assert world.push("news", task("b")) == ["rejected"]
    fetcher.done("a")
    assert world.push("news", task("b"), task("a", force_update=True)) == ["new", "rejected"]


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_a_project_that_hands_out_nothing_still_accepts_tasks(world: World, action: str) -> None:
    world.do(action)

    assert world.push("news", task("a")) == ["new"]


# ---------------------------------------------------------------------------------------- a batch


def test_what_came_earlier_in_a_batch_counts(world: World) -> None:
    tasks = [task("a"), task("a"), task("a", priority=1), task("a", force_update=True)]

    assert world.push("news", *tasks) == ["new", "ignored", "merged", "replaced"]


def test_a_task_may_be_made_cancelled_and_restarted_in_one_batch(world: World) -> None:
    force: dict[str, Any] = {"force_update": True}
    tasks = [task("a"), task("a", cancel=True, **force), task("a", **force), task("a", cancel=True, **force)]

    assert world.push("news", *tasks, task("a", itag="x")) == [
        "new", "cancelled", "restarted", "cancelled", "restarted",
    ]  # fmt: skip
    assert world.fetcher().taken == ["a"]


def test_a_delay_wins_over_a_time_and_what_is_past_is_ready(world: World) -> None:
    world.push("news", task("a", exetime=WALL + 999, delay=10), task("b", exetime=WALL - 1), task("c", delay=0))

    assert world.show("a").exetime == WALL + 10
    assert [world.show(name).state for name in "bc"] == ["ready", "ready"]
