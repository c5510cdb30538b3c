"""Nearly full disk of the store: no new tasks, no dispatches, but reports on dispatched tasks are taken."""

from __future__ import annotations

from math import inf

import msgspec
import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.operations import Bulk
from taskqueue.protocol.projects import ProjectHold, ProjectSet
from taskqueue.protocol.tasks import DoneReply, TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import TaskFilter, TaskReport
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, World, task

ROOMY = CoreConfig(defaults={"rate": inf}, projects={"news": {}})
FULL = msgspec.structs.replace(ROOMY, has_room=False)


@pytest.fixture
def world() -> World:
    world = World(ROOMY)
    world.push("news", task("a"), task("b"))
    return world


@pytest.fixture
def fetcher(world: World) -> Fetcher:
    """Make a fetcher with one task of two, on a disk that is nearly full since."""
    fetcher = world.fetcher(capacity=1)
    assert fetcher.taken == ["a"]
    world.configure(FULL)
    return fetcher


def test_a_push_is_refused_with_a_reason(world: World, fetcher: Fetcher) -> None:
    refused = world.ask(ErrorReply, world.new_tasks("news", task("c")))
    assert refused.code == "disk-full"
    assert "store.min_free" in refused.reason


def test_a_done_is_taken_with_what_came_out_of_it_and_nothing_is_handed_out(world: World, fetcher: Fetcher) -> None:
    done = world.ask(DoneReply, fetcher.answers(fetcher.finished("a", new=[task("c")])))

    assert (done.outcomes, done.new) == (["done"], [["new"]])
    assert fetcher.taken == ["a"]
    assert world.next_wake() > world.elapsed


def test_a_part_is_refused_with_a_reason_because_it_ends_nothing(world: World, fetcher: Fetcher) -> None:
    handed = fetcher.held["a"]
    part = TaskReport("news", "a", handed.token, new=[task("c")], part=True)

    refused = world.ask(DoneReply, fetcher.answers(part))

    assert (refused.outcomes, refused.new) == (["rejected"], [[]])
    assert "store.min_free" in refused.errors[0].reason
    assert fetcher.done("a") == "done"


def test_why_says_so(world: World, fetcher: Fetcher) -> None:
    reason = world.ask(WhyReply, Why(session="person", n=world.n(), project="news")).sentence
    assert "waits for disk space" in reason


def test_when_there_is_room_again_everything_goes_on(world: World, fetcher: Fetcher) -> None:
    fetcher.finish_all()
    assert fetcher.taken == ["a"]

    world.configure(ROOMY)
    world.settle()
    assert fetcher.taken == ["a", "b"]
    assert world.push("news", task("c")) == ["new"]


GROWING: dict[str, AnyRequest] = {
    "project-set": ProjectSet(session="person", n=1, project="news", settings={"rate": 1.0}),
    "project-hold": ProjectHold(session="person", n=1, project="news", seconds=60.0),
    "task-retry": TaskRetry(session="person", n=1, project="news", taskids=["a"]),
    "bulk": Bulk(session="person", n=1, action="retry", project="news", filter=TaskFilter(states=["failed"])),
}


@pytest.mark.parametrize("request_", GROWING.values(), ids=GROWING)
def test_what_lets_the_store_grow_is_refused(world: World, fetcher: Fetcher, request_: AnyRequest) -> None:
    assert world.ask(ErrorReply, request_).code == "disk-full"


def test_what_makes_room_is_done(world: World, fetcher: Fetcher) -> None:
    cancel = TaskCancel(session="person", n=world.n(), project="news", taskids=["b"])
    assert world.ask(TasksReply, cancel).outcomes == ["done"]


def test_a_repeat_is_answered_if_it_ended_a_lease_and_else_done_again(world: World, fetcher: Fetcher) -> None:
    done = fetcher.answers(fetcher.finished("a"))
    cancel = TaskCancel(session="person", n=world.n(), project="news", taskids=["b"])

    assert [world.ask(DoneReply, done).outcomes for _ in range(2)] == [["done"], ["done"]]
    assert [world.ask(TasksReply, cancel).outcomes for _ in range(2)] == [["done"], ["ignored"]]
