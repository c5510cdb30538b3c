"""Tasks that their fetcher puts off again and again: counted, shown, and bounded."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import PUT_OFF_MOST
from taskqueue.protocol.insight import Why, WhyReply
from taskqueue.protocol.tasks import TaskList, TaskListReply
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, bring, comes_after, run_out

NOW = {"retry_after": 0.0}


def put_off(world: World, fetcher: Fetcher, times: int, seconds: float = 1.0) -> None:
    """Put the task off ``times`` times, and let it come again each time."""
    for _ in range(times):
        fetcher.fail("a", retry_after=seconds)
        world.advance(max(1.0, seconds))
        fetcher.hello()


def why(world: World, taskid: str | None = "a") -> str:
    (reply,) = world.turn(Why(session="person", n=world.n(), project="news", taskid=taskid))
    assert isinstance(reply, WhyReply)
    return reply.sentence


@pytest.mark.parametrize("seconds", [0.0, 0.25])
def test_from_the_third_time_in_a_row_a_task_that_is_put_off_by_less_than_a_second_waits_for_one(
    world: World, seconds: float
) -> None:
    fetcher = bring(world, "processing")
    for _ in range(2):
        fetcher.fail("a", retry_after=seconds)
        world.advance(seconds)
        fetcher.hello()
        assert "a" in fetcher.held

    for _ in range(3):
        fetcher.fail("a", retry_after=seconds)
        assert comes_after(world, fetcher, 1)


def test_a_second_and_more_are_as_long_as_they_were_asked_for_and_count(world: World) -> None:
    fetcher = bring(world, "processing")

    for seconds in (1.0, 1.5, 60.0):
        fetcher.fail("a", retry_after=seconds)
        assert comes_after(world, fetcher, seconds)
    fetcher.fail("a", **NOW)
    assert comes_after(world, fetcher, 1)


def test_it_is_told_how_often_in_a_row_a_task_was_put_off(world: World) -> None:
    fetcher = bring(world, "processing")
    put_off(world, fetcher, 505)
    fetcher.fail("a", error="busy", **NOW)
    asked = TaskList(session="person", n=world.n(), project="news", state="delayed")

    assert world.show("a").put_off == 506
    assert [row.put_off for row in world.ask(TaskListReply, asked).tasks] == [506]
    assert why(world) == 'task "a" is due in 1 s, as its fetcher asked, after "busy"; put off 506 times in a row'
    assert why(world, None).endswith("has no due task; the next one is due in 1 s; put off 506 times in a row")


def test_it_is_told_of_a_task_that_is_ready_or_runs_too(world: World) -> None:
    fetcher = bring(world, "processing")
    put_off(world, fetcher, 3)
    assert why(world).endswith("; put off 3 times in a row")

    fetcher.hello(capacity=0)
    world.do("stop")
    fetcher.fail("a", retry_after=1.0)
    world.advance(2)
    assert why(world).endswith("; put off 4 times in a row")


def test_once_is_nothing_to_tell(world: World) -> None:
    fetcher = bring(world, "processing")
    fetcher.fail("a", retry_after=5.0)

    assert "put off" not in why(world)


@pytest.mark.parametrize("out_of_memory", [False, True])
def test_the_count_is_kept_across_restarts(make_world: MakeWorld, out_of_memory: bool) -> None:
    world = make_world({})
    fetcher = bring(world, "processing", itag="v1")
    put_off(world, fetcher, 2)
    world.crash() if out_of_memory else world.restart()
    fetcher.hello()
    fetcher.fail("a", **NOW)
    world.restart()

    shown = world.show("a")
    assert (shown.put_off, shown.schedule.itag) == (3, "v1")
    fetcher.hello()
    assert comes_after(world, fetcher, 1)


def test_it_is_counted_up_to_its_bound(world: World) -> None:
    fetcher = bring(world, "processing")
    [held] = world.leased()
    held.put_off = PUT_OFF_MOST - 1
    world.ledger.commit(WriteSet(moves=[held.as_move()]))
    world.crash()
    fetcher.hello()
    put_off(world, fetcher, 2)
    world.restart()

    assert world.show("a").put_off == PUT_OFF_MOST


@pytest.mark.parametrize("end", [{"ok": False}, {"ok": False, "retry": False}, {"ok": True}])
@pytest.mark.parametrize("schedule", [{}, {"age": 60, "auto_recrawl": True}])
def test_another_end_of_an_attempt_begins_the_count_anew(
    world: World, end: dict[str, Any], schedule: dict[str, Any]
) -> None:
    fetcher = bring(world, "processing", **schedule)
    put_off(world, fetcher, 2)

    fetcher.done("a", **end)
    assert world.show("a").put_off == 0


def test_a_timeout_begins_the_count_anew(world: World) -> None:
    fetcher = bring(world, "processing")
    put_off(world, fetcher, 2)

    run_out(world, fetcher)
    assert world.show("a").put_off == 0


def test_what_is_wanted_anew_or_no_more_begins_the_count_anew(world: World) -> None:
    fetcher = bring(world, "processing")
    put_off(world, fetcher, 2)
    fetcher.fail("a", retry_after=60.0)
    world.push("news", task("a", **FORCE))
    assert world.show("a").put_off == 0

    fetcher.hello()
    put_off(world, fetcher, 1, seconds=60.0)
    world.push("news", task("a", **CANCEL))
    assert world.show("a").put_off == 0


def test_a_fetcher_that_hands_a_task_back_does_not_touch_the_count(world: World) -> None:
    fetcher = bring(world, "processing")
    put_off(world, fetcher, 2)

    fetcher.release("a")
    assert world.show("a").put_off == 2
