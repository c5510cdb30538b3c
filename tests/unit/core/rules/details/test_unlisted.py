"""Unlisted tasks: a task that is dispatched in the turn that made it is stored only under its lease until that ends.

Clients must not notice. World checks after each turn whether the disk is consistent.
"""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.steps.operations import LOST_A_STEP
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow
from taskqueue.protocol.projects import GroupDo, ProjectDo
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.protocol.values import TaskCounts, TaskFilter
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import FORCE

HEAVY = "x" * 20_000


@pytest.fixture
def world(make_world: MakeWorld) -> World:
    return make_world(projects={"news": {}, "shop": {}}, defaults={"rate": float("inf")})


@pytest.fixture
def fetcher(world: World) -> Fetcher:
    """Make a waiting fetcher, so that pushed tasks are dispatched at once; it has three tasks, one of them large."""
    fetcher = world.fetcher(capacity=10)
    assert world.push("news", task("a"), task("b", body=HEAVY), task("c")) == ["new"] * 3
    assert fetcher.taken == ["a", "b", "c"]
    assert not world.disk.families[layout.IDS].keys
    return fetcher


def bulk(world: World, action: Any, **fields: Any) -> int:
    """Run an operation to its end; return how many tasks it matched."""
    request = Bulk(session="person", n=world.n(), action=action, **({"project": "news"} | fields))
    operation = world.ask(OperationReply, request).operation.id
    world.settle()
    return world.ask(OperationReply, OperationShow(session="person", n=world.n(), id=operation)).operation.matched


def test_it_is_known_and_not_taken_twice(world: World, fetcher: Fetcher) -> None:
    assert world.push("news", task("a"), task("b")) == ["ignored", "ignored"]
    world.crash()
    assert world.push("news", task("a"), task("d")) == ["ignored", "new"]


@pytest.mark.parametrize("crashes", [False, True])
def test_it_is_shown_with_its_body(world: World, fetcher: Fetcher, crashes: bool) -> None:
    if crashes:
        world.crash()

    shown = world.show("b")
    assert shown.state == "processing"
    assert len(shown.body) > len(HEAVY)
    assert (
        "has been processing"
        in world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid="b")).sentence
    )


@pytest.mark.parametrize("crashes", [False, True])
def test_its_answer_counts(world: World, fetcher: Fetcher, crashes: bool) -> None:
    if crashes:
        world.crash()

    fetcher.finish_all()
    assert world.counts() == TaskCounts(success=3)
    assert world.push("news", task("a")) == ["ignored"]


@pytest.mark.parametrize("crashes", [False, True])
def test_an_operation_meets_it(world: World, fetcher: Fetcher, crashes: bool) -> None:
    if crashes:
        world.crash()

    assert bulk(world, "cancel", filter=TaskFilter(url="*b")) == 1
    assert bulk(world, "reprioritise", priority=5) == 2
    assert bulk(world, "cancel", group="", project="news") == 2
    assert world.counts() == TaskCounts(cancelled=3)


def test_an_operation_meets_what_was_pushed_and_handed_out_in_the_turn_that_began_it(
    world: World, fetcher: Fetcher
) -> None:
    pushes = world.new_tasks("news", task("d"))
    begins = Bulk(session="person", n=world.n(), action="cancel", project="news")
    world.turn(pushes, begins)
    world.settle()

    assert fetcher.taken == [*"abcd"]
    assert world.counts() == TaskCounts(cancelled=4)


def test_an_operation_meets_it_in_the_second_of_its_projects(world: World, fetcher: Fetcher) -> None:
    world.set("news", group="all")
    world.set("shop", group="all")
    world.push("shop", task("d"))

    assert bulk(world, "cancel", group="all", project=None) == 4
    assert world.counts("shop") == TaskCounts(cancelled=1)


def test_an_operation_meets_one_whose_lease_ends_while_its_page_is_read(world: World, fetcher: Fetcher) -> None:
    world.turn(Bulk(session="person", n=world.n(), action="cancel", project="news"))
    world.turn(fetcher.answers(fetcher.finished("a", ok=False, error="503")))
    world.settle()

    assert world.counts() == TaskCounts(cancelled=3)


@pytest.mark.parametrize("action", ["clear", "reset"])
@pytest.mark.parametrize("ends", [False, True])
def test_nothing_is_left_of_it_when_its_project_is_cleared(
    world: World, fetcher: Fetcher, action: Any, ends: bool
) -> None:
    clears = ProjectDo(session="person", n=world.n(), project="news", action=action)
    released = fetcher.answers(fetcher.finished("a", ok=False, retry_after=5))
    world.turn(*[released] * ends, clears)
    world.settle()

    assert world.counts() == TaskCounts()
    assert not world.disk.families[layout.SPECS].keys
    assert world.ask(NewTasksReply, world.new_tasks("news", task("a"))).outcomes == ["new"]


@pytest.mark.parametrize("action", ["clear", "reset"])
def test_nothing_is_left_of_it_when_it_is_restarted_in_the_turn_that_clears_its_project(
    world: World, fetcher: Fetcher, action: Any
) -> None:
    assert world.push("news", task("a", **FORCE)) == ["deferred"]
    clears = ProjectDo(session="person", n=world.n(), project="news", action=action)
    world.turn(fetcher.answers(fetcher.finished("a")), clears)
    world.settle()

    assert world.counts() == TaskCounts()
    assert not world.disk.families[layout.SPECS].keys


def test_pushed_anew_in_the_turn_that_clears_its_project_it_is_a_new_task(world: World, fetcher: Fetcher) -> None:
    clears = ProjectDo(session="person", n=world.n(), project="news", action="clear")
    world.turn(clears, world.new_tasks("news", task("a", priority=3)))
    world.settle()

    assert fetcher.taken == [*"abca"]
    assert world.show("a").priority == 3


def test_nothing_is_left_of_it_when_a_step_clears_its_project_in_the_turn_that_notes_it_as_slow(
    make_world: MakeWorld,
) -> None:
    members = [f"p{number}" for number in range(LOST_A_STEP + 1)]
    world = make_world({"processing_timeout": 100.0}, projects={name: {"group": "g"} for name in members})
    fetcher = world.fetcher()
    world.push(members[-1], task("a"))
    world.advance(50)
    fetcher.hello()
    world.advance(29)

    world.turn(GroupDo(session="person", n=world.n(), group="g", action="clear"))
    world.elapsed += 1
    world.turn()
    world.settle()

    assert fetcher.taken == ["a"]
    assert not world.disk.families[layout.SPECS].keys
