"""Waiters for the end of a task."""

from __future__ import annotations

import pytest

from taskqueue.core.model.waiters import WAITS_OF_SESSION
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.tasks import TaskCancel, TasksReply, TaskWait, TaskWaitReply
from tests.unit.core.conftest import Fetcher, Waiting, World, task


def wait(world: World, taskid: str = "a", seconds: float = 30.0, session: str = "script") -> Waiting:
    """Ask for a reply when a task of the project news has finished."""
    request = TaskWait(session=session, n=world.n(), project="news", taskid=taskid, seconds=seconds)
    waiting = Waiting(world, request.n)
    world.turn(request)
    world.settle()
    return waiting


def told(waiting: Waiting) -> str | None:
    """Return the state in the reply; None before there is one."""
    reply = waiting.answer
    assert reply is None or isinstance(reply, TaskWaitReply)
    return None if reply is None else reply.state


def work(world: World, *taskids: str) -> Fetcher:
    world.push("news", *[task(taskid, retries=0) for taskid in taskids])
    return world.fetcher()


def test_who_waits_for_a_task_is_told_how_it_ended(world: World) -> None:
    fetcher = work(world, "a", "b", "c")
    waits = [wait(world, taskid) for taskid in "abc"]
    assert [told(each) for each in waits] == [None, None, None]

    fetcher.done("a")
    fetcher.fail("b")
    assert [told(each) for each in waits] == ["success", "failed", None]
    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=["c"]))
    assert told(waits[2]) == "cancelled"


def test_who_waits_for_a_task_that_is_over_is_told_at_once(world: World) -> None:
    work(world, "a").done("a")

    assert told(wait(world)) == "success"
    assert told(wait(world, seconds=0)) == "success"


def test_who_waits_for_a_task_is_told_after_its_seconds_that_it_is_not_over(world: World) -> None:
    fetcher = work(world, "a")
    waits = [wait(world, session=f"script {seconds}", seconds=seconds) for seconds in (20, 40, 60)]
    world.advance(19)
    assert [told(each) for each in waits] == [None, None, None]

    world.advance(1)
    assert [told(each) for each in waits] == ["", None, None]
    world.advance(20)
    assert [told(each) for each in waits] == ["", "", None]
    assert told(wait(world, seconds=0)) == ""
    fetcher.done("a")
    assert told(waits[2]) == "success"


def test_who_waits_for_a_task_waits_through_its_retries(world: World) -> None:
    world.set(retry_delay=[5])
    world.push("news", task("a", retries=1))
    fetcher = world.fetcher()
    waiting = wait(world)

    fetcher.fail("a")
    assert told(waiting) is None
    world.advance(5)
    fetcher.fail("a")
    assert told(waiting) == "failed"


def test_a_task_that_is_over_and_restarted_in_one_turn_was_never_over(world: World) -> None:
    fetcher = work(world, "a")
    waiting = wait(world)
    world.push("news", task("a", force_update=True))

    fetcher.done("a")
    assert told(waiting) is None
    fetcher.done("a")
    assert told(waiting) == "success"


def test_who_waits_is_told_in_the_turn_in_which_the_task_is_over_whatever_comes_first(world: World) -> None:
    fetcher = work(world, "a")
    request = TaskWait(session="script", n=world.n(), project="news", taskid="a")

    world.turn(request, fetcher.answers(fetcher.finished("a")))

    assert told(Waiting(world, request.n)) == "success"


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
def test_who_waits_for_a_task_that_is_dropped_is_answered_and_learns_it_when_it_asks_again(
    world: World, action: str
) -> None:
    work(world, "a")
    waiting = wait(world)

    world.do(action)
    world.settle()
    assert told(waiting) == ""
    again = wait(world).answer
    assert isinstance(again, ErrorReply)
    assert again.code == ("unknown-project" if action == "delete" else "unknown-task")


def test_who_waits_for_an_unknown_task_is_told_so(world: World) -> None:
    world.push("news", task("a"))

    answer = wait(world, "b").answer

    assert isinstance(answer, ErrorReply)
    assert (answer.code, answer.reason) == ("unknown-task", 'taskid: "b" is unknown in project "news"')


def test_a_session_waits_for_no_more_than_a_thousand_tasks(world: World) -> None:
    work(world, *map(str, range(WAITS_OF_SESSION + 1)))
    requests = [
        TaskWait(session="script", n=world.n(), project="news", taskid=str(number))
        for number in range(WAITS_OF_SESSION + 1)
    ]

    world.turn(*requests)

    answers = [Waiting(world, request.n).answer for request in requests]
    assert answers[:-1] == [None] * WAITS_OF_SESSION
    assert isinstance(answers[-1], ErrorReply)
    assert answers[-1].code == "full"
