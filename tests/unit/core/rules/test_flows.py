"""Flows: graphs of tasks that are accepted at once.

``flow(world, task("a"), waiting("b", "a"))`` stages and submits a flow of these tasks, and waits until it is made.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from taskqueue.core.steps import flows
from taskqueue.protocol.base import AnyReply, ErrorReply
from taskqueue.protocol.flows import (
    Flow,
    FlowCancel,
    FlowList,
    FlowReply,
    FlowShow,
    FlowsReply,
    FlowStage,
    FlowStaged,
    FlowSubmit,
    FlowTasks,
    FlowTasksReply,
    FlowTaskStatus,
)
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import NewTasksReply, TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import NewTask, TaskOf
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, MakeWorld, Waiting, World, body_of, task
from tests.unit.core.rules.conftest import HOUR
from tests.unit.core.rules.test_dependencies import run, state_of, waiting, waits

GRAPH = (
    task("a"), task("b"), task("c"), waiting("d", "a", "b"), waiting("e", "b", "c"), waiting("f", "a", "d"),
    waiting("g", "d", "e"), waiting("h", "d", "e"), waiting("i", "c", "e"),
)  # fmt: skip


def stage_of(world: World, *tasks: NewTask, first: int = 0, name: str = "f", project: str = "news") -> FlowStage:
    return FlowStage(session="producer", n=world.n(), project=project, flow=name, first=first, tasks=list(tasks))


def stage(world: World, *tasks: NewTask, first: int = 0, name: str = "f") -> int:
    """Stage tasks; return how many are staged then."""
    reply = world.ask(FlowStaged, stage_of(world, *tasks, first=first, name=name))
    assert not reply.errors
    return reply.staged


def refused(world: World, request: FlowStage) -> str:
    """Return the reason why tasks were not staged."""
    reply = world.answer(request)
    if isinstance(reply, ErrorReply):
        return f"{reply.code}: {reply.reason}"
    assert isinstance(reply, FlowStaged)
    return "; ".join(f"{error.index}: {error.reason}" for error in reply.errors)


def submission(world: World, count: int, *, reuse: bool = False, name: str = "f") -> FlowSubmit:
    return FlowSubmit(session="producer", n=world.n(), project="news", flow=name, count=count, reuse=reuse)


def submitted(world: World, count: int, *, reuse: bool = False, name: str = "f") -> AnyReply:
    """Submit the flow, and return the reply."""
    request = submission(world, count, reuse=reuse, name=name)
    world.turn(request)
    world.settle()
    answer = Waiting(world, request.n).answer
    assert answer is not None
    return answer


def submit(world: World, count: int, *, reuse: bool = False, name: str = "f") -> Flow:
    reply = submitted(world, count, reuse=reuse, name=name)
    assert isinstance(reply, FlowReply), reply
    return reply.flow


def flow(world: World, *tasks: NewTask, reuse: bool = False, name: str = "f") -> Flow:
    return submit(world, stage(world, *tasks, name=name), reuse=reuse, name=name)


def why_not(world: World, *tasks: NewTask, reuse: bool = False, name: str = "f") -> str:
    """Return the reason why a flow of these tasks is refused."""
    reply = submitted(world, stage(world, *tasks, name=name), reuse=reuse, name=name)
    assert isinstance(reply, ErrorReply), reply
    return f"{reply.code}: {reply.reason}"


def show(world: World, name: str = "f") -> Flow:
    return world.ask(FlowReply, FlowShow(session="person", n=world.n(), project="news", flow=name)).flow


def unknown(world: World, name: str = "f") -> bool:
    reply = world.answer(FlowShow(session="person", n=world.n(), project="news", flow=name))
    return isinstance(reply, ErrorReply) and reply.code == "unknown-flow"


def cancel(world: World, name: str = "f") -> Flow:
    return world.ask(FlowReply, FlowCancel(session="person", n=world.n(), project="news", flow=name)).flow


def members(world: World, name: str = "f", **how: Any) -> list[FlowTaskStatus]:
    return world.ask(FlowTasksReply, FlowTasks(session="person", n=world.n(), project="news", flow=name, **how)).tasks


def states(world: World, name: str = "f") -> dict[str, str]:
    return {view.taskid: view.state for view in members(world, name)}


def retry(world: World, *taskids: str) -> None:
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=list(taskids)))


def run_all(world: World, fetcher: Fetcher) -> list[str]:
    """Let the fetcher succeed with all its tasks; return their taskids, in order."""
    fetcher.finish_all()
    return fetcher.taken


# ---------------------------------------------------------------------------------------- running


def test_each_task_of_a_flow_runs_once_and_after_those_that_it_waits_for(world: World) -> None:
    fetcher = world.fetcher()

    flow(world, *GRAPH)
    taken = run_all(world, fetcher)
    assert sorted(taken) == list("abcdefghi")
    parents = {each.taskid: each.depends_on for each in GRAPH}
    assert all(taken.index(str(parent)) < taken.index(each) for each in taken for parent in parents[each])
    assert show(world).state == "success"


def test_its_counts_follow_its_tasks(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), waiting("b", "a"), waiting("c", "b"))
    counts = show(world).counts
    assert (counts.processing, counts.blocked, counts.success) == (1, 2, 0)

    run(fetcher, "a")
    counts = show(world).counts
    assert (counts.processing, counts.blocked, counts.success) == (1, 1, 1)


def test_its_counts_survive_a_restart(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, *GRAPH)
    run(fetcher, "a")
    before = show(world)

    world.restart()
    assert show(world) == before
    fetcher.hello()
    run_all(world, fetcher)
    assert (show(world).state, show(world).counts.success) == ("success", 9)


def test_a_flow_of_which_a_task_fails_has_failed_when_nothing_is_live(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), waiting("b", "a"), task("c"))

    fetcher.fail("a", retry=False)
    assert show(world).state == "running"
    run(fetcher, "c")
    flow_view = show(world)
    assert (flow_view.state, flow_view.counts.failed, flow_view.counts.success) == ("failed", 2, 1)


def test_a_flow_that_has_ended_runs_again_when_a_task_of_it_does(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), waiting("b", "a"))
    fetcher.fail("a", retry=False)
    assert show(world).ended_at

    retry(world, "a")
    assert (show(world).state, show(world).ended_at) == ("running", 0.0)
    fetcher.hello()
    run_all(world, fetcher)
    assert show(world).state == "success"


def test_who_waits_for_a_flow_is_answered_when_it_ends(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"))
    request = FlowShow(session="script", n=world.n(), project="news", flow="f", seconds=30.0)
    world.turn(request)
    waiter = Waiting(world, request.n)
    assert waiter.answer is None

    run(fetcher, "a")
    answer = waiter.answer
    assert isinstance(answer, FlowReply)
    assert answer.flow.state == "success"


def test_who_waits_for_a_flow_is_answered_when_his_seconds_are_over(world: World) -> None:
    flow(world, task("a"))
    request = FlowShow(session="script", n=world.n(), project="news", flow="f", seconds=30.0)
    world.turn(request)

    world.advance(29)
    assert Waiting(world, request.n).answer is None
    world.advance(1)
    answer = Waiting(world, request.n).answer
    assert isinstance(answer, FlowReply)
    assert answer.flow.state == "running"


# ---------------------------------------------------------------------------------------- staging


def test_a_stage_is_begun_anew_with_the_first_task_and_goes_on_where_it_was(world: World) -> None:
    assert stage(world, task("x"), task("y"), task("z")) == 3
    assert stage(world, task("a")) == 1
    assert stage(world, waiting("b", "a"), first=1) == 2

    assert "expected 2, the number of staged tasks" in refused(world, stage_of(world, task("c"), first=1))
    assert "expected 2, the number of staged tasks" in refused(world, stage_of(world, task("c"), first=3))
    submit(world, 2)
    assert list(states(world)) == ["a", "b"]


def test_what_is_wrong_with_a_staged_task_is_said_and_none_of_its_message_is_kept(world: World) -> None:
    stage(world, task("a"))

    def why(*tasks: NewTask) -> str:
        return refused(world, stage_of(world, *tasks, first=1))

    assert "1: taskid: a is in the flow already" in why(task("b"), task("a"))
    assert "0: taskid: b is in the flow already" in why(task("b"), task("b"))
    assert "belong to news" in why(task("b", project="shop"))
    assert 'there is no project "none"' in why(waiting("b", TaskOf("none", "a")))
    assert "parents come first" in why(waiting("b", "c"), task("c"))
    assert "parents come first" in why(waiting("b", "b"))
    assert "not allowed in a flow" in why(task("b", cancel=True, force_update=True))
    assert show(world).tasks == 1


def test_a_flow_in_which_a_task_waits_for_a_later_one_is_refused(world: World) -> None:
    stage(world, waiting("a", "b"))
    stage(world, task("b"), first=1)

    reply = submitted(world, 2)
    assert isinstance(reply, ErrorReply)
    assert "waits for b, which is task 1, but parents come first" in reply.reason
    assert show(world).state == "staged"


def test_an_abandoned_stage_goes_after_an_hour(world: World) -> None:
    stage(world, task("a"))
    world.advance(HOUR - 1)
    stage(world, task("b"), first=1)

    world.advance(HOUR - 1)
    assert show(world).tasks == 2
    world.advance(1)
    assert unknown(world)
    assert not world.disk.families[layout.STAGES].keys
    assert not world.disk.families[layout.STAGE_IDS].keys


def test_an_abandoned_stage_goes_after_a_restart_too(world: World) -> None:
    stage(world, task("a"))
    world.restart()

    world.advance(HOUR)
    assert unknown(world)


def test_what_was_staged_survives_a_restart(world: World) -> None:
    stage(world, task("a"), waiting("b", "a"))

    world.restart()
    submit(world, 2)
    assert states(world) == {"a": "ready", "b": "blocked"}


# ---------------------------------------------------------------------------------------- acceptance


def test_a_flow_has_as_many_tasks_as_its_submission_says_or_is_refused(world: World) -> None:
    stage(world, task("a"))

    reply = submitted(world, 2)
    assert isinstance(reply, ErrorReply)
    assert reply.reason == "count: 1 tasks are staged, not 2"


def test_a_known_task_refuses_the_flow_and_the_first_ones_are_named(world: World) -> None:
    world.push("news", *(task(taskid) for taskid in "abcdef"))

    assert "known-tasks: known already: a, b, c, d, e;" in why_not(world, *(task(taskid) for taskid in "xabcdefy"))
    assert states(world)["x"] == "staged"


def test_a_task_that_is_pushed_while_the_flow_is_checked_refuses_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    count = stage(world, *(task(taskid) for taskid in "abcdef"))
    request = submission(world, count)
    world.turn(request)
    for _ in range(3):
        world.turn()
    world.turn(world.new_tasks("news", task("a"), task("f")))

    world.settle()
    answer = Waiting(world, request.n).answer
    assert isinstance(answer, ErrorReply)
    assert "known already: a, f;" in answer.reason


def test_a_check_that_has_begun_ends_before_another_one_begins(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    for name in ("old", "new"):
        stage(world, *(task(taskid) for taskid in "abcdefghij"), name=name)
    first, second = submission(world, 10, name="new"), submission(world, 10, name="old")
    world.turn(first)
    for _ in range(3):
        world.turn()
    world.turn(second)

    world.settle()
    accepted, refusal = Waiting(world, first.n).answer, Waiting(world, second.n).answer
    assert isinstance(accepted, FlowReply)
    assert isinstance(refusal, ErrorReply)
    assert "known already: a, b, c, d, e;" in refusal.reason


def test_a_known_task_that_is_reused_stays_as_it_is_and_its_success_satisfies(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b", priority=5))
    run(fetcher, "a")

    flow(world, task("a"), task("b"), waiting("c", "a"), waiting("d", "b"), reuse=True)
    assert states(world) == {"a": "success", "b": "processing", "c": "processing", "d": "blocked"}
    run_all(world, fetcher)
    assert (show(world).state, fetcher.taken.count("a")) == ("success", 1)


def test_a_task_of_a_flow_that_has_not_ended_can_not_be_reused_by_another_one(world: World) -> None:
    flow(world, task("a"))

    assert 'a belongs to flow "f", which has not ended' in why_not(world, task("a"), reuse=True, name="g")


def test_a_flow_for_which_there_is_no_room_is_refused_and_one_that_is_accepted_has_its_room(
    make_world: MakeWorld,
) -> None:
    world = make_world(turn_tasks=2)
    world.set(max_queue=5)
    world.push("news", task("x"))
    assert "full:" in why_not(world, *(task(taskid) for taskid in "abcde"))

    world.turn(stage_of(world, *(task(taskid) for taskid in "abcd")))
    world.turn(submission(world, 4))
    while show_now(world).state == "staged":
        pass
    (reply,) = world.turn(world.new_tasks("news", task("y")))
    assert isinstance(reply, NewTasksReply)
    assert reply.outcomes == ["rejected"]
    world.settle()
    assert states(world) == dict.fromkeys("abcd", "ready")


def show_now(world: World) -> Flow:
    """Show the flow without further turns."""
    request = FlowShow(session="person", n=world.n(), project="news", flow="f")
    (view,) = [each.flow for each in world.turn(request) if isinstance(each, FlowReply) and each.n == request.n]
    return view


def test_a_flow_of_more_tasks_than_the_project_may_know_is_refused(world: World) -> None:
    world.set(max_tasks=2)

    assert "max_tasks is 2" in why_not(world, task("a"), task("b"), task("c"))


def test_a_submission_that_is_repeated_is_answered_with_the_flow(world: World) -> None:
    stage(world, task("a"))
    request = submission(world, 1)
    world.turn(request)
    world.settle()

    assert isinstance(world.answer(request), FlowReply)
    assert world.ask(FlowReply, submission(world, 1)).flow == show(world)
    assert world.counts().ready == 1


def test_a_check_that_a_restart_has_ended_begins_anew_with_the_repeat(world: World) -> None:
    stage(world, task("a"))
    request = submission(world, 1)
    world.turn(request)
    world.restart()
    assert show(world).state == "staged"

    world.turn(request)
    world.settle()
    assert states(world) == {"a": "ready"}


def test_what_has_been_submitted_takes_no_more_tasks(world: World) -> None:
    flow(world, task("a"))

    assert "has been submitted already" in refused(world, stage_of(world, task("b"), first=1))


# ---------------------------------------------------------------------------------------- outside


def test_a_flow_may_wait_for_others_and_others_for_it(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("x"))
    flow(world, waiting("a", "x"), waiting("b", "a", TaskOf("shop", "y")))
    waits(world, "z", "b")
    world.push("shop", task("y"))

    assert run_all(world, fetcher) == ["x", "y", "a", "b", "z"]


def test_a_task_that_others_wait_for_may_come_with_a_flow_that_waits_for_nobody_else(world: World) -> None:
    fetcher = world.fetcher()
    waits(world, "x", "b")

    flow(world, task("a"), waiting("b", "a"))
    assert run_all(world, fetcher) == ["a", "b", "x"]


def test_a_flow_that_might_close_a_cycle_is_refused(world: World) -> None:
    waits(world, "x", "b")

    assert "that might close a cycle" in why_not(world, waiting("a", "x"), waiting("b", "a"))
    assert state_of(world, "x") == "blocked"


def begin_making(world: World, *tasks: NewTask) -> None:
    """Take turns until a flow is accepted, but none of its tasks made."""
    world.turn(stage_of(world, *tasks))
    world.turn(submission(world, len(tasks)))
    while (view := show_now(world)).state == "staged":
        pass
    assert view.unrolled == 0


def push_now(world: World, *tasks: NewTask) -> NewTasksReply:
    (reply,) = world.turn(world.new_tasks("news", *tasks))
    assert isinstance(reply, NewTasksReply)
    return reply


def test_a_push_of_a_task_that_a_flow_is_about_to_make_is_ignored(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid, priority=3) for taskid in "abcdef"))

    assert push_now(world, task("e"), task("x"), task("f", force_update=True)).outcomes == ["ignored", "new", "ignored"]
    world.settle()
    assert states(world) == dict.fromkeys("abcdef", "ready")
    assert world.show("e").schedule.priority == 3


def test_nothing_waits_for_what_is_not_made_yet_of_a_flow_that_waits_for_others(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, waiting("a", "x"), *(task(taskid) for taskid in "bcdef"))

    reply = push_now(world, waiting("y", "f"))
    assert reply.outcomes == ["rejected"]
    assert "f is still to be made by flow" in reply.errors[0].reason
    world.settle()
    assert waits(world, "y", "f") == "new"


def test_anything_waits_for_what_is_not_made_yet_of_a_flow_that_waits_for_nobody_else(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid) for taskid in "abcdef"))

    assert push_now(world, waiting("y", "f")).outcomes == ["new"]
    world.settle()
    assert run_all(world, world.fetcher())[-1] == "y"


# ---------------------------------------------------------------------------------------- unrolling


def test_a_flow_is_made_step_by_step(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(f"t{n}") for n in range(20)))

    made = [show_now(world).unrolled for _ in range(12)]
    assert made == sorted(made)
    assert all(later - earlier <= 2 for earlier, later in pairwise(made))
    assert made[-1] == 20


def test_a_step_makes_so_many_tasks_at_most(world: World) -> None:
    begin_making(world, *(task(f"t{n}") for n in range(flows.TASKS_A_STEP + 1)))

    made = [show_now(world).unrolled for _ in range(4)]
    assert made[-1] == flows.TASKS_A_STEP + 1
    assert flows.TASKS_A_STEP in made


def test_a_crash_at_any_moment_makes_each_task_once(make_world: MakeWorld) -> None:
    for turns in range(12):
        world = make_world(turn_tasks=2)
        begin_making(world, task("t0"), *(waiting(f"t{n}", f"t{n - 1}") for n in range(1, 9)))
        for _ in range(turns):
            world.turn()

        world.restart()
        assert run_all(world, world.fetcher()) == [f"t{n}" for n in range(9)]
        assert (show(world).state, show(world).counts.success) == ("success", 9)


def test_a_project_is_not_finished_while_a_flow_is_being_made(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = world.fetcher()
    begin_making(world, *(task(f"t{n}") for n in range(9)))
    waiter = world.wait()

    run_all(world, fetcher)
    assert waiter.finished
    assert world.event_kinds().count("finished") == 1


def test_what_is_not_made_yet_is_shown_as_staged(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid) for taskid in "abcd"))

    (reply,) = world.turn(FlowTasks(session="person", n=world.n(), project="news", flow="f"))
    assert isinstance(reply, FlowTasksReply)
    assert [view.state for view in reply.tasks][-1] == "staged"


# ---------------------------------------------------------------------------------------- cancelling


def test_a_flow_that_is_cancelled_ends_its_live_tasks(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), task("b"), waiting("c", "b", on_failure="wait"))
    run(fetcher, "a")

    assert cancel(world).state == "cancelled"
    view = show(world)
    assert (view.state, view.counts.cancelled, view.counts.success) == ("cancelled", 2, 1)
    assert view.ended_at


def test_a_running_task_of_a_flow_that_is_cancelled_is_what_its_deferred_update_made_of_it(world: World) -> None:
    flow(world, task("a", "old"))
    world.fetcher()
    assert world.push("news", task("a", "new", force_update=True)) == ["deferred"]

    assert cancel(world).state == "cancelled"

    shown = world.show("a")
    assert (shown.state, body_of(shown)) == ("cancelled", "new")


def test_what_waits_for_tasks_of_a_flow_that_is_cancelled_is_cancelled_with_them(make_world: MakeWorld) -> None:
    for cut in range(8):
        world = make_world(turn_tasks=2)
        flow(world, task("t0"), *(waiting(f"t{n}", f"t{n - 1}") for n in range(1, 9)))
        world.turn(FlowCancel(session="person", n=world.n(), project="news", flow="f"))
        for _ in range(cut):
            world.turn()

        world.restart()
        assert set(states(world).values()) == {"cancelled"}
        assert (show(world).state, show(world).counts.cancelled) == ("cancelled", 9)
        assert "error-burst" not in world.event_kinds()


def test_a_flow_that_is_cancelled_makes_no_further_tasks(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(f"t{n}") for n in range(20)))
    world.turn()

    cancel(world)
    view = show(world)
    assert (view.state, view.counts.cancelled) == ("cancelled", view.unrolled)
    assert view.unrolled < 20
    assert world.counts().cancelled == view.unrolled
    assert states(world)["t19"] == "staged"


def test_a_cancellation_survives_a_crash_at_any_moment(make_world: MakeWorld) -> None:
    for turns in range(8):
        world = make_world(turn_tasks=2)
        flow(world, *(task(f"t{n}") for n in range(9)))
        world.turn(FlowCancel(session="person", n=world.n(), project="news", flow="f"))
        for _ in range(turns):
            world.turn()

        world.restart()
        assert (show(world).state, show(world).counts.cancelled) == ("cancelled", 9)


def test_a_stage_that_is_cancelled_is_gone(world: World) -> None:
    stage(world, task("a"))

    assert cancel(world).state == "cancelled"
    assert unknown(world)


def test_a_cancelled_stage_tells_who_has_submitted_it(world: World) -> None:
    stage(world, task("a"))
    request = submission(world, 1)
    world.turn(request)

    cancel(world)
    answer = Waiting(world, request.n).answer
    assert isinstance(answer, ErrorReply)
    assert answer.code == "unknown-flow"


def test_a_task_that_is_cancelled_by_hand_leaves_its_flow_cancelled(world: World) -> None:
    flow(world, task("a"))

    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=["a"]))
    assert (show(world).state, show(world).counts.cancelled) == ("cancelled", 1)


def test_a_clear_cancels_the_flows_of_the_project(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = world.fetcher(capacity=1)
    begin_making(world, *(task(f"t{n}") for n in range(20)))
    world.turn()
    fetcher.hello()

    world.do("clear")
    view = show(world)
    assert (view.state, view.counts.cancelled) == ("cancelled", view.unrolled)
    assert view.ended_at
    assert world.counts().ready == 0


def test_a_clear_and_what_came_before_it_in_its_turn_are_counted(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), task("b"), waiting("c", "a"))
    done = fetcher.answers(fetcher.finished("a"))

    world.turn(done, ProjectDo(session="person", n=world.n(), project="news", action="clear"))
    world.settle()
    view = show(world)
    assert (view.state, view.counts.success, view.counts.cancelled) == ("cancelled", 1, 2)


def test_a_project_that_is_reset_or_deleted_forgets_its_flows(world: World) -> None:
    flow(world, task("a"))
    stage(world, task("b"), name="g")
    world.do("reset")
    assert unknown(world)
    assert unknown(world, "g")

    flow(world, task("a"))
    request = FlowShow(session="script", n=world.n(), project="news", flow="f", seconds=30.0)
    world.turn(request)
    world.do("delete")
    answer = Waiting(world, request.n).answer
    assert isinstance(answer, ErrorReply)
    assert answer.code == "unknown-project"
    assert not world.disk.families[layout.FLOWS].keys
    assert not world.disk.families[layout.STAGES].keys


# ---------------------------------------------------------------------------------------- looking, bounds


def test_flows_are_listed_by_project_and_name_page_by_page(world: World) -> None:
    for name in ("c", "a", "b"):
        stage(world, task(name), name=name)

    def page(**how: Any) -> tuple[list[str], bool]:
        reply = world.ask(FlowsReply, FlowList(session="person", n=world.n(), **how))
        return [f"{view.project}/{view.flow}" for view in reply.flows], reply.more

    assert page() == (["news/a", "news/b", "news/c"], False)
    assert page(limit=2) == (["news/a", "news/b"], True)
    assert page(after="news/b") == (["news/c"], False)
    world.push("shop", task("x"))
    assert page(project="shop") == ([], False)
    unknown = world.ask(ErrorReply, FlowList(session="person", n=world.n(), project="nwes"))
    assert unknown.code == "unknown-project"


def test_the_tasks_of_a_flow_are_shown_with_what_they_wait_for_and_how_long_they_took(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("x"))
    flow(world, task("a"), waiting("b", "a", "x", TaskOf("shop", "y")))
    world.advance(5)
    fetcher.done("a")

    first, second = members(world)
    assert (first.index, first.state, first.seconds, first.url) == (0, "success", 5.0, "http://example.org/a")
    assert first.ended_at == world.now.wall
    assert second.depends_on == [0, ("news", "x"), ("shop", "y")]
    assert (second.state, second.missing) == ("blocked", 2)


def test_the_tasks_of_a_flow_are_shown_page_by_page(world: World) -> None:
    flow(world, *(task(f"t{n}") for n in range(5)))

    def page(after: int | None) -> FlowTasksReply:
        request = FlowTasks(session="person", n=world.n(), project="news", flow="f", after=after, limit=2)
        return world.ask(FlowTasksReply, request)

    assert [view.index for view in page(None).tasks] == [0, 1]
    assert (page(None).next, page(2).next, page(4).next) == (2, 4, None)
    assert [view.index for view in page(4).tasks] == [4]


def test_a_task_that_retention_has_forgotten_stays_counted(world: World) -> None:
    fetcher = world.fetcher()
    world.set(keep={"success": HOUR, "then": "forget"})
    flow(world, task("a"), task("b", delay=3 * HOUR))
    run(fetcher, "a")

    world.advance(2 * HOUR)
    assert states(world) == {"a": "unknown", "b": "delayed"}
    assert show(world).counts.success == 1
    world.advance(HOUR)
    run(fetcher, "b")
    assert show(world).state == "success"


def test_so_many_flows_that_have_ended_are_remembered(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("taskqueue.core.model.flow.ENDED_KEPT", 2)
    fetcher = world.fetcher()
    for name in "abc":
        flow(world, task(name), name=name)
        run(fetcher, name)

    assert unknown(world, "a")
    assert show(world, "b").state == show(world, "c").state == "success"
    assert len(world.disk.families[layout.STAGES].keys) == 2
    world.restart()
    assert len(world.ask(FlowsReply, FlowList(session="person", n=world.n())).flows) == 2


def test_stages_flows_and_their_tasks_are_bounded(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr("taskqueue.core.requests.flows.STAGES_MOST", 1)
    monkeypatch.setattr("taskqueue.core.model.flow.RUNNING_MOST", 1)
    monkeypatch.setattr("taskqueue.core.requests.flows.TASKS_MOST", 2)
    monkeypatch.setattr("taskqueue.core.requests.flows.BYTES_MOST", 500)
    stage(world, task("a"))

    assert "full: flow: 1 flows are staged already" in refused(world, stage_of(world, task("b"), name="g"))
    assert "a flow has at most 2 tasks" in refused(world, stage_of(world, task("b"), task("c"), first=1))
    assert "take at most 500 bytes" in refused(world, stage_of(world, task("b", body="x" * 500), first=1))
    submit(world, 1)
    stage(world, task("b"), name="g")
    reply = submitted(world, 1, name="g")
    assert isinstance(reply, ErrorReply)
    assert "1 flows are running already" in reply.reason


def test_tasks_of_a_project_that_has_been_deleted_since_have_failed(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    begin_making(world, *(task(taskid) for taskid in "abcdef"), waiting("x", TaskOf("shop", "y")))
    world.do("delete", "shop")

    world.settle()
    assert state_of(world, "x") == "failed"


def test_an_unknown_flow_is_told(world: World) -> None:
    for kind in (FlowShow, FlowTasks, FlowCancel):
        reply = world.answer(kind(session="person", n=world.n(), project="news", flow="f"))
        assert isinstance(reply, ErrorReply)
        assert reply.code == "unknown-flow"


def test_a_task_that_is_for_failures_does_not_make_its_flow_cancelled(world: World) -> None:
    fetcher = world.fetcher()
    flow(world, task("a"), waiting("b", "a", on_failure="only"), waiting("c", "b"))
    world.settle()
    fetcher.hello()
    fetcher.done("a")
    world.settle()

    view = show(world)
    assert (view.state, view.counts.cancelled, view.counts.success) == ("success", 2, 1)
    world.crash()
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["b"]))
    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=["b"]))
    world.settle()
    assert show(world).state == "cancelled"
