"""Operations: clear, reset and delete projects; change many tasks; and their progress."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.core.model.operation import ENDED_KEPT
from taskqueue.core.moves.statistics import SAVE_SECONDS
from taskqueue.core.steps.bulk import PAGE_TASKS
from taskqueue.core.steps.operations import LOST_A_STEP, PROJECTS_A_STEP, RUNNING_MOST
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fetchers import Hello
from taskqueue.protocol.operations import Bulk, OperationList, OperationReply, OperationShow, OperationsReply
from taskqueue.protocol.projects import GroupDo, ProjectDo, ProjectReply, ProjectSet, ProjectShow
from taskqueue.protocol.tasks import DoneReply, NewTasksReply, TaskList, TaskListReply
from taskqueue.protocol.values import Operation, TaskCounts, TaskFilter
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import FORCE

MANY = 2 * PAGE_TASKS + 88
"""Number of tasks of three pages."""

WHO: dict[str, Any] = {"session": "person"}


def request(world: World, action: Any, **fields: Any) -> Bulk:
    """Make a bulk request for the project news, unless a group is named."""
    named: dict[str, Any] = {} if "group" in fields else {"project": "news"}
    return Bulk(**WHO, n=world.n(), action=action, **(named | fields))


def begin(world: World, action: Any, **fields: Any) -> int:
    """Start an operation without further turns; return its id."""
    (reply,) = world.turn(request(world, action, **fields))
    assert isinstance(reply, OperationReply), reply
    return reply.operation.id


def bulk(world: World, action: Any, **fields: Any) -> Operation:
    """Run an operation to its end."""
    operation = begin(world, action, **fields)
    world.settle()
    return show(world, operation)


def show(world: World, operation: int) -> Operation:
    """Show an operation, in a single turn."""
    (reply,) = world.turn(OperationShow(**WHO, n=world.n(), id=operation))
    assert isinstance(reply, OperationReply), reply
    return reply.operation


def operations(world: World) -> list[Operation]:
    return world.ask(OperationsReply, OperationList(**WHO, n=world.n())).operations


def fail_many(world: World, count: int = MANY) -> Fetcher:
    """Let ``count`` tasks fail for good."""
    names = [f"t{number:04}" for number in range(count)]
    world.push("news", *[task(name) for name in names])
    fetcher = world.fetcher(capacity=count)
    answers = [fetcher.finished(name, ok=False, retry=False, error="boom") for name in names]
    world.ask(DoneReply, fetcher.answers(*answers))
    fetcher.capacity = 0
    fetcher.hello()
    return fetcher


def one_of_each(world: World) -> Fetcher:
    """Make tasks named after their states; return the fetcher of the processing one."""
    world.push("news", *[task(name) for name in ("success", "failed", "cancelled", "processing")])
    fetcher = world.fetcher(capacity=4)
    fetcher.capacity = 0
    fetcher.hello()
    fetcher.done("success")
    fetcher.fail("failed", error="boom", retry=False)
    world.push("news", task("cancelled", force_update=True, cancel=True))
    fetcher.held.pop("cancelled")
    world.push("news", task("ready"), task("delayed", delay=500))
    return fetcher


def names(world: World, state: Any, **fields: Any) -> list[str]:
    reply = world.ask(TaskListReply, TaskList(**WHO, n=world.n(), project="news", state=state, limit=500, **fields))
    return [row.taskid for row in reply.tasks]


def act(world: World, action: Any) -> ProjectDo:
    return ProjectDo(**WHO, n=world.n(), project="news", action=action)


# ---------------------------------------------------------------------------------------- clear, reset, delete


def test_clear_drops_what_is_live_at_once_and_what_is_over_stays_known(world: World) -> None:
    one_of_each(world)

    world.do("clear")
    assert world.counts() == TaskCounts(success=1, failed=1, cancelled=1)
    assert [world.push("news", task(name)) for name in ("success", "failed", "cancelled")] == [["ignored"]] * 3
    assert world.push("news", task("ready"), task("delayed"), task("processing")) == ["new"] * 3
    world.restart()
    assert world.counts() == TaskCounts(ready=3, success=1, failed=1, cancelled=1)


def test_the_answer_for_a_task_that_was_cleared_is_stale_and_makes_room(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)

    world.do("clear")
    world.push("news", task("b"))
    assert fetcher.taken == ["a"]
    assert fetcher.done("a") == "stale"
    assert fetcher.taken == ["a", "b"]


def test_reset_forgets_all_tasks_and_keeps_settings_state_and_pace(make_world: MakeWorld) -> None:
    world = make_world({"rate": 0.1, "burst": 6})
    world.set(retries=9)
    fetcher = one_of_each(world)
    world.do("pause")
    tokens = world.project().tokens

    world.do("reset")
    view = world.project()
    assert (view.counts, view.state, view.overrides) == (TaskCounts(), "paused", {"retries": 9})
    assert view.tokens == pytest.approx(tokens)
    assert fetcher.done("processing") == "stale"
    assert world.push("news", task("success"), task("failed"), task("ready")) == ["new"] * 3
    world.restart()
    assert world.counts() == TaskCounts(ready=3)


def test_delete_drops_the_project_with_everything(world: World) -> None:
    fetcher = one_of_each(world)

    assert world.do("delete") is None
    assert fetcher.done("processing") == "stale"
    assert world.push("news", task("a")) == ["rejected"]
    world.restart()
    assert not any(world.disk.families[family].keys for family in ("ids", "specs", "ready", "history"))


def test_clearing_does_not_finish_a_project(world: World) -> None:
    one_of_each(world)

    world.do("clear")
    world.do("reset")
    assert world.project().finished == 0


def test_a_group_is_dealt_with_project_by_project_and_those_for_which_it_makes_no_sense_are_left_out(
    make_world: MakeWorld,
) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop", "wiki")} | {"blog": {}})
    world.do("stop", "shop")

    (reply,) = world.turn(GroupDo(**WHO, n=world.n(), group="g", action="pause"))
    assert isinstance(reply, OperationReply)
    view = reply.operation
    assert (view.action, view.group, view.projects) == ("pause", "g", ["news", "shop", "wiki"])
    assert (view.known, view.seen, view.matched, view.ended_at) == (3, 3, 2, WALL)
    assert show(world, view.id) == view
    assert [world.project(name).state for name in ("news", "shop", "wiki", "blog")] == [
        "paused", "stopped", "paused", "running",
    ]  # fmt: skip
    unknown = GroupDo(**WHO, n=world.n(), group="h", action="pause")
    assert world.ask(ErrorReply, unknown).code == "unknown-group"


def test_a_group_is_cleared_in_one_commit(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop")})
    for name in ("news", "shop"):
        world.push(name, *[task(f"t{number}") for number in range(9)])

    world.turn(GroupDo(**WHO, n=world.n(), group="g", action="clear"))
    assert (world.counts("news"), world.counts("shop")) == (TaskCounts(), TaskCounts())


def group(make_world: MakeWorld, count: int) -> tuple[World, list[str]]:
    """Make a world with a group of ``count`` projects, each with a ready task; return their names, too, in order."""
    members = [f"p{number:03}" for number in range(count)]
    world = make_world(projects={name: {"group": "g"} for name in members} | {"other": {}})
    world.turn(*[world.new_tasks(name, task("t")) for name in members])
    return world, members


def group_do(world: World, action: Any) -> Operation:
    (reply,) = world.turn(GroupDo(**WHO, n=world.n(), group="g", action=action))
    assert isinstance(reply, OperationReply), reply
    return reply.operation


def states(world: World, members: list[str]) -> list[str]:
    return [world.project(name).state for name in members]


def test_a_large_group_is_dealt_with_step_by_step(make_world: MakeWorld) -> None:
    world, members = group(make_world, 2 * PROJECTS_A_STEP + 3)
    world.do("stop", members[-1])

    view = group_do(world, "pause")
    assert (view.known, view.seen, view.matched, view.ended_at) == (len(members), PROJECTS_A_STEP, PROJECTS_A_STEP, 0)
    seen = [show(world, view.id).seen for _ in range(3)]
    assert seen == [PROJECTS_A_STEP, 2 * PROJECTS_A_STEP, len(members)]
    assert show(world, view.id).matched == len(members) - 1
    assert states(world, members) == ["paused"] * (len(members) - 1) + ["stopped"]


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
@pytest.mark.parametrize("end", ["restart", "reboot", "crash", None])
def test_tasks_of_a_large_group_are_lost_step_by_step_across_restarts(
    make_world: MakeWorld, action: Any, end: str | None
) -> None:
    world, members = group(make_world, 3 * LOST_A_STEP)
    world.push("other", task("t"))

    operation = group_do(world, action).id
    assert len(world.disk.families["ready"].keys) == 1 + 2 * LOST_A_STEP
    if end:
        getattr(world, end)()
    world.settle()
    view = show(world, operation)
    assert (view.seen, view.matched, bool(view.ended_at)) == (len(members), len(members), True)
    assert len(world.disk.families["ready"].keys) == len(world.disk.families["ids"].keys) == 1
    assert not world.disk.families["members"].keys


@pytest.mark.parametrize("action", ["reset", "delete"])
def test_counters_that_are_saved_in_the_turn_that_drops_their_project_go_with_it(
    make_world: MakeWorld, action: Any
) -> None:
    world, members = group(make_world, LOST_A_STEP + 1)
    number = world.scheduler._state.projects.by_name[members[-1]].number
    group_do(world, action)

    world.elapsed += SAVE_SECONDS
    world.turn()

    assert number not in world.scheduler._state.projects.by_number
    assert layout.project_key(number) not in world.disk.families[layout.COUNTERS].values


def test_who_is_in_the_group_when_an_action_begins_is_who_is_meant(make_world: MakeWorld) -> None:
    world, members = group(make_world, PROJECTS_A_STEP + 3)
    leaves, goes, comes = members[-1], members[-2], "other"

    operation = begin_and(world, "pause", leaves, goes, comes)
    world.settle()
    assert show(world, operation).matched == len(members) - 1
    assert (world.project(leaves).state, world.project(comes).state) == ("paused", "running")


def begin_and(world: World, action: Any, leaves: str, goes: str, comes: str) -> int:
    """Begin an action on a group that one project leaves and one joins, and of which one is deleted, in that turn."""
    replies = world.turn(
        GroupDo(**WHO, n=world.n(), group="g", action=action),
        ProjectSet(**WHO, n=world.n(), project=leaves, settings={"group": "h"}),
        ProjectDo(**WHO, n=world.n(), project=goes, action="delete"),
        ProjectSet(**WHO, n=world.n(), project=comes, settings={"group": "g"}),
    )
    assert isinstance(replies[0], OperationReply)
    return replies[0].operation.id


def test_an_action_on_a_small_group_is_done_however_many_operations_are_under_way(make_world: MakeWorld) -> None:
    world, members = group(make_world, PROJECTS_A_STEP + 1)
    asked = [Bulk(**WHO, n=world.n(), action="cancel", group="g", dry_run=True) for _ in range(RUNNING_MOST)]
    world.turn(*asked, ProjectSet(**WHO, n=world.n(), project="other", settings={"group": "h"}))

    small, large, another = world.turn(
        GroupDo(**WHO, n=world.n(), group="h", action="pause"),
        GroupDo(**WHO, n=world.n(), group="g", action="pause"),
        Bulk(**WHO, n=world.n(), action="cancel", group="h"),
    )
    assert isinstance(small, OperationReply)
    assert isinstance(large, ErrorReply)
    assert isinstance(another, ErrorReply)
    assert (small.operation.matched, large.code, another.code) == (1, "full", "full")
    (shown,) = world.turn(ProjectShow(**WHO, n=world.n(), project=members[0]))
    assert isinstance(shown, ProjectReply)
    assert shown.project is not None
    assert shown.project.state == "running"


# ---------------------------------------------------------------------------------------- many tasks at once


def test_a_bulk_retry_takes_what_has_failed_and_a_floor_changes_nothing_about_it(world: World) -> None:
    fail_many(world)
    world.push("news", task("success"))
    world.fetcher(name="other", capacity=1).done("success")

    view = bulk(world, "retry")
    assert (view.known, view.seen, view.matched, view.ended_at) == (MANY + 1, MANY + 1, MANY, WALL)
    assert world.counts() == TaskCounts(ready=MANY - 1, processing=1, success=1)
    world.restart()
    assert len(set(world.fetcher(capacity=MANY, name="third").taken)) == MANY - 1


def test_a_retried_task_has_all_its_retries_and_is_ready_at_once(world: World) -> None:
    world.push("news", task("a", retries=1), task("b", delay=900))
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("a")
    fetcher.capacity = 0
    fetcher.hello()

    assert bulk(world, "retry", filter=TaskFilter(states=["delayed"])).matched == 2
    fetcher.hello(capacity=2)
    assert sorted(each.taskid for each in fetcher.held.values()) == ["a", "b"]
    assert fetcher.held["a"].retried == 0


def test_a_bulk_cancel_ends_what_is_live(world: World) -> None:
    fetcher = one_of_each(world)

    assert bulk(world, "cancel").matched == 3
    assert world.counts() == TaskCounts(success=1, failed=1, cancelled=4)
    assert fetcher.done("processing") == "stale"


def test_a_bulk_reprioritise_changes_the_order(world: World) -> None:
    world.push(
        "news", *[task(f"page/{number}") for number in range(5)], *[task(f"item/{number}") for number in range(5)]
    )

    assert bulk(world, "reprioritise", priority=7, filter=TaskFilter(url="*/item/*")).matched == 5
    assert world.fetcher(capacity=5).taken == [f"item/{number}" for number in range(5)]


def test_a_bulk_reschedule_moves_what_waits_sooner_and_later(world: World) -> None:
    world.push("news", task("now/1"), task("now/2"), task("late/1", delay=600), task("late/2", delay=700))

    assert bulk(world, "reschedule", delay=50, filter=TaskFilter(url="*/now/*")).matched == 2
    assert bulk(world, "reschedule", exetime=WALL + 20, filter=TaskFilter(url="*/late/*")).matched == 2
    fetcher = world.fetcher()
    world.advance(20)
    assert fetcher.taken == ["late/1", "late/2"]
    world.advance(30)
    assert fetcher.taken == ["late/1", "late/2", "now/1", "now/2"]


def test_a_bulk_reschedule_to_now_or_to_the_past_makes_tasks_ready(world: World) -> None:
    world.push("news", *[task(f"{number}", delay=600 + number) for number in range(6)])

    bulk(world, "reschedule", filter=TaskFilter(url="*/[0-2]"))
    bulk(world, "reschedule", exetime=WALL - 5, filter=TaskFilter(url="*/[3-5]"))

    assert world.fetcher().taken == [f"{number}" for number in range(6)]


def test_a_bulk_reschedule_leaves_alone_what_is_being_processed(world: World) -> None:
    world.push("news", task("a"), task("b", delay=5))
    fetcher = world.fetcher()

    assert bulk(world, "reschedule", delay=500, filter=TaskFilter()).matched == 1
    assert fetcher.done("a") == "done"


def test_a_ready_task_that_failed_once_waits_for_its_new_time_and_for_no_retry(world: World) -> None:
    world.push("news", task("a", retries=3))
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("a")
    fetcher.capacity = 0
    fetcher.hello()
    world.advance(3600)
    assert world.counts().ready == 1

    bulk(world, "reschedule", delay=86_400)

    assert world.counts().delayed == 1
    assert world.wait(0, ignore_retries=True).finished is False


def test_a_task_that_a_failure_holds_back_is_rescheduled_with_its_retries(world: World) -> None:
    world.push("news", task("a", retries=5))
    fetcher = world.fetcher()
    fetcher.fail("a")

    bulk(world, "reschedule", delay=10)
    assert world.push("news", task("a")) == ["ignored"]
    world.advance(10)
    assert fetcher.held["a"].retried == 1


def test_a_bulk_reschedule_goes_on_over_a_restart_to_the_same_time(world: World) -> None:
    world.push("news", *[task(f"{number:03}") for number in range(260)])
    world.turn(Bulk(session="person", n=world.n(), project="news", action="reschedule", delay=100))

    world.elapsed += 40
    world.restart()

    assert world.counts().delayed == 260
    world.advance(59)
    fetcher = world.fetcher(capacity=1000)
    assert fetcher.taken == []
    world.advance(1)
    assert len(fetcher.taken) == 260


def test_everything_that_the_filter_says_must_be_true(world: World) -> None:
    world.push("news", task("a/old"), task("b/old"), task("a/other"))
    fetcher = world.fetcher()
    fetcher.fail("a/old", retry=False, error="HTTP 503")
    fetcher.fail("b/old", retry=False, error="HTTP 503")
    fetcher.fail("a/other", retry=False, error="HTTP 404")
    world.advance(50)
    world.push("news", task("a/new"))
    fetcher.hello()
    fetcher.fail("a/new", retry=False, error="HTTP 503")
    fetcher.hello(capacity=0)

    wanted = TaskFilter(states=["failed"], url="*/a/*", error="HTTP 5*", before=WALL + 10)
    shouted = replace(wanted, url="*/A/*", error="http 5*")
    assert bulk(world, "retry", filter=shouted).matched == 0
    assert bulk(world, "retry", dry_run=True, filter=replace(shouted, ignore_case=True)).matched == 1
    assert bulk(world, "retry", filter=wanted).matched == 1
    assert names(world, "ready") == ["a/old"]


def test_tasks_are_meant_that_ended_since_a_time(world: World) -> None:
    world.push("news", task("old"))
    fetcher = world.fetcher()
    fetcher.fail("old", retry=False)
    world.advance(50)
    world.push("news", task("new"))
    fetcher.hello()
    fetcher.fail("new", retry=False)
    fetcher.hello(capacity=0)

    assert bulk(world, "retry", dry_run=True, filter=TaskFilter(since=WALL + 10, before=WALL + 40)).matched == 0
    assert bulk(world, "retry", filter=TaskFilter(since=WALL + 50)).matched == 1
    assert names(world, "ready") == ["new"]


def test_a_task_that_never_ran_has_no_age(world: World) -> None:
    world.push("news", task("a"), task("b", delay=5))

    assert bulk(world, "cancel", filter=TaskFilter(before=WALL + 1e6)).matched == 0
    assert bulk(world, "cancel", filter=TaskFilter(since=1.0)).matched == 0


def test_the_error_of_the_very_turn_counts(world: World) -> None:
    world.push("news", task("a", retries=5))
    fetcher = world.fetcher()
    fetcher.fail("a", error="old")
    world.advance(30)
    fetcher.hello()
    operation = begin(world, "retry", filter=TaskFilter(states=["delayed"], error="new"))

    world.turn(fetcher.answers(fetcher.finished("a", ok=False, error="new")))
    assert show(world, operation).matched == 1


def test_a_dry_run_counts_and_changes_nothing(world: World) -> None:
    fail_many(world)
    before = world.counts()

    view = bulk(world, "retry", dry_run=True)
    assert (view.matched, view.dry_run) == (MANY, True)
    assert world.counts() == before


def test_an_action_that_makes_no_sense_in_a_state_is_refused(world: World) -> None:
    reply = world.ask(ErrorReply, request(world, "cancel", filter=TaskFilter(states=["ready", "success"])))

    assert reply.reason == "filter.states: cancel does not apply to success tasks"


def test_a_bulk_request_names_a_project_or_a_group(world: World) -> None:
    neither = Bulk(**WHO, n=world.n(), action="retry")
    both = Bulk(**WHO, n=world.n(), action="retry", project="news", group="g")
    assert {world.ask(ErrorReply, each).code for each in (neither, both)} == {"malformed"}
    assert world.ask(ErrorReply, request(world, "retry", project="blog")).code == "unknown-project"


def test_a_group_is_gone_through_project_by_project(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop")})
    world.push("news", *[task(f"t{number}") for number in range(5)])
    world.push("shop", *[task(f"t{number}") for number in range(7)])

    view = bulk(world, "cancel", group="g")
    assert (view.projects, view.group, view.known, view.matched) == (["news", "shop"], "g", 12, 12)
    assert (world.counts("news"), world.counts("shop")) == (TaskCounts(cancelled=5), TaskCounts(cancelled=7))


def test_projects_without_tasks_cost_no_steps_and_a_step_writes_no_list_of_them(make_world: MakeWorld) -> None:
    members = [f"p{number:03}" for number in range(400)]
    world = make_world(projects={name: {"group": "g"} for name in members})
    world.push("p300", task("a"), task("b"))
    operation = begin(world, "cancel", group="g")

    world.turn()
    (record,) = world.disk.families["operations"].values.values()
    assert len(record) < 600
    world.turn()
    view = show(world, operation)
    assert (view.matched, bool(view.ended_at)) == (2, True)


def test_projects_without_tasks_in_the_states_that_are_meant_are_not_looked_at(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("p1", "p2", "p3", "p4")})
    for project in ("p1", "p2", "p4"):
        world.push(project, *[task(f"{project}-{number}") for number in range(600)])
    world.push("p3", task("a"), task("b"))
    begin(world, "cancel", project="p3")
    world.settle()
    operation = begin(world, "retry", group="g", filter=TaskFilter(states=["cancelled"]))
    world.settle()

    view = show(world, operation)
    assert (view.seen <= 602, view.matched, bool(view.ended_at)) == (True, 2, True)


def test_globs_that_cost_much_make_a_step_short_and_leave_nothing_out(world: World) -> None:
    long = "http://site/" + "a" * 8000
    world.push("news", *[task(f"t{number:03}", url=f"{long}{number}") for number in range(20)])
    operation = begin(world, "cancel", filter=TaskFilter(url="*" + "[ab]" * 60 + "*1?"))

    world.turn()
    assert 0 < show(world, operation).seen < 20
    world.settle()
    view = show(world, operation)
    assert (view.seen, view.matched) == (20, 10)


def test_what_came_after_the_operation_began_is_not_met(world: World) -> None:
    fail_many(world)
    begin(world, "cancel", filter=TaskFilter(states=["ready"]))
    begin(world, "retry")

    world.turn(world.new_tasks("news", task("t0300b"), task("t0599", **FORCE), task("t0001", **FORCE)))
    world.settle()
    assert world.counts() == TaskCounts(ready=MANY + 1)


def test_no_task_is_met_twice_even_if_it_fails_again_meanwhile(world: World) -> None:
    fail_many(world)
    operation = begin(world, "retry")
    other = world.fetcher(name="other", capacity=MANY)
    while other.held:
        answers = [other.finished(name, ok=False, retry=False) for name in list(other.held)]
        world.ask(DoneReply, other.answers(*answers))

    assert show(world, operation).matched == MANY
    assert len(other.taken) == len(set(other.taken)) == MANY


def test_tasks_are_handed_out_while_an_operation_goes_on(world: World) -> None:
    fail_many(world)
    world.push("shop", task("s"))
    operation = begin(world, "retry")

    world.turn()
    fetcher = world.know(Fetcher(world, "shopper", 1, ["shop"]))
    world.turn(Hello(session="shopper", n=world.n(), capacity=1, projects=["shop"]))
    assert fetcher.taken == ["s"]
    assert not show(world, operation).ended_at


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
@pytest.mark.parametrize("end", ["restart", "reboot"])
def test_an_operation_goes_on_after_a_restart_where_it_was(world: World, steps: int, end: str) -> None:
    fail_many(world)
    operation = begin(world, "retry")
    for _ in range(steps):
        world.turn()

    world.restart() if end == "restart" else world.reboot()
    view = show(world, operation)
    assert (view.seen, view.matched, bool(view.ended_at)) == (MANY, MANY, True)
    assert world.counts() == TaskCounts(ready=MANY)


def test_the_scheduler_sleeps_when_the_last_operation_has_ended_and_not_before(world: World) -> None:
    fail_many(world)
    begin(world, "retry", dry_run=True)
    assert world.next_wake() <= world.elapsed

    world.settle()
    wakes = world.wakes
    world.advance(30)
    assert world.wakes <= wakes + 1


def test_operations_take_turns(world: World) -> None:
    fail_many(world)
    first = begin(world, "retry", dry_run=True)
    second = begin(world, "retry", dry_run=True)

    for _ in range(3):
        world.turn()
    assert abs(show(world, first).seen - show(world, second).seen) <= PAGE_TASKS
    world.settle()
    assert show(world, first).matched == show(world, second).matched == MANY


def test_an_operation_is_answered_when_it_has_ended(world: World) -> None:
    fail_many(world)
    operation = begin(world, "retry")
    n = world.n()

    assert world.turn(OperationShow(session="person", n=n, id=operation, seconds=30)) == []
    answers: list[Any] = []
    while not answers:
        answers = world.turn()
    assert (answers[0].n, answers[0].operation.matched) == (n, MANY)


def test_who_does_not_want_to_wait_so_long_is_answered_before(world: World) -> None:
    fail_many(world)
    operation = begin(world, "retry")
    n = world.n()
    world.turn(OperationShow(session="person", n=n, id=operation, seconds=0.5))

    world.elapsed += 0.5
    (reply,) = world.turn()
    assert isinstance(reply, OperationReply)
    assert (reply.n, reply.operation.ended_at) == (n, 0)


def test_an_answer_does_not_change_after_it_was_given(world: World) -> None:
    fail_many(world)
    (reply,) = world.turn(request(world, "retry"))
    assert isinstance(reply, OperationReply)
    world.settle()

    assert (reply.operation.seen, reply.operation.ended_at) == (0, 0)


def test_a_repeated_bulk_request_starts_nothing_new(world: World) -> None:
    fail_many(world, 3)
    asked = request(world, "retry")

    assert world.answer(asked) == world.answer(asked)
    assert len(operations(world)) == 1


def test_the_last_operations_are_remembered_the_newest_first(world: World) -> None:
    ids = [bulk(world, "retry").id for _ in range(ENDED_KEPT + 3)]

    world.restart()
    assert [view.id for view in operations(world)] == ids[: -ENDED_KEPT - 1 : -1]
    assert world.ask(ErrorReply, OperationShow(**WHO, n=world.n(), id=ids[0])).code == "unknown-operation"


def test_operations_are_counted_from_1_across_restarts(make_world: MakeWorld) -> None:
    world, _ = group(make_world, 2)
    first = bulk(world, "retry", group="g")
    second = group_do(world, "pause")
    world.restart()

    third = bulk(world, "cancel", group="g")

    assert [each.number for each in (first, second, third)] == [1, 2, 3]


def test_a_number_names_an_operation_as_its_id_does(world: World) -> None:
    fail_many(world)
    operation = begin(world, "retry")
    waiting = OperationShow(session="other", n=world.n(), id=1, seconds=60.0)
    assert not world.turn(waiting)

    world.settle()

    assert show(world, 1) == show(world, operation)
    assert world.ask(ErrorReply, OperationShow(**WHO, n=world.n(), id=2)).code == "unknown-operation"
    assert world.ask(ErrorReply, OperationShow(**WHO, n=world.n(), id=0)).code == "unknown-operation"


def test_a_list_of_operations_fits_into_a_message(make_world: MakeWorld) -> None:
    world = make_world(max_message=4096)
    for _ in range(20):
        bulk(world, "retry")

    assert 1 <= len(operations(world)) < 9


@pytest.mark.parametrize("action", ["delete", "reset", "clear"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_operation_ends_well_when_its_project_is_dropped_meanwhile(world: World, action: str, steps: int) -> None:
    fail_many(world)
    world.push("news", task("z"))
    operation = begin(world, "retry")
    for _ in range(steps):
        world.turn()

    world.turn(act(world, action))
    world.settle()
    assert show(world, operation).ended_at
    if action == "reset":
        assert world.counts() == TaskCounts()


def test_an_operation_goes_on_when_its_project_has_been_swept(world: World) -> None:
    fail_many(world)
    world.push("news", task("z"))
    world.turn(act(world, "clear"))

    assert bulk(world, "retry").matched == MANY
    assert world.counts() == TaskCounts(ready=MANY)
    assert world.project().unfinished == MANY


def test_tasks_pushed_in_the_turn_of_a_step_are_left_alone(world: World) -> None:
    fail_many(world, 3)
    begin(world, "retry")
    reply = world.turn(world.new_tasks("news", task("t0000", **FORCE), task("t0001", force_update=True, cancel=True)))

    assert isinstance(reply[0], NewTasksReply)
    world.settle()
    assert names(world, "ready") == ["t0002", "t0000"]
    assert names(world, "cancelled") == ["t0001"]


def test_an_operation_may_be_about_tasks_that_came_within_a_time(world: World) -> None:
    for number in range(3):
        world.push("news", task(f"t{number}"))
        world.advance(10.0)
    world.set("news", rate=0)

    chosen = TaskFilter(pushed_since=WALL + 10, pushed_before=WALL + 20)
    world.turn(Bulk(**WHO, n=world.n(), action="cancel", project="news", filter=chosen))
    world.settle()
    assert [world.show(f"t{number}").state for number in range(3)] == ["ready", "cancelled", "ready"]
