"""done, not ok, with ``again``: changes for the next attempt of a task."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.tasks import DoneReply
from taskqueue.protocol.values import Again, Fetched, Recrawl
from tests.unit.core.conftest import MakeWorld, World, body_of, packed, task
from tests.unit.core.rules.conftest import CANCEL, FORCE, HOUR, bring, comes_after, rest, run_out

NEXT = Again(body=packed("next"), priority=7)
COUNTS, COUNTS_NOT = Again(counts=True), Again(counts=False)

# ---------------------------------------------------------------------------------------- body and priority


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("after", [None, 0.0, 60.0])
def test_a_failure_may_give_the_next_attempt_another_body_and_priority(
    world: World, after: float | None, restart: bool
) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("b", priority=3))

    assert fetcher.fail("a", retry_after=after, again=NEXT) == "done"
    if restart:
        world.restart()

    world.advance(60)
    fetcher.hello()
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].schedule.priority) == ("next", 7)


def test_what_is_not_said_stays(world: World) -> None:
    fetcher = bring(world, "processing", priority=4)

    fetcher.fail("a", retry_after=0.0, again=Again())
    fetcher.hello()
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].schedule.priority) == ("old", 4)
    fetcher.fail("a", retry_after=0.0, again=NEXT)
    fetcher.hello()
    fetcher.fail("a", retry_after=5.0)
    assert comes_after(world, fetcher, 5)
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].schedule.priority) == ("next", 7)


def test_a_retry_with_another_body_keeps_its_place_among_equals(world: World) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("b"))

    fetcher.fail("a", retry_after=0.0, again=Again(body=packed("next")))
    fetcher.hello()
    assert fetcher.taken == ["a", "a"]


def test_a_retry_with_another_body_keeps_how_often_the_task_has_failed(world: World) -> None:
    fetcher = bring(world, "processing", retries=2)

    for retried in (0, 1):
        assert fetcher.held["a"].retried == retried
        fetcher.fail("a", again=Again(body=packed(retried)))
        world.advance(HOUR)
        fetcher.hello()
    fetcher.fail("a", again=NEXT)
    assert world.show("a").state == "failed"


def test_a_task_that_has_failed_for_good_keeps_its_body(world: World) -> None:
    fetcher = bring(world, "processing", retries=0)

    assert fetcher.fail("a", again=NEXT) == "done"
    assert (world.show("a").state, body_of(world.show("a"))) == ("failed", "old")


@pytest.mark.parametrize("restart", [False, True])
def test_a_deferred_update_wins_over_the_body_of_a_retry(world: World, restart: bool) -> None:
    fetcher = bring(world, "processing")
    world.push("news", task("a", body="forced", priority=1, **FORCE))
    if restart:
        world.restart()

    assert fetcher.fail("a", again=NEXT) == "done"
    fetcher.hello()
    assert (body_of(fetcher.held["a"]), fetcher.held["a"].schedule.priority) == ("forced", 1)


def test_a_recurring_task_keeps_the_body_of_a_retry_for_its_later_runs(world: World) -> None:
    fetcher = bring(world, "processing", age=HOUR, auto_recrawl=True, retries=0)

    fetcher.fail("a", again=NEXT)
    world.advance(HOUR)
    fetcher.hello()
    fetcher.done("a")
    assert comes_after(world, fetcher, HOUR)
    assert body_of(fetcher.held["a"]) == "next"


def test_follow_ups_of_the_next_attempt_are_as_deep_as_before(world: World) -> None:
    world.set(max_depth=2)
    fetcher = bring(world, "processing")
    fetcher.done("a", new=[task("b")])
    fetcher.hello()
    fetcher.fail("b", retry_after=0.0, again=NEXT)
    fetcher.hello()

    fetcher.done("b", new=[task("c")])
    fetcher.hello()
    reply = world.ask(DoneReply, fetcher.answers(fetcher.finished("c", new=[task("d")])))
    assert reply.new == [["ignored"]]


# ---------------------------------------------------------------------------------------- counts


def test_a_retry_after_some_seconds_may_use_up_a_retry(world: World) -> None:
    fetcher = bring(world, "processing", retries=2)

    for _ in range(2):
        fetcher.fail("a", retry_after=20.0, again=COUNTS)
        assert comes_after(world, fetcher, 20)
    fetcher.fail("a", retry_after=20.0, again=COUNTS)
    assert world.show("a").state == "failed"


def test_a_failure_may_use_up_no_retry_and_waits_for_the_same_step_of_the_table(world: World) -> None:
    fetcher = bring(world, "processing", retries=1)

    for _ in range(4):
        fetcher.fail("a", again=COUNTS_NOT)
        assert comes_after(world, fetcher, 30)
        assert fetcher.held["a"].retried == 0
    fetcher.fail("a")
    assert comes_after(world, fetcher, 30)
    fetcher.fail("a", again=COUNTS_NOT)
    assert comes_after(world, fetcher, HOUR)


def test_from_the_third_time_in_a_row_what_uses_up_no_retry_waits_for_a_second(world: World) -> None:
    world.set(retry_delay=[0.0])
    fetcher = bring(world, "processing")
    for _ in range(2):
        fetcher.fail("a", again=COUNTS_NOT)
        fetcher.hello()
        assert "a" in fetcher.held

    fetcher.fail("a", again=COUNTS_NOT)
    assert comes_after(world, fetcher, 1)


@pytest.mark.parametrize(
    ("report", "state"),
    [
        ({"again": COUNTS}, "paused"),
        ({"again": COUNTS, "retry_after": 5.0}, "paused"),
        ({"again": COUNTS_NOT}, "running"),
    ],
)
def test_what_uses_up_a_retry_counts_towards_the_automatic_pause(
    make_world: MakeWorld, report: dict[str, Any], state: str
) -> None:
    world = make_world({"fail_pause_num": 2})
    world.push("news", task("a"), task("b"))
    fetcher = world.fetcher(capacity=2)

    for taskid in "ab":
        fetcher.fail(taskid, **report)
    assert world.project().state == state


@pytest.mark.parametrize(("again", "retried"), [(None, 0), (COUNTS, 1), (COUNTS_NOT, 0)])
def test_whether_a_retry_counts_is_heeded_of_a_host_that_throttles_too(
    make_world: MakeWorld, again: Again | None, retried: int
) -> None:
    world = make_world({"slot": {"by": "host", "delay": 0.0}})
    fetcher = bring(world, "processing")

    fetcher.fail("a", fetched=Fetched(status_code=429), again=again)
    assert world.show("a").retried == retried


# ---------------------------------------------------------------------------------------- what is not taken


@pytest.mark.parametrize("report", [{}, {"retry_after": 5.0}, {"retry": False}])
def test_a_late_failure_is_stale_and_brings_neither_new_tasks_nor_a_body(world: World, report: dict[str, Any]) -> None:
    fetcher = bring(world, "processing")
    again = None if report.get("retry") is False else NEXT
    late = fetcher.finished("a", ok=False, new=[task("b")], again=again, **report)
    run_out(world, fetcher)

    reply = world.ask(DoneReply, fetcher.answers(late))
    assert (reply.outcomes, reply.new) == (["stale"], [[]])
    fetcher.capacity = 2
    fetcher.hello()
    assert [body_of(each) for each in fetcher.held.values()] == ["old"]


@pytest.mark.parametrize("end", ["cancelled", "replaced"])
def test_a_retry_of_a_lease_that_was_taken_away_changes_nothing(world: World, end: str) -> None:
    fetcher = bring(world, "processing")
    item = fetcher.finished("a", ok=False, again=NEXT)
    world.push("news", task("a", **CANCEL))
    if end == "replaced":
        world.push("news", task("a", body="forced", **FORCE))

    assert world.ask(DoneReply, fetcher.answers(item)).outcomes == ["stale"]
    assert body_of(world.show("a")) == ("forced" if end == "replaced" else "old")


def test_a_body_that_could_not_go_out_again_is_rejected_and_the_lease_goes_on(make_world: MakeWorld) -> None:
    world = make_world(max_message=20_000)
    fetcher = bring(world, "processing")
    held = fetcher.held["a"]
    item = fetcher.finished("a", ok=False, new=[task("b")], again=Again(body=packed("x" * 20_000)))

    reply = world.ask(DoneReply, fetcher.answers(item))
    assert (reply.outcomes, reply.new) == (["rejected"], [[]])
    assert "again.body: 20003 bytes, at most " in reply.errors[0].reason
    assert fetcher.forge("a", held.token, ok=False, again=NEXT) == "done"


def test_what_is_known_of_a_page_gives_way_to_a_body_beside_which_it_would_not_go_out(make_world: MakeWorld) -> None:
    world = make_world(max_message=20_000)
    fetcher = bring(world, "processing", recrawl=Recrawl(HOUR, HOUR))
    fetcher.done("a", fetched=Fetched(200, etag="e"))
    world.advance(2 * HOUR)
    fetcher.hello()
    assert fetcher.held["a"].etag == "e"

    fetcher.fail("a", retry_after=0.0, again=Again(body=packed("x" * 18_000)))
    fetcher.hello()
    assert (len(fetcher.held["a"].body), fetcher.held["a"].etag) == (18_003, "")


def test_a_retry_that_is_repeated_is_answered_as_before(world: World) -> None:
    fetcher = bring(world, "processing")
    request = fetcher.answers(fetcher.finished("a", ok=False, new=[task("b")], again=Again(body=packed("next"))))
    first = world.ask(DoneReply, request)
    rest(fetcher)

    again = world.ask(DoneReply, request)
    assert (again.outcomes, again.new) == (first.outcomes, first.new) == (["done"], [["new"]])
    assert world.show("a").retried == 1
