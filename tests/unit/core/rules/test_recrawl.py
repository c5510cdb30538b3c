"""recrawl: a task runs again at an interval that follows the changes of its page; and the stored facts of the page."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from taskqueue.core.model.hashes import JITTER
from taskqueue.protocol.tasks import TaskRetry, TasksReply
from taskqueue.protocol.values import Assignment, Fetched, Recrawl
from tests.unit.core.conftest import Fetcher, MakeWorld, World, task
from tests.unit.core.rules.conftest import DAY, HOUR, bring, never_comes

BOUNDS: Final = Recrawl(HOUR, 100 * HOUR)
FACTS: Final = Fetched(etag='"1"', last_modified="Tue, 14 Nov 2023 22:13:20 GMT", content_hash="d2e3")


def recrawled(world: World, **schedule: Any) -> Fetcher:
    """Make a fetcher with the task "a" of news, which runs again at an interval between bounds."""
    return bring(world, "processing", **{"recrawl": BOUNDS, "age": 10 * HOUR} | schedule)


def wait_of(world: World, fetcher: Fetcher, fetched: Fetched | None = None) -> float:
    """Report a success; return the seconds that the task has to wait."""
    assert fetcher.done("a", fetched=fetched) == "done"
    return world.show("a").exetime - world.now.wall


def interval_of(world: World, fetcher: Fetcher, fetched: Fetched | None = None) -> float:
    """Report a success; return the interval in hours, after which the task is dispatched again."""
    wait = wait_of(world, fetcher, fetched) / HOUR
    take_again(world, fetcher)
    return next((hours for hours in (1, 8, 10, 14, 100) if abs(wait / hours - 1) <= JITTER), wait)


def take_again(world: World, fetcher: Fetcher) -> Assignment:
    """Wait until the task is due again; return its assignment."""
    world.advance(max(0.0, world.show("a").exetime - world.now.wall) + 0.001)
    fetcher.hello()
    return fetcher.held["a"]


def said(fact: str, value: str) -> Fetched:
    """Make a report with a single fact."""
    return replace(Fetched(), **{fact: value})


def told_of(handed: Assignment) -> tuple[str, str, str]:
    return handed.etag, handed.last_modified, handed.content_hash


# ---------------------------------------------------------------------------------------- the interval


def test_a_task_with_recrawl_comes_again_after_each_success(world: World) -> None:
    fetcher = recrawled(world)

    for runs in range(2, 5):
        assert fetcher.done("a") == "done"
        assert world.show("a").state == "delayed"
        take_again(world, fetcher)
        assert len(fetcher.taken) == runs


@pytest.mark.parametrize(("age", "hours"), [({"age": None}, 1), ({}, 10), ({"age": 1.0}, 1), ({"age": 300 * DAY}, 100)])
def test_the_first_interval_is_the_age_within_the_bounds_or_else_the_shortest(
    world: World, age: dict[str, float | None], hours: int
) -> None:
    assert interval_of(world, recrawled(world, **age)) == hours


def test_auto_recrawl_changes_nothing_beside_recrawl(world: World) -> None:
    fetcher = recrawled(world, auto_recrawl=True)

    assert interval_of(world, fetcher, Fetched(changed=False)) == 14


def test_the_interval_shrinks_when_the_page_changed_and_grows_when_not(world: World) -> None:
    fetcher = recrawled(world)

    assert interval_of(world, fetcher, Fetched(changed=True)) == 8
    assert wait_of(world, fetcher, Fetched(changed=False)) == pytest.approx(11.2 * HOUR, rel=JITTER)


@pytest.mark.parametrize(("changed", "hours"), [(True, 1), (False, 100)])
def test_the_interval_stays_within_its_bounds(world: World, changed: bool, hours: int) -> None:
    fetcher = recrawled(world)
    for _ in range(20):
        fetcher.done("a", fetched=Fetched(changed=changed))
        take_again(world, fetcher)

    assert interval_of(world, fetcher, Fetched(changed=changed)) == hours


def test_what_tells_nothing_of_the_page_leaves_the_interval(world: World) -> None:
    fetcher = recrawled(world)

    for fetched in (None, Fetched(status_code=200, seconds=0.5), FACTS, None):
        assert interval_of(world, fetcher, fetched) == 10


@pytest.mark.parametrize("fact", ["content_hash", "etag", "last_modified"])
def test_where_nothing_is_said_of_changes_the_facts_of_both_reports_are_compared(world: World, fact: str) -> None:
    fetcher = recrawled(world)

    assert interval_of(world, fetcher, said(fact, "1")) == 10
    assert interval_of(world, fetcher, said(fact, "2")) == 8


@pytest.mark.parametrize("fact", ["content_hash", "etag", "last_modified"])
def test_the_same_fact_means_that_the_page_is_the_same(world: World, fact: str) -> None:
    fetcher = recrawled(world)

    assert interval_of(world, fetcher, said(fact, "1")) == 10
    assert interval_of(world, fetcher, said(fact, "1")) == 14


def test_what_the_report_says_of_changes_wins_over_its_facts(world: World) -> None:
    fetcher = recrawled(world)

    assert interval_of(world, fetcher, Fetched(content_hash="1")) == 10
    assert interval_of(world, fetcher, Fetched(content_hash="2", changed=False)) == 14


def test_a_hash_wins_over_an_etag_and_that_over_a_last_modified(world: World) -> None:
    fetcher = recrawled(world)

    assert interval_of(world, fetcher, Fetched(content_hash="1", etag="1", last_modified="1")) == 10
    assert interval_of(world, fetcher, Fetched(content_hash="1", etag="2", last_modified="2")) == 14
    assert wait_of(world, fetcher, Fetched(etag="2", last_modified="3")) > 14 * HOUR * 1.4 * (1 - JITTER)


def test_tasks_of_one_moment_do_not_come_back_at_one_moment(world: World) -> None:
    names = [f"a{number}" for number in range(200)]
    world.push("news", *(task(name, recrawl=BOUNDS) for name in names))
    fetcher = world.fetcher(capacity=200)
    for name in names:
        fetcher.done(name)

    waits = sorted(world.show(name).exetime - world.now.wall for name in names)
    assert HOUR * (1 - JITTER) <= waits[0] < HOUR * 0.92
    assert HOUR * 1.08 < waits[-1] <= HOUR * (1 + JITTER)


def test_a_failure_leaves_the_interval_and_is_retried_after_no_longer(world: World) -> None:
    world.set(retry_delay=[20 * HOUR])
    fetcher = recrawled(world, retries=0)

    fetcher.fail("a", fetched=Fetched(changed=True, etag="2"))
    assert world.show("a").exetime == world.now.wall + 10 * HOUR
    assert told_of(take_again(world, fetcher)) == ("", "", "")
    assert interval_of(world, fetcher) == 10


def test_one_that_fails_for_good_is_over(world: World) -> None:
    fetcher = recrawled(world)

    fetcher.fail("a", retry=False)
    assert world.show("a").state == "failed"
    assert never_comes(world, fetcher)


# ---------------------------------------------------------------------------------------- what is kept


def test_what_was_reported_of_the_page_comes_with_the_next_hand_out(world: World) -> None:
    fetcher = recrawled(world)
    assert told_of(fetcher.held["a"]) == ("", "", "")
    fetcher.done("a", fetched=FACTS)

    assert told_of(take_again(world, fetcher)) == (FACTS.etag, FACTS.last_modified, FACTS.content_hash)


def test_what_is_not_said_of_a_page_that_is_the_same_stays(world: World) -> None:
    fetcher = recrawled(world)
    for fetched in (FACTS, Fetched(status_code=304, etag='"1"'), Fetched(changed=False), None):
        fetcher.done("a", fetched=fetched)
        assert told_of(take_again(world, fetcher)) == (FACTS.etag, FACTS.last_modified, FACTS.content_hash)


def test_what_is_not_said_of_a_page_that_is_another_is_forgotten(world: World) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=FACTS)
    take_again(world, fetcher)

    fetcher.done("a", fetched=Fetched(content_hash="e5"))
    assert told_of(take_again(world, fetcher)) == ("", "", "e5")


def test_the_interval_and_the_facts_outlive_the_daemon(world: World) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=Fetched(changed=False, etag='"1"'))
    world.restart()

    assert take_again(world, fetcher).etag == '"1"'
    world.restart()
    fetcher.hello()
    assert interval_of(world, fetcher) == 14


def test_a_late_success_counts_for_the_interval(world: World) -> None:
    fetcher = recrawled(world, timeout=30)
    token = fetcher.held["a"].token
    fetcher.hello(capacity=0)
    world.advance(31)
    assert world.show("a").state == "ready"

    assert fetcher.forge("a", token, fetched=Fetched(changed=True)) == "done"
    assert world.show("a").exetime - world.now.wall == pytest.approx(8 * HOUR, rel=JITTER)


def test_of_a_task_without_recrawl_nothing_is_kept(world: World) -> None:
    fetcher = bring(world, "processing", auto_recrawl=True, age=HOUR)
    assert wait_of(world, fetcher, FACTS) == HOUR

    assert told_of(take_again(world, fetcher)) == ("", "", "")


def test_what_would_have_no_room_beside_the_body_is_not_kept(world: World) -> None:
    body = "x" * (world.config.max_message - 3000)
    world.push("news", task("a", body=body, recrawl=BOUNDS, age=10 * HOUR))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a", fetched=Fetched(changed=False, etag='"1"'))

    assert told_of(take_again(world, fetcher)) == ("", "", "")
    assert interval_of(world, fetcher) == 14


# ---------------------------------------------------------------------------------------- what is pushed meanwhile


def test_a_link_does_not_hurry_a_recrawl(world: World) -> None:
    fetcher = recrawled(world)
    wait = wait_of(world, fetcher)

    assert world.push("news", task("a"), task("a", recrawl=Recrawl(1, 2))) == ["ignored", "ignored"]
    assert world.show("a").exetime == world.now.wall + wait


def test_a_link_with_recrawl_restarts_what_is_over_for_longer_than_its_first_interval(world: World) -> None:
    bring(world, "success")

    world.advance(HOUR)
    assert world.push("news", task("a", recrawl=BOUNDS)) == ["ignored"]
    world.advance(1)
    assert world.push("news", task("a", recrawl=BOUNDS)) == ["restarted"]


@pytest.mark.parametrize("state", ["delayed", "processing", "failed"])
def test_force_update_keeps_the_interval_and_wants_the_whole_page(world: World, state: str) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=Fetched(changed=False, etag='"1"'))
    if state != "delayed":
        take_again(world, fetcher)
    if state == "failed":
        fetcher.fail("a", retry=False)

    world.push("news", task("a", force_update=True, recrawl=BOUNDS))
    if state == "processing":
        fetcher.fail("a")
    assert told_of(take_again(world, fetcher)) == ("", "", "")
    assert interval_of(world, fetcher) == 14


def test_force_update_brings_the_interval_within_new_bounds(world: World) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=Fetched(changed=False))

    world.push("news", task("a", force_update=True, recrawl=Recrawl(HOUR, 8 * HOUR)))
    fetcher.hello()
    assert interval_of(world, fetcher) == 8


def test_with_another_url_nothing_is_known_of_the_page(world: World) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=Fetched(changed=False))

    world.push("news", task("a", url="http://other/", force_update=True, recrawl=BOUNDS))
    fetcher.hello()
    assert interval_of(world, fetcher) == 1


@pytest.mark.parametrize("in_one_turn", [True, False])
def test_a_link_that_restarts_it_begins_at_the_first_interval(world: World, in_one_turn: bool) -> None:
    fetcher = recrawled(world)
    fetcher.done("a", fetched=Fetched(changed=False))
    take_again(world, fetcher)
    failed = fetcher.answers(fetcher.finished("a", ok=False, retry=False))
    link = world.new_tasks("news", task("a", recrawl=BOUNDS, itag="v2"))

    for requests in [(failed, link)] if in_one_turn else [(failed,), (link,)]:
        world.turn(*requests)
    fetcher.hello()
    assert interval_of(world, fetcher) == 1


def test_force_update_without_recrawl_ends_it(world: World) -> None:
    fetcher = recrawled(world)
    fetcher.done("a")

    world.push("news", task("a", force_update=True))
    fetcher.hello()
    fetcher.done("a")
    assert never_comes(world, fetcher)


# ---------------------------------------------------------------------------------------- order


def test_when_more_is_due_than_can_be_done_each_has_its_turn(world: World) -> None:
    names = [f"a{number}" for number in range(6)]
    world.push("news", *(task(name, recrawl=Recrawl(1, 1)) for name in names))
    fetcher = world.fetcher(capacity=1)
    for _ in range(30):
        (held,) = fetcher.held
        world.advance(1)
        fetcher.done(held)

    assert {name: fetcher.taken[:30].count(name) for name in names} == dict.fromkeys(names, 5)


def test_what_was_crawled_longest_ago_is_first_among_equals_and_new_tasks_are_not_held_up(world: World) -> None:
    world.push("news", *(task(name, recrawl=Recrawl(10, 10)) for name in "ab"))
    fetcher = world.fetcher(capacity=1)
    fetcher.done("a")
    world.push("news", task("new"))
    fetcher.hello(capacity=0)
    fetcher.done("b")
    world.advance(20)

    fetcher.capacity = 3
    fetcher.hello()
    assert fetcher.taken == ["a", "b", "a", "new", "b"]


def test_in_each_slot_each_has_its_turn(make_world: MakeWorld) -> None:
    world = make_world({"slot": {"by": "host", "delay": 1.0}})
    pages = [f"http://{host}.example/{number}" for host in "ab" for number in range(3)]
    world.push("news", *(task(url, url=url, recrawl=Recrawl(1, 1)) for url in pages))
    fetcher = world.fetcher(capacity=9)
    for _ in range(12):
        assert len(fetcher.held) == 2, "one of each host"
        for held in list(fetcher.held):
            fetcher.done(held)
        world.advance(1)

    assert {url: fetcher.taken[:24].count(url) for url in pages} == dict.fromkeys(pages, 4)


def test_a_priority_counts_before_all_that(world: World) -> None:
    world.push("news", task("a", recrawl=Recrawl(10, 10)), task("b", recrawl=Recrawl(10, 10), priority=1))
    fetcher = world.fetcher(capacity=2)
    fetcher.done("a")
    fetcher.done("b")
    fetcher.hello(capacity=0)
    world.advance(20)

    fetcher.hello()
    assert fetcher.taken[2:] == ["b", "a"]


# ---------------------------------------------------------------------------------------- repeat


@pytest.mark.parametrize("recurring", [{"recrawl": BOUNDS}, {"recrawl": None, "auto_recrawl": True}])
def test_with_repeat_a_task_recurs_that_many_times_and_ends(world: World, recurring: dict[str, Any]) -> None:
    fetcher = recrawled(world, repeat=2, **recurring)

    for left in (1, 0):
        fetcher.done("a")
        assert (world.show("a").state, world.show("a").schedule.repeat) == ("delayed", left)
        take_again(world, fetcher)
    fetcher.done("a")

    assert world.show("a").state == "success"
    assert never_comes(world, fetcher)


def test_with_repeat_0_a_task_runs_once(world: World) -> None:
    fetcher = recrawled(world, repeat=0)
    fetcher.done("a")

    assert world.show("a").state == "success"


def test_what_is_left_of_repeat_outlives_the_daemon(world: World) -> None:
    fetcher = recrawled(world, repeat=1)
    fetcher.done("a")
    world.crash()
    fetcher = world.fetcher(capacity=1)
    take_again(world, fetcher)
    fetcher.done("a")

    assert world.show("a").state == "success"


def test_a_failure_is_no_recurrence_and_the_last_run_fails_for_good_like_any_other(world: World) -> None:
    world.set(retry_delay=[1.0])
    fetcher = recrawled(world, repeat=1, retries=0)
    fetcher.fail("a")
    assert (world.show("a").state, world.show("a").schedule.repeat) == ("delayed", 1)
    take_again(world, fetcher)
    fetcher.done("a")
    take_again(world, fetcher)
    fetcher.fail("a")

    assert world.show("a").state == "failed"


def test_a_late_success_counts_for_repeat(world: World) -> None:
    fetcher = recrawled(world, repeat=1, timeout=30)
    token = fetcher.held["a"].token
    fetcher.hello(capacity=0)
    world.advance(31)

    assert fetcher.forge("a", token) == "done"
    assert world.show("a").schedule.repeat == 0


def test_force_update_brings_another_repeat_and_a_retry_by_hand_none(world: World) -> None:
    fetcher = recrawled(world, repeat=0)
    fetcher.done("a")
    world.ask(TasksReply, TaskRetry(session="person", n=world.n(), project="news", taskids=["a"]))
    assert world.show("a").schedule.repeat == 0
    world.push("news", task("a", recrawl=BOUNDS, repeat=5, force_update=True))

    assert world.show("a").schedule.repeat == 5


def test_without_recurrence_repeat_has_no_effect(world: World) -> None:
    fetcher = bring(world, "processing", repeat=3)
    fetcher.done("a")

    assert (world.show("a").state, world.show("a").schedule.repeat) == ("success", 3)
