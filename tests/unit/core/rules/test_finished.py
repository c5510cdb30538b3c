"""Finish of a project: the moment at which no work is left, its waiters, and the task that it pushes."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.projects import ProjectHold, ProjectReply, ProjectWait, WaitReply
from taskqueue.protocol.tasks import TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import Action
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, MakeWorld, World, body_of, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, never_comes, rest, run_out

AT_THE_END: dict[str, Any] = {"on_finished": {"url": "http://example.org/report", "body": {"callback": "report"}}}
RECURRING: dict[str, Any] = {"age": 100, "auto_recrawl": True}


def work(world: World, *taskids: str) -> Fetcher:
    """Make a fetcher with these tasks of news that takes no further one until it says hello."""
    world.push("news", *[task(taskid) for taskid in taskids])
    fetcher = world.fetcher()
    rest(fetcher)
    return fetcher


def finishes(world: World) -> int:
    """Return how often the project has finished, equal in its view and in events."""
    told = world.event_kinds().count("finished")
    assert world.project().finished == told
    return told


def cancel(world: World, *taskids: str) -> None:
    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=list(taskids)))


# ------------------------------------------------------------------------------------------------ when


def test_a_project_finishes_when_its_last_live_task_has_ended(world: World) -> None:
    fetcher = work(world, "a", "b")
    fetcher.done("a")
    assert finishes(world) == 0
    assert world.project().unfinished == 1

    fetcher.done("b")
    assert finishes(world) == 1
    world.advance(1000)
    assert finishes(world) == 1


@pytest.mark.parametrize("end", ["failed", "cancelled", "cancelled by a message"])
def test_failed_and_cancelled_tasks_do_not_keep_it_from_finishing(world: World, end: str) -> None:
    fetcher = work(world, "a")
    if end == "failed":
        fetcher.fail("a", retry=False)
    elif end == "cancelled":
        cancel(world, "a")
    else:
        world.push("news", task("a", **CANCEL))

    assert finishes(world) == 1


def test_a_task_that_expires_before_it_is_handed_out_does_not_keep_it_from_finishing(world: World) -> None:
    world.push("news", task("a", expires_at=world.now.wall + 10))
    world.advance(11)

    world.fetcher()
    assert finishes(world) == 1


def test_a_task_that_ends_in_the_instant_in_which_it_comes_finishes_a_project_like_any_other(world: World) -> None:
    world.fetcher()
    world.push("news", task("a", expires_at=world.now.wall - 1))
    assert finishes(world) == 1

    request = TaskCancel(session="person", n=world.n(), project="news", taskids=["b"])
    world.turn(world.new_tasks("news", task("b", delay=5)), request)
    world.settle()
    assert finishes(world) == 2


def test_tasks_that_wait_for_their_time_or_for_a_retry_are_live(world: World) -> None:
    world.push("news", task("later", delay=500))
    fetcher = work(world, "a")

    fetcher.fail("a")
    assert finishes(world) == 0
    cancel(world, "a")
    assert finishes(world) == 0
    cancel(world, "later")
    assert finishes(world) == 1


def test_a_done_and_the_follow_ups_that_it_brings_are_one(world: World) -> None:
    fetcher = work(world, "a")

    fetcher.done("a", new=[task("b")])
    assert finishes(world) == 0
    fetcher.hello()
    fetcher.done("b")
    assert finishes(world) == 1


def test_a_project_finishes_again_after_there_were_live_tasks_again(world: World) -> None:
    fetcher = world.fetcher()
    for taskid in "ab":
        world.push("news", task(taskid))
        fetcher.done(taskid)
    assert finishes(world) == 2

    world.push("news", task("a", **FORCE))
    fetcher.done("a")
    assert finishes(world) == 3


def test_a_project_that_had_no_task_does_not_finish(world: World) -> None:
    world.push("news", None)
    world.set(rate=3.0)
    world.advance(100)
    world.restart()

    assert finishes(world) == 0


@pytest.mark.parametrize("action", ["pause", "stop"])
def test_a_project_with_tasks_that_is_paused_or_stopped_has_not_finished(world: World, action: str) -> None:
    world.push("news", task("a"))
    world.do(action)

    world.advance(1000)
    assert finishes(world) == 0


@pytest.mark.parametrize("action", ["clear", "reset", "delete"])
def test_clearing_resetting_and_deleting_do_not_fire_it(world: World, action: Action) -> None:
    world.set(**AT_THE_END)
    work(world, "a")
    world.push("news", task("b", delay=50))

    world.do(action)
    world.advance(1000)
    assert world.event_kinds() == []
    if action != "delete":
        assert world.project().unfinished == 0
        assert never_comes(world, world.fetcher(name="another"))


# ------------------------------------------------------------------------------------------------ recurring tasks


def test_a_recurring_task_counts_until_its_first_run_has_succeeded(world: World) -> None:
    world.push("news", task("a", **RECURRING))
    fetcher = world.fetcher()
    assert finishes(world) == 0

    fetcher.done("a")
    assert finishes(world) == 1
    run_out(world, fetcher, 100)
    fetcher.hello()
    fetcher.done("a")
    assert finishes(world) == 1
    assert world.counts().delayed == 1


def test_a_recurring_task_counts_no_more_when_its_retries_are_used_up(make_world: MakeWorld) -> None:
    world = make_world({"retries": 1, "retry_delay": [10]})
    world.push("news", task("a", **RECURRING))
    fetcher = world.fetcher()
    fetcher.fail("a")
    assert finishes(world) == 0

    world.advance(10)
    fetcher.fail("a")
    assert finishes(world) == 1


def test_a_recurring_task_that_has_run_does_not_hold_up_the_others(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", **RECURRING), task("b"))
    fetcher.done("a")
    world.restart()
    fetcher.hello()
    assert finishes(world) == 0

    fetcher.done("b")
    assert finishes(world) == 1
    world.push("news", task("c"))
    fetcher.done("c")
    assert finishes(world) == 2


def test_a_recurring_task_that_is_pushed_anew_counts_again_until_it_has_run(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", **RECURRING))
    fetcher.done("a")
    world.push("news", task("a", **RECURRING, **FORCE))
    assert world.project().unfinished == 1

    fetcher.done("a")
    assert finishes(world) == 2


def test_a_recurring_task_that_puts_itself_off_counts_no_more_than_one_that_waits_by_itself(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", **RECURRING))
    for page in range(1, 4):
        carried = task("a", body={"save": page}, delay=100, **RECURRING, **FORCE)
        fetcher.done("a", new=[carried])
        assert finishes(world) == 1
        assert world.push("news", task("a")) == ["ignored"]

        run_out(world, fetcher, 100)
        fetcher.hello()
        assert body_of(fetcher.held["a"]) == {"save": page}

    world.push("news", task("b"))
    fetcher.hello()
    fetcher.done("b")
    assert finishes(world) == 2


def test_a_first_run_that_puts_its_task_off_ends_nothing_while_others_are_live(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", **RECURRING), task("b"))
    fetcher.done("a", new=[task("a", delay=100, **RECURRING, **FORCE)])
    assert (finishes(world), world.project().unfinished) == (0, 1)

    world.restart()
    fetcher.hello()
    fetcher.done("b")
    assert finishes(world) == 1


# ------------------------------------------------------------------------------------------------ on_finished


def test_on_finished_is_pushed_once_and_does_not_finish_the_project_again(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = work(world, "a")
    fetcher.done("a")
    fetcher.hello()
    assert fetcher.taken == ["a", "on_finished"]
    assert fetcher.held["on_finished"].url == "http://example.org/report"
    assert body_of(fetcher.held["on_finished"]) == {"callback": "report"}
    assert world.project().unfinished == 0

    fetcher.done("on_finished")
    world.advance(1000)
    assert finishes(world) == 1
    assert never_comes(world, fetcher)


def test_on_finished_has_the_taskid_that_it_names(world: World) -> None:
    world.set(on_finished={"taskid": "report"})

    fetcher = work(world, "a")
    fetcher.done("a")
    fetcher.hello()
    fetcher.done("report")
    assert finishes(world) == 1


def test_on_finished_that_has_ended_runs_again_at_the_next_end(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = world.fetcher()
    for taskid in "ab":
        world.push("news", task(taskid))
        fetcher.done(taskid)
        fetcher.done("on_finished")

    assert fetcher.taken == ["a", "on_finished", "b", "on_finished"]
    assert finishes(world) == 2


def test_on_finished_that_still_waits_runs_once_for_two_ends(world: World) -> None:
    world.set(on_finished={"priority": -5})
    fetcher = work(world, "a", "b")
    fetcher.done("a")
    fetcher.done("b")
    world.push("news", task("c"))
    fetcher.hello(capacity=1)
    fetcher.hello(capacity=0)

    fetcher.done("c")
    fetcher.hello()
    assert fetcher.taken == ["a", "b", "c", "on_finished"]
    assert finishes(world) == 2
    assert world.project().unfinished == 0


def test_on_finished_that_is_processing_runs_again_after_that(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = world.fetcher()
    world.push("news", task("a"))
    fetcher.done("a")
    world.push("news", task("b"))
    fetcher.done("b")
    assert fetcher.taken == ["a", "on_finished", "b"]

    fetcher.done("on_finished")
    assert fetcher.taken == ["a", "on_finished", "b", "on_finished"]
    fetcher.done("on_finished")
    assert finishes(world) == 2
    assert fetcher.held == {}


def test_follow_ups_of_on_finished_count(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = world.fetcher()
    world.push("news", task("a"))
    fetcher.done("a")

    fetcher.done("on_finished", new=[task("b")])
    fetcher.done("b")
    assert finishes(world) == 2


def test_no_limit_applies_to_on_finished(make_world: MakeWorld) -> None:
    world = make_world({"max_tasks": 1, "max_queue": 1, "max_depth": 0} | AT_THE_END)
    fetcher = work(world, "a")
    fetcher.done("a")

    fetcher.hello()
    assert fetcher.taken == ["a", "on_finished"]


def test_a_config_that_changes_at_the_end_of_a_project_harms_nothing(make_world: MakeWorld) -> None:
    world = make_world()
    fetcher = work(world, "a", "b")
    fetcher.done("a")

    world.turn(fetcher.answers(fetcher.finished("b")))
    layer = {"on_finished": {"taskid": "a"}}
    world.configure(
        CoreConfig(defaults=world.config.defaults, head_tasks=world.config.head_tasks, projects={"news": layer})
    )
    assert finishes(world) == 1
    assert world.counts().success == 2


# ------------------------------------------------------------------------------------------------ holds


def test_a_producer_may_hold_a_project_open_while_it_pushes(world: World) -> None:
    assert world.hold(60).held_by == 1
    work(world, "a").done("a")
    assert finishes(world) == 0

    work(world, "b").done("b")
    assert finishes(world) == 0
    assert world.hold(0).held_by == 0
    assert finishes(world) == 1


def test_a_hold_ends_with_its_seconds(world: World) -> None:
    world.hold(60)
    work(world, "a").done("a")
    world.advance(59)
    assert finishes(world) == 0

    world.advance(1)
    assert finishes(world) == 1
    assert world.project().held_by == 0


def test_a_hold_may_be_made_longer(world: World) -> None:
    world.hold(60)
    work(world, "a").done("a")
    world.advance(50)
    world.hold(60)
    world.advance(59)
    assert finishes(world) == 0

    world.advance(1)
    assert finishes(world) == 1


def test_a_project_is_open_while_one_of_several_holds_it(world: World) -> None:
    world.hold(100, session="one")
    world.hold(50, session="two")
    work(world, "a").done("a")
    world.hold(0, session="one")
    assert finishes(world) == 0

    world.advance(50)
    assert finishes(world) == 1


@pytest.mark.parametrize("reboot", [False, True])
def test_a_hold_outlives_the_daemon(world: World, reboot: bool) -> None:
    world.hold(60)
    work(world, "a").done("a")
    world.advance(30)

    world.reboot() if reboot else world.restart()
    assert world.project().held_by == 1
    world.advance(29)
    assert finishes(world) == 0
    world.advance(1)
    assert finishes(world) == 1


def test_a_hold_lasts_no_longer_when_the_clock_is_put_back(world: World) -> None:
    world.hold(60)
    work(world, "a").done("a")

    world.wall_step -= 86_400
    world.advance(59)
    assert finishes(world) == 0
    world.advance(1)
    assert finishes(world) == 1


def test_no_more_than_a_hundred_sessions_hold_a_project_open(world: World) -> None:
    for number in range(100):
        world.hold(60, session=f"s{number}")

    request = ProjectHold(session="one-more", n=world.n(), project="news", seconds=60)
    assert world.ask(ErrorReply, request).code == "full"
    assert world.hold(60, session="s0").held_by == 100


def test_a_hold_of_a_project_that_had_no_task_finishes_nothing(world: World) -> None:
    world.hold(60)
    world.hold(0)
    world.hold(10)
    world.advance(60)

    assert finishes(world) == 0


def test_an_unknown_project_is_not_held(world: World) -> None:
    reply = world.answer(ProjectHold(session="script", n=world.n(), project="unknown", seconds=5))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "unknown-project"


# ------------------------------------------------------------------------------------------------ waiting


def test_who_waits_is_answered_at_once_if_nothing_is_live(world: World) -> None:
    assert world.wait().finished is True

    work(world, "a").done("a")
    assert world.wait().finished is True


def test_who_waits_is_answered_when_the_project_finishes(world: World) -> None:
    fetcher = work(world, "a")
    one, two = world.wait(session="one"), world.wait(session="two")
    assert one.finished is two.finished is None

    fetcher.done("a")
    assert one.finished is two.finished is True


def test_who_waits_is_answered_after_its_seconds(world: World) -> None:
    work(world, "a")
    waiting = world.wait(20)
    world.advance(19)
    assert waiting.finished is None

    world.advance(1)
    assert waiting.finished is False
    assert world.wait(0).finished is False


def test_who_waits_waits_for_holds_too(world: World) -> None:
    world.hold(40)
    waiting = world.wait(60)
    assert waiting.finished is None

    world.advance(40)
    assert waiting.finished is True


def test_who_waits_is_told_of_the_end_whatever_comes_right_after_it(world: World) -> None:
    fetcher = work(world, "a")
    waiting = world.wait()

    world.turn(fetcher.answers(fetcher.finished("a")))
    world.turn(world.new_tasks("news", task("b")))
    assert waiting.finished is True
    assert finishes(world) == 1
    assert world.project().unfinished == 1


def test_who_waits_does_not_wait_for_on_finished(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = work(world, "a")
    waiting = world.wait()

    fetcher.done("a")
    assert waiting.finished is True


@pytest.mark.parametrize("action", ["clear", "reset"])
def test_who_waits_is_answered_when_the_project_is_emptied(world: World, action: str) -> None:
    work(world, "a")
    waiting = world.wait()

    world.do(action)
    world.settle()
    assert waiting.finished is True


def test_who_waits_for_an_unknown_project_is_told_so(world: World) -> None:
    reply = world.answer(ProjectWait(session="script", n=world.n(), project="unknown"))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "unknown-project"


def test_who_waits_for_a_project_that_is_deleted_is_told_so(world: World) -> None:
    work(world, "a")
    waiting = world.wait()

    world.do("delete")
    assert isinstance(waiting.answer, ErrorReply)
    assert waiting.answer.code == "unknown-project"


# ------------------------------------------------------------------------------------------------ crashes


@pytest.mark.parametrize("reboot", [False, True])
def test_a_crash_between_the_end_of_the_last_task_and_the_event_loses_nothing(world: World, reboot: bool) -> None:
    world.set(**AT_THE_END)
    fetcher = work(world, "a")

    world.turn(fetcher.answers(fetcher.finished("a")))
    assert world.event_kinds() == []
    world.reboot() if reboot else world.restart()
    assert world.event_kinds() == ["finished"]
    fetcher.hello()
    assert fetcher.taken == ["a", "on_finished"]
    fetcher.done("on_finished")
    world.restart()
    assert finishes(world) == 1


def test_a_crash_after_the_event_does_not_repeat_it(world: World) -> None:
    world.set(**AT_THE_END)
    fetcher = work(world, "a")
    fetcher.done("a")
    assert world.event_kinds() == ["finished"]

    world.restart()
    fetcher.hello()
    fetcher.done("on_finished")
    assert never_comes(world, fetcher)
    assert finishes(world) == 1


def test_a_project_that_was_not_finished_is_not_after_a_restart(world: World) -> None:
    fetcher = work(world, "a", "b")
    fetcher.done("a")

    world.restart()
    assert finishes(world) == 0
    fetcher.hello(capacity=0)
    fetcher.done("b")
    assert finishes(world) == 1


def test_a_task_that_is_retried_by_hand_finishes_its_project_again(world: World) -> None:
    fetcher = work(world, "a")
    fetcher.fail("a", retry=False)
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))
    assert world.project().unfinished == 1

    run_out(world, fetcher, 10)
    fetcher.hello()
    fetcher.done("a")
    assert finishes(world) == 2


def test_a_hold_that_is_repeated_is_answered_and_not_done_again(world: World) -> None:
    request = ProjectHold(session="producer", n=world.n(), project="news", seconds=60)
    world.ask(ProjectReply, request)
    world.hold(0)
    world.ask(ProjectReply, request)

    assert world.project().held_by == 0


# ------------------------------------------------------------------------------------------------ but its retries


def test_who_ignores_retries_is_answered_when_only_they_are_left(world: World) -> None:
    fetcher = work(world, "a", "b")
    early, late = world.wait(ignore_retries=True), world.wait()
    fetcher.fail("a")
    assert early.finished is None

    fetcher.done("b")

    assert early.finished is True
    assert isinstance(early.answer, WaitReply)
    assert (early.answer.unfinished, late.finished) == (1, None)
    assert world.wait(ignore_retries=True, session="another").finished is True


def test_who_ignores_retries_waits_for_what_is_scheduled(world: World) -> None:
    fetcher = work(world, "a")
    world.push("news", task("b", delay=10))
    fetcher.fail("a")

    assert world.wait(5, ignore_retries=True).finished is None
    world.advance(5)
    assert world.wait(0, ignore_retries=True).finished is False


def test_who_ignores_retries_waits_for_holds_and_follow_ups(world: World) -> None:
    fetcher = work(world, "a", "b")
    world.hold(60)
    early = world.wait(ignore_retries=True)
    fetcher.fail("a")
    fetcher.done("b", new=[task("c")])
    assert early.finished is None

    fetcher.hello()
    fetcher.done("c")
    assert early.finished is None
    world.hold(0)

    assert early.finished is True


@pytest.mark.parametrize("end", ["clear", "reset", "delete"])
def test_who_ignores_retries_is_answered_when_the_project_is_emptied(world: World, end: Action) -> None:
    work(world, "a")
    early = world.wait(ignore_retries=True)

    world.do(end)

    if end == "delete":
        assert isinstance(early.answer, ErrorReply)
    else:
        assert early.finished is True


def test_an_answer_says_how_far_the_project_is(world: World) -> None:
    fetcher = work(world, "a", "b", "c")
    fetcher.fail("a")
    waiting = world.wait(0)

    assert isinstance(waiting.answer, WaitReply)
    remaining = waiting.answer.remaining
    assert remaining is not None
    assert (remaining.left, remaining.held_back, remaining.reason) == (2, 1, "too-few")


@pytest.mark.parametrize(("retries", "seconds"), [(0, 30.0), (1, 30.0), (3, 900.0), (9, 3600.0)])
def test_a_retry_waits_for_a_step_of_the_table_that_the_retries_reach_at_most(
    make_world: MakeWorld, retries: int, seconds: float
) -> None:
    world = make_world(projects={"news": {"retries": retries, "retry_delay": [30.0, 60.0, 900.0, 3600.0]}})

    remaining = world.project("news").remaining

    assert remaining is not None
    assert remaining.retry_seconds == seconds


def test_a_project_that_hands_out_nothing_tells_no_time(make_world: MakeWorld) -> None:
    world = make_world(projects={"news": {}, "shut": {"active": "03:00-03:01 UTC"}, "still": {"rate": 0}})
    for name in ("news", "shut", "still"):
        world.push(name, task("a"))

    def reason(name: str) -> str:
        remaining = world.project(name).remaining
        assert remaining is not None
        return remaining.reason

    assert [reason(name) for name in ("news", "shut", "still")] == ["too-few", "out-of-hours", "no-rate"]
    world.do("pause")
    assert reason("news") == "paused"
    world.do("stop")
    assert reason("news") == "stopped"
