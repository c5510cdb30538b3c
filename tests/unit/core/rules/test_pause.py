"""States of a project: running, paused, checking, stopped; and its automatic pauses."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.steps.operations import PROJECTS_A_STEP
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.operations import OperationReply
from taskqueue.protocol.projects import GroupDo, ProjectDo
from taskqueue.protocol.tasks import NewTasksReply
from taskqueue.protocol.values import Action, Operation
from taskqueue.settings.settings import CoreConfig
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import CANCEL, DAY, comes_after, rest, run_out

PAUSE = 300.0


def staff(make_world: MakeWorld, tasks: int = 40, **settings: Any) -> tuple[World, Fetcher]:
    """Make a world in which tasks fail for good, with many tasks of news, and a fetcher that has not said hello."""
    world = make_world({"retries": 0} | settings)
    world.push("news", *[task(f"t{i}") for i in range(tasks)])
    return world, world.know(Fetcher(world, "fetcher", 100, None))


def fail(fetcher: Fetcher, times: int) -> None:
    """Let ``times`` tasks be dispatched and fail; then the fetcher takes no further one."""
    fetcher.hello(capacity=times)
    rest(fetcher)
    for taskid in list(fetcher.held):
        assert fetcher.fail(taskid, error="HTTP 503") == "done"


def pause(make_world: MakeWorld, **settings: Any) -> tuple[World, Fetcher]:
    """Make a project that has just paused itself, and a fetcher that takes no task yet."""
    world, fetcher = staff(make_world, **settings)
    fail(fetcher, 10)
    assert world.project().state == "paused"
    return world, fetcher


def begin_checks(make_world: MakeWorld) -> tuple[World, Fetcher]:
    """Make a project that is checking, and a fetcher with all the checks."""
    world, fetcher = pause(make_world)
    run_out(world, fetcher, PAUSE)
    fetcher.hello()
    assert len(fetcher.held) == 3
    return world, fetcher


def reaches(make_world: MakeWorld, phase: str) -> tuple[World, Fetcher]:
    """Make a project in an automatic pause, or in the checks after it."""
    return pause(make_world) if phase == "paused" else begin_checks(make_world)


def goes_on(fetcher: Fetcher) -> bool:
    """Whether the fetcher gets more tasks than checks."""
    fetcher.hello()
    return len(fetcher.held) > 3


def extra(fetcher: Fetcher) -> int:
    """Count the tasks that the fetcher gets if it takes all."""
    taken = len(fetcher.taken)
    fetcher.hello()
    return len(fetcher.taken) - taken


# ------------------------------------------------------------------------------------------------ states


def test_a_stopped_project_takes_tasks_and_hands_out_nothing(world: World) -> None:
    world.do("stop")

    assert world.push("news", task("a")) == ["new"]
    fetcher = world.fetcher()
    assert fetcher.taken == []
    world.do("start")
    assert fetcher.taken == ["a"]


def test_a_paused_project_takes_tasks_and_hands_out_nothing(world: World) -> None:
    fetcher = world.fetcher()
    world.do("pause")

    assert world.push("news", task("a")) == ["new"]
    assert fetcher.taken == []
    world.do("resume")
    assert fetcher.taken == ["a"]


@pytest.mark.parametrize("action", ["stop", "pause"])
def test_answers_count_whatever_the_state(world: World, action: str) -> None:
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher()
    world.do(action)

    assert fetcher.done("a") == "done"
    assert fetcher.fail("b") == "done"


def test_an_unknown_project_takes_no_tasks(world: World) -> None:
    reply = world.ask(NewTasksReply, world.new_tasks("unknown", task("a")))

    assert reply.outcomes == ["rejected"]
    assert "taskqueue project start unknown" in reply.errors[0].reason


def test_start_makes_an_unknown_project(world: World) -> None:
    world.do("start", "unknown")

    assert world.push("unknown", task("a")) == ["new"]


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_nothing_but_start_makes_an_unknown_project(world: World, action: Action) -> None:
    reply = world.answer(ProjectDo(session="person", n=world.n(), project="unknown", action=action))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "unknown-project"


@pytest.mark.parametrize("action", ["pause", "resume"])
def test_a_stopped_project_is_not_paused_or_resumed(world: World, action: Action) -> None:
    world.do("stop")

    reply = world.answer(ProjectDo(session="person", n=world.n(), project="news", action=action))

    assert isinstance(reply, ErrorReply)
    assert reply.code == "state"
    assert world.project().state == "stopped"


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("stop", "stopped")])
def test_a_state_outlives_the_daemon(world: World, action: str, state: str) -> None:
    world.push("news", task("a"))
    world.do(action)

    world.restart()
    assert world.project().state == state
    world.reboot()
    assert world.project().state == state
    assert world.fetcher().taken == []


# ------------------------------------------------------------------------------------------------ into the pause


def test_ten_failures_in_a_row_pause_a_project(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    fail(fetcher, 9)
    assert world.project().state == "running"

    fail(fetcher, 1)
    assert world.project().state == "paused"
    assert extra(fetcher) == 0


def test_the_number_of_failures_is_a_setting(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world, fail_pause_num=3)
    fail(fetcher, 2)
    assert world.project().state == "running"

    fail(fetcher, 1)
    assert world.project().state == "paused"


def test_a_success_in_between_starts_the_count_anew(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    fail(fetcher, 9)
    fetcher.hello(capacity=1)
    rest(fetcher)
    fetcher.done("t9")
    fail(fetcher, 9)
    assert world.project().state == "running"

    fail(fetcher, 1)
    assert world.project().state == "paused"


def test_results_count_however_many_tasks_are_handed_out_between_them(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    others = world.know(Fetcher(world, "others", 4, None))
    for _ in range(10):
        assert world.project().state == "running"
        fail(fetcher, 1)
        others.hello()
        others.release(*others.held)
        others.hello(capacity=0)

    assert world.project().state == "paused"


def test_a_retry_after_and_a_final_failure_are_neither_success_nor_failure(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    fail(fetcher, 9)
    fetcher.hello(capacity=20)
    rest(fetcher)
    for index, taskid in enumerate(list(fetcher.held)):
        fetcher.fail(taskid, **({"retry": False} if index % 2 else {"retry_after": 5.0}))
    assert world.project().state == "running"

    fail(fetcher, 1)
    assert world.project().state == "paused"


def test_a_timeout_is_a_failure(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    fetcher.hello(capacity=10)

    run_out(world, fetcher)
    project = world.project()
    assert project.state == "paused"
    assert "timeout" in project.reason


def test_with_a_fail_pause_num_of_zero_a_project_never_pauses_itself(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world, fail_pause_num=0)

    fail(fetcher, 30)
    assert world.project().state == "running"
    assert world.event_kinds() == []


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_a_fail_pause_num_of_zero_ends_the_pause_of_a_project_that_paused_itself(
    make_world: MakeWorld, phase: str
) -> None:
    world, fetcher = reaches(make_world, phase)

    assert world.set(fail_pause_num=0).state == "running"
    assert goes_on(fetcher)


def test_a_fail_pause_num_of_zero_in_the_config_ends_the_pause_at_the_next_start(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)
    world.config = CoreConfig(projects=world.config.projects, defaults={"rate": inf, "fail_pause_num": 0})

    world.restart()
    assert world.project().state == "running"
    assert goes_on(fetcher)


def test_a_fail_pause_num_of_zero_does_not_end_a_pause_by_hand(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    world.do("pause")

    assert world.set(fail_pause_num=0).state == "paused"
    assert extra(fetcher) == 0


def test_a_project_shows_why_it_paused_itself_and_when_it_checks_next(make_world: MakeWorld) -> None:
    world, _ = pause(make_world)

    project = world.project()
    assert project.reason == "10 failures in a row, the last one: HTTP 503"
    assert project.check_at == world.now.wall + PAUSE


# ------------------------------------------------------------------------------------------------ checks


def test_after_the_pause_three_tasks_are_handed_out_and_no_more(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)
    run_out(world, fetcher, PAUSE - 1)
    assert extra(fetcher) == 0

    rest(fetcher)
    world.advance(1)
    assert extra(fetcher) == 3
    assert world.project().state == "checking"
    run_out(world, fetcher, 500)
    assert extra(fetcher) == 0


def test_the_length_of_the_pause_is_a_setting(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world, pause_time=40)
    run_out(world, fetcher, 39)
    assert extra(fetcher) == 0

    world.advance(1)
    assert extra(fetcher) == 3 or len(fetcher.held) == 3


def test_a_shorter_pause_time_holds_for_the_pause_that_is_under_way(make_world: MakeWorld) -> None:
    world, _ = pause(make_world)

    world.set(pause_time=40.0)

    assert world.project().check_at == world.now.wall + 40
    world.restart()
    assert world.project().check_at == world.now.wall + 40


@pytest.mark.parametrize("failures", [0, 2])
def test_a_success_resumes_a_project_that_checks(make_world: MakeWorld, failures: int) -> None:
    world, fetcher = begin_checks(make_world)
    rest(fetcher)
    for taskid in list(fetcher.held)[:failures]:
        fetcher.fail(taskid)

    fetcher.done(next(iter(fetcher.held)))
    assert world.project().state == "running"
    assert goes_on(fetcher)


def test_three_failed_checks_pause_a_project_again(make_world: MakeWorld) -> None:
    world, fetcher = begin_checks(make_world)
    for taskid in list(fetcher.held):
        assert world.project().state == "checking"
        fetcher.fail(taskid, error="HTTP 502")

    project = world.project()
    assert project.state == "paused"
    assert project.reason == "3 checks have failed, the last one: HTTP 502"
    assert project.check_at == world.now.wall + PAUSE
    run_out(world, fetcher, PAUSE - 1)
    assert extra(fetcher) == 0
    world.advance(1)
    assert len(fetcher.held) == 3


def test_checks_that_time_out_pause_a_project_again(make_world: MakeWorld) -> None:
    world, fetcher = begin_checks(make_world)

    run_out(world, fetcher)
    assert world.project().state == "paused"


@pytest.mark.parametrize("end", ["released", "lost", "silent", "cancelled", "retry_after", "retry: false"])
def test_a_check_without_a_result_makes_room_for_another(make_world: MakeWorld, end: str) -> None:
    world, fetcher = begin_checks(make_world)
    first, second, third = fetcher.held
    another = world.know(Fetcher(world, "another", 100, None))
    rest(fetcher)
    fetcher.fail(first)
    if end == "released":
        fetcher.release(second)
    elif end == "lost":
        fetcher.hello(capacity=0, holds=fetcher.tokens(third))
    elif end == "silent":
        world.advance(61)
        fetcher.hello(holds=[], capacity=0)
    elif end == "cancelled":
        world.push("news", task(second, **CANCEL))
    else:
        fetcher.fail(second, **({"retry": False} if end == "retry: false" else {"retry_after": 5.0}))

    assert world.project().state == "checking"
    assert extra(another) == (2 if end == "silent" else 1)


def test_a_clock_that_is_put_back_does_not_lengthen_a_pause(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)

    world.wall_step -= DAY
    run_out(world, fetcher, PAUSE)
    assert world.project().state == "checking"


@pytest.mark.parametrize("answer", [{"retry": False}, {"retry_after": 9999.0}])
def test_a_site_that_answers_all_checks_as_it_means_to_is_well(make_world: MakeWorld, answer: dict[str, Any]) -> None:
    world, fetcher = begin_checks(make_world)
    world.happened.clear()

    for number in range(9):
        assert world.project().state == "checking"
        assert fetcher.fail(list(fetcher.held)[-1], **answer) == "done"
        if number == 4:
            world.restart()
        fetcher.hello()
    assert world.project().state == "running"
    assert goes_on(fetcher)
    assert [(event.kind, event.reason) for event in world.happened] == [("resumed", "the site answers")]


def test_an_answer_to_a_task_handed_out_before_the_pause_is_no_check(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    fetcher.hello(capacity=20)
    rest(fetcher)
    for taskid in list(fetcher.held)[:10]:
        fetcher.fail(taskid)
    run_out(world, fetcher, PAUSE)
    assert world.project().state == "checking"

    for taskid in list(fetcher.held):
        fetcher.fail(taskid, retry=False)
    assert world.project().state == "checking"


def test_answers_of_an_earlier_phase_do_not_count_in_a_later_one(make_world: MakeWorld) -> None:
    world, fetcher = begin_checks(make_world)
    for _ in range(8):
        fetcher.fail(next(iter(fetcher.held)), retry=False)
        fetcher.hello()
    world.restart()
    for taskid in list(fetcher.held):
        fetcher.fail(taskid)
    assert world.project().state == "paused"

    run_out(world, fetcher, PAUSE)
    fetcher.hello()
    for _ in range(8):
        fetcher.fail(next(iter(fetcher.held)), retry=False)
        fetcher.hello()
    assert world.project().state == "checking"


def test_a_failure_of_a_task_handed_out_before_the_pause_is_no_check(make_world: MakeWorld) -> None:
    world, fetcher = staff(make_world)
    early = world.fetcher(capacity=5, name="early")
    early.hello(capacity=0)
    fail(fetcher, 10)
    early.fail("t0")
    check_at = world.project().check_at
    end = world.elapsed + PAUSE
    while world.elapsed < end:
        early.hello(capacity=0)
        world.advance(30)
    fetcher.hello()
    assert len(fetcher.held) == 3

    for taskid in ("t1", "t2", "t3"):
        assert early.fail(taskid) == "done"
    assert check_at == world.now.wall
    assert world.project().state == "checking"
    assert extra(fetcher) == 0
    fetcher.fail(next(iter(fetcher.held)))
    assert world.project().state == "checking"


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_a_success_of_a_task_handed_out_before_the_pause_resumes_it(make_world: MakeWorld, phase: str) -> None:
    world, fetcher = staff(make_world)
    early = world.fetcher(capacity=1, name="early")
    early.hello(capacity=0)
    fail(fetcher, 10)
    while phase == "checking" and world.project().state == "paused":
        early.hello(capacity=0)
        world.advance(30)

    early.done("t0")
    assert world.project().state == "running"
    assert world.event_kinds() == ["paused", "resumed"]


def test_a_failed_check_of_an_earlier_phase_does_not_count_in_a_later_one(make_world: MakeWorld) -> None:
    world, fetcher = begin_checks(make_world)
    late, *others = fetcher.held
    rest(fetcher)
    world.do("resume")
    another = world.know(Fetcher(world, "another", 100, None))
    for taskid in others:
        fetcher.fail(taskid)
    fail(another, 8)
    assert world.project().state == "paused"
    end = world.elapsed + PAUSE
    while world.elapsed < end:
        rest(fetcher)
        world.advance(30)
    another.hello()
    assert len(another.held) == 3

    fetcher.fail(late)
    two = list(another.held)[:2]
    for taskid in two:
        another.fail(taskid)
    assert world.project().state == "checking"


# ------------------------------------------------------------------------------------------------ kept, and by hand


@pytest.mark.parametrize("reboot", [False, True])
def test_failures_in_a_row_outlive_the_daemon(make_world: MakeWorld, reboot: bool) -> None:
    world, fetcher = staff(make_world)
    fail(fetcher, 9)

    world.reboot() if reboot else world.restart()
    fail(fetcher, 1)
    assert world.project().state == "paused"


@pytest.mark.parametrize("reboot", [False, True])
def test_a_pause_outlives_the_daemon_with_its_reason_and_its_time(make_world: MakeWorld, reboot: bool) -> None:
    world, fetcher = pause(make_world)
    before = world.project()
    run_out(world, fetcher, 100)

    world.reboot() if reboot else world.restart()
    after = world.project()
    assert (after.state, after.reason, after.check_at) == ("paused", before.reason, before.check_at)
    run_out(world, fetcher, PAUSE - 101)
    assert extra(fetcher) == 0
    world.advance(1)
    assert len(fetcher.held) == 3


@pytest.mark.parametrize("reboot", [False, True])
def test_checks_outlive_the_daemon(make_world: MakeWorld, reboot: bool) -> None:
    world, fetcher = begin_checks(make_world)
    fetcher.fail(next(iter(fetcher.held)))

    world.reboot() if reboot else world.restart()
    assert world.project().state == "checking"
    assert extra(fetcher) == 0
    for taskid in list(fetcher.held):
        fetcher.fail(taskid)
    assert world.project().state == "paused"


def test_a_pause_that_ends_while_the_daemon_is_down_is_checked_at_its_start(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)
    world.elapsed += 2 * PAUSE

    world.restart()
    assert extra(fetcher) == 3


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_a_person_can_resume_it_at_once(make_world: MakeWorld, phase: str) -> None:
    world, fetcher = reaches(make_world, phase)
    rest(fetcher)
    world.do("resume")
    project = world.project()
    assert (project.state, project.reason, project.check_at) == ("running", "", 0.0)
    for taskid in list(fetcher.held):
        fetcher.fail(taskid)

    fail(fetcher, 9 - (3 if phase == "checking" else 0))
    assert world.project().state == "running"
    fail(fetcher, 1)
    assert world.project().state == "paused"


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_a_pause_by_hand_wins_over_an_automatic_one(make_world: MakeWorld, phase: str) -> None:
    world, fetcher = reaches(make_world, phase)
    held = list(fetcher.held)
    world.do("pause")
    assert world.project().check_at == 0.0

    for taskid in held:
        fetcher.done(taskid)
    run_out(world, fetcher, 3 * PAUSE)
    assert world.project().state == "paused"
    assert extra(fetcher) == 0


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_stop_and_start_end_an_automatic_pause(make_world: MakeWorld, phase: str) -> None:
    world, fetcher = reaches(make_world, phase)
    world.do("stop")
    run_out(world, fetcher, 2 * PAUSE)
    assert world.project().state == "stopped"
    assert extra(fetcher) == 0

    world.do("start")
    assert goes_on(fetcher)


@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_start_ends_an_automatic_pause(make_world: MakeWorld, phase: str) -> None:
    world, fetcher = reaches(make_world, phase)

    world.do("start")
    assert world.project().state == "running"
    assert goes_on(fetcher)


@pytest.mark.parametrize("action", ["clear", "reset"])
@pytest.mark.parametrize("phase", ["paused", "checking"])
def test_a_project_that_is_cleared_or_reset_in_a_pause_goes_on_to_check(
    make_world: MakeWorld, phase: str, action: str
) -> None:
    world, fetcher = reaches(make_world, phase)
    world.do(action)
    fetcher.held.clear()
    world.push("news", *[task(f"u{i}") for i in range(9)])
    if phase == "paused":
        run_out(world, fetcher, PAUSE - 1)
        assert extra(fetcher) == 0
        rest(fetcher)
        world.advance(1)

    fetcher.hello()
    assert len(fetcher.held) == 3


def test_pause_and_resume_are_events_said_once(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)
    world.restart()
    assert world.event_kinds() == ["paused"]
    assert world.happened[0].reason == world.project().reason
    run_out(world, fetcher, PAUSE)
    fetcher.hello()
    for taskid in list(fetcher.held):
        fetcher.fail(taskid)
    assert (world.event_kinds(), world.project().state) == (["paused"], "paused"), (
        "the pause continues, without another event"
    )

    run_out(world, fetcher, PAUSE)
    fetcher.hello()
    rest(fetcher)
    for taskid in list(fetcher.held):
        fetcher.done(taskid)
    world.restart()
    assert world.event_kinds() == ["paused", "resumed"]


def test_what_a_person_does_is_no_event(make_world: MakeWorld) -> None:
    world, _ = pause(make_world)
    for action in ("resume", "pause", "resume", "stop", "start"):
        world.do(action)

    assert world.event_kinds() == ["paused"]


# ------------------------------------------------------------------------------------------------ for a time

TEN_MINUTES = 600.0


def hands_out(world: World, taskid: str) -> bool:
    """Whether a task that is pushed now is dispatched at once."""
    fetcher = world.fetcher(name=f"fetcher of {taskid}")
    world.push("news", task(taskid))
    return taskid in fetcher.taken


def test_a_pause_for_a_time_ends_by_itself_when_it_is_over(world: World) -> None:
    world.push("news", task("a"))
    world.do("pause", seconds=TEN_MINUTES)

    assert comes_after(world, world.fetcher(), TEN_MINUTES)
    assert world.project().state == "running"


def test_a_project_shows_until_when_it_is_paused(world: World) -> None:
    view = world.do("pause", seconds=TEN_MINUTES)
    assert view is not None
    assert view.paused_until == world.now.wall + TEN_MINUTES

    world.advance(TEN_MINUTES)
    assert world.project().paused_until == 0


@pytest.mark.parametrize("action", ["resume", "start", "stop", "pause"])
def test_whatever_a_person_says_next_cancels_the_end_of_a_pause(world: World, action: Action) -> None:
    world.do("pause", seconds=TEN_MINUTES)
    after = world.do(action)
    assert after is not None
    assert after.paused_until == 0
    if action in ("resume", "start"):
        after = world.do("pause")

    world.advance(TEN_MINUTES)
    assert world.project().state == after.state != "running"  # type: ignore[union-attr]


@pytest.mark.parametrize("second", [60.0, 3600.0])
def test_a_second_pause_for_a_time_replaces_the_first(world: World, second: float) -> None:
    world.do("pause", seconds=TEN_MINUTES)
    world.do("pause", seconds=second)

    world.advance(second - 1)
    assert world.project().state == "paused"
    world.advance(1)
    assert world.project().state == "running"


def test_a_pause_for_a_time_goes_on_across_restarts(world: World) -> None:
    world.do("pause", seconds=TEN_MINUTES)

    world.advance(TEN_MINUTES / 2)
    world.restart()
    assert world.project().state == "paused"
    world.reboot()
    world.advance(TEN_MINUTES / 2)
    assert world.project().state == "running"


def test_a_pause_that_would_have_ended_while_the_daemon_was_down_ends_at_its_start(world: World) -> None:
    world.do("pause", seconds=TEN_MINUTES)

    world.elapsed += TEN_MINUTES
    world.restart()
    assert world.project().state == "running"
    assert hands_out(world, "a")


def test_a_clock_that_is_put_back_does_not_lengthen_a_pause_for_a_time(world: World) -> None:
    world.do("pause", seconds=TEN_MINUTES)

    world.wall_step -= DAY
    world.advance(TEN_MINUTES)
    assert world.project().state == "running"


def test_a_project_that_is_cleared_or_reset_during_a_pause_for_a_time_goes_on_when_it_is_over(world: World) -> None:
    world.do("pause", seconds=TEN_MINUTES)
    world.do("clear")
    world.do("reset")
    assert world.project().state == "paused"

    world.advance(TEN_MINUTES)
    assert world.project().state == "running"


def test_a_pause_for_a_time_wins_over_an_automatic_one(make_world: MakeWorld) -> None:
    world, fetcher = pause(make_world)
    world.do("pause", seconds=2 * PAUSE)

    run_out(world, fetcher, 2 * PAUSE - 1)
    assert world.project().state == "paused"
    world.advance(1)
    assert world.project().state == "running"
    assert goes_on(fetcher)


def test_the_end_of_a_pause_for_a_time_is_no_event(world: World) -> None:
    world.do("pause", seconds=TEN_MINUTES)
    world.advance(TEN_MINUTES)

    assert world.event_kinds() == []


@pytest.mark.parametrize("action", ["resume", "stop", "start", "clear", "reset", "delete"])
def test_only_a_pause_takes_a_time(world: World, action: Action) -> None:
    request = ProjectDo(session="person", n=world.n(), project="news", action=action, seconds=1.0)
    refused = world.ask(ErrorReply, request)
    assert (refused.code, refused.reason) == ("malformed", f"seconds: only a pause can have a duration, not {action}")
    assert world.project().state == "running"


def act_on_group(world: World, action: Action, **said: Any) -> Operation:
    """Act on a group of projects, in one turn."""
    return world.ask(OperationReply, GroupDo(session="person", n=world.n(), action=action, **said)).operation


def test_a_group_is_paused_for_a_time_but_what_a_person_has_paused_for_good_stays_so(world: World) -> None:
    for name in ("a", "b", "c"):
        world.set(name, group="papers")
    world.do("pause", "b")
    world.do("pause", "c", seconds=60.0)

    operation = act_on_group(world, "pause", group="papers", seconds=TEN_MINUTES)
    assert (operation.matched, operation.seen) == (2, 3)
    world.advance(TEN_MINUTES)
    assert [world.project(name).state for name in "abc"] == ["running", "paused", "running"]


def test_a_large_group_that_is_paused_for_a_time_goes_on_as_one(world: World) -> None:
    names = [f"p{number:03}" for number in range(PROJECTS_A_STEP + 1)]
    for name in names:
        world.set(name, group="papers")

    act_on_group(world, "pause", group="papers", seconds=TEN_MINUTES)
    world.restart()
    assert len({world.project(name).paused_until for name in names}) == 1


def test_all_projects_are_paused_and_resumed_together_whatever_their_groups(world: World) -> None:
    world.set("grouped", group="papers")
    world.do("start", "plain")
    world.do("start", "stopped")
    world.do("stop", "stopped")

    paused = act_on_group(world, "pause", all=True)
    assert paused.seen - paused.matched == 1
    assert [world.project(name).state for name in ("grouped", "news", "plain", "stopped")] == [
        "paused", "paused", "paused", "stopped",
    ]  # fmt: skip

    act_on_group(world, "resume", all=True)
    assert [world.project(name).state for name in ("grouped", "news", "plain")] == ["running"] * 3


@pytest.mark.parametrize(
    ("action", "said", "reason"),
    [
        ("pause", {}, "group: give either a group or all"),
        ("pause", {"group": "papers", "all": True}, "group: give either a group or all"),
        ("delete", {"all": True}, "all: delete drops tasks; name a group"),
        ("resume", {"group": "papers", "seconds": 1.0}, "seconds: only a pause can have a duration, not resume"),
    ],
)
def test_nobody_drops_all_tasks_of_all_projects_by_a_slip(
    world: World, action: Action, said: dict[str, Any], reason: str
) -> None:
    world.set("news", group="papers")
    refused = world.ask(ErrorReply, GroupDo(session="person", n=world.n(), action=action, **said))
    assert (refused.code, refused.reason) == ("malformed", reason)
