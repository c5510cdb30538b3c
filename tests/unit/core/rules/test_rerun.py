"""Reruns of a task, with those that depend on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.core.steps.rerun import LAYERS_SHOWN, TASKIDS_SHOWN
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.operations import Bulk, OperationCancel, OperationReply, OperationShow, Rerun
from taskqueue.protocol.tasks import TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import Operation, RerunLayer, RerunProgress, TaskOf
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import HOUR

WHO: dict[str, Any] = {"session": "person"}

EXAMPLE: Mapping[str, Sequence[str]] = {
    "A": "", "B": "", "C": "", "D": "AB", "E": "BC", "F": "AD", "G": "DE", "H": "DE", "I": "CE",
}  # fmt: skip
"""Parents of each task."""


def push(world: World, graph: Mapping[str, Sequence[str | TaskOf]], project: str = "news", **schedule: Any) -> None:
    for taskid, parents in graph.items():
        world.push(project, replace(task(taskid, **schedule), depends_on=tuple(parents)))


def done(world: World, graph: Mapping[str, Sequence[str | TaskOf]] = EXAMPLE) -> Fetcher:
    """Make a graph whose tasks have all succeeded; return their fetcher."""
    push(world, graph)
    fetcher = world.fetcher()
    fetcher.finish_all()
    fetcher.taken.clear()
    return fetcher


def request(world: World, taskid: str, scope: Any = "downstream", **fields: Any) -> Rerun:
    return Rerun(**WHO, n=world.n(), **{"project": "news", "taskid": taskid, "scope": scope} | fields)


def begin(world: World, taskid: str, scope: Any = "downstream", **fields: Any) -> int:
    """Start a rerun without further turns; return its id."""
    (reply,) = world.turn(request(world, taskid, scope, **fields))
    assert isinstance(reply, OperationReply), reply
    return reply.operation.id


def show(world: World, operation: int) -> Operation:
    """Show an operation, in a single turn."""
    (reply,) = world.turn(OperationShow(**WHO, n=world.n(), id=operation))
    assert isinstance(reply, OperationReply), reply
    return reply.operation


def rerun(world: World, taskid: str, scope: Any = "downstream", **fields: Any) -> Operation:
    """Run a rerun to its end."""
    operation = begin(world, taskid, scope, **fields)
    world.settle()
    return show(world, operation)


def rerun_of(view: Operation) -> RerunProgress:
    assert view.rerun is not None
    return view.rerun


def until(world: World, phase: str) -> None:
    """Take turns until the running rerun is about to take its first step of a phase."""
    for _ in range(100):
        (operation,) = world.scheduler._state.operations.running.values()
        if operation.record.cursor is not None and operation.record.cursor.phase == phase:
            return
        world.turn()
    raise AssertionError(f"it never came to {phase}")


def cancel(world: World, operation: int) -> Operation:
    (reply,) = world.turn(OperationCancel(**WHO, n=world.n(), id=operation))
    assert isinstance(reply, OperationReply), reply
    return reply.operation


def state_of(world: World, taskid: str, project: str = "news") -> str:
    return world.show(taskid, project).state


def why(world: World, taskid: str) -> str:
    return world.ask(WhyReply, Why(**WHO, n=world.n(), project="news", taskid=taskid)).sentence


def retry(world: World, *taskids: str) -> None:
    world.ask(TasksReply, TaskRetry(**WHO, n=world.n(), project="news", taskids=list(taskids)))


def fail(fetcher: Fetcher, taskid: str) -> None:
    fetcher.hello()
    assert fetcher.done(taskid, ok=False, retry=False) == "done"


def rest(world: World) -> list[bytes]:
    """List the store's keys of sets of reruns."""
    return world.disk.families[layout.RERUNS].keys


def in_order(taken: Sequence[str], graph: Mapping[str, Sequence[str]]) -> bool:
    """Whether each task came after all of its parents that came, too."""
    return all(
        taken.index(parent) < taken.index(taskid) for taskid in taken for parent in graph[taskid] if parent in taken
    )


# ---------------------------------------------------------------------------------------- which, and in what order


def test_downstream_runs_the_task_and_all_that_depends_on_it_once_and_in_order(world: World) -> None:
    fetcher = done(world)

    view = rerun(world, "A")
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["A", "D", "F", "G", "H"]
    assert in_order(fetcher.taken, EXAMPLE)
    assert (view.known, view.seen, view.matched, rerun_of(view).passed) == (5, 5, 5, 0)
    assert world.counts().success == 9


def test_alone_only_the_task_itself_runs(world: World) -> None:
    fetcher = done(world)

    rerun(world, "D", "task")
    fetcher.finish_all()
    assert fetcher.taken == ["D"]


def test_upstream_failed_takes_what_has_failed_on_the_way_up_and_the_task(world: World) -> None:
    push(world, {"ok": "", "bad": ["ok"], "worse": [], "mid": ["bad", "worse"], "late": [], "end": ["mid", "late"]})
    world.push("news", task("late", exetime=world.now.wall + HOUR, force_update=True))
    fetcher = world.fetcher()
    fetcher.done("ok")
    fail(fetcher, "bad")
    fail(fetcher, "worse")
    fetcher.taken.clear()

    view = rerun(world, "end", "upstream-failed")
    assert view.known == 4, "what is a success, and what will run by itself, is not among them"
    fetcher.finish_all()
    assert sorted(fetcher.taken[:2]) == ["bad", "worse"]
    assert fetcher.taken[2:] == ["mid"]
    assert "late" in why(world, "end")


def test_upstream_failed_does_not_look_behind_a_success(world: World) -> None:
    fetcher = done(world, {"a": "", "b": "a", "c": "b"})
    world.push("news", task("a", force_update=True))
    fail(fetcher, "a")
    fetcher.taken.clear()

    rerun(world, "c", "upstream-failed")
    fetcher.finish_all()
    assert fetcher.taken == ["c"]


def test_only_failed_takes_what_failed_or_was_cancelled_of_the_task_and_all_that_depends_on_it(world: World) -> None:
    fetcher = done(world, {"a": "", "b": "a", "c": "b", "d": "b", "e": "d"})
    retry(world, "c", "d")
    fail(fetcher, "c")
    world.ask(TasksReply, TaskCancel(**WHO, n=world.n(), project="news", taskids=["d"]))
    fetcher.held.clear()
    fetcher.hello()
    fetcher.taken.clear()

    view = rerun(world, "a", "only-failed")
    assert (view.seen, view.known, view.matched) == (5, 2, 2)
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["c", "d"]


def test_what_failed_with_the_task_runs_after_it_by_only_failed(world: World) -> None:
    push(world, {"a": "", "b": "a", "c": "ab", "x": ""})
    fetcher = world.fetcher()
    fetcher.done("x")
    fail(fetcher, "a")
    fetcher.taken.clear()

    assert rerun(world, "a", "only-failed").matched == 3
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b", "c"]


def test_many_paths_lead_to_one_run(world: World) -> None:
    graph: dict[str, list[str]] = {"0.0": []}
    for level in range(1, 8):
        graph |= {f"{level}.{place}": [each for each in graph if each[0] == str(level - 1)] for place in range(3)}
    fetcher = done(world, graph)

    rerun(world, "0.0")
    fetcher.finish_all()
    assert sorted(fetcher.taken) == sorted(graph)
    assert in_order(fetcher.taken, graph)


def test_edges_between_projects_are_followed(world: World) -> None:
    fetcher = done(world, {"a": ""})
    push(world, {"b": [TaskOf("news", "a")]}, project="shop")
    push(world, {"c": [TaskOf("shop", "b")]})
    fetcher.finish_all()
    fetcher.taken.clear()

    view = rerun(world, "a")
    assert [layer.taskids for layer in rerun_of(view).layers] == [["a"], ["shop/b"], ["c"]]
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b", "c"]


def test_a_task_without_edges_runs_again(world: World) -> None:
    fetcher = done(world, {"a": ""})

    assert rerun(world, "a").matched == 1
    fetcher.finish_all()
    assert fetcher.taken == ["a"]


def test_a_rerun_task_has_all_its_retries(world: World) -> None:
    push(world, {"a": ""}, retries=1)
    fetcher = world.fetcher()
    fetcher.fail("a")
    assert world.show("a").retried == 1

    rerun(world, "a", "task")
    assert world.show("a").retried == 0
    assert "a" in fetcher.held


# ---------------------------------------------------------------------------------------- layers, dry run


def test_a_dry_run_says_the_layers_and_touches_nothing(world: World) -> None:
    fetcher = done(world)

    view = rerun(world, "A", dry_run=True)
    assert [sorted(layer.taskids) for layer in rerun_of(view).layers] == [["A"], ["D"], ["F", "G", "H"]]
    assert [layer.tasks for layer in rerun_of(view).layers] == [1, 1, 3]
    assert (rerun_of(view).depth, view.known, view.matched) == (3, 5, 5)
    assert world.counts().success == 9
    assert not fetcher.taken
    assert not rest(world)


def test_layers_are_shown_up_to_a_bound(make_world: MakeWorld) -> None:
    world = make_world()
    many = {f"w{number}": ["a"] for number in range(TASKIDS_SHOWN)}
    chain = {f"c{number}": [f"c{number - 1}"] if number else ["a"] for number in range(LAYERS_SHOWN + 5)}
    push(world, {"a": [], **many, **chain})

    view = rerun(world, "a", dry_run=True)
    assert rerun_of(view).depth == LAYERS_SHOWN + 6
    assert len(rerun_of(view).layers) == LAYERS_SHOWN
    assert rerun_of(view).layers[1].tasks == TASKIDS_SHOWN + 1
    assert sum(len(layer.taskids) for layer in rerun_of(view).layers) == TASKIDS_SHOWN
    assert rerun_of(view).layers[-1] == RerunLayer(1)


# ---------------------------------------------------------------------------------------- refused, passed by


def test_an_unknown_task_is_refused(world: World) -> None:
    reply = world.ask(ErrorReply, request(world, "nothing"))

    assert reply.code == "unknown-task"


def test_bare_tasks_are_reported_and_passed_by_and_what_depends_on_them_runs(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"success": 60, "then": "remember"}})
    push(world, {"a": "", "b": "a"})
    fetcher = world.fetcher()
    fetcher.finish_all()
    world.advance(70)
    fetcher.hello()
    push(world, {"a": ""}, force_update=True)
    push(world, {"c": "b"})
    fetcher.finish_all()
    fetcher.taken.clear()

    view = rerun(world, "a")
    assert (view.matched, rerun_of(view).passed) == (2, 1)
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["a", "c"]


def test_what_is_forgotten_meanwhile_is_passed_by(make_world: MakeWorld) -> None:
    world = make_world({"keep": {"success": 10, "then": "forget"}}, turn_tasks=2)
    fetcher = done(world, {"a": "", "b": "a"})
    world.advance(9)
    fetcher.hello()
    world.push("news", task("a", force_update=True))
    fetcher.finish_all()
    push(world, {"c": "b"})
    fetcher.finish_all()
    fetcher.taken.clear()
    operation = begin(world, "a")
    until(world, "order")
    world.elapsed += 2
    until(world, "reset")
    world.settle()

    view = show(world, operation)
    assert (view.known, view.matched, rerun_of(view).passed) == (3, 2, 1)
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["a", "c"]


# ---------------------------------------------------------------------------------------- what happens meanwhile


def test_no_task_runs_before_all_are_reset(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world)
    begin(world, "A")
    until(world, "reset")
    world.turn()
    (reply,) = world.turn(Why(**WHO, n=world.n(), project="news", taskid="A"))
    assert isinstance(reply, WhyReply)
    assert "is kept by a rerun, and runs again once the rerun has reset all of its tasks" in reply.sentence
    until(world, "release")

    assert not fetcher.taken
    world.settle()
    assert fetcher.taken == ["A"]


def test_a_link_to_a_task_does_not_let_it_run_before_all_are_reset(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world)
    begin(world, "A")
    until(world, "reset")
    world.turn()

    assert world.push("news", task("A")) == ["ignored"]
    fetcher.finish_all()
    assert in_order(fetcher.taken, EXAMPLE)
    assert sorted(fetcher.taken) == ["A", "D", "F", "G", "H"]


def test_what_is_processing_loses_its_lease_and_runs_again_in_its_place(world: World) -> None:
    fetcher = done(world)
    world.push("news", task("A", force_update=True))
    push(world, {"D": "AB"}, force_update=True)
    fetcher.hello()
    old = fetcher.finished("A")
    rerun(world, "A")
    (again,) = [each for each in fetcher.messages[-1].tasks if each.taskid == "A"]

    assert again.token != old.token
    assert fetcher.forge("A", old.token) == "stale"
    fetcher.finish_all()
    assert in_order(fetcher.taken[1:], EXAMPLE)
    assert sorted(fetcher.taken[1:]) == ["A", "D", "F", "G", "H"]


def test_an_update_that_waits_for_the_end_of_the_lease_takes_effect(world: World) -> None:
    fetcher = done(world, {"a": "", "b": "a"})
    world.push("news", task("a", force_update=True))
    fetcher.hello()
    assert world.push("news", task("a", body="new", force_update=True)) == ["deferred"]
    fetcher.held.clear()
    rerun(world, "a")

    fetcher.hello()
    fetcher.finish_all()
    assert fetcher.taken[-2:] == ["a", "b"]
    assert bytes(world.show("a").body) == b"\xa3new"


def test_a_success_of_before_does_not_satisfy_what_was_reset(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    graph: dict[str, list[str]] = {"r": [], "a": ["r"]} | {f"c{number}": ["a"] for number in range(6)}
    fetcher = done(world, graph)
    push(world, {"a": ["r"]}, force_update=True)
    world.push("news", *(replace(task(f"c{number}", force_update=True), depends_on=("a",)) for number in range(6)))
    fetcher.hello()
    fetcher.capacity = 1
    fetcher.hello()
    begin(world, "r")
    until(world, "reset")
    world.turn(fetcher.answers(fetcher.finished("a")))
    world.settle()
    assert world.counts().blocked == 7, "the first of what waited for a has been told of its old success, or has not"

    fetcher.capacity = 100
    fetcher.held.clear()
    fetcher.taken.clear()
    fetcher.hello()
    fetcher.finish_all()
    assert sorted(fetcher.taken) == sorted(graph)
    assert in_order(fetcher.taken, graph)


def test_a_parent_that_ends_its_old_run_after_it_was_collected_runs_again_before_its_children(
    make_world: MakeWorld,
) -> None:
    world = make_world(turn_tasks=2)
    graph = {"r": "", "a": "r", "b": "a"}
    fetcher = done(world, graph)
    push(world, {"a": "r"}, force_update=True)
    fetcher.hello()
    fetcher.taken.clear()
    begin(world, "r")
    until(world, "reset")
    world.turn(fetcher.answers(fetcher.finished("a")))
    world.settle()

    fetcher.hello()
    fetcher.finish_all()
    assert fetcher.taken == ["r", "a", "b"]


def test_children_that_are_pushed_meanwhile_are_not_met(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world, {"a": "", "b": "a"})
    operation = begin(world, "a")
    until(world, "order")
    push(world, {"c": "a"})
    fetcher.hello()
    fetcher.finish_all()

    assert show(world, operation).matched == 2
    assert sorted(fetcher.taken) == ["a", "b", "c"]


@pytest.mark.parametrize("phase", ["order", "reset", "release"])
def test_a_task_that_is_pushed_anew_meanwhile_is_left_as_it_is(make_world: MakeWorld, phase: str) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world, {"a": "", "b": "a", "c": "b", "x": ""})
    fetcher.capacity = 0
    fetcher.hello()
    begin(world, "a")
    until(world, phase)
    world.push("news", replace(task("b", force_update=True), depends_on=("x",)))
    world.settle()
    fetcher.capacity = 10
    fetcher.hello()
    fetcher.finish_all()

    assert sorted(fetcher.taken) == ["a", "b", "c"]
    assert world.counts().success == 4


def test_a_task_that_is_given_other_parents_while_it_is_processing_keeps_its_lease(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world, {"a": "", "x": ""})
    world.push("news", task("a", force_update=True))
    fetcher.hello()
    report = fetcher.finished("a")
    begin(world, "a")
    until(world, "reset")
    assert world.push("news", replace(task("a", force_update=True), depends_on=("x",))) == ["deferred"]
    world.settle()

    assert fetcher.forge("a", report.token) == "done"


def test_what_waits_for_others_outside_of_the_set_waits_for_these_too(world: World) -> None:
    push(world, {"a": "", "late": "", "b": ["a", "late"]})
    world.push("news", task("late", exetime=world.now.wall + HOUR, force_update=True))
    fetcher = world.fetcher()
    fetcher.finish_all()
    rerun(world, "a")

    fetcher.finish_all()
    assert '"late"' in why(world, "b")
    world.advance(HOUR)
    fetcher.hello()
    fetcher.finish_all()
    assert fetcher.taken == ["a", "a", "late", "b"]


def test_a_task_with_a_failed_parent_outside_of_the_set_fails_again(world: World) -> None:
    push(world, {"a": "", "o": "", "b": ["a", "o"]})
    fetcher = world.fetcher()
    fetcher.done("a")
    fail(fetcher, "o")
    rerun(world, "a")

    fetcher.finish_all()
    assert world.show("b").error == "upstream: o"


def test_the_first_task_is_blocked_if_it_waits_for_others(world: World) -> None:
    push(world, {"a": "", "b": "a"})
    fetcher = world.fetcher()
    fail(fetcher, "a")
    rerun(world, "b", "task")

    assert state_of(world, "b") == "blocked"
    retry(world, "a")
    fetcher.finish_all()
    assert state_of(world, "b") == "success"


def test_of_a_recurring_task_the_next_success_counts(world: World) -> None:
    push(world, {"a": ""}, auto_recrawl=True, age=HOUR)
    push(world, {"b": "a"})
    fetcher = world.fetcher()
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b"]

    rerun(world, "a")
    fetcher.finish_all()
    assert fetcher.taken == ["a", "b", "a", "b"]
    assert state_of(world, "a") == "delayed"


def test_reruns_go_one_after_the_other(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world)
    fetcher.capacity = 0
    fetcher.hello()
    first, second = begin(world, "A"), begin(world, "B")
    while not show(world, first).ended_at:
        assert not show(world, second).matched
    world.settle()

    assert show(world, second).matched == 7
    fetcher.capacity = 100
    fetcher.hello()
    fetcher.finish_all()
    assert sorted(fetcher.taken) == ["A", "B", "D", "E", "F", "G", "H", "I"]
    assert in_order(fetcher.taken, EXAMPLE)


def test_a_rerun_ends_well_when_its_project_is_cleared_or_deleted(make_world: MakeWorld) -> None:
    for action in ("clear", "reset", "delete"):
        for phase in ("order", "reset", "release"):
            world = make_world(turn_tasks=2)
            done(world)
            operation = begin(world, "A")
            until(world, phase)
            world.do(action)
            world.settle()
            assert show(world, operation).ended_at
            assert not rest(world)


# ---------------------------------------------------------------------------------------- cancelled


@pytest.mark.parametrize("phase", ["walk", "order"])
def test_cancelled_before_anything_is_reset_it_leaves_no_trace(make_world: MakeWorld, phase: str) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world)
    operation = begin(world, "A")
    until(world, phase)
    before = {family: dict(world.disk.families[family].values) for family in (*layout.PROJECT_FAMILIES, "parents")}
    view = cancel(world, operation)
    world.settle()

    assert view.cancelled
    assert view.ended_at
    assert not rest(world)
    assert before == {family: dict(world.disk.families[family].values) for family in before}
    assert not fetcher.taken


def test_cancelled_when_it_was_about_to_reset_tasks_it_ends(make_world: MakeWorld) -> None:
    world = make_world()
    fetcher = done(world)
    operation = begin(world, "A")
    until(world, "reset")
    cancel(world, operation)
    world.settle()

    assert show(world, operation).ended_at
    assert not rest(world)
    assert not fetcher.taken


def test_cancelled_while_tasks_are_reset_what_was_reset_runs(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = done(world)
    operation = begin(world, "A")
    until(world, "reset")
    world.turn()
    assert 0 < cancel(world, operation).matched < 5
    world.settle()

    fetcher.finish_all()
    assert len(fetcher.taken) == show(world, operation).matched
    assert in_order(fetcher.taken, EXAMPLE)
    assert world.counts().success == 9


def test_any_operation_can_be_cancelled(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    world.push("news", *(task(f"t{number}") for number in range(10)))
    bulk = Bulk(**WHO, n=world.n(), action="cancel", project="news")
    (reply,) = world.turn(bulk)
    assert isinstance(reply, OperationReply)
    world.turn()
    view = cancel(world, reply.operation.id)
    world.settle()

    assert view.cancelled
    assert view.ended_at
    assert world.counts().cancelled == view.matched == 2


def test_what_has_ended_or_was_cancelled_can_not_be_cancelled(world: World) -> None:
    done(world)
    view = rerun(world, "A")

    reply = world.ask(ErrorReply, OperationCancel(**WHO, n=world.n(), id=view.id))
    assert reply.code == "state"


# ---------------------------------------------------------------------------------------- steps, crashes


@pytest.mark.parametrize("scope", ["downstream", "upstream-failed", "only-failed", "task"])
def test_it_goes_on_after_a_crash_at_any_turn(make_world: MakeWorld, scope: str) -> None:
    world = make_world(turn_tasks=2)
    push(world, EXAMPLE)
    fetcher = world.fetcher()
    if scope == "downstream":
        fetcher.finish_all()
    else:
        fetcher.done("B")
        fetcher.done("C")
        fail(fetcher, "A")
        fetcher.finish_all()
    taken = {"downstream": "ADFGH", "upstream-failed": "ADFGH", "only-failed": "ADFGH", "task": "F"}[scope]
    fetcher.taken.clear()
    operation = begin(world, "F" if scope in ("upstream-failed", "task") else "A", scope)
    while not show(world, operation).ended_at:
        world.crash()
        fetcher.hello()
    world.settle()
    fetcher.hello()
    fetcher.finish_all()

    assert not rest(world)
    if scope == "task":
        assert state_of(world, "F") == "blocked"
        return
    assert sorted(fetcher.taken) == list(taken)
    assert in_order(fetcher.taken, EXAMPLE)


def test_a_wide_set_is_dealt_with_in_bounded_steps(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=16)
    graph: dict[str, list[str]] = {"a": []} | {f"c{number}": ["a"] for number in range(100)}
    fetcher = done(world, graph)
    operation = begin(world, "a")
    while not show(world, operation).ended_at:
        assert len(world.kept.moves) <= 16

    fetcher.hello()
    fetcher.finish_all()
    assert sorted(fetcher.taken) == sorted(graph)


def test_a_chain_takes_few_steps(world: World) -> None:
    graph = {f"{number:03}": [f"{number - 1:03}"] if number else [] for number in range(100)}
    fetcher = done(world, graph)
    operation = begin(world, "000")
    steps = 0
    while not show(world, operation).ended_at:
        steps += 1

    assert steps <= 10
    fetcher.finish_all()
    assert fetcher.taken == list(graph)


def test_a_rerun_drops_a_task_that_runs_only_after_a_failure_unless_it_begins_with_it(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), replace(task("b"), depends_on=("a",), on_parent_failure="only"))
    fetcher.hello()
    fetcher.done("a")
    world.settle()

    rerun(world, "a")
    fetcher.hello()
    fetcher.done("a")
    world.settle()
    assert world.show("b").state == "cancelled"
    rerun(world, "b", "task")
    fetcher.hello()
    assert "b" in fetcher.held
