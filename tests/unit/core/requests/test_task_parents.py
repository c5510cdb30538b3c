"""Parents of a task with their results, page by page."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.codec import encode
from taskqueue.protocol.fields import MAX_PARENTS, MAX_RESULT_BYTES
from taskqueue.protocol.tasks import PackedParent, TaskParents, TaskParentsReply
from taskqueue.protocol.values import NewTask, TaskOf
from tests.unit.core.conftest import Fetcher, MakeWorld, World, packed, task
from tests.unit.core.rules.conftest import CANCEL, FORCE


def waiting(taskid: str, *parents: str | TaskOf, **how: Any) -> NewTask:
    return replace(task(taskid, **how), depends_on=parents, on_parent_failure="wait")


def asking(world: World, taskid: str, after: int = 0, **where: Any) -> TaskParents:
    return TaskParents(session="person", n=world.n(), taskid=taskid, after=after, **({"project": "news"} | where))


def page(world: World, taskid: str, after: int = 0) -> TaskParentsReply:
    return world.ask(TaskParentsReply, asking(world, taskid, after))


def shown(reply: TaskParentsReply) -> dict[str, tuple[str, bool, object]]:
    """Map taskids to state, whether the edge is satisfied, and the result."""
    return {each.taskid: (each.state, each.satisfied, msgspec.msgpack.decode(each.result)) for each in reply.parents}


def run(fetcher: Fetcher, taskid: str, **report: Any) -> None:
    fetcher.hello()
    assert fetcher.done(taskid, **report) == "done"


def test_each_parent_is_shown_with_its_state_and_its_result(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("done"), task("silent"), task("failed"), task("ready"))
    run(fetcher, "done", result=packed({"pages": 3}))
    run(fetcher, "silent")
    run(fetcher, "failed", ok=False, retry=False)
    world.push("news", waiting("c", "done", "silent", "failed", "ready", "unpushed"))

    assert shown(page(world, "c")) == {
        "done": ("success", True, {"pages": 3}),
        "silent": ("success", True, None),
        "failed": ("failed", False, None),
        "ready": ("processing", False, None),
        "unpushed": ("unknown", False, None),
    }


def test_a_task_that_waits_for_nobody_has_no_parents(world: World) -> None:
    world.push("news", task("a"), waiting("b", "a"))

    assert page(world, "a") == TaskParentsReply(n=world.inbox[-1].n, parents=[], next=None)


def test_whoever_runs_a_task_can_ask_what_it_has_waited_for(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), waiting("b", "a"))
    run(fetcher, "a", result=packed("left"))
    fetcher.hello()
    assert "b" in fetcher.held

    assert shown(page(world, "b")) == {"a": ("success", True, "left")}
    world.restart()
    assert shown(page(world, "b")) == {"a": ("success", True, "left")}


def test_a_parent_that_runs_again_has_the_result_of_its_last_success(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a"), waiting("b", "a", "other"))
    fetcher.done("a", result=packed("first"))
    world.push("news", task("a", **FORCE))

    assert shown(page(world, "b"))["a"] == ("processing", True, "first")


def test_parents_of_other_projects_are_named_with_their_projects(world: World) -> None:
    world.push("shop", task("a"))
    world.push("news", waiting("b", TaskOf("shop", "a")))

    assert page(world, "b").parents == [PackedParent("shop", "a", "ready")]
    world.do("delete", "shop")
    assert [each.project for each in page(world, "b").parents] == [""]


def test_parents_that_were_replaced_are_not_shown(world: World) -> None:
    world.push("news", task("a"), task("b"), waiting("c", "a", "b"))
    world.push("news", waiting("c", "b", "d", **FORCE))

    assert set(shown(page(world, "c"))) == {"b", "d"}


@pytest.mark.parametrize("max_message", [512 << 10, 8 << 20])
def test_a_page_has_as_many_as_fit_into_a_message(make_world: MakeWorld, max_message: int) -> None:
    world = make_world(max_message=max_message)
    fetcher = world.fetcher()
    names = [f"p{number:02}" for number in range(40)]
    world.push("news", *map(task, names))
    fetcher.hello()
    for name in names:
        fetcher.done(name, result=packed(name.encode() * ((MAX_RESULT_BYTES - 3) // 3)))
    world.push("news", waiting("c", *names))

    found: list[str] = []
    after: int | None = 0
    while after is not None:
        reply = page(world, "c", after)
        assert len(encode(reply)) <= max_message
        found += shown(reply)
        after = reply.next
        assert 1 <= len(reply.parents) < len(names)

    assert found == names


def test_a_thousand_parents_fit_into_few_pages(make_world: MakeWorld) -> None:
    world = make_world(max_message=512 << 10)
    parents = ["x" * 124 + f"{number:04}" for number in range(MAX_PARENTS)]
    world.push("news", waiting("c", *parents))

    first = page(world, "c")
    assert first.next is not None
    second = page(world, "c", first.next)

    assert len(encode(first)) < 512 << 10
    assert (first.parents + second.parents, second.next) == (
        [PackedParent("news", each, "unknown") for each in parents],
        None,
    )


def test_a_result_of_the_very_turn_is_shown(world: World) -> None:
    fetcher = world.fetcher(capacity=1)
    world.push("news", task("a"), waiting("b", "a"))

    *_, reply = world.turn(fetcher.answers(fetcher.finished("a", result=packed("now"))), asking(world, "b"))

    assert isinstance(reply, TaskParentsReply)
    assert [(each.state, msgspec.msgpack.decode(each.result)) for each in reply.parents] == [("success", "now")]


def test_who_asks_in_the_turn_in_which_the_parents_change_has_to_ask_again(world: World) -> None:
    world.push("news", waiting("c", "a"))

    *_, reply = world.turn(world.new_tasks("news", waiting("c", "b", **FORCE)), asking(world, "c"))

    assert isinstance(reply, ErrorReply)
    assert (reply.code, reply.reason) == (
        "changed",
        "taskid: the task's parents have just changed; ask again",
    )
    assert set(shown(page(world, "c"))) == {"b"}


def test_a_parent_that_is_cancelled_in_the_very_turn_is_shown_so(world: World) -> None:
    world.push("news", task("a"), waiting("b", "a"))

    *_, reply = world.turn(world.new_tasks("news", task("a", **CANCEL)), asking(world, "b"))

    assert isinstance(reply, TaskParentsReply)
    assert reply.parents == [PackedParent("news", "a", "cancelled")]


@pytest.mark.parametrize(
    ("where", "code"), [({"project": "other"}, "unknown-project"), ({"project": "shop"}, "unknown-task")]
)
def test_what_is_unknown_is_refused(world: World, where: dict[str, Any], code: str) -> None:
    reply = world.answer(asking(world, "a", **where))

    assert isinstance(reply, ErrorReply)
    assert reply.code == code
