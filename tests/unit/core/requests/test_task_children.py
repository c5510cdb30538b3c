"""Children of a task, page by page."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.tasks import Child, TaskChildren, TaskChildrenReply
from taskqueue.protocol.values import TaskOf
from tests.unit.core.conftest import World, task
from tests.unit.core.requests.test_task_parents import run, waiting
from tests.unit.core.rules.conftest import FORCE


def asking(world: World, taskid: str, after: str = "", **how: Any) -> TaskChildren:
    return TaskChildren(session="person", n=world.n(), project="news", taskid=taskid, after=after, **how)


def children(world: World, taskid: str) -> list[Child]:
    return world.ask(TaskChildrenReply, asking(world, taskid)).children


def test_each_child_is_shown_with_its_state(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a"), waiting("b", "a"), waiting("c", "a", "x"))

    assert children(world, "a") == [
        Child("news", "b", "blocked", waits=True),
        Child("news", "c", "blocked", waits=True),
    ]
    run(fetcher, "a")
    world.restart()
    assert children(world, "a") == [Child("news", "b", "processing"), Child("news", "c", "blocked")]
    assert children(world, "b") == []


def test_children_of_other_projects_are_named_with_their_projects(world: World) -> None:
    world.push("news", task("a"))
    world.push("shop", waiting("b", TaskOf("news", "a")))

    assert children(world, "a") == [Child("shop", "b", "blocked", waits=True)]
    world.do("delete", "shop")
    assert children(world, "a") == []


def test_children_that_wait_for_others_now_are_not_shown(world: World) -> None:
    world.push("news", task("a"), waiting("b", "a"), waiting("c", "a"))
    world.push("news", waiting("b", "d", **FORCE))

    assert [each.taskid for each in children(world, "a")] == ["c"]


def test_any_number_of_children_is_shown_page_by_page(world: World) -> None:
    names = [f"child-{number:03}" for number in range(250)]
    world.push("news", task("a"), *(waiting(name, "a") for name in names))
    found: list[str] = []
    after, pages = "", 0
    while after or not pages:
        page = world.ask(TaskChildrenReply, asking(world, "a", after))
        found += [each.taskid for each in page.children]
        after, pages = page.next, pages + 1

    assert (found, pages) == (names, 3)


@pytest.mark.parametrize("after", ["00", "ff" * 300, "00000001" + "0161" + "00" * 8])
def test_whatever_a_page_is_said_to_begin_after_no_other_tasks_children_are_shown(world: World, after: str) -> None:
    world.push("news", task("a"), task("b"), task("c"), waiting("of-a", "a"), waiting("of-c", "c"))

    assert world.ask(TaskChildrenReply, asking(world, "b", after)).children == []


@pytest.mark.parametrize(
    ("where", "code", "field"),
    [({"taskid": "x"}, "unknown-task", "taskid"), ({"taskid": "a", "after": "x"}, "malformed", "after")],
)
def test_nonsense_is_refused_by_its_field(world: World, where: dict[str, Any], code: str, field: str) -> None:
    world.push("news", task("a"))

    reply = world.ask(ErrorReply, asking(world, **where))

    assert (reply.code, reply.reason.partition(":")[0]) == (code, field)
