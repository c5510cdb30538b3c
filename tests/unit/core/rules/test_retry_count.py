"""Count of tasks that wait for a retry: updated by each change, and page by page if the store lacks it.

Every turn of every test checks the count against the records on the disk: see ``World``.
"""

from __future__ import annotations

import pytest

from taskqueue.core.model.needs import Found, SetAside
from taskqueue.core.model.task import DELAYED
from taskqueue.core.steps import retry_count
from taskqueue.protocol.operations import Bulk, OperationReply
from taskqueue.protocol.projects import ProjectReply, ProjectShow
from taskqueue.protocol.tasks import TaskRetry
from taskqueue.store.records import layout
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, bring, bring_back_off, rest, run_out

PAGE = 4


def waiting(world: World) -> int | None:
    """Return the shown number of tasks that wait for a retry; None while they are counted."""
    remaining = world.project().remaining
    assert remaining is not None
    return remaining.held_back


def failed(world: World, count: int) -> Fetcher:
    """Let ``count`` tasks fail, which wait an hour for their retries."""
    world.set(retry_delay=[3600], fail_pause_num=0)
    world.push("news", *[task(f"t{n}") for n in range(count)])
    fetcher = world.fetcher()
    rest(fetcher)
    for taskid in list(fetcher.held):
        fetcher.fail(taskid)
    return fetcher


def forget_the_count(world: World) -> None:
    """Make the store one without a count; the daemon is restarted by kill -9 and has taken no turn since."""
    projects = world.disk.families[layout.PROJECTS]
    for key, value in list(projects.values.items()):
        record = layout.decode_project(value)
        record.held_back = None
        projects.values[key] = layout.encode(record)
    world.crash()


# ------------------------------------------------------------------------------------------------ with each change


@pytest.mark.parametrize("why", ["retry", "retry_after"])
def test_a_task_waits_for_its_retry_until_it_is_due(world: World, why: str) -> None:
    bring_back_off(world, why, 100)
    assert waiting(world) == 1

    world.advance(100)

    assert waiting(world) == 0


def test_what_is_scheduled_or_comes_again_by_itself_waits_for_no_retry(world: World) -> None:
    bring_back_off(world, "recrawl", 100)
    world.push("news", task("b", delay=50))

    remaining = world.project().remaining

    assert remaining is not None
    assert (remaining.held_back, remaining.later) == (0, 2)


def test_a_recurring_task_that_has_used_up_its_retries_is_waited_for_no_more(world: World) -> None:
    world.set(retry_delay=[10])
    fetcher = bring(world, "processing", age=1000, auto_recrawl=True, retries=0)

    fetcher.fail("a")

    assert (world.counts().delayed, waiting(world)) == (1, 0)


def test_a_late_success_of_a_recurring_task_ends_its_wait(world: World) -> None:
    world.set(retry_delay=[1000])
    fetcher = bring(world, "processing", age=500, auto_recrawl=True, timeout=10)
    run_out(world, fetcher, 20)
    fetcher.hello(holds=[])
    run_out(world, fetcher, 20)
    assert waiting(world) == 1

    assert fetcher.done("a") == "done"

    assert (world.counts().delayed, waiting(world)) == (1, 0)


def test_a_late_success_of_a_task_that_was_put_off_by_a_person_ends_no_wait(world: World) -> None:
    fetcher = bring(world, "processing", age=500, auto_recrawl=True, timeout=10)
    run_out(world, fetcher, 20)
    request = Bulk(session="person", n=world.n(), project="news", action="reschedule", delay=300)
    world.ask(OperationReply, request)
    world.advance(1)
    assert (world.counts().delayed, waiting(world)) == (1, 0)

    assert fetcher.done("a") == "done"

    assert (world.counts().delayed, waiting(world)) == (1, 0)


@pytest.mark.parametrize("end", ["cancel", "replace", "retry", "clear", "delete"])
def test_who_is_taken_out_of_the_wait_is_counted_no_more(world: World, end: str) -> None:
    bring_back_off(world, "retry", 100)

    if end == "cancel":
        world.push("news", task("a", **CANCEL))
    elif end == "replace":
        world.push("news", task("a", delay=50, **FORCE))
    elif end == "retry":
        world.answer(TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))
    else:
        world.do("clear" if end == "clear" else "reset")

    assert waiting(world) == 0


# ------------------------------------------------------------------------------------------------ older stores


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_count, "COUNTED_TASKS", PAGE)


@pytest.mark.usefixtures("small_pages")
def test_a_store_from_before_they_were_counted_is_counted_a_page_a_turn(world: World) -> None:
    failed(world, 3 * PAGE)
    world.push("news", task("later", delay=7200))
    forget_the_count(world)

    assert [told_next(world) for _ in range(5)] == [None, None, None, 3 * PAGE, 3 * PAGE]

    world.crash()
    assert told_next(world) == 3 * PAGE


@pytest.mark.usefixtures("small_pages")
def test_a_daemon_that_nobody_asks_anything_counts_them_when_it_has_started(world: World) -> None:
    failed(world, 3 * PAGE)
    forget_the_count(world)

    world.settle()

    assert told_next(world) == 3 * PAGE


@pytest.mark.usefixtures("small_pages")
def test_what_changes_while_they_are_counted_is_counted_once(world: World) -> None:
    fetcher = failed(world, 3 * PAGE)
    world.push("news", task("new"), task("sooner"))
    fetcher.hello()
    rest(fetcher)
    forget_the_count(world)
    told_next(world)

    ended = ["t0", f"t{PAGE + 1}", f"t{3 * PAGE - 1}"]  # before, on and after the page that this turn counts
    retry = TaskRetry(session="person", n=world.n(), project="news", taskids=ended)
    reports = [fetcher.finished("new", ok=False), fetcher.finished("sooner", ok=False, retry_after=10)]
    world.turn(retry, fetcher.answers(*reports))
    world.settle()

    assert waiting(world) == 3 * PAGE - 3 + 2


def test_a_project_without_delayed_tasks_need_not_be_counted(world: World) -> None:
    forget_the_count(world)

    assert told_next(world) == 0


def test_when_a_delayed_task_is_damaged_they_are_counted_anew(make_world: MakeWorld) -> None:
    world = make_world(head_tasks=2)
    failed(world, 6)
    key = world.disk.families[layout.ORDERS[DELAYED]].keys[-1]
    place = SetAside(layout.project_of(key), DELAYED, int.from_bytes(key[4:], "big"), False, "it is damaged")

    turn = world.scheduler.begin(world.now, [])
    writes = turn.decide(Found(set_aside=[place])).writes

    assert [record.held_back for record in writes.projects] == [None]
    assert world.scheduler.next_event_at(world.now) <= world.now.boot


def told_next(world: World) -> int | None:
    """Return the shown count in the next turn, without further turns."""
    (reply,) = world.turn(ProjectShow(session="person", n=world.n(), project="news"))
    assert isinstance(reply, ProjectReply)
    assert reply.project is not None
    assert reply.project.remaining is not None
    return reply.project.remaining.held_back
