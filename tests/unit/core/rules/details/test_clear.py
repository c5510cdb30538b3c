"""Clearing beside other work: earlier and later changes of the turn, unfinished sweeps, restarts."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import Any

import pytest

from taskqueue.core.steps.sweep import SWEPT_AT_ONCE, SWEPT_TASKS
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.operations import OperationList, OperationsReply
from taskqueue.protocol.projects import ProjectDo, ProjectReply, ProjectWait, WaitReply
from taskqueue.protocol.tasks import DoneReply, NewTasksReply, TaskCancel, TaskReply, TaskRetry, TaskShow, TasksReply
from taskqueue.protocol.values import TaskCounts
from tests.unit.core.conftest import MakeWorld, World, packed, task
from tests.unit.core.rules.conftest import FORCE

WHO: dict[str, Any] = {"session": "person"}
HEAVY = "x" * 9000


def do(world: World, action: Any) -> ProjectDo:
    return ProjectDo(**WHO, n=world.n(), project="news", action=action)


def retry(world: World, *taskids: str) -> TaskRetry:
    return TaskRetry(**WHO, n=world.n(), project="news", taskids=list(taskids))


def turn(world: World, *requests: Any) -> list[AnyReply]:
    """Take one turn, and then all turns until the work in progress has ended."""
    replies = world.turn(*requests)
    world.settle()
    return replies


def known_on_disk(world: World) -> int:
    return len(world.disk.families["ids"].keys)


def push_many(world: World, count: int = 2 * SWEPT_TASKS + 9) -> None:
    world.push("news", *[task(f"t{number:04}") for number in range(count)])


def test_what_is_left_of_cleared_tasks_is_swept_away(world: World) -> None:
    push_many(world)
    world.turn(do(world, "clear"))
    left = [known_on_disk(world)]

    while left[-1]:
        world.turn()
        left.append(known_on_disk(world))
    assert left == [2 * SWEPT_TASKS + 9, SWEPT_TASKS + 9, 9, 0]
    assert world.ask(OperationsReply, OperationList(**WHO, n=world.n())).operations == [], "it has not begun"


def test_projects_are_swept_together_and_a_turn_sweeps_no_more_for_it(make_world: MakeWorld) -> None:
    names = [f"p{number:02}" for number in range(2 * SWEPT_AT_ONCE)]
    world = make_world(projects={name: {"group": "g"} for name in names})
    world.turn(*[world.new_tasks(name, *[task(f"t{number}") for number in range(50)]) for name in names])
    world.turn(*[ProjectDo(**WHO, n=world.n(), project=name, action="clear") for name in names])
    left = [known_on_disk(world)]

    while left[-1]:
        world.turn()
        left.append(known_on_disk(world))
    assert max(before - after for before, after in pairwise(left)) <= SWEPT_TASKS
    assert len(left) - 1 <= 2 + 2 * len(names) * 50 / SWEPT_TASKS


def test_nothing_is_swept_where_nothing_was_live(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher().done("a")

    world.turn(do(world, "clear"))
    assert world.next_wake() > world.elapsed
    assert world.counts() == TaskCounts(success=1)


def test_a_cleared_task_is_unknown_before_it_is_swept(world: World) -> None:
    push_many(world)
    world.turn(do(world, "clear"))

    shown, retried = world.turn(TaskShow(**WHO, n=world.n(), project="news", taskid="t0500"), retry(world, "t0500"))
    assert isinstance(shown, ErrorReply)
    assert shown.code == "unknown-task"
    assert isinstance(retried, TasksReply)
    assert retried.outcomes == ["unknown"]


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_cleared_task_is_new_when_it_comes_again_however_far_the_sweep_is(world: World, turns: int) -> None:
    push_many(world)
    world.turn(do(world, "clear"))
    for _ in range(turns):
        world.turn()

    (reply,) = turn(world, world.new_tasks("news", task("t0000"), task("t0300"), task("t0520", delay=5)))
    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["new"] * 3
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(ready=2, delayed=1), 3)


def test_a_task_that_comes_again_has_no_history_of_the_one_that_was_cleared(world: World) -> None:
    world.push("news", task("a", retries=5))
    world.fetcher(capacity=1).fail("a", error="boom")
    world.do("stop")
    show = TaskShow(**WHO, n=world.n(), project="news", taskid="a")

    replies = world.turn(do(world, "clear"), world.new_tasks("news", task("a")), show)
    assert isinstance(replies[2], TaskReply)
    assert replies[2].history == world.show("a").history == []


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("end", ["restart", "reboot", "crash"])
def test_a_sweep_goes_on_after_a_restart(world: World, turns: int, end: str) -> None:
    push_many(world)
    world.turn(do(world, "clear"))
    for _ in range(turns):
        world.turn()

    getattr(world, end)()
    assert world.push("news", task("t0001"), task("t0400"), task("t0520")) == ["new"] * 3
    world.settle()
    assert known_on_disk(world) == 3


def test_a_project_can_be_cleared_while_it_is_being_swept(world: World) -> None:
    push_many(world)
    world.turn(do(world, "clear"))
    world.turn()
    world.turn(world.new_tasks("news", *[task(f"t{number:04}") for number in range(0, 500, 7)]))

    turn(world, do(world, "clear"))
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(), 0)


ORDERS = [("clear", "push", "done"), ("push", "clear", "done"), ("done", "clear", "push"), ("clear", "done", "push")]
ORDERS += [("push", "done", "clear"), ("done", "push", "clear")]


@pytest.mark.parametrize("order", ORDERS)
def test_clear_push_and_done_in_one_turn_see_each_other(world: World, order: tuple[str, ...]) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(capacity=0)
    requests = {
        "clear": do(world, "clear"),
        "push": world.new_tasks("news", task("a"), task("b")),
        "done": fetcher.answers(fetcher.finished("a")),
    }

    replies = dict(zip(order, turn(world, *[requests[name] for name in order]), strict=True))
    cleared, pushed, done = (order.index(name) for name in ("clear", "push", "done"))
    assert isinstance(replies["done"], DoneReply)
    assert replies["done"].outcomes == ["done" if done < cleared else "stale"]
    assert isinstance(replies["push"], NewTasksReply)
    assert replies["push"].outcomes == ["new" if cleared < min(pushed, done) else "ignored", "new"]
    assert world.counts().ready == (0 if pushed < cleared else 2 if cleared < done else 1)


def test_a_task_restarted_in_the_turn_of_the_clear_is_dropped_and_can_come_again(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    fetcher.done("a")
    fetcher.fail("b", retry=False)
    fetcher.hello(capacity=0)

    turn(world, world.new_tasks("news", task("a", **FORCE)), retry(world, "b"), do(world, "clear"))
    assert world.counts() == TaskCounts(cancelled=2)
    assert world.push("news", task("a", **FORCE)) == ["restarted"]


def test_a_task_that_was_pushed_and_cleared_in_one_turn_leaves_nothing(world: World) -> None:
    turn(world, world.new_tasks("news", task("a"), task("b", delay=9), task("c")), do(world, "clear"))

    assert (world.counts(), known_on_disk(world)) == (TaskCounts(), 0)


def test_pushed_cleared_pushed_cleared_and_pushed_in_one_turn_is_one_task(world: World) -> None:
    world.push("news", task("a", "stored"))
    requests = [[world.new_tasks("news", task("a", number)), do(world, "clear")] for number in range(3)]

    turn(world, *[each for pair in requests for each in pair], world.new_tasks("news", task("a", "last")))
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(ready=1), 1)


def test_a_task_named_in_the_turn_of_the_clear_is_dropped_all_the_same(world: World) -> None:
    world.push("news", task("a", delay=9), task("b"), task("c"))

    turn(world, retry(world, "a"), world.new_tasks("news", task("b", priority=3)), do(world, "clear"))
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(), 0)


def test_a_task_restarted_before_the_clear_and_pushed_after_it_in_one_turn_is_one_task(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(capacity=0)
    world.push("news", task("a", **FORCE))

    turn(world, fetcher.answers(fetcher.finished("a")), do(world, "clear"), world.new_tasks("news", task("a")))
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(ready=1), 1)


@pytest.mark.parametrize("is_swept", [False, True])
def test_what_is_over_can_be_retried_while_its_project_is_swept(world: World, is_swept: bool) -> None:
    names = [f"over{number}" for number in range(5)]
    world.push("news", *[task(name, name) for name in names])
    fetcher = world.fetcher()
    for name in names:
        fetcher.fail(name, retry=False)
    fetcher.hello(capacity=0)
    push_many(world)

    if is_swept:
        world.turn(do(world, "clear"))
        turn(world, retry(world, *names))
    else:
        turn(world, do(world, "clear"), retry(world, *names))
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(ready=5), 5)
    world.restart()
    assert sorted(world.fetcher(name="other").taken) == names


def test_a_task_retried_and_running_leaves_nothing_when_it_is_cleared(world: World) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    fetcher.fail("a", retry=False)
    fetcher.done("b")

    turn(world, retry(world, "a", "b"))
    assert world.counts() == TaskCounts(processing=2)
    world.do("clear")
    assert (world.counts(), known_on_disk(world)) == (TaskCounts(), 0)


def test_an_attempt_that_ends_in_the_turn_of_the_clear_leaves_nothing(world: World) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.hello(capacity=0)

    turn(world, fetcher.answers(fetcher.finished("a", ok=False)), do(world, "clear"))
    assert not world.disk.families["history"].keys


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("brought", [None, "new"])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_result_that_comes_in_the_turn_of_the_clear_leaves_nothing(
    world: World, before: str | None, brought: str | None, restarts: bool
) -> None:
    world.push("news", task("a"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a", result=packed(before))
    world.push("news", task("a", force_update=True, auto_recrawl=True, age=100.0))
    fetcher.hello(capacity=0)
    if restarts:
        world.restart()

    done = fetcher.answers(fetcher.finished("a", result=packed(brought)))
    turn(world, done, do(world, "clear"), world.new_tasks("news", task("a")))
    world.settle()
    assert not world.disk.families["results"].keys
    assert world.counts() == TaskCounts(ready=1)


def test_an_attempt_that_is_followed_by_the_next_at_once_leaves_nothing_when_it_is_cleared(world: World) -> None:
    world.push("news", task("a", timeout=5))
    fetcher = world.fetcher(capacity=2)
    world.advance(6)
    assert fetcher.taken == ["a", "a"]

    world.do("clear")
    assert not world.disk.families["history"].keys


def test_an_update_that_waits_for_the_end_of_a_lease_goes_with_it(world: World) -> None:
    world.push("news", task("a"))
    world.fetcher(capacity=1)
    world.push("news", task("a", **FORCE))

    world.do("clear")
    assert not world.disk.families["deferred"].keys


def test_after_clear_there_is_room_in_the_queue(make_world: MakeWorld) -> None:
    world = make_world({"max_queue": 2, "max_tasks": 2})
    assert world.push("news", task("a"), task("b"), task("c")) == ["new", "new", "rejected"]

    world.do("clear")
    assert world.push("news", task("c"), task("d")) == ["new"] * 2


def test_a_project_that_checks_goes_on_checking_after_clear(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 50, "retries": 0})
    world.push("news", task("a"), *[task(f"t{number}") for number in range(5)])
    fetcher = world.fetcher(capacity=1)
    fetcher.fail("a")
    world.advance(30)
    fetcher.hello()
    world.advance(21)
    fetcher.capacity = 9
    fetcher.hello()
    assert world.project().state == "checking"

    world.do("clear")
    fetcher.held.clear()
    world.push("news", *[task(f"u{number}") for number in range(5)])
    assert world.project().state == "checking"
    assert list(fetcher.held) == ["u0", "u1", "u2"]


def test_reset_keeps_an_automatic_pause_and_its_next_check(make_world: MakeWorld) -> None:
    world = make_world({"fail_pause_num": 1, "pause_time": 50, "retries": 0})
    world.push("news", task("a"))
    world.fetcher().fail("a")
    assert world.project().state == "paused"

    world.do("reset")
    assert (world.project().state, world.project().check_at) == ("paused", world.now.wall + 50)
    world.advance(50)
    assert world.project().state == "checking"


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
def test_who_waits_for_the_end_is_told_that_there_is_nothing_to_wait_for(world: World, action: str) -> None:
    world.push("news", task("a"))
    n = world.n()
    world.turn(ProjectWait(session="script", n=n, project="news", seconds=60))

    replies = world.turn(do(world, action))
    (told,) = [reply for reply in replies if reply.n == n]
    if action == "delete":
        assert isinstance(told, ErrorReply)
    else:
        assert isinstance(told, WaitReply)
        assert (told.finished, told.unfinished, told.times) == (True, 0, 0)
        assert told.remaining is not None
        assert told.remaining.reason == "nothing-left"


def test_reset_lets_those_hold_the_project_open_who_did(world: World) -> None:
    world.hold(60)

    assert isinstance(world.answer(do(world, "reset")), ProjectReply)
    assert world.project().held_by == 1


def test_a_heavy_task_cancelled_and_shown_in_one_turn_is_shown_with_its_body(world: World) -> None:
    world.push("news", task("a", HEAVY))
    world.fetcher()
    cancel = TaskCancel(**WHO, n=world.n(), project="news", taskids=["a"])

    _, shown, _ = turn(world, cancel, TaskShow(**WHO, n=world.n(), project="news", taskid="a"), retry(world, "a"))
    assert isinstance(shown, TaskReply)
    assert (shown.state, len(shown.body) > len(HEAVY)) == ("cancelled", True)
    assert world.config.head_bytes < inf
