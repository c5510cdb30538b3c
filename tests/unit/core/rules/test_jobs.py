"""Jobs: by which run a task came, and what is done with the tasks of one run."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue import new_task
from taskqueue.core.requests import insight
from taskqueue.core.steps import bulk
from taskqueue.protocol.insight import JobCounts, JobCountsReply
from taskqueue.protocol.operations import Bulk, OperationReply, OperationShow
from taskqueue.protocol.projects import ProjectDo
from taskqueue.protocol.tasks import TaskList, TaskListReply
from taskqueue.protocol.values import TaskCounts, TaskFilter, TaskReport
from tests.unit.core.conftest import MakeWorld, World, task
from tests.unit.core.rules.conftest import CANCEL, DAY, FORCE, HOUR, LIVE, MINUTE, OVER, bring

WHO: dict[str, Any] = {"session": "person"}


def job_of(world: World, taskid: str, project: str = "news") -> str:
    return world.show(taskid, project).job


def count_page(world: World, job: str, after: str = "") -> JobCountsReply:
    return world.ask(JobCountsReply, JobCounts(**WHO, n=world.n(), project="news", job=job, after=after))


def count(world: World, job: str) -> TaskCounts:
    """Count the tasks of a job, page by page."""
    totals = dict.fromkeys(TaskCounts.__struct_fields__, 0)
    after, more = "", True
    while more:
        page = count_page(world, job, after)
        for name in totals:
            totals[name] += getattr(page.counts, name)
        after, more = page.next, bool(page.next)
    return TaskCounts(**totals)


def listed(world: World, job: str, state: Any = None) -> list[str]:
    """List the taskids of a job, page by page."""
    names: list[str] = []
    after, more = "", True
    while more:
        asked = TaskList(**WHO, n=world.n(), project="news", state=state, job=job, after=after)
        page = world.ask(TaskListReply, asked)
        names += [row.taskid for row in page.tasks if row.job == job]
        assert len(page.tasks) == sum(row.job == job for row in page.tasks)
        after, more = page.next, bool(page.next)
    return names


def change(world: World, action: Any, job: str, **fields: Any) -> int:
    """Run an operation on the tasks of a job; return how many it changed."""
    wanted = TaskFilter(job=job, **fields)
    request = Bulk(**WHO, n=world.n(), action=action, project="news", filter=wanted)
    begun = world.ask(OperationReply, request).operation
    return world.ask(OperationReply, OperationShow(**WHO, n=world.n(), id=begun.id)).operation.matched


# ---------------------------------------------------------------------------------------- which job a task has


@pytest.mark.parametrize("state", [*LIVE, *OVER])
def test_a_task_has_the_job_of_the_push_that_made_it_whatever_becomes_of_it(world: World, state: str) -> None:
    bring(world, state, job="monday")

    assert job_of(world, "a") == "monday"
    world.restart()
    assert job_of(world, "a") == "monday"


def test_without_a_job_a_task_has_none(world: World) -> None:
    bring(world, "success")

    assert job_of(world, "a") == ""


def test_the_name_of_a_job_is_like_that_of_a_project() -> None:
    assert new_task("http://example.org/", job="A-z_0." + "9" * 58).schedule.job

    for name in ("", "9" * 65, "two words", "a/b", "é", ".", ".."):
        with pytest.raises(ValueError, match="job"):
            new_task("http://example.org/", job=name)


@pytest.mark.parametrize("part", [False, True])
def test_what_a_task_leads_to_gets_its_job_however_far_and_into_whichever_project(world: World, part: bool) -> None:
    fetcher = bring(world, "processing", job="monday")
    handed = fetcher.held["a"]
    if part:
        found = TaskReport("news", "a", handed.token, new=[task("b"), task("c", project="shop")], part=True)
        world.turn(fetcher.answers(found))
        fetcher.done("a")
    else:
        fetcher.done("a", new=[task("b"), task("c", project="shop")])
    fetcher.hello(capacity=3)
    fetcher.done("b", new=[task("d", priority=3, delay=10)])

    assert [job_of(world, name) for name in "bd"] == ["monday"] * 2
    assert job_of(world, "c", "shop") == "monday"
    shown = world.show("d").schedule
    assert (shown.priority, shown.delay) == (3, 10)


def test_a_follow_up_may_name_another_job(world: World) -> None:
    fetcher = bring(world, "processing", job="monday")
    fetcher.done("a", new=[task("b", job="images")])

    assert job_of(world, "b") == "images"


def test_what_a_task_without_a_job_leads_to_has_none(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.done("a", new=[task("b"), task("c", job="images")])

    assert [job_of(world, name) for name in "bc"] == ["", "images"]


@pytest.mark.parametrize("state", [*LIVE, *OVER])
def test_a_link_of_another_job_leaves_a_known_task_its_job(world: World, state: str) -> None:
    bring(world, state, job="monday")
    world.push("news", task("a", job="tuesday", priority=9))

    assert job_of(world, "a") == "monday"


@pytest.mark.parametrize("job", ["tuesday", None])
@pytest.mark.parametrize("state", ["ready", "delayed", *OVER])
def test_a_push_that_replaces_or_restarts_a_task_gives_it_its_own_job_or_none(
    world: World, state: str, job: str | None
) -> None:
    bring(world, state, job="monday")

    assert world.push("news", task("a", job=job, **FORCE)) == ["restarted" if state in OVER else "replaced"]
    assert job_of(world, "a") == (job or "")
    world.restart()
    assert job_of(world, "a") == (job or "")


def test_an_update_brings_its_job_when_the_lease_has_ended_and_what_the_attempt_found_has_the_former(
    world: World,
) -> None:
    fetcher = bring(world, "processing", job="monday")
    world.push("news", task("a", job="tuesday", **FORCE))
    assert job_of(world, "a") == "monday"

    fetcher.done("a", new=[task("b")])
    assert (job_of(world, "a"), job_of(world, "b")) == ("tuesday", "monday")


def test_a_task_keeps_its_job_through_retries_and_recrawls(world: World) -> None:
    fetcher = bring(world, "processing", job="monday", age=HOUR, auto_recrawl=True)
    fetcher.fail("a")
    world.advance(MINUTE)
    fetcher.hello()
    fetcher.done("a")
    assert job_of(world, "a") == "monday"

    world.advance(HOUR)
    fetcher.hello()
    assert fetcher.held["a"].schedule.job == "monday"
    fetcher.done("a", new=[task("b")])
    assert job_of(world, "b") == "monday"


def test_a_retry_by_hand_leaves_a_task_its_job(world: World) -> None:
    bring(world, "failed", job="monday")

    assert change(world, "retry", "monday") == 1
    assert (world.show("a").state, job_of(world, "a")) == ("ready", "monday")


def test_a_bare_task_keeps_its_job_beside_its_itag(world: World) -> None:
    world.set(keep={"success": "1h"})
    bring(world, "success", job="monday", itag="é")
    world.advance(HOUR + MINUTE)
    assert world.show("a").bare_since
    world.restart()

    assert job_of(world, "a") == "monday"
    assert world.push("news", task("a", itag="é")) == ["ignored"]
    assert count(world, "monday") == TaskCounts(success=1)
    assert world.push("news", task("a", itag="e")) == ["restarted"]
    assert job_of(world, "a") == ""


def test_a_fetcher_is_told_the_job(world: World) -> None:
    fetcher = bring(world, "processing", job="monday", priority=2)

    schedule = fetcher.held["a"].schedule
    assert (schedule.job, schedule.priority) == ("monday", 2)


# ---------------------------------------------------------------------------------------- tasks of a job


def make_all_states(world: World) -> None:
    """Make tasks of two jobs, and of none, in all states."""
    jobs = {"monday": "monday", "tuesday": "tuesday", "none": None}
    for name, job in jobs.items():
        world.push("news", *(task(f"{name}-{end}", job=job) for end in ("success", "failed", "held")))
    fetcher = world.fetcher(capacity=9)
    fetcher.hello(capacity=0)
    for name, job in jobs.items():
        fetcher.done(f"{name}-success")
        fetcher.fail(f"{name}-failed", retry=False)
        world.push("news", task(f"{name}-ready", job=job), task(f"{name}-delayed", job=job, delay=DAY))
        world.push("news", task(f"{name}-gone", job=job), task(f"{name}-gone", **CANCEL))


def test_tasks_are_listed_by_job(world: World) -> None:
    make_all_states(world)

    ends = ("ready", "delayed", "held", "success", "failed", "gone")
    assert listed(world, "monday") == [f"monday-{end}" for end in ends]
    assert listed(world, "tuesday", "processing") == ["tuesday-held"]
    assert listed(world, "wednesday") == []


@pytest.mark.parametrize(
    ("action", "states", "matched"), [("retry", ["failed"], 1), ("cancel", [], 3), ("reprioritise", [], 3)]
)
def test_an_operation_changes_the_tasks_of_a_job_only(
    world: World, action: str, states: list[str], matched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PAGE_TASKS", 4)
    make_all_states(world)
    before = count(world, "tuesday")

    assert change(world, action, "monday", states=states) == matched
    assert count(world, "tuesday") == before
    assert change(world, "cancel", "wednesday") == 0


@pytest.mark.parametrize("page", [1, 3, 2048])
def test_a_job_is_counted_by_state_a_bounded_number_of_tasks_a_turn(
    world: World, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(insight, "JOB_TASKS", page)
    make_all_states(world)

    once = TaskCounts(ready=1, delayed=1, processing=1, success=1, failed=1, cancelled=1)
    assert count(world, "monday") == count(world, "tuesday") == once
    assert count(world, "wednesday") == TaskCounts()
    world.restart()
    assert count(world, "monday") == once


def test_a_task_of_a_job_that_is_dispatched_in_the_turn_that_makes_it_is_counted(world: World) -> None:
    world.fetcher(capacity=3)
    world.push("news", task("a", job="monday"), task("b", job="monday"), task("other"), task("c", job="monday"))

    for _ in range(2):
        assert count(world, "monday") == TaskCounts(processing=2, ready=1)
        world.restart()


def test_a_task_that_moves_on_between_two_pages_counts_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insight, "JOB_TASKS", 2)
    world.push("news", *(task(name, job="monday") for name in "abcd"))
    first = count_page(world, "monday")
    assert (first.counts, first.next) == (TaskCounts(ready=2), "b")

    fetcher = world.fetcher()
    assert count_page(world, "monday", first.next).counts == TaskCounts(processing=2)
    fetcher.finish_all()
    assert count_page(world, "monday", first.next).counts == TaskCounts(success=2)


def test_what_clear_has_dropped_is_not_counted_while_it_is_swept_up(world: World) -> None:
    make_all_states(world)
    clear = ProjectDo(**WHO, n=world.n(), project="news", action="clear")
    asked = [JobCounts(**WHO, n=world.n(), project="news", job="monday") for _ in range(2)]

    replies = [*world.turn(clear, asked[0]), *world.turn(asked[1])]
    counts = [reply.counts for reply in replies if isinstance(reply, JobCountsReply)]
    assert counts == [TaskCounts(success=1, failed=1, cancelled=1)] * 2


def test_a_job_of_the_turn_that_pushes_it_is_counted_in_the_next_one(world: World) -> None:
    asked = JobCounts(**WHO, n=world.n(), project="news", job="monday")
    replies = world.turn(world.new_tasks("news", task("a", job="monday")), asked)

    assert isinstance(replies[-1], JobCountsReply)
    assert replies[-1].counts == TaskCounts()
    assert count(world, "monday") == TaskCounts(ready=1)


def test_jobs_end_with_the_tasks_of_a_project_that_is_reset(make_world: MakeWorld) -> None:
    world = make_world()
    make_all_states(world)
    world.do("reset")

    assert count(world, "monday") == TaskCounts()
    world.push("news", task("monday-ready"))
    assert listed(world, "monday") == []
