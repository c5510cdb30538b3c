"""Undos of bulk operations: what comes back, what stays, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.core.model.operation import ENDED_KEPT
from taskqueue.core.model.task import HELD_UNTIL
from taskqueue.core.model.undo_rows import KEPT_SECONDS, OPERATIONS_MOST
from taskqueue.core.moves import undo_rows
from taskqueue.core.steps import bulk as bulk_steps
from taskqueue.core.steps import undo as undo_steps
from taskqueue.core.steps.bulk import PAGE_TASKS
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import TaskState
from taskqueue.protocol.insight import Log, LogReply
from taskqueue.protocol.operations import Bulk, OperationCancel, OperationReply, OperationUndo, Rerun
from taskqueue.protocol.projects import GroupDo
from taskqueue.protocol.tasks import TaskCancel, TaskReprioritise, TaskRetry, TasksReply
from taskqueue.protocol.values import Operation, TaskCounts, TaskFilter, TaskOf, UndoProgress
from taskqueue.store.contract import Batch
from taskqueue.store.records import layout
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import WALL, Fetcher, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import CANCEL, DAY, FORCE, HOUR
from tests.unit.core.rules.test_dependencies import state_of, waiting
from tests.unit.core.rules.test_flows import flow
from tests.unit.core.rules.test_flows import show as show_flow
from tests.unit.core.rules.test_operations import MANY, WHO, begin, bulk, operations, show


def begin_undo(world: World, operation: int) -> int:
    """Start an undo without further turns; return its id."""
    (reply,) = world.turn(OperationUndo(**WHO, n=world.n(), id=operation))
    assert isinstance(reply, OperationReply), reply
    return reply.operation.id


def undo(world: World, operation: Operation) -> Operation:
    """Run an undo to its end."""
    number = begin_undo(world, operation.id)
    world.settle()
    return show(world, number)


def told(view: Operation) -> UndoProgress:
    assert view.undo is not None
    return view.undo


def refused(world: World, operation: Operation) -> str:
    """Return the reason for which an undo is refused."""
    return world.ask(ErrorReply, OperationUndo(**WHO, n=world.n(), id=operation.id)).reason


def end(world: World, operation: int) -> None:
    world.ask(OperationReply, OperationCancel(**WHO, n=world.n(), id=operation))


def one_of_each(world: World) -> Fetcher:
    """Make tasks named after their states; return the fetcher of the processing one, which takes no others."""
    world.push("news", *[task(name, retries=3) for name in ("success", "failed", "waits", "processing")])
    fetcher = world.fetcher(capacity=4)
    fetcher.capacity = 0
    fetcher.hello()
    fetcher.done("success")
    fetcher.fail("failed", error="boom", retry=False)
    fetcher.fail("waits", error="boom")
    world.push("news", task("ready", priority=3), task("delayed", delay=500), task("cancelled"))
    world.push("news", task("cancelled", **CANCEL))
    world.push("news", replace(task("blocked"), depends_on=("delayed",)))
    return fetcher


def many(world: World, count: int = MANY) -> list[str]:
    """Push tasks of several pages; return their taskids."""
    names = [f"t{number:04}" for number in range(count)]
    world.push("news", *[task(name, delay=9 * HOUR) for name in names])
    return names


def rows(world: World) -> Sequence[bytes]:
    """Return the keys of all rows on the disk."""
    return world.disk.families[layout.UNDO_ROWS].keys


# ---------------------------------------------------------------------------------------- what comes back


def test_an_undone_cancel_leaves_tasks_as_they_were_and_what_ran_is_ready(world: World) -> None:
    fetcher = one_of_each(world)
    names = ("ready", "delayed", "waits", "blocked")
    before = [world.show(name) for name in names]

    view = undo(world, bulk(world, "cancel"))

    assert (view.known, view.seen, view.matched) == (5, 5, 5)
    assert told(view).counts == TaskCounts(ready=2, delayed=2, blocked=1)
    assert (told(view).of, told(view).action, told(view).ran) == (1, "cancel", 1)
    assert [replace(world.show(name), n=0) for name in names] == [replace(each, n=0) for each in before]
    assert world.show("processing").state == "ready"
    assert fetcher.done("processing") == "stale"


def test_tasks_of_an_undone_cancel_keep_their_place_retries_and_back_off(world: World) -> None:
    world.push("news", *[task(name, priority=int(name)) for name in "1234"], task("waits", retries=5))
    fetcher = world.fetcher(capacity=5)
    fetcher.capacity = 0
    fetcher.hello()
    fetcher.fail("waits")
    fetcher.release("1", "2", "3", "4")

    undo(world, bulk(world, "cancel"))

    assert world.push("news", task("waits")) == ["ignored"]
    other = world.fetcher(name="other", capacity=1)
    for _ in range(4):
        other.finish_all()
    world.advance(DAY)
    assert other.taken == ["4", "3", "2", "1", "waits"]
    assert other.held["waits"].retried == 1


def test_an_undone_retry_leaves_tasks_over_as_they_were(world: World) -> None:
    one_of_each(world)
    states: list[TaskState] = ["failed", "success", "cancelled", "delayed"]
    names = ("failed", "success", "cancelled", "waits", "delayed")
    before = [world.show(name) for name in names]
    world.advance(10)

    operation = bulk(world, "retry", filter=TaskFilter(states=states))
    assert {world.show(name).state for name in names} == {"ready"}
    view = undo(world, operation)

    assert told(view).counts == TaskCounts(delayed=2, success=1, failed=1, cancelled=1)
    after = [world.show(name) for name in names]
    assert [replace(each, n=0) for each in after] == [replace(each, n=0) for each in before]
    assert [each.history for each in after] == [each.history for each in before]


@pytest.mark.parametrize("action", ["cancel", "retry"])
def test_a_task_that_comes_back_was_put_off_as_often_as_before(world: World, action: str) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    for _ in range(3):
        world.advance(5)
        fetcher.hello()
        fetcher.fail("a", retry_after=5.0)
    fetcher.hello(capacity=0)
    operation = bulk(world, action, filter=TaskFilter(states=["delayed"]))
    assert world.show("a").put_off == 0

    undo(world, operation)

    world.restart()
    assert (world.show("a").state, world.show("a").put_off) == ("delayed", 3)


def test_an_undone_reprioritise_gives_each_task_its_former_priority(world: World) -> None:
    fetcher = one_of_each(world)

    view = undo(world, bulk(world, "reprioritise", priority=9))

    assert told(view).counts == TaskCounts(ready=1, delayed=2, processing=1, blocked=1)
    assert [world.show(name).priority for name in ("ready", "delayed", "processing", "blocked")] == [3, 0, 0, 0]
    assert fetcher.done("processing") == "done"


def test_an_undone_reschedule_gives_each_task_its_former_time(world: World) -> None:
    one_of_each(world)
    before = [world.show(name).exetime for name in ("ready", "delayed", "waits")]

    view = undo(world, bulk(world, "reschedule", delay=DAY))

    assert told(view).counts == TaskCounts(ready=1, delayed=2, blocked=1)
    assert [world.show(name).exetime for name in ("ready", "delayed", "waits")] == before


def test_an_undo_after_the_due_time_brings_tasks_back_as_ready(world: World) -> None:
    world.push("news", task("a", delay=50), task("b", delay=5000))
    operation = bulk(world, "cancel")
    world.advance(100)

    assert told(undo(world, operation)).counts == TaskCounts(ready=1, delayed=1)


@pytest.mark.parametrize("how", ["", "restart", "reboot"])
def test_an_update_that_was_deferred_comes_back_applied_to_its_task(world: World, how: str) -> None:
    world.push("news", task("root"))
    fetcher = world.fetcher(capacity=2)
    fetcher.capacity = 0
    fetcher.done("root", new=[task("a", "old", retries=5), task("b", "old")])
    updates = task("a", "new", url="http://new/", priority=7, **FORCE), task("b", "new", delay=500, job="j", **FORCE)
    assert world.push("news", *updates) == ["deferred", "deferred"]
    operation = bulk(world, "cancel")
    assert body_of(world.show("a")) == "new"
    if how:
        getattr(world, how)()

    view = undo(world, operation)

    assert (told(view).counts, told(view).ran) == (TaskCounts(ready=1, delayed=1), 2)
    a, b = world.show("a"), world.show("b")
    assert (a.url, body_of(a), a.priority, a.depth) == ("http://new/", "new", 7, 1)
    assert (body_of(b), b.exetime, b.job, b.depth) == ("new", WALL + 500, "j", 1)
    assert fetcher.done("a") == "stale"


@pytest.mark.parametrize("reaction", ["fail", "run", "only"])
@pytest.mark.parametrize("parent", ["a-parent", "z-parent"])
def test_the_parents_of_a_deferred_update_come_back_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch, reaction: Any, parent: str
) -> None:
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 1)
    world.push("news", task("former"), task("plain"), waiting("child", "former"))
    fetcher = world.fetcher()
    fetcher.done("former")
    fetcher.capacity = 0
    fetcher.hello()
    updates = [waiting(name, parent, on_failure=reaction, **FORCE) for name in ("child", "plain")]
    assert world.push("news", task(parent, delay=50), *updates) == ["new", "deferred", "deferred"]

    view = undo(world, bulk(world, "cancel"))

    assert told(view).counts == TaskCounts(delayed=1, blocked=2)
    world.advance(50)
    assert world.counts() == TaskCounts(ready=1, blocked=2, success=1)
    other = world.fetcher(name="other")
    other.done(parent, ok=reaction == "fail", retry=False)
    world.settle()
    assert sorted(other.held) == ["child", "plain"]


@pytest.mark.parametrize("reaction", ["run", "only"])
@pytest.mark.parametrize("rows", [1, 3])
def test_an_update_waits_again_for_parents_that_it_passed_between_the_steps_of_a_cancel(
    world: World, monkeypatch: pytest.MonkeyPatch, reaction: Any, rows: int
) -> None:
    monkeypatch.setattr(bulk_steps, "PAGE_TASKS", 1)
    monkeypatch.setattr(undo_steps, "STEP_ROWS", rows)
    world.push("news", task("y"), task("z"))
    world.fetcher(capacity=2)
    parents = ("a", "b", "c")
    world.push("news", *[task(name, delay=50) for name in parents])
    world.push("news", *[waiting(name, *parents, on_failure=reaction, **FORCE) for name in "yz"])

    view = undo(world, bulk(world, "cancel"))

    world.crash()
    assert (view.matched, told(view).counts) == (5, TaskCounts(delayed=3, blocked=2))
    world.advance(50)
    fetcher = world.fetcher(name="other")
    for name in parents:
        assert [state_of(world, child) for child in "yz"] == ["blocked", "blocked"]
        fetcher.fail(name, retry=False)
        world.settle()
    assert sorted(fetcher.held) == ["y", "z"]


@pytest.mark.parametrize(("reaction", "state"), [("run", "ready"), ("only", "cancelled")])
def test_an_update_waits_for_no_parent_that_it_passed_and_that_stays_cancelled(
    world: World, reaction: Any, state: str
) -> None:
    world.push("shop", task("parent", delay=50))
    world.push("news", task("child"))
    world.fetcher(capacity=1)
    world.push("news", waiting("child", TaskOf("shop", "parent"), on_failure=reaction, **FORCE))
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="shop", taskids=["parent"]))

    undo(world, bulk(world, "cancel"))

    assert state_of(world, "child") == state


@pytest.mark.parametrize(
    ("reaction", "ok", "state"),
    [("run", True, "ready"), ("run", False, "ready"), ("only", True, "cancelled"), ("only", False, "ready")],
)
def test_an_update_sees_how_a_parent_that_it_passed_has_ended_since(
    world: World, monkeypatch: pytest.MonkeyPatch, reaction: Any, ok: bool, state: str
) -> None:
    monkeypatch.setattr(bulk_steps, "PAGE_TASKS", 1)
    world.push("news", task("z"))
    world.fetcher(capacity=1)
    world.push("news", task("a", delay=50), waiting("z", "a", on_failure=reaction, **FORCE))
    operation = bulk(world, "cancel")
    retry(world, "a")
    other = world.fetcher(name="other", capacity=1)
    other.hello(capacity=0)
    other.done("a", ok=ok, retry=False)

    assert (undo(world, operation).matched, state_of(world, "z")) == (1, state)


def test_a_task_that_is_retried_after_a_bulk_cancel_stays_what_its_update_made_of_it(world: World) -> None:
    world.push("news", task("a", "old"))
    world.fetcher(capacity=1)
    world.push("news", task("parent", delay=50), replace(task("a", "new", **FORCE), depends_on=("parent",)))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["processing"]))
    retry(world, "a")

    assert told(undo(world, operation)).changed == 1
    assert (state_of(world, "a"), body_of(world.show("a"))) == ("blocked", "new")


def test_large_updates_make_the_steps_of_a_cancel_short(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_steps, "UPDATES_BYTES", 0)
    world.push("news", *[task(name) for name in "abc"])
    world.fetcher(capacity=3)
    world.push("news", *[task(name, priority=5, **FORCE) for name in "abc"])

    operation = bulk(world, "cancel")
    assert (operation.matched, len(rows(world))) == (3, 3)
    undo(world, operation)

    assert [(world.show(name).state, world.show(name).priority) for name in "abc"] == [("ready", 5)] * 3


def test_an_undo_goes_through_the_projects_of_a_group(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop")})
    for name in ("news", "shop"):
        world.push(name, task("a"), task("b", delay=9))

    view = undo(world, bulk(world, "cancel", group="g"))

    assert (view.projects, view.group, view.matched) == (["news", "shop"], "g", 4)
    assert (world.counts("news"), world.counts("shop")) == (TaskCounts(ready=1, delayed=1),) * 2


# ---------------------------------------------------------------------------------------- what has changed since


def retry(world: World, taskid: str) -> None:
    world.ask(TasksReply, TaskRetry(**WHO, n=world.n(), project="news", taskids=[taskid]))


def cancel(world: World, taskid: str) -> None:
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="news", taskids=[taskid]))


def reprioritise(world: World, taskid: str) -> None:
    request = TaskReprioritise(**WHO, n=world.n(), project="news", taskids=[taskid], priority=5)
    world.ask(TasksReply, request)


def test_tasks_that_were_touched_since_a_cancel_stay_as_they_are(world: World) -> None:
    world.push("news", *[task(name) for name in ("kept", "retried", "forced", "twice")])
    operation = bulk(world, "cancel")
    retry(world, "retried")
    world.push("news", task("forced", priority=7, **FORCE))
    retry(world, "twice")
    cancel(world, "twice")

    view = undo(world, operation)

    assert (view.matched, told(view).changed) == (1, 3)
    states = {name: world.show(name).state for name in ("kept", "retried", "forced", "twice")}
    assert states == {"kept": "ready", "retried": "ready", "forced": "ready", "twice": "cancelled"}
    assert world.show("forced").priority == 7


def test_tasks_that_ran_or_were_merged_since_a_retry_stay_as_they_are(world: World) -> None:
    names = ["a-runs", "done", "merged", "untouched"]
    world.push("news", *[task(name) for name in names])
    fetcher = world.fetcher(capacity=4)
    fetcher.capacity = 0
    fetcher.hello()
    for name in names:
        fetcher.fail(name, retry=False)
    operation = bulk(world, "retry")
    fetcher.hello(capacity=2)
    fetcher.hello()
    fetcher.done("done")
    world.push("news", task("merged", priority=2))

    view = undo(world, operation)

    assert (view.matched, told(view).changed, told(view).counts) == (1, 3, TaskCounts(failed=1))
    assert [world.show(name).state for name in names] == ["processing", "success", "ready", "failed"]


def test_tasks_replaced_or_dispatched_since_a_reprioritise_keep_their_priority(world: World) -> None:
    world.push("news", *[task(name) for name in ("ends", "replaced", "raised", "left")])
    operation = bulk(world, "reprioritise", priority=5)
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(capacity=0)
    world.push("news", task("replaced", priority=5, **FORCE), task("raised", priority=9))

    view = undo(world, operation)

    assert (view.matched, told(view).changed) == (1, 3)
    names = ("replaced", "raised", "left", "ends")
    assert [world.show(name).priority for name in names] == [5, 9, 0, 5]
    assert fetcher.taken == ["ends"]


def test_a_task_hurried_since_a_reschedule_keeps_its_time_and_one_that_fell_due_gets_its_own_back(
    world: World,
) -> None:
    world.push("news", task("hurried", delay=900), task("due", delay=900))
    hurried = bulk(world, "reschedule", delay=100, filter=TaskFilter(url="*/hurried"))
    due = bulk(world, "reschedule", delay=40, filter=TaskFilter(url="*/due"))
    world.push("news", task("hurried", delay=20))
    world.advance(50)

    assert told(undo(world, hurried)).changed == 1
    assert undo(world, due).matched == 1
    assert [world.show(name).state for name in ("hurried", "due")] == ["ready", "delayed"]
    assert world.show("due").exetime == WALL + 900


def test_tasks_that_were_made_due_get_their_times_back_also_if_the_clock_was_put_back_since(world: World) -> None:
    world.push("news", task("a", delay=900), replace(task("b", delay=900), depends_on=("a",)))
    operation = bulk(world, "reschedule", delay=0)
    world.wall_step = -HOUR

    assert undo(world, operation).matched == 2
    assert [world.show(name).state for name in "ab"] == ["delayed", "blocked"]
    assert [world.show(name).exetime for name in "ab"] == [WALL + 900, WALL + 900]


def test_tasks_that_are_gone_since_are_counted(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"cancelled": 50}}, projects={name: {"group": "g"} for name in ("news", "shop")})
    world.push("news", task("a"), task("b"))
    world.push("shop", task("c"))
    operation = bulk(world, "cancel", group="g")
    world.do("delete", "shop")
    retry(world, "b")
    world.advance(100)

    view = undo(world, operation)

    assert (view.known, view.matched, told(view).changed, told(view).gone) == (3, 0, 1, 2)


def test_a_token_of_an_operation_is_no_lease_and_no_number_that_is_shown(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=0)
    operation = bulk(world, "cancel")
    (cancelled,) = world.known()

    assert abs(cancelled.token - operation.id) > 1000
    assert fetcher.forge("a", cancelled.token) == "stale"
    assert undo(world, operation).matched == 1
    assert world.known()[0].token == 0


def test_undos_of_two_operations_go_back_one_by_one(world: World) -> None:
    world.push("news", task("a", delay=50), task("b", priority=2))
    first = bulk(world, "cancel")
    second = bulk(world, "retry", filter=TaskFilter(states=["cancelled"]))

    assert undo(world, second).matched == 2
    assert world.counts() == TaskCounts(cancelled=2)
    assert undo(world, first).matched == 2
    assert world.counts() == TaskCounts(ready=1, delayed=1)


# ---------------------------------------------------------------------------------------- what stays, and is named


def test_children_that_failed_since_stay_failed_are_named_and_run_when_their_parent_has_succeeded(
    make_world: MakeWorld,
) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop")})
    world.push(
        "news", task("parent", delay=50), waiting("child", "parent"), waiting("runs", "parent", on_failure="run")
    )
    world.push("shop", waiting("far", TaskOf("news", "parent")))
    operation = bulk(world, "cancel", group="g", filter=TaskFilter(states=["delayed"]))
    assert [state_of(world, "child"), world.show("far", "shop").state] == ["failed", "failed"]

    view = undo(world, operation)

    assert (view.matched, told(view).children, sorted(told(view).children_named)) == (1, 2, ["child", "shop/far"])
    assert [state_of(world, name) for name in ("parent", "child", "runs")] == ["delayed", "failed", "ready"]
    world.advance(50)
    world.fetcher().finish_all()
    assert [state_of(world, "child"), world.show("far", "shop").state] == ["success", "success"]


def test_children_in_projects_that_the_operation_does_not_name_are_left_out(world: World) -> None:
    world.push("news", task("parent", delay=50), waiting("child", "parent"))
    world.push("shop", waiting("far", TaskOf("news", "parent")))

    view = undo(world, bulk(world, "cancel", filter=TaskFilter(states=["delayed"])))

    assert (told(view).children, told(view).children_named) == (1, ["child"])


def test_children_that_were_cancelled_with_their_parent_come_back_with_it(world: World) -> None:
    world.push("news", task("parent"), waiting("child", "parent"), waiting("a-child", "parent"))

    view = undo(world, bulk(world, "cancel"))

    assert told(view).counts == TaskCounts(ready=1, blocked=2)
    fetcher = world.fetcher()
    fetcher.finish_all()
    assert (fetcher.taken[0], sorted(fetcher.taken[1:])) == ("parent", ["a-child", "child"])


@pytest.mark.parametrize("reaction", ["run", "only"])
def test_children_that_run_after_a_failure_come_back_blocked_with_their_parent(world: World, reaction: Any) -> None:
    world.push("news", task("parent"), waiting("a-child", "parent", on_failure=reaction))
    world.push("news", waiting("z-child", "parent", on_failure=reaction))

    undo(world, bulk(world, "cancel"))

    world.crash()
    assert [state_of(world, name) for name in ("parent", "a-child", "z-child")] == ["ready", "blocked", "blocked"]
    fetcher = world.fetcher()
    assert fetcher.taken == ["parent"]
    fetcher.fail("parent", retry=False)
    world.settle()
    assert sorted(fetcher.taken) == ["a-child", "parent", "z-child"]


@pytest.mark.parametrize(
    ("reaction", "state"), [("run", "ready"), ("only", "cancelled"), ("fail", "failed"), ("wait", "blocked")]
)
def test_children_whose_parent_was_cancelled_apart_from_them_come_back_and_see_that(
    world: World, reaction: Any, state: str
) -> None:
    world.push("shop", task("parent"))
    world.push("news", waiting("child", TaskOf("shop", "parent"), on_failure=reaction))
    operation = bulk(world, "cancel")
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="shop", taskids=["parent"]))

    view = undo(world, operation)

    assert (view.seen, view.matched, rows(world)) == (1, 1, [])
    assert told(view).counts == TaskCounts(blocked=1)
    assert state_of(world, "child") == state


def test_children_whose_parent_was_cancelled_again_fail_with_it(world: World) -> None:
    world.push("news", task("parent"), waiting("a-child", "parent"), waiting("z-child", "parent"))
    operation = bulk(world, "cancel")
    retry(world, "parent")
    cancel(world, "parent")

    view = undo(world, operation)

    assert (view.matched, told(view).changed) == (2, 1)
    assert [state_of(world, name) for name in ("parent", "a-child", "z-child")] == ["cancelled", "failed", "failed"]


def test_a_task_that_ran_and_was_to_get_other_parents_sees_that_they_have_failed(world: World) -> None:
    world.push("shop", task("later"))
    world.push("news", task("a"), waiting("b", "a"))
    fetcher = world.fetcher(projects=["news"])
    fetcher.done("a")
    world.settle()
    world.push("news", waiting("b", TaskOf("shop", "later"), **FORCE))
    operation = bulk(world, "cancel")
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="shop", taskids=["later"]))
    assert state_of(world, "b") == "cancelled"

    assert undo(world, operation).matched == 1
    assert state_of(world, "b") == "failed"


def test_a_child_that_was_retried_since_goes_on_waiting_for_its_cancelled_parent(world: World) -> None:
    world.push("news", task("parent"), waiting("other", "parent"), waiting("retried", "parent"))
    operation = bulk(world, "cancel")
    for name in ("retried", "parent"):
        retry(world, name)
    cancel(world, "parent")
    assert state_of(world, "retried") == "failed"
    retry(world, "retried")

    view = undo(world, operation)

    assert (view.matched, told(view).changed) == (1, 2)
    assert [state_of(world, name) for name in ("other", "retried")] == ["failed", "blocked"]


@pytest.mark.parametrize("steps", range(4))
def test_a_cancelled_undo_leaves_no_child_waiting_for_a_parent_that_it_has_not_brought_back(
    world: World, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 1)
    world.push("news", task("parent"), waiting("a-child", "parent"), waiting("b-child", "parent"))
    operation = bulk(world, "cancel")
    first = begin_undo(world, operation.id)
    for _ in range(2):
        world.turn()

    world.turn(OperationCancel(**WHO, n=world.n(), id=first))
    for _ in range(steps):
        world.turn()
    world.crash()
    world.settle()

    assert (show(world, first).cancelled, show(world, first).matched) == (True, 2)
    assert world.counts() == TaskCounts(failed=2, cancelled=1)
    view = undo(world, show(world, operation.id))
    assert (view.matched, told(view).children, rows(world)) == (1, 2, [])
    world.fetcher().finish_all()
    assert world.counts() == TaskCounts(success=3)


def test_an_undo_that_is_cancelled_after_its_last_task_looks_at_parents_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 1)
    world.push("shop", task("parent"))
    world.push("news", *[waiting(f"child{number}", TaskOf("shop", "parent")) for number in range(3)])
    operation = bulk(world, "cancel")
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="shop", taskids=["parent"]))
    first = begin_undo(world, operation.id)
    for _ in range(3):
        world.turn()

    end(world, first)
    world.settle()

    assert (show(world, first).matched, show(world, operation.id).undone_by) == (3, 2)
    assert (world.counts(), rows(world)) == (TaskCounts(failed=3), [])


@pytest.mark.parametrize(("ends", "state"), [({"retry": False}, "success"), ({"ok": True}, "cancelled")])
def test_a_task_that_was_dropped_with_its_parents_cancel_is_blocked_again_and_decided_by_the_parents_end(
    world: World, ends: Any, state: str
) -> None:
    world.push("news", task("parent", delay=50), waiting("child", "parent", on_failure="only"))
    world.push("news", waiting("below", "child"))
    world.push("shop", waiting("far", TaskOf("news", "parent"), on_failure="only"))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))
    assert [state_of(world, "child"), state_of(world, "below"), state_of(world, "far", "shop")] == ["cancelled"] * 3

    view = undo(world, operation)

    assert (view.matched, told(view).children) == (1, 0)
    assert [state_of(world, "child"), state_of(world, "below"), state_of(world, "far", "shop")] == ["blocked"] * 3
    world.crash()
    world.advance(50)
    fetcher = world.fetcher()
    fetcher.done("parent", **{"ok": False, **ends})
    world.settle()
    fetcher.finish_all()
    assert [state_of(world, "child"), state_of(world, "below"), state_of(world, "far", "shop")] == [state] * 3


def test_children_that_were_pushed_after_the_cancel_wait_again_or_are_counted(world: World) -> None:
    world.push("news", task("parent", delay=50))
    operation = bulk(world, "cancel")
    world.push("news", waiting("only", "parent", on_failure="only"), waiting("fail", "parent"))
    assert [state_of(world, "only"), state_of(world, "fail")] == ["cancelled", "failed"]

    view = undo(world, operation)

    assert (state_of(world, "only"), told(view).children_named) == ("blocked", ["fail"])


@pytest.mark.parametrize("how", ["reset", "retry"])
def test_an_undo_goes_on_when_a_task_with_many_children_is_gone_or_changes_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 7)
    world.push("shop", task("a", delay=50), task("b", delay=50))
    world.push("news", *[waiting(f"c{number:02}", TaskOf("shop", "a")) for number in range(30)])
    (begun,) = world.turn(Bulk(**WHO, n=world.n(), project="shop", action="cancel"))
    assert isinstance(begun, OperationReply)
    world.settle()
    number = begin_undo(world, begun.operation.id)
    world.turn()
    assert show(world, number).seen == 1

    if how == "reset":
        world.do("reset", "shop")
    else:
        world.ask(TasksReply, TaskRetry(**WHO, n=world.n(), project="shop", taskids=["a"]))
    world.settle()

    view = show(world, number)
    assert (view.seen, bool(view.ended_at), rows(world)) == (2, True, [])


def test_what_was_dropped_with_a_dropped_task_is_blocked_again_however_deep(world: World) -> None:
    names = [f"t{number}" for number in range(9)]
    world.push("news", task("t0", delay=50))
    world.push("news", *[waiting(each, above, on_failure="only") for above, each in pairwise(names)])
    world.push("news", waiting("last", "t8"), waiting("other", "t4", "t8"), waiting("beside", "t4", on_failure="wait"))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))
    assert world.counts() == TaskCounts(cancelled=11, blocked=1)

    undo(world, operation)

    assert world.counts() == TaskCounts(delayed=1, blocked=11)
    world.advance(50)
    fetcher = world.fetcher()
    for name in names[:-1]:
        fetcher.fail(name, retry=False)
        world.settle()
    assert fetcher.taken == names
    fetcher.finish_all()
    assert [state_of(world, name) for name in ("last", "other", "beside")] == ["success", "failed", "blocked"]


def test_a_dropped_task_is_blocked_again_in_a_project_that_is_cleared_meanwhile(world: World) -> None:
    world.push("news", task("parent", delay=50), waiting("near", "parent", on_failure="only"))
    world.push("shop", waiting("far", TaskOf("news", "near"), on_failure="only"), task("other"))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))
    begin_undo(world, operation.id)
    world.turn()

    world.do("clear", "shop")  # in the turn that tells the children of what is blocked again
    world.settle()

    assert [state_of(world, "near"), state_of(world, "far", "shop")] == ["blocked", "blocked"]


def test_what_was_dropped_with_another_task_too_stays_dropped_with_that(world: World) -> None:
    world.push("news", task("a", delay=50), task("b", priority=1))
    world.push("news", waiting("of-a", "a", on_failure="only"), waiting("of-b", "b", on_failure="only"))
    world.push("news", waiting("of-both", "of-a", "of-b"))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("b")
    world.settle()

    undo(world, operation)

    assert [state_of(world, name) for name in ("of-a", "of-b", "of-both")] == ["blocked", "cancelled", "cancelled"]


@pytest.mark.parametrize("reaction", ["run", "only"])
def test_a_child_that_waits_for_others_too_waits_again_for_a_parent_that_comes_back(
    world: World, reaction: Any
) -> None:
    world.push("news", task("a", delay=50), task("b"), waiting("child", "a", "b", on_failure=reaction))
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))
    fetcher = world.fetcher(capacity=1)
    fetcher.capacity = 0
    fetcher.hello()

    undo(world, operation)
    fetcher.fail("b", retry=False)
    world.settle()

    assert state_of(world, "child") == "blocked"
    world.advance(50)
    fetcher.hello(capacity=2)
    fetcher.done("a")
    world.settle()
    assert fetcher.taken == ["b", "a", "child"]


@pytest.mark.parametrize("reaction", ["run", "only"])
def test_edges_stay_satisfied_of_which_the_cancel_was_not_the_cause(world: World, reaction: Any) -> None:
    fetcher = world.fetcher(capacity=2)
    world.push("news", task("well"), task("ill"))
    world.push("news", task("last", delay=50), waiting("child", "well", "ill", "last", on_failure=reaction))
    fetcher.capacity = 0
    fetcher.hello()
    fetcher.done("well")
    fetcher.fail("ill", retry=False)
    world.push("news", task("well", **FORCE), task("ill", **FORCE))

    undo(world, bulk(world, "cancel", filter=TaskFilter(states=["ready"])))

    assert world.counts() == TaskCounts(ready=2, delayed=1, blocked=1)
    cancel(world, "last")
    world.settle()
    assert state_of(world, "child") == "ready"


def test_a_task_that_was_dropped_before_the_operation_stays_dropped(world: World) -> None:
    world.push("news", task("parent"), waiting("child", "parent", on_failure="only"))
    cancel(world, "parent")
    retry(world, "parent")
    world.advance(10)

    undo(world, bulk(world, "cancel"))

    assert [state_of(world, "parent"), state_of(world, "child")] == ["ready", "cancelled"]


@pytest.mark.parametrize("reaction", ["run", "only"])
def test_a_child_cancelled_between_its_parents_waits_for_both_again(
    world: World, monkeypatch: pytest.MonkeyPatch, reaction: Any
) -> None:
    monkeypatch.setattr(bulk_steps, "PAGE_TASKS", 1)
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 1)
    world.push("news", task("a"), task("c"), waiting("b", "a", "c", on_failure=reaction))
    operation = bulk(world, "cancel")

    assert undo(world, operation).matched == 3

    fetcher = world.fetcher()
    for name in ("a", "c"):
        assert state_of(world, "b") == "blocked"
        fetcher.fail(name, retry=False)
        world.settle()
    assert sorted(fetcher.held) == ["b"]


def test_the_edges_of_a_deferred_update_wait_again_for_a_parent_that_comes_back(world: World) -> None:
    world.push("news", task("child"))
    fetcher = world.fetcher()
    world.push("news", task("parent", delay=50), waiting("child", "parent", on_failure="only", **FORCE))

    undo(world, bulk(world, "cancel", filter=TaskFilter(states=["delayed"])))
    fetcher.done("child")
    world.settle()

    assert state_of(world, "child") == "blocked"
    world.advance(50)
    fetcher.hello()
    fetcher.fail("parent", retry=False)
    world.settle()
    assert fetcher.taken == ["child", "parent", "child"]


def test_more_children_than_fit_into_a_step_are_counted_once_each(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_steps, "STEP_ROWS", 7)
    children = [f"c{number:02}" for number in range(30)]
    world.push("news", task("p1", delay=50), task("p2", delay=50), task("q", delay=50))
    world.push("news", *[waiting(f"{name}-{parent}", parent) for parent in ("p1", "p2") for name in children])
    operation = bulk(world, "cancel", filter=TaskFilter(states=["delayed"]))

    view = undo(world, operation)

    assert (view.seen, view.matched, told(view).children) == (3, 3, 60)
    assert len(told(view).children_named) == undo_steps.NAMES_MOST


def test_an_end_of_the_project_since_is_named_and_stays(make_world: MakeWorld) -> None:
    world = make_world({"on_finished": {"body": "report"}})
    world.push("news", task("a"), task("b"))
    operation = bulk(world, "cancel")
    fetcher = world.fetcher()
    assert fetcher.taken == ["on_finished"]

    view = undo(world, operation)

    assert (told(view).finished, told(view).finished_named) == (1, ["news"])
    fetcher.finish_all()
    assert world.event_kinds().count("finished") == 2


def test_a_flow_that_ended_since_is_named_and_runs_on(world: World) -> None:
    flow(world, task("a"), waiting("b", "a"))
    flow(world, task("c"), name="whole")
    operation = bulk(world, "cancel", filter=TaskFilter(url="*/[ab]"))
    assert show_flow(world).state == "cancelled"

    view = undo(world, operation)

    assert (told(view).flows, told(view).flows_named) == (1, ["f"])
    assert show_flow(world).state == "running"
    world.fetcher().finish_all()
    assert show_flow(world).state == "success"


def test_a_dropped_task_whose_retry_and_cancel_are_undone_is_dropped_again(world: World) -> None:
    flow(world, task("a"), waiting("b", "a", on_failure="only"), waiting("c", "b"))
    fetcher = world.fetcher(capacity=1)
    fetcher.capacity = 0
    fetcher.finish_all()
    fetcher.hello()
    retried = bulk(world, "retry", filter=TaskFilter(states=["cancelled"], url="*/b"))
    cancelled = bulk(world, "cancel")
    assert show_flow(world).state == "cancelled"

    undo(world, cancelled)
    undo(world, retried)

    world.crash()
    assert [state_of(world, name) for name in "abc"] == ["success", "cancelled", "cancelled"]
    assert show_flow(world).state == "success"


def test_a_task_kept_by_a_rerun_comes_back_ready(world: World) -> None:
    world.push("news", task("a"), waiting("b", "a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.finish_all()
    fetcher.hello(capacity=0)
    (reply,) = world.turn(Rerun(**WHO, n=world.n(), project="news", taskid="a", scope="downstream"))
    assert isinstance(reply, OperationReply)
    while world.known()[0].exetime != HELD_UNTIL:
        world.turn()
    operation = begin(world, "cancel", filter=TaskFilter(url="*/a"))
    world.settle()

    assert undo(world, show(world, operation)).matched == 1
    assert state_of(world, "a") == "ready"


# ---------------------------------------------------------------------------------------- an operation, in steps


@pytest.mark.parametrize("steps", range(5))
@pytest.mark.parametrize("how", ["restart", "reboot"])
def test_an_undo_goes_on_after_a_restart_where_it_was(world: World, steps: int, how: str) -> None:
    many(world)
    number = begin_undo(world, bulk(world, "cancel").id)
    for _ in range(steps):
        world.turn()

    getattr(world, how)()

    view = show(world, number)
    assert (view.known, view.seen, view.matched, bool(view.ended_at)) == (MANY, MANY, MANY, True)
    assert world.counts() == TaskCounts(delayed=MANY)
    assert not rows(world)


@pytest.mark.parametrize("steps", range(5))
def test_an_operation_that_a_restart_interrupted_is_undone_whole(world: World, steps: int) -> None:
    many(world)
    operation = begin(world, "cancel")
    for _ in range(steps):
        world.turn()
    world.restart()
    world.settle()

    assert undo(world, show(world, operation)).matched == MANY


def test_an_undo_takes_steps_between_which_tasks_are_dispatched(world: World) -> None:
    many(world)
    number = begin_undo(world, bulk(world, "cancel").id)

    seen = []
    while not (view := show(world, number)).ended_at:
        seen.append(view.seen)
    assert seen == [0, PAGE_TASKS, 2 * PAGE_TASKS]


def test_short_pages_are_undone_many_in_a_step(world: World) -> None:
    many(world)
    operation = bulk(world, "cancel", filter=TaskFilter(url="*[05]0"))
    assert len(rows(world)) == 3
    number = begin_undo(world, operation.id)
    world.turn()

    view = show(world, number)
    assert (view.matched, bool(view.ended_at)) == (12, True)


def test_a_cancelled_undo_leaves_the_rest_to_another_one(world: World) -> None:
    many(world)
    operation = bulk(world, "cancel")
    first = begin_undo(world, operation.id)
    world.turn()
    end(world, first)
    view = show(world, first)
    assert (view.cancelled, view.matched) == (True, PAGE_TASKS)
    assert (show(world, operation.id).rows, show(world, operation.id).undone_by) == (MANY - PAGE_TASKS, 0)
    world.restart()

    assert undo(world, operation).matched == MANY - PAGE_TASKS
    assert world.counts() == TaskCounts(delayed=MANY)
    assert not rows(world)


def test_a_cancelled_operation_is_undone_as_far_as_it_went(world: World) -> None:
    many(world)
    operation = begin(world, "cancel")
    world.turn()
    end(world, operation)

    view = undo(world, show(world, operation))
    assert view.matched == view.known < MANY
    assert world.counts() == TaskCounts(delayed=MANY)


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
@pytest.mark.parametrize("steps", range(4))
def test_an_undo_ends_well_when_its_project_is_dropped_meanwhile(world: World, action: str, steps: int) -> None:
    many(world)
    number = begin_undo(world, bulk(world, "cancel").id)
    for _ in range(steps):
        world.turn()

    world.do(action)
    world.settle()

    view = show(world, number)
    assert (view.seen, bool(view.ended_at)) == (MANY, True)
    assert view.matched + told(view).gone == MANY
    assert not rows(world)


def test_an_undo_waits_until_cleared_tasks_are_swept(world: World) -> None:
    many(world)
    operation = bulk(world, "cancel", filter=TaskFilter(url="*0[0-4]?"))
    number = begin_undo(world, operation.id)
    world.do("clear")
    world.settle()

    assert show(world, number).matched == operation.matched
    assert world.counts() == TaskCounts(delayed=operation.matched)


def test_beginning_and_end_of_an_undo_are_logged_with_its_author(world: World) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")
    world.turn(OperationUndo(session="person", n=world.n(), id=operation.id, actor="anna"))
    world.settle()

    entries = world.ask(LogReply, Log(**WHO, n=world.n(), project="news")).entries
    said = [(each.what, each.actor, each.count, each.detail) for each in entries if each.what == "operation undo"]
    assert said == [
        ("operation undo", "anna", 3, "operation 2"),
        ("operation undo", "anna", 0, "operation 2 begins: cancel, operation 1"),
    ]


def test_a_repeated_undo_request_starts_nothing_new(world: World) -> None:
    many(world, 3)
    asked = OperationUndo(**WHO, n=world.n(), id=bulk(world, "cancel").id)

    assert world.answer(asked) == world.answer(asked)
    assert show(world, 2).matched == 3


# ---------------------------------------------------------------------------------------- what can be undone


def test_an_operation_is_undone_once_and_an_undo_never(world: World) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")
    number = begin_undo(world, operation.id)
    (reply,) = world.turn(OperationUndo(**WHO, n=world.n(), id=operation.id))
    assert isinstance(reply, ErrorReply)
    assert reply.reason == "id: operation 1 is being undone by operation 2"
    world.settle()
    view = show(world, number)

    assert refused(world, operation) == "id: operation 1 is undone by operation 2"
    assert refused(world, view) == "id: operation 2 is an undo; do again what it took back"
    assert (show(world, operation.id).undone_by, show(world, operation.id).rows) == (2, 0)


def test_what_is_no_change_of_tasks_by_a_filter_is_refused(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {"group": "g"}})
    world.push("news", task("a", delay=50))
    dry = bulk(world, "cancel", dry_run=True)
    empty = bulk(world, "retry")
    (paused,) = world.turn(GroupDo(**WHO, n=world.n(), group="g", action="pause"))
    assert isinstance(paused, OperationReply)

    assert refused(world, dry) == "id: operation 1 was a dry run, which changes nothing"
    assert refused(world, empty) == "id: operation 2 has changed no task"
    assert refused(world, paused.operation) == (
        "id: operation 3 is a pause; only retry, cancel, reprioritise, reschedule can be undone"
    )
    assert world.ask(ErrorReply, OperationUndo(**WHO, n=world.n(), id=9)).code == "unknown-operation"


def test_a_running_operation_is_not_undone(world: World) -> None:
    many(world)
    operation = begin(world, "cancel")

    reply = world.turn(OperationUndo(**WHO, n=world.n(), id=operation))[0]
    assert isinstance(reply, ErrorReply)
    assert reply.reason == "id: operation 1 still runs; wait for its end, or cancel it first"


def test_an_operation_from_before_rows_were_kept_is_not_undone(world: World) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")
    (key,) = world.disk.families[layout.OPERATIONS].keys
    record = layout.decode_operation(world.disk.families[layout.OPERATIONS].values[key])
    record.rows, record.progress.rows = None, 0
    store = MemoryStore(world.disk)
    store.write(store.begin(), Batch(puts={layout.OPERATIONS: [(key, layout.encode(record))]}))
    store.write(store.begin(), Batch(drops=[(layout.UNDO_ROWS, b"", layout.LAST_KEY)]))
    world.restart()

    assert refused(world, operation) == "id: operation 1 can't be undone: it began before changes were remembered"


def test_rows_are_kept_for_seven_days(world: World) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")
    world.advance(KEPT_SECONDS - 1)
    assert show(world, operation.id).rows == 3
    world.restart()

    world.advance(2)

    assert not rows(world)
    assert refused(world, operation) == ("id: operation 1 can't be undone any more: it ended more than 7 days ago")
    assert show(world, operation.id).no_undo == "it ended more than 7 days ago"


def test_rows_of_the_last_ten_operations_are_kept(world: World) -> None:
    many(world, 3)
    done = [bulk(world, "reprioritise", priority=number) for number in range(OPERATIONS_MOST + 2)]

    assert [show(world, each.id).rows for each in done] == [0, 0] + [3] * OPERATIONS_MOST
    assert len(rows(world)) == OPERATIONS_MOST
    assert refused(world, done[0]).endswith("only the last 10 operations that changed tasks can be undone")


def test_beyond_two_million_rows_those_of_the_oldest_operation_go_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo_rows, "ROWS_MOST", MANY + 5)
    many(world)
    first = bulk(world, "reprioritise", priority=1, filter=TaskFilter(url="*000?"))
    second = bulk(world, "reprioritise", priority=2)

    assert "later operations took its place" in show(world, first.id).no_undo
    assert show(world, second.id).rows == MANY
    assert undo(world, second).matched == MANY
    assert bulk(world, "reprioritise", priority=3, filter=TaskFilter(url="*000?")).rows == 10


def test_an_operation_of_too_many_rows_goes_on_without_any(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo_rows, "ROWS_MOST", PAGE_TASKS + 1)
    many(world)
    operation = bulk(world, "cancel")

    assert (operation.matched, operation.rows) == (MANY, 0)
    assert "it changed more tasks than" in refused(world, operation)
    assert not rows(world)


def test_operations_that_can_be_undone_are_remembered_beyond_a_hundred_others(world: World) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")
    for _ in range(ENDED_KEPT + 1):
        bulk(world, "retry", dry_run=True)
    world.restart()

    assert undo(world, operation).matched == 3


def test_an_operation_that_is_forgotten_in_the_turn_in_which_its_rows_go_is_not_stored_again(world: World) -> None:
    many(world, 3)
    first = bulk(world, "cancel").id
    for priority in range(1, OPERATIONS_MOST):
        world.push("news", task(f"more {priority}"))
        bulk(world, "reprioritise", priority=priority)
    while len(operations(world)) < ENDED_KEPT:
        bulk(world, "retry", dry_run=True)
    known = {view.id for view in operations(world)}
    assert first in known

    last = bulk(world, "reprioritise", priority=99)
    world.restart()

    assert {view.id for view in operations(world)} == known - {first} | {last.id}


@pytest.mark.parametrize("action", ["reset", "delete"])
def test_rows_go_with_their_project(world: World, action: str) -> None:
    many(world, 3)
    operation = bulk(world, "cancel")

    world.do(action)

    assert not rows(world)
    assert refused(world, operation).endswith("its project was reset or deleted")


def test_rows_of_several_projects_stay_when_one_of_these_is_deleted(make_world: MakeWorld) -> None:
    world = make_world(projects={name: {"group": "g"} for name in ("news", "shop")})
    for name in ("news", "shop"):
        world.push(name, task("a"))
    operation = bulk(world, "cancel", group="g")

    world.do("delete", "shop")

    assert len(rows(world)) == 2
    assert not check(MemoryStore(world.disk), Findings()).problems
    world.advance(KEPT_SECONDS + 1)
    assert not rows(world)
    assert refused(world, operation).endswith("it ended more than 7 days ago")


def test_an_operation_whose_project_is_reset_while_it_runs_leaves_no_rows(world: World) -> None:
    many(world)
    operation = begin(world, "cancel")
    world.turn()

    world.do("reset")
    world.settle()

    assert show(world, operation).ended_at
    assert not rows(world)
