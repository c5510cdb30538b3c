"""Retention beside other work: its steps, other changes in their turns, clocks, restarts."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest

from taskqueue.core.model.needs import Found
from taskqueue.core.model.retention_keys import LATE_AT_MOST, NO_ENTRY, old_at, old_below
from taskqueue.core.model.task import ATTEMPTS_KEPT, time_key
from taskqueue.core.steps.retention import OLD_AT_ONCE, OLD_TASKS
from taskqueue.errors import Unreadable
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.operations import (
    Bulk,
    OperationList,
    OperationReply,
    OperationShow,
    OperationsReply,
    OperationUndo,
)
from taskqueue.protocol.projects import ProjectDo, ProjectReply, ProjectSet
from taskqueue.protocol.tasks import NewTasksReply, TaskList, TaskListReply, TaskRetry, TasksReply
from taskqueue.protocol.values import TaskCounts, TaskFilter
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import MakeWorld, World, laid_over, task
from tests.unit.core.rules.conftest import CANCEL, DAY, FORCE, HOUR, MINUTE, OVER

WHO: dict[str, Any] = {"session": "person"}
MANY = 2 * OLD_TASKS + 9


def finish_many(world: World, count: int = MANY, project: str = "news") -> list[str]:
    """Finish ``count`` tasks with a success, all at once; return their taskids."""
    taskids = [f"t{number:04}" for number in range(count)]
    world.push(project, *map(task, taskids))
    fetcher = world.fetcher(capacity=count, projects=[project], name=f"fetcher of {project}")
    while fetcher.held:
        world.turn(fetcher.answers(*[fetcher.finished(taskid) for taskid in list(fetcher.held)]))
        world.settle()
    fetcher.hello(capacity=0)
    return taskids


def wait_until_old(world: World, seconds: float = HOUR) -> None:
    """Let time pass until the scheduler is about to wake for old tasks; none is dropped yet."""
    world.elapsed += seconds + LATE_AT_MOST
    world.turn()
    assert left(world) > 0


def left(world: World) -> int:
    """Count finished tasks that have not been dropped."""
    return sum(len(world.disk.families[family].keys) for family in OVER)


def keep(world: World, project: str = "news", **settings: Any) -> ProjectSet:
    return ProjectSet(**WHO, n=world.n(), project=project, settings=settings)


def do(world: World, action: Any) -> ProjectDo:
    return ProjectDo(**WHO, n=world.n(), project="news", action=action)


def old_world(world: World, **settings: Any) -> World:
    """Make a world in which news keeps successes for an hour, and is about to drop three older ones."""
    world.set(**laid_over({"keep": {"success": "1h"}}, settings))
    finish_many(world, 3)
    wait_until_old(world)
    return world


# ------------------------------------------------------------------------------------------------ steps


def test_a_turn_drops_a_bounded_number_of_tasks(world: World) -> None:
    world.set(keep={"success": "1h"})
    finish_many(world)
    wait_until_old(world)

    counts = [left(world)]
    while counts[-1]:
        world.turn()
        counts.append(left(world))
    assert counts == [MANY, OLD_TASKS + 9, 9, 0]
    assert world.counts() == TaskCounts(success=MANY), "they are known"


def test_a_small_turn_drops_no_more_than_it_does_otherwise(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"success": "1h"}}, turn_tasks=5)
    finish_many(world, 20)
    wait_until_old(world)

    counts = [left(world)]
    while counts[-1]:
        world.turn()
        counts.append(left(world))
    assert max(before - after for before, after in pairwise(counts)) == 5


def test_projects_take_turns_and_share_what_a_turn_drops(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(2 * OLD_AT_ONCE)]
    world = make_world({"keep": {"success": "1h"}}, projects={name: {} for name in names})
    for name in names:
        finish_many(world, 50, name)
    wait_until_old(world)

    counts = [left(world)]
    while counts[-1]:
        world.turn()
        assert len({ref.project for ref in world.needs.old}) <= OLD_AT_ONCE
        counts.append(left(world))
    assert max(before - after for before, after in pairwise(counts)) <= OLD_TASKS
    assert len(counts) - 1 <= 2 + 2 * len(names) * 50 / OLD_TASKS


def test_what_is_read_begins_where_the_last_step_ended(world: World) -> None:
    """Otherwise a store would cross each tombstone of tasks that were dropped before."""
    world.set(keep={"success": "1h"})
    finish_many(world)
    wait_until_old(world)

    world.turn()
    (first,) = world.needs.old
    (page,) = world.found.old.values()
    dropped = page.tasks
    world.turn()
    (second,) = world.needs.old
    assert first.start <= dropped[0].task.key
    assert dropped[-1].task.key < second.start


def test_nothing_is_read_and_nobody_wakes_while_nothing_is_old(world: World) -> None:
    world.set(keep={"success": "1d", "failed": "2d"})
    finish_many(world, 3)
    world.advance(2 * HOUR)
    wakes = world.wakes

    world.advance(DAY - 2 * HOUR - 1)
    world.turn()
    assert (world.wakes, world.needs.old) == (wakes, [])
    world.advance(1 + MINUTE)
    assert (world.wakes - wakes, left(world)) == (2, 0), "one turn to have it read, one to drop it"
    world.advance(1000 * DAY)
    assert world.wakes - wakes == 2


def test_tasks_that_end_one_by_one_are_dropped_together(world: World) -> None:
    world.set(keep={"success": "1h"})
    world.push("news", *[task(f"t{number}") for number in range(50)])
    fetcher = world.fetcher()
    for number in range(50):
        world.advance(1)
        fetcher.done(f"t{number}")
    fetcher.hello(capacity=0)
    wakes = world.wakes

    world.advance(2 * HOUR)
    assert left(world) == 0
    assert world.wakes - wakes <= 6


def test_no_body_is_read_to_be_dropped(world: World) -> None:
    world = old_world(world)

    world.turn()
    (page,) = world.found.old.values()
    assert all(old.task.spec is None for old in page.tasks)
    assert (world.needs.orders, world.needs.whole, world.needs.specs) == ([], [], [])


@pytest.mark.parametrize("attempts", [1, 2, ATTEMPTS_KEPT, ATTEMPTS_KEPT + 1, 2 * ATTEMPTS_KEPT])
@pytest.mark.parametrize("ok", [True, False])
def test_of_a_history_nothing_is_left_however_long_it_was(world: World, attempts: int, ok: bool) -> None:
    world.set(keep={"success": "1h", "failed": "1h"}, retry_delay=[0], fail_pause_num=0)
    world.push("news", task("a", retries=attempts - 1))
    fetcher = world.fetcher()
    for _ in range(attempts - 1):
        fetcher.fail("a")
    fetcher.done("a", ok=ok)
    assert len(world.show("a").history) == min(attempts, ATTEMPTS_KEPT)

    world.advance(2 * HOUR)
    assert left(world) == 0
    assert not world.disk.families["history"].keys
    assert world.push("news", task("a", **FORCE)) == ["restarted"]
    world.fetcher().done("a")
    assert len(world.show("a").history) == 1


# ------------------------------------------------------------------------------------------------ the same turn


@pytest.mark.parametrize("forget", [False, True])
@pytest.mark.parametrize("schedule", [FORCE, {"itag": "new"}, {"age": MINUTE}])
def test_a_task_that_the_turn_of_its_step_restarts_is_live(
    world: World, schedule: dict[str, Any], forget: bool
) -> None:
    world = old_world(world, keep={"then": "forget" if forget else "remember"})

    (reply,) = world.turn(world.new_tasks("news", task("t0001", body="new", **schedule)))
    world.settle()
    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["restarted"]
    assert world.show("t0001").state == "ready"
    assert world.counts() == TaskCounts(ready=1, success=0 if forget else 2)


@pytest.mark.parametrize("forget", [False, True])
def test_a_task_that_the_turn_of_its_step_retries_is_live(world: World, forget: bool) -> None:
    world = old_world(world, keep={"then": "forget" if forget else "remember"})

    (reply,) = world.turn(TaskRetry(**WHO, n=world.n(), project="news", taskids=["t0000"]))
    world.settle()
    assert isinstance(reply, TasksReply)
    assert reply.outcomes == ["done"]
    assert world.fetcher().done("t0000") == "done"


def test_a_task_that_the_turn_of_its_step_cancels_is_kept_from_then_on(world: World) -> None:
    world = old_world(world, keep={"cancelled": "1d"})

    world.turn(world.new_tasks("news", task("t0001", **CANCEL)))
    world.settle()
    assert (world.show("t0001").state, left(world)) == ("cancelled", 1)
    world.advance(DAY + MINUTE)
    assert left(world) == 0


def test_a_link_in_the_turn_of_its_step_does_not_save_a_task(world: World) -> None:
    world = old_world(world, keep={"then": "forget"})

    (reply,) = world.turn(world.new_tasks("news", task("t0001")))
    assert isinstance(reply, NewTasksReply)
    assert (reply.outcomes, left(world)) == (["ignored"], 0)
    assert world.push("news", task("t0001")) == ["new"]


def test_a_task_that_ends_in_the_turn_of_the_last_step_is_dropped_in_its_time(world: World) -> None:
    world.set(keep={"success": "1h"})
    world.push("news", task("late", timeout=1e6))
    late = world.fetcher(capacity=1)
    finish_many(world, 3)
    wait_until_old(world)

    world.turn(late.answers(late.finished("late")))
    assert left(world) == 1
    world.advance(HOUR - 1)
    assert left(world) == 1
    world.advance(1 + 2 * MINUTE)
    assert left(world) == 0


@pytest.mark.parametrize("settings", [{"keep": {"success": "2h"}}, {"keep": {"success": inf}}])
def test_a_longer_time_that_is_said_in_the_turn_of_a_step_counts(world: World, settings: dict[str, Any]) -> None:
    world = old_world(world)

    world.turn(keep(world, **settings))
    world.settle()
    assert left(world) == 3
    world.advance(DAY)
    assert left(world) == (3 if settings["keep"]["success"] == inf else 0)


def test_a_shorter_time_counts_at_once(world: World) -> None:
    world.set(keep={"success": "30d"})
    finish_many(world, 3)
    world.advance(2 * HOUR)

    world.set(keep={"success": "1h"})
    assert left(world) == 0


def test_a_time_that_comes_with_a_new_config_counts(world: World) -> None:
    finish_many(world, 3)
    world.advance(2 * HOUR)

    world.configure(CoreConfig(defaults={"rate": inf, "keep": {"success": "1h"}}, projects=world.config.projects))
    assert left(world) == 0


def test_forget_counts_that_is_said_in_the_turn_of_a_step(world: World) -> None:
    world = old_world(world)

    world.turn(keep(world, keep={"then": "forget"}))
    assert world.counts() == TaskCounts()


@pytest.mark.parametrize("action", ["delete", "reset", "clear", "stop"])
@pytest.mark.parametrize("forget", [False, True])
def test_a_project_may_be_gone_when_its_step_is_taken(world: World, action: str, forget: bool) -> None:
    world = old_world(world, keep={"then": "forget" if forget else "remember"})

    _, reply = world.turn(world.new_tasks("news", task("live")), do(world, action))
    world.settle()
    assert isinstance(reply, ProjectReply)
    is_gone = action in ("delete", "reset")
    assert (len(world.known()), left(world)) == ((0 if is_gone else 3 * (not forget) + (action == "stop")), 0)


@pytest.mark.parametrize("forget", [False, True])
def test_a_task_that_is_restarted_and_cleared_in_the_turn_of_its_step_is_cancelled(world: World, forget: bool) -> None:
    world = old_world(world, keep={"then": "forget" if forget else "remember"})

    world.turn(world.new_tasks("news", task("t0001", **FORCE)), do(world, "clear"))
    world.settle()
    assert world.show("t0001").state == "cancelled"
    assert world.counts() == TaskCounts(success=0 if forget else 2, cancelled=1)


def test_a_bare_task_that_is_restarted_is_as_any_other_in_the_same_turn(world: World) -> None:
    world = old_world(world)
    world.settle()

    (reply,) = world.turn(world.new_tasks("news", task("t0001", **FORCE), task("t0001", **CANCEL)))
    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["restarted", "cancelled"]


def test_a_bare_task_that_is_restarted_and_cleared_in_one_turn_is_cancelled(world: World) -> None:
    world = old_world(world)
    world.settle()

    world.turn(world.new_tasks("news", task("t0001", **FORCE)), do(world, "clear"))
    world.settle()
    assert (world.show("t0001").state, world.show("t0001").url) == ("cancelled", "http://example.org/t0001")


# ------------------------------------------------------------------------------------------------ clocks, restarts


@pytest.mark.parametrize("end", ["restart", "reboot", "crash"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_it_goes_on_after_a_restart(world: World, end: str, turns: int) -> None:
    world.set(keep={"success": "1h"})
    finish_many(world)
    wait_until_old(world)
    for _ in range(turns):
        world.turn()

    getattr(world, end)()
    world.settle()
    assert (left(world), world.counts()) == (0, TaskCounts(success=MANY))


def test_a_start_reads_nothing_where_nothing_is_old(world: World) -> None:
    world.set(keep={"success": "1d"})
    finish_many(world, 3)

    world.crash()
    while world.next_wake() <= world.elapsed:
        world.turn()
        assert world.needs.old == []


def test_what_became_old_while_the_daemon_was_away_goes_when_it_is_back(world: World) -> None:
    world.set(keep={"success": "1h"})
    finish_many(world, 3)
    world.crash()

    world.elapsed += 30 * DAY
    world.restart()
    assert left(world) == 0


def test_a_clock_that_is_put_back_lets_nothing_go_early_and_everything_go(world: World) -> None:
    world.set(keep={"success": "1h"})
    finish_many(world, 3)

    world.wall_step -= DAY
    world.settle()
    world.push("news", task("later"))
    world.fetcher(name="another").done("later")
    world.advance(HOUR - 1)
    assert left(world) == 4
    world.advance(1 + MINUTE)
    assert left(world) == 3, "what ended by the clock as it shows now"
    world.advance(DAY)
    assert left(world) == 0


def test_a_clock_that_is_put_back_in_the_turn_of_a_step_lets_nothing_go(world: World) -> None:
    world = old_world(world)

    world.wall_step -= 30 * DAY
    world.turn()
    world.settle()
    assert left(world) == 3
    world.advance(31 * DAY)
    assert left(world) == 0


def test_a_time_of_zero_drops_within_a_second(world: World) -> None:
    world.set(keep={"success": 0, "then": "forget"})
    finish_many(world, 3)

    world.advance(1)
    assert world.counts() == TaskCounts()
    assert world.next_wake() > world.elapsed


def test_a_project_from_before_there_was_retention_drops_what_it_has(world: World) -> None:
    """The record of an old project does not say where its orders begin."""
    finish_many(world, 3)
    project = world.scheduler._state.projects.by_name["news"]
    for state in range(len(project.queue.over_low)):
        project.queue.set_over_low(state, 0)
    world.set(weight=2)
    world.restart()

    world.advance(2 * HOUR)
    world.set(keep={"success": "1h", "failed": "1h"})
    assert left(world) == 0
    world.advance(2 * HOUR)
    wakes = world.wakes
    world.advance(100 * DAY)
    assert world.wakes == wakes


# ------------------------------------------------------------------------------------------------ people


def test_bulk_operations_pass_bare_tasks_by(world: World) -> None:
    world = old_world(world)
    world.settle()
    world.push("news", task("fresh"))
    world.fetcher(name="another").done("fresh")

    for url in ("", "*"):
        request = Bulk(**WHO, n=world.n(), action="retry", project="news", filter=TaskFilter(["success"], url=url))
        number = world.ask(OperationReply, request).operation.id
        ended = world.ask(OperationReply, OperationShow(**WHO, n=world.n(), id=number)).operation
        assert (ended.seen, ended.matched) == (4, 1)
        world.fetcher(name="another").done("fresh")
    assert len(world.ask(OperationsReply, OperationList(**WHO, n=world.n())).operations) == 2
    assert world.counts() == TaskCounts(success=4)


def test_a_task_that_an_undo_finishes_again_in_the_turn_of_a_step_is_dropped_in_time(world: World) -> None:
    world.set(keep={"success": "1h"})
    finish_many(world, 3)
    world.advance(30 * MINUTE)
    world.push("news", task("later"))
    fetcher = world.fetcher(capacity=1, name="another")
    fetcher.done("later")
    fetcher.hello(capacity=0)
    about = TaskFilter(url="*later", states=["success"])
    retry = Bulk(**WHO, n=world.n(), project="news", action="retry", filter=about)
    operation = world.ask(OperationReply, retry).operation.id
    world.settle()
    assert world.show("later").state == "ready"

    world.elapsed += 30 * MINUTE + LATE_AT_MOST
    world.turn(OperationUndo(**WHO, n=world.n(), id=operation))
    world.settle()
    assert world.show("later").state == "success"
    assert left(world) == 1

    world.advance(30 * MINUTE + LATE_AT_MOST)
    world.settle()
    assert left(world) == 0
    assert world.counts() == TaskCounts(success=4)


def test_a_list_shows_what_is_not_bare(world: World) -> None:
    world = old_world(world)
    world.settle()

    asked = TaskList(**WHO, n=world.n(), project="news", state="success")
    assert world.ask(TaskListReply, asked).tasks == []


def test_why_says_that_the_body_was_dropped(world: World) -> None:
    world = old_world(world)
    world.settle()
    world.advance(30 * MINUTE)

    sentence = world.ask(WhyReply, Why(**WHO, n=world.n(), project="news", taskid="t0000")).sentence
    assert "its body was dropped 30 min ago; push it with force_update" in sentence


def test_a_bare_task_is_not_swept_away_by_a_clear(world: World) -> None:
    world = old_world(world)
    world.settle()
    world.push("news", task("live"))

    world.do("clear")
    assert world.counts() == TaskCounts(success=3)
    assert world.push("news", task("t0001")) == ["ignored"]


def test_an_order_that_names_a_live_task_stops_the_daemon(world: World) -> None:
    """Stopping is better than dropping the task."""
    world = old_world(world)
    ids = world.disk.families["ids"].values
    key = next(iter(ids))
    ids[key] = b"\x01" + ids[key][1:]

    with pytest.raises(Unreadable, match="another state or place"):
        world.ledger.find(world.scheduler.begin(world.now, []).needs)


# ------------------------------------------------------------------------------------------------ arithmetic


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0, 59.9, 3600.0, 30 * DAY, 1e9])
def test_what_it_is_woken_for_is_old_then(keep: float) -> None:
    for micro in range(1000):
        ended_at = 1_700_000_000.1 + micro / 1e6
        low = time_key(ended_at, 77)
        assert low < old_below(keep, Wall(old_at(low, keep)))
        assert old_below(keep, Wall(ended_at + keep - 2e-6)) <= low


def test_what_is_kept_for_ever_is_never_old() -> None:
    assert old_below(inf, Wall(1.7e9)) == 0
    assert old_at(time_key(1.7e9, 1), inf) == old_at(NO_ENTRY, 60) == inf
    assert Found().old == {}
