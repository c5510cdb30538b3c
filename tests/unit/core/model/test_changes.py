"""Several requests in one turn: changes of the turn override what was looked up before it."""

from __future__ import annotations

from typing import Any

from taskqueue.protocol.daemon import Verify, VerifyReply
from taskqueue.protocol.messages import AnyRequest
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import DoneReply, NewTasksReply, TaskCancel, TaskReply, TaskRetry, TaskShow, TasksReply
from taskqueue.store.records.layout import PROJECT_FAMILIES
from tests.unit.core.conftest import World, body_of, task


def test_a_done_and_a_new_task_of_one_task_in_one_turn_see_each_other(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    done = fetcher.answers(fetcher.finished("a"))

    answers = world.turn(done, world.new_tasks("news", task("a")))
    assert isinstance(answers[0], DoneReply)
    assert answers[0].outcomes == ["done"]
    assert isinstance(answers[1], NewTasksReply)
    assert answers[1].outcomes == ["ignored"]
    assert fetcher.taken == ["a"]


def test_a_done_after_a_cancel_in_the_same_turn_is_stale(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    cancel = TaskCancel(session="person", n=world.n(), project="news", taskids=["a"])

    answers = world.turn(cancel, fetcher.answers(fetcher.finished("a")))
    assert isinstance(answers[1], DoneReply)
    assert answers[1].outcomes == ["stale"]


def test_an_update_deferred_in_the_turn_of_the_end_is_applied(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    update = world.new_tasks("news", task("a", body="new", force_update=True))

    world.turn(update, fetcher.answers(fetcher.finished("a", ok=False, error="boom", retry=False)))
    world.settle()
    assert body_of(fetcher.held["a"]) == "new"
    assert [attempt.error for attempt in world.show("a").history] == ["boom"]


def test_two_producers_that_push_the_same_task_in_one_turn_make_one(world: World) -> None:
    pushes = [world.new_tasks("news", task("a"), session=name) for name in ("one", "two")]

    answers = world.turn(*pushes)
    assert [answer.outcomes for answer in answers if isinstance(answer, NewTasksReply)] == [["new"], ["ignored"]]


def test_a_task_made_in_this_turn_can_be_shown_retried_and_cancelled_in_it(world: World) -> None:
    who: dict[str, Any] = {"session": "person", "project": "news"}
    show = TaskShow(n=world.n(), taskid="a", **who)
    retry = TaskRetry(n=world.n(), taskids=["a"], **who)
    cancel = TaskCancel(n=world.n(), taskids=["a"], **who)

    _, shown, retried, cancelled, again = world.turn(
        world.new_tasks("news", task("a", body="x", delay=99)), show, retry, cancel, show
    )
    assert isinstance(shown, TaskReply)
    assert (shown.state, body_of(shown)) == ("delayed", "x")
    assert isinstance(retried, TasksReply)
    assert retried.outcomes == ["done"]
    assert isinstance(cancelled, TasksReply)
    assert cancelled.outcomes == ["done"]
    assert isinstance(again, TaskReply)
    assert again.state == "cancelled"


def test_a_project_deleted_and_made_again_in_one_turn_is_empty(world: World) -> None:
    world.push("news", task("old"))
    fetcher = world.fetcher(capacity=1)
    assert fetcher.taken == ["old"]
    before = world.new_tasks("news", task("a"))
    delete = ProjectDo(session="person", n=world.n(), project="news", action="delete")
    start = ProjectDo(session="person", n=world.n(), project="news", action="start")
    late = fetcher.answers(fetcher.finished("old"))

    answers = world.turn(before, delete, start, world.new_tasks("news", task("old"), task("b")), late)
    assert isinstance(answers[3], NewTasksReply)
    assert answers[3].outcomes == ["new", "new"]
    assert isinstance(answers[4], DoneReply)
    assert answers[4].outcomes == ["stale"]
    assert fetcher.taken == ["old", "old"]
    world.restart()
    assert (world.counts().ready, world.counts().processing) == (1, 1)


def test_of_a_project_deleted_while_its_windows_were_to_be_saved_nothing_is_kept(world: World) -> None:
    world.do("delete", "shop")
    world.push("news", task("a"))
    world.fetcher().done("a", ok=False, retry=False, error="boom")
    world.elapsed += 61

    world.turn(ProjectDo(session="person", n=world.n(), project="news", action="delete"))

    kept = {family for family, entries in world.disk.families.items() if entries.values}
    assert kept.isdisjoint(PROJECT_FAMILIES)


def test_of_an_error_above_two_kilobytes_head_and_tail_are_kept(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher().done("a", ok=False, retry=False, error="€" * 2000)

    [attempt] = world.show("a").history
    assert attempt.error.startswith("€€€")
    assert attempt.error.endswith("€€€")
    assert len(attempt.error.encode()) <= 2048


def test_a_check_in_the_middle_of_a_turn_finds_nothing_wrong(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher()
    requests: list[AnyRequest] = [
        world.new_tasks("news", task("b"), task("c", delay=5)),
        fetcher.answers(fetcher.finished("a")),
        Verify(session="person", n=world.n()),
    ]

    answer = world.turn(*requests)[-1]
    assert isinstance(answer, VerifyReply)
    assert answer.problems == []
