"""Dependencies: a task waits for its parents, and their ends decide about it.

``waits(world, "c", "a", "b")`` pushes a task c that waits for a and b.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from taskqueue.errors import Rejected
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.codec import decode_request, encode
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import NewTasks, NewTasksReply, TaskCancel, TaskRetry, TasksReply
from taskqueue.protocol.values import NewTask, TaskOf
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import HOUR


def waiting(taskid: str, *parents: str | TaskOf, on_failure: ParentFailure = "fail", **schedule: Any) -> NewTask:
    return replace(task(taskid, **schedule), depends_on=parents, on_parent_failure=on_failure)


def waits(world: World, taskid: str, *parents: str | TaskOf, **how: Any) -> str:
    (outcome,) = world.push("news", waiting(taskid, *parents, **how))
    return outcome


def state_of(world: World, taskid: str, project: str = "news") -> str:
    return world.show(taskid, project).state


def run(fetcher: Fetcher, taskid: str, **report: Any) -> None:
    fetcher.hello()
    assert fetcher.done(taskid, **report) == "done"


def why(world: World, taskid: str) -> str:
    return world.ask(WhyReply, Why(session="person", n=world.n(), project="news", taskid=taskid)).sentence


def retry(world: World, taskid: str) -> None:
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=[taskid]))


def cancel(world: World, taskid: str) -> None:
    world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="news", taskids=[taskid]))


def edges(world: World, family: str = layout.PARENTS, end: bytes = b"") -> list[bytes]:
    """List keys of the store's edges, or of another family, that end with ``end``."""
    return [key for key in world.disk.families[family].keys if key.endswith(end)]


# ---------------------------------------------------------------------------------------- satisfied


def test_a_task_is_blocked_until_each_task_that_it_waits_for_has_succeeded(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    assert waits(world, "c", "a", "b") == "new"

    assert state_of(world, "c") == "blocked"
    run(fetcher, "a")
    assert state_of(world, "c") == "blocked"
    run(fetcher, "b")
    run(fetcher, "c")
    assert state_of(world, "c") == "success"


def test_a_task_that_waits_for_successes_only_is_not_blocked(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    run(fetcher, "a")

    waits(world, "c", "a")
    run(fetcher, "c")


def test_a_released_task_follows_its_own_time_and_priority(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "late", "a", delay=HOUR)
    waits(world, "low", "a", priority=1)
    waits(world, "high", "a", priority=2)

    run(fetcher, "a")
    assert state_of(world, "late") == "delayed"
    assert [each.taskid for each in fetcher.held.values()] == ["high", "low"]


def test_an_edge_that_was_satisfied_stays_so(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b")
    run(fetcher, "a")
    world.push("news", task("a", force_update=True))

    run(fetcher, "b")
    run(fetcher, "c")


def test_of_a_recurring_parent_the_next_success_counts(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a", auto_recrawl=True, age=HOUR))
    run(fetcher, "a")
    waits(world, "c", "a")
    assert state_of(world, "c") == "blocked"

    world.advance(HOUR)
    run(fetcher, "a")
    run(fetcher, "c")


def test_a_success_of_before_the_edge_does_not_satisfy_it(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=2)
    fetcher = world.fetcher()
    world.push("news", task("a"))
    for number in range(6):
        waits(world, f"c{number}", "a")
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("a")), world.new_tasks("news", task("a", force_update=True)))
    world.turn(world.new_tasks("news", waiting("z9", "a")))
    world.settle()

    assert state_of(world, "c0") in ("ready", "processing")
    assert state_of(world, "z9") == "blocked"


def test_the_same_parent_named_twice_is_one(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "c", "a", "a", TaskOf("news", "a"))

    run(fetcher, "a")
    run(fetcher, "c")


def test_parents_may_be_of_another_project(world: World) -> None:
    fetcher = world.fetcher()
    world.push("shop", task("a"))
    waits(world, "c", TaskOf("shop", "a"))
    assert 'waiting for 1 task: "a" of project "shop"' in why(world, "c")

    run(fetcher, "a")
    run(fetcher, "c")


# ---------------------------------------------------------------------------------------- unknown parents


def test_an_unknown_parent_blocks_until_it_has_come_and_succeeded(world: World) -> None:
    fetcher = world.fetcher()
    waits(world, "c", "a")
    assert '"a" (unknown: not pushed yet)' in why(world, "c")

    assert world.push("news", task("a")) == ["new"]
    run(fetcher, "a")
    run(fetcher, "c")


def test_an_awaited_task_is_not_counted_and_not_known(world: World) -> None:
    waits(world, "c", "a")

    counts = world.counts()
    assert (counts.blocked, counts.ready) == (1, 0)
    assert "is unknown" in why(world, "a")


@pytest.mark.parametrize("maker", ["auto_create", "project-do", "follow-up"])
def test_a_parent_that_is_known_stays_so_when_its_child_comes_with_a_new_project(
    make_world: MakeWorld, maker: str
) -> None:
    world = make_world(auto_create=maker != "project-do")
    fetcher = world.fetcher()
    world.push("shop", task("a"), task("b"))
    run(fetcher, "a")

    child = replace(waiting("c", TaskOf("shop", "a")), project="blog")
    if maker == "follow-up":
        run(fetcher, "b", new=[child])
    elif maker == "auto_create":
        world.push("shop", child)
    else:
        start = ProjectDo(session="operator", n=world.n(), project="blog", action="start")
        world.turn(start, world.new_tasks("shop", child))
    world.settle()

    assert state_of(world, "c", "blog") != "blocked"
    assert state_of(world, "a", "shop") == "success"
    assert world.push("shop", task("a")) == ["ignored"]


def test_an_unknown_project_of_a_parent_is_rejected(world: World) -> None:
    reply = world.ask(NewTasksReply, world.new_tasks("news", task("b"), waiting("c", TaskOf("nowhere", "a"))))

    assert reply.outcomes == ["new", "rejected"]
    assert reply.errors[0].reason == 'depends_on: there is no project "nowhere"'


def test_an_awaited_task_passes_max_queue(world: World) -> None:
    world.set(max_queue=1)
    waits(world, "c", "a")

    assert world.push("news", task("b"), task("a")) == ["rejected", "new"]


# ---------------------------------------------------------------------------------------- failures


def test_by_default_a_task_fails_with_its_parent_and_so_do_its_descendants(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    waits(world, "c", "b")

    run(fetcher, "a", ok=False, retry=False)
    shown = world.show("b")
    assert (shown.state, shown.error) == ("failed", "upstream: a")
    shown = world.show("c")
    assert (shown.state, shown.error) == ("failed", "upstream: b")


def test_with_run_a_failed_parent_counts_as_a_success(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="run")

    run(fetcher, "a", ok=False, retry=False)
    run(fetcher, "b")


def test_with_wait_a_task_waits_on_for_a_success(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="wait")

    run(fetcher, "a", ok=False, retry=False)
    assert state_of(world, "b") == "blocked"
    retry(world, "a")
    run(fetcher, "a")
    run(fetcher, "b")


def test_a_task_given_a_parent_that_has_failed_fails_too(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    run(fetcher, "a", ok=False, retry=False)

    waits(world, "b", "a")
    assert state_of(world, "b") == "failed"


@pytest.mark.parametrize("end", ["cancelled", "expired", "cleared"])
def test_a_parent_that_is_cancelled_expired_or_cleared_has_failed(world: World, end: str) -> None:
    world.push("news", task("a", delay=1, expires_at=world.now.wall + 5))
    world.push("shop", task("x"))
    world.push("shop", waiting("b", TaskOf("news", "a")))
    world.settle()
    if end == "cancelled":
        cancel(world, "a")
    elif end == "expired":
        world.advance(10)
        world.fetcher(projects=["news"])
    else:
        world.do("clear")
    world.settle()

    assert state_of(world, "b", "shop") == "failed"


def test_a_task_that_failed_upstream_is_released_when_its_parents_succeed_after_all(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    waits(world, "c", "b")
    run(fetcher, "a", ok=False, retry=False)

    retry(world, "a")
    for taskid in "abc":
        run(fetcher, taskid)


def test_a_retried_task_with_unsatisfied_edges_is_blocked(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    run(fetcher, "a", ok=False, retry=False)

    retry(world, "b")
    assert state_of(world, "b") == "blocked"


def test_a_task_whose_parent_is_of_a_deleted_project_fails(world: World) -> None:
    world.push("shop", task("a"), waiting("b", "a"))
    waits(world, "c", TaskOf("shop", "a"))
    world.do("delete", "shop")
    world.settle()

    assert world.show("c").error == "upstream: a deleted project/a"
    assert len(edges(world)) == 1, "what it waited for is still known"
    assert not edges(world, layout.CHILDREN)


# ---------------------------------------------------------------------------------------- only after a failure


def fails(world: World, fetcher: Fetcher, taskid: str) -> None:
    run(fetcher, taskid, ok=False, retry=False)
    world.settle()


def test_with_only_a_task_runs_when_its_parents_have_ended_and_one_has_failed(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b", on_failure="only")

    fails(world, fetcher, "a")
    assert state_of(world, "c") == "blocked"
    run(fetcher, "b")
    run(fetcher, "c")


def test_with_only_retries_of_a_parent_are_waited_for(world: World) -> None:
    world.set(retry_delay=[1.0])
    fetcher = world.fetcher()
    world.push("news", task("a", retries=1))
    waits(world, "b", "a", on_failure="only")

    run(fetcher, "a", ok=False)
    assert state_of(world, "b") == "blocked"
    world.advance(2)
    run(fetcher, "a", ok=False)
    run(fetcher, "b")


def test_with_only_a_task_is_cancelled_when_all_parents_have_ended_without_a_failure(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b", on_failure="only")

    run(fetcher, "a")
    assert state_of(world, "c") == "blocked"
    cancel(world, "b")
    world.settle()
    shown = world.show("c")
    assert (shown.state, shown.error) == ("cancelled", "upstream: no parent has failed")
    assert fetcher.taken == ["a", "b"]


def test_with_only_a_task_says_that_it_runs_only_if_a_parent_fails(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b", on_failure="only")
    waits(world, "d", "a", on_failure="only")
    waits(world, "e", "a", on_failure="run")

    assert why(world, "c").endswith('"a" (processing), "b" (processing); it runs only if a parent fails')
    assert [world.show(each).on_parent_failure for each in "ace"] == ["fail", "only", "run"]
    run(fetcher, "a")
    world.settle()
    assert 'task "d" was cancelled ' in why(world, "d")
    assert ", as it runs only if a parent fails, and none has; push it with force_update" in why(world, "d")
    fails(world, fetcher, "b")
    assert "parent" not in why(world, "c")


def test_with_only_a_task_that_waits_on_after_a_failure_says_that_it_runs_then(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b", on_failure="only")

    fails(world, fetcher, "a")

    assert why(world, "c").endswith('waiting for 1 task: "b" (processing); another one has failed, so it runs then')


def test_with_only_a_task_that_a_user_has_cancelled_does_not_say_that_no_parent_has_failed(world: World) -> None:
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="only")

    cancel(world, "b")

    assert "was cancelled" in why(world, "b")
    assert "parent" not in why(world, "b")


@pytest.mark.parametrize("end", ["cancelled", "cleared", "deleted"])
def test_with_only_a_parent_that_ends_otherwise_has_not_failed(world: World, end: str) -> None:
    world.push("shop", task("a"))
    waits(world, "b", TaskOf("shop", "a"), on_failure="only")
    if end == "cancelled":
        world.ask(TasksReply, TaskCancel(session="person", n=world.n(), project="shop", taskids=["a"]))
    else:
        world.do("clear" if end == "cleared" else "delete", "shop")
    world.settle()

    assert state_of(world, "b") == "cancelled"


def test_with_only_a_parent_that_failed_upstream_has_failed(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    waits(world, "c", "b", on_failure="only")

    fails(world, fetcher, "a")
    run(fetcher, "c")


def test_with_only_parents_that_have_ended_before_the_push_decide_at_once(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    run(fetcher, "a")
    fails(world, fetcher, "b")

    assert waits(world, "c", "a", on_failure="only") == "new"
    assert state_of(world, "c") == "cancelled"
    waits(world, "d", "a", "b", on_failure="only")
    world.settle()
    run(fetcher, "d")


def test_with_only_the_parents_of_a_deferred_update_decide_when_the_lease_ends(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("c"))
    fetcher.hello()
    assert waits(world, "c", "a", on_failure="only", force_update=True) == "deferred"
    fetcher.done("a")
    world.settle()
    world.crash()

    fetcher.done("c")
    shown = world.show("c")
    assert (shown.state, shown.error) == ("cancelled", "upstream: no parent has failed")


def test_what_depends_on_a_dropped_task_is_dropped_with_it_and_released_with_it(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="only")
    waits(world, "c", "b")
    waits(world, "d", "b", on_failure="run")

    run(fetcher, "a")
    world.settle()
    shown = world.show("c")
    assert (shown.state, shown.error) == ("cancelled", "upstream: b")
    run(fetcher, "d")
    world.crash()
    retry(world, "b")
    run(fetcher, "b")
    run(fetcher, "c")


def test_what_a_user_cancels_is_not_released(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="only")
    waits(world, "c", "b")
    run(fetcher, "a")
    world.settle()

    retry(world, "c")
    cancel(world, "c")
    retry(world, "b")
    run(fetcher, "b")
    world.settle()
    assert state_of(world, "c") == "cancelled"


@pytest.mark.parametrize(("reaction", "state"), [("run", "ready"), ("only", "cancelled")])
def test_what_a_task_misses_while_it_is_cancelled_counts_when_it_lives_again(
    world: World, reaction: Any, state: str
) -> None:
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure=reaction)
    cancel(world, "b")
    cancel(world, "a")
    world.settle()

    retry(world, "b")
    world.settle()
    assert state_of(world, "b") == state


def test_a_retry_by_hand_runs_a_dropped_task(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a", on_failure="only")
    run(fetcher, "a")
    world.settle()

    retry(world, "b")
    run(fetcher, "b")


# ---------------------------------------------------------------------------------------- changes


def test_merged_does_not_change_parents(world: World) -> None:
    world.push("news", task("a"))
    waits(world, "b", "a")

    assert waits(world, "b", "x", priority=5) == "merged"
    assert '"a"' in why(world, "b")


def test_a_link_that_restarts_a_task_leaves_its_parents_unless_it_names_some(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    run(fetcher, "a", ok=False, retry=False)
    assert state_of(world, "b") == "failed"

    assert world.push("news", task("b", itag="2")) == ["restarted"]
    assert state_of(world, "b") == "blocked"
    cancel(world, "b")
    assert waits(world, "b", "x", itag="3") == "restarted"
    assert 'waiting for 1 task: "x"' in why(world, "b")


def test_force_update_replaces_parents(world: World) -> None:
    fetcher = world.fetcher(projects=["none"])
    waits(world, "b", "a", "a2")

    assert waits(world, "b", "x", force_update=True) == "replaced"
    world.push("news", task("a"), task("x"))
    assert "waiting for 1 task" in why(world, "b")
    fetcher = world.fetcher()
    run(fetcher, "a")
    assert state_of(world, "b") == "blocked"
    run(fetcher, "x")
    run(fetcher, "b")


def test_the_edges_of_a_deferred_update_count_from_its_acceptance(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("b"), task("a"))
    fetcher.hello()
    assert waits(world, "b", "a", "x", force_update=True) == "deferred"
    run(fetcher, "a")
    run(fetcher, "b")

    assert 'waiting for 1 task: "x"' in why(world, "b")
    world.push("news", task("x"))
    run(fetcher, "x")
    run(fetcher, "b")


def test_a_blocked_task_that_is_cancelled_stays_so(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"))
    waits(world, "b", "a")
    cancel(world, "b")

    run(fetcher, "a")
    assert state_of(world, "b") == "cancelled"


def test_a_project_is_not_finished_while_tasks_are_blocked(world: World) -> None:
    waits(world, "b", "a")

    assert world.project().unfinished == 1


def test_what_is_awaited_is_forgotten_with_the_last_task_that_waits_for_it(world: World) -> None:
    waits(world, "b", "a")
    waits(world, "c", "a")
    for taskid in "bc":
        world.push("news", task(taskid, force_update=True))
    world.settle()

    assert not edges(world)
    assert not edges(world, layout.IDS, b"a")


# ---------------------------------------------------------------------------------------- once


def test_two_parents_that_end_in_one_turn_release_their_child_once(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b")
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("a"), fetcher.finished("b")))
    world.settle()

    assert [each.taskid for each in fetcher.held.values()].count("c") == 1


def test_parents_that_end_on_both_sides_of_a_crash_release_their_child_once(world: World) -> None:
    fetcher = world.fetcher()
    world.push("news", task("a"), task("b"))
    waits(world, "c", "a", "b")
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("a")))
    world.restart()
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("b")))
    world.restart()
    world.settle()
    fetcher.hello()

    assert [each.taskid for each in fetcher.held.values()].count("c") == 1


def test_many_children_are_released_in_bounded_steps_that_survive_a_crash(make_world: MakeWorld) -> None:
    world = make_world(turn_tasks=8)
    fetcher = world.fetcher(1)
    world.push("news", task("a"))
    world.push("news", *(waiting(f"c{number}", "a") for number in range(30)))
    fetcher.hello()
    world.turn(fetcher.answers(fetcher.finished("a")))
    steps = 0
    while world.counts().blocked:
        world.restart()
        world.turn()
        steps += 1

    assert steps <= 10
    assert world.counts().ready + world.counts().processing == 30


def test_tasks_without_edges_write_and_read_nothing_of_them(world: World) -> None:
    fetcher = world.fetcher()
    world.turn(world.new_tasks("news", task("a")))

    kept = world.kept
    assert [kept.edges, kept.awaited, kept.propagations, kept.linked] == [{}, {}, {}, {}]
    run(fetcher, "a")
    assert world.needs.propagations is None


def test_a_message_with_too_many_edges_is_refused() -> None:
    many = [waiting(f"c{number}", *(f"p{each}" for each in range(1000))) for number in range(11)]
    with pytest.raises(Rejected, match="depends_on: more than 10000 tasks to wait for in one message"):
        decode_request(encode(NewTasks(session="s", n=1, project="news", tasks=list(many))))
