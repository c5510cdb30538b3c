"""The life of a flow, in detail: what waits for tasks that have gone, and what runs again after its end."""

from __future__ import annotations

from taskqueue.protocol.fields import TaskOf
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.test_dependencies import run, state_of, waiting
from tests.unit.core.rules.test_flows import begin_making, retry, show


def make_x(world: World, on_failure: str) -> Fetcher:
    """A flow with a task x that waits for a, and for a task of a project that is deleted before x is made."""
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
