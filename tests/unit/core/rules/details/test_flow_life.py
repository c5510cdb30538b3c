"""Life of a flow, in detail: tasks with parents that have gone, and tasks that run again after its end."""

from __future__ import annotations

import pytest

from taskqueue.protocol.flows import FlowCancel
from taskqueue.protocol.tasks import TaskRetry
from taskqueue.protocol.values import TaskOf
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.test_dependencies import run, state_of, waiting
from tests.unit.core.rules.test_flows import begin_making, cancel, flow, retry, show, show_now


def make_x(world: World, on_failure: str) -> Fetcher:
    """Make a flow with a task x that waits for a, and for a task of a project that is deleted before x is made."""
    others = (task(taskid) for taskid in "bcdef")
    x = waiting("x", "a", TaskOf("shop", "y"), on_failure=on_failure)  # type: ignore[arg-type]
    begin_making(world, task("a"), *others, x)
    world.do("delete", "shop")
    world.settle()
    return world.fetcher()


def test_what_waits_for_a_deleted_project_has_failed_whatever_else_it_waits_for(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = make_x(world, "fail")

    assert state_of(world, "x") == "failed"
    assert world.show("x").error == "upstream: a deleted project/y"
    fetcher.finish_all()
    assert state_of(world, "a") == "success"
    assert state_of(world, "x") == "failed"
    assert show(world).state == "failed"


def test_what_waits_for_a_deleted_project_stays_blocked_if_it_is_to_wait(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = make_x(world, "wait")

    fetcher.finish_all()
    assert state_of(world, "x") == "blocked"
    world.restart()
    assert state_of(world, "x") == "blocked"


def test_what_waits_for_a_deleted_project_runs_after_the_others_if_it_is_to_run(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = make_x(world, "run")

    assert state_of(world, "x") == "blocked"
    run(fetcher, "a")
    run(fetcher, "x")


def test_what_waits_for_a_deleted_project_waits_again_if_it_is_retried(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    make_x(world, "fail").finish_all()

    retry(world, "x")
    assert state_of(world, "x") == "blocked"


def test_a_cancelled_flow_that_is_retried_runs_and_ends_as_its_tasks_do(world: World) -> None:
    fetcher = world.fetcher(capacity=0)
    flow(world, task("a"), waiting("b", "a"))
    cancel(world)
    assert show(world).ended_at

    retry(world, "a", "b")
    assert (show(world).state, show(world).ended_at) == ("running", 0.0)
    fetcher.capacity = 1
    fetcher.hello()
    fetcher.finish_all()
    assert show(world).state == "success"
    assert show(world).ended_at


def test_a_flow_that_runs_again_after_it_was_cancelled_can_be_cancelled_again(world: World) -> None:
    flow(world, task("a"), task("b"))
    cancel(world)
    retry(world, "a")

    cancel(world)
    assert (show(world).state, show(world).counts.cancelled) == ("cancelled", 2)
    assert show(world).ended_at


def test_of_a_cancelled_flow_what_was_not_made_is_not_made_when_it_runs_again(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(f"t{number}") for number in range(20)))
    world.turn()
    cancel(world)
    made = show(world).unrolled

    retry(world, "t0")
    assert show(world).state == "running"
    world.fetcher().finish_all()
    assert (show(world).state, show(world).counts.success, show(world).unrolled) == ("cancelled", 1, made)


def test_a_task_that_is_retried_while_its_flow_is_cancelled_runs(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    flow(world, *(task(f"t{number}") for number in range(9)))
    world.turn(FlowCancel(session="person", n=world.n(), project="news", flow="f"))
    while not show_now(world).counts.cancelled:
        pass
    world.turn(TaskRetry(session="person", n=world.n(), project="news", taskids=["t8"]))
    world.settle()
    assert show(world).state == "running"

    world.fetcher().finish_all()
    assert (show(world).state, show(world).counts.cancelled, show(world).counts.success) == ("cancelled", 8, 1)


def test_a_cleared_flow_of_which_a_task_is_retried_runs(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), waiting("b", "a"))
    run(fetcher, "a")
    world.do("clear")
    assert show(world).state == "cancelled"

    fetcher.capacity = 0
    fetcher.hello()
    retry(world, "a")
    assert show(world).state == "running"


def test_a_flow_that_runs_again_is_not_forgotten_for_one_that_ends_at_that_moment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.model.flow.ENDED_KEPT", 1)
    fetcher = world.fetcher()
    for name in "ab":
        flow(world, task(name), name=name)
    run(fetcher, "a")
    fetcher.hello()
    done = fetcher.answers(fetcher.finished("b"))
    fetcher.capacity = 0

    world.turn(done, TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))
    world.settle()
    assert show(world, "a").state == "running"
    assert show(world, "b").state == "success"
