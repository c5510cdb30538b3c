"""Recall: a fetcher that loses a lease is asked for a hello at once, and the welcome names the lease."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from taskqueue.protocol.fetchers import Hello, HelloWanted, Release, Welcome
from taskqueue.protocol.flows import FlowCancel, FlowStage, FlowSubmit
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import Bulk, Rerun
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import Done, TaskCancel
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task

TIMEOUT = 5.0


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world({"processing_timeout": TIMEOUT})


def busy(world: World, *names: str) -> Fetcher:
    """Make a fetcher that runs these tasks."""
    world.push("news", *map(task, names))
    fetcher = world.fetcher(capacity=len(names))
    fetcher.hello(running=fetcher.tokens(*names))
    return fetcher


def wanted(world: World, *requests: AnyRequest) -> list[str]:
    """List sessions that are asked for a hello, in the turn of these requests and in the turns at once after it."""
    world.turn(*requests)
    asked = [each.session for each in world.said if isinstance(each.message, HelloWanted)]
    return asked + (wanted(world) if world.next_wake() <= world.elapsed else [])


def do(world: World, action: Any) -> ProjectDo:
    return ProjectDo(session="person", n=world.n(), project="news", action=action)


LOSSES: dict[str, Callable[[World, Fetcher], AnyRequest]] = {
    "a push that cancels": lambda world, fetcher: world.new_tasks(
        "news", *(task(name, force_update=True, cancel=True) for name in "ab")
    ),
    "task cancel": lambda world, fetcher: TaskCancel(session="person", n=world.n(), project="news", taskids=["a", "b"]),
    "a cancel of all": lambda world, fetcher: Bulk(session="person", n=world.n(), project="news", action="cancel"),
    "flow cancel": lambda world, fetcher: FlowCancel(session="person", n=world.n(), project="news", flow="f"),
    "a rerun": lambda world, fetcher: Rerun(session="person", n=world.n(), project="news", taskid="a"),
    "project clear": lambda world, fetcher: do(world, "clear"),
    "project reset": lambda world, fetcher: do(world, "reset"),
    "project delete": lambda world, fetcher: do(world, "delete"),
    "a done from elsewhere": lambda world, fetcher: Done(
        session="other", n=world.n(), tasks=[fetcher.finished("a"), fetcher.finished("b")]
    ),
    "a release from elsewhere": lambda world, fetcher: Release(
        session="other", n=world.n(), leases=fetcher.leases("a", "b")
    ),
}


def running_flow(world: World) -> Fetcher:
    """Make a fetcher that runs both tasks of a flow."""
    world.turn(
        FlowStage(session="producer", n=world.n(), project="news", flow="f", first=0, tasks=[task("a"), task("b")])
    )
    world.turn(FlowSubmit(session="producer", n=world.n(), project="news", flow="f", count=2))
    world.settle()
    fetcher = world.fetcher(capacity=2)
    assert fetcher.taken == ["a", "b"]
    return fetcher


@pytest.mark.parametrize("how", LOSSES)
def test_a_fetcher_that_loses_leases_without_its_own_word_is_asked_for_a_hello_once_until_it_says_one(
    world: World, how: str
) -> None:
    fetcher = running_flow(world)

    asked = wanted(world, LOSSES[how](world, fetcher))

    assert [each for each in asked if each != "other"] == ["fetcher"]


def test_it_is_asked_again_for_what_it_loses_after_its_hello(world: World) -> None:
    fetcher = busy(world, "a", "b", "c")

    def cancelled(name: str) -> list[str]:
        return wanted(world, TaskCancel(session="person", n=world.n(), project="news", taskids=[name]))

    assert (cancelled("a"), cancelled("b")) == (["fetcher"], [])
    hello = Hello(session="fetcher", n=world.n(), capacity=3, holds=fetcher.holds, seen=fetcher.seen)
    assert world.ask(Welcome, hello).ended == fetcher.tokens("a", "b")
    assert cancelled("c") == ["fetcher"]


def test_a_fetcher_whose_lease_runs_out_knows_it_and_is_not_asked(world: World) -> None:
    busy(world, "a")
    world.elapsed += TIMEOUT + 1

    assert wanted(world) == []
    assert world.show("a").state == "ready"


def test_a_fetcher_is_not_asked_about_a_task_that_it_has_passed_on(world: World) -> None:
    fetcher = busy(world, "a")
    fetcher.hello(passed=fetcher.tokens("a"))

    assert "fetcher" not in wanted(world, Done(session="other", n=world.n(), tasks=[fetcher.finished("a")]))


def test_after_a_restart_a_fetcher_that_has_said_no_hello_is_asked_once_for_all(world: World) -> None:
    fetcher = busy(world, "a")
    world.restart()

    assert wanted(world, TaskCancel(session="fetcher", n=world.n(), project="news", taskids=["a"])) == []
    assert wanted(world, fetcher.answers(fetcher.finished("a"))) == ["fetcher"]
