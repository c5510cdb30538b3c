"""Retention: how long finished tasks are kept, and what stays known of them."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.protocol.tasks import TaskRetry, TasksReply
from taskqueue.protocol.values import TaskCounts
from tests.unit.core.conftest import World, task
from tests.unit.core.rules.conftest import CANCEL, DAY, FORCE, HOUR, LIVE, MINUTE, OVER, bring


def go_bare(world: World, state: str = "success", **schedule: Any) -> None:
    """Make a bare task "a" that ended as ``state``."""
    world.set(keep={state: "1h"})
    bring(world, state, **schedule)
    world.advance(HOUR + MINUTE)
    assert world.show("a").bare_since


def test_by_default_what_is_over_is_kept_for_ever(world: World) -> None:
    bring(world, "success")

    world.advance(10_000 * DAY)
    assert (world.show("a").url, len(world.show("a").history)) == ("http://example.org/a", 1)


@pytest.mark.parametrize("state", OVER)
def test_url_body_and_history_go_when_they_were_kept_for_long_enough(world: World, state: str) -> None:
    world.set(keep={state: "1h"})
    bring(world, state)

    world.advance(HOUR - 1)
    assert world.show("a").url
    world.advance(1 + MINUTE)
    shown = world.show("a")
    assert (shown.url, bytes(shown.body), shown.history) == ("", b"\xc0", [])
    assert (shown.state, shown.finished_at, shown.bare_since > shown.finished_at + HOUR) == (
        state,
        shown.finished_at,
        True,
    )


@pytest.mark.parametrize("state", OVER)
def test_each_way_to_end_is_kept_for_its_own_time(world: World, state: str) -> None:
    world.set(keep={other: "1m" for other in OVER if other != state})
    bring(world, state)

    world.advance(DAY)
    assert world.show("a").url


@pytest.mark.parametrize("state", LIVE)
def test_what_is_live_is_never_dropped(world: World, state: str) -> None:
    world.set(keep={"success": 0, "failed": 0, "cancelled": 0, "then": "forget"})
    bring(world, state, **({"delay": 90 * DAY} if state == "delayed" else {"timeout": 1e7}))

    world.advance(80 * DAY)
    assert world.show("a").url


def test_a_url_is_not_crawled_twice_however_long_ago_it_was(world: World) -> None:
    go_bare(world)

    assert world.push("news", task("a")) == ["ignored"]
    world.advance(1000 * DAY)
    assert world.push("news", task("a")) == ["ignored"]
    assert world.counts() == TaskCounts(success=1)


@pytest.mark.parametrize("schedule", [FORCE, {"itag": "new"}, {"age": HOUR}])
def test_a_bare_task_is_restarted_for_the_same_reasons_as_any_that_is_over(
    world: World, schedule: dict[str, Any]
) -> None:
    go_bare(world, itag="old")
    assert world.push("news", task("a", itag="old", age=10 * DAY)) == ["ignored"]

    assert world.push("news", task("a", body="new", **schedule)) == ["restarted"]
    fetcher = world.fetcher()
    assert fetcher.held["a"].lastcrawltime > 0
    assert fetcher.done("a") == "done"
    assert (len(world.show("a").history), world.counts()) == (1, TaskCounts(success=1))


def test_with_forget_a_url_may_come_again_as_new(world: World) -> None:
    world.set(keep={"success": "1h", "then": "forget"})
    bring(world, "success")

    world.advance(HOUR + MINUTE)
    assert world.counts() == TaskCounts()
    assert world.push("news", task("a")) == ["new"]


def test_what_is_bare_already_stays_known_when_forget_is_turned_on(world: World) -> None:
    go_bare(world)

    world.set(keep={"then": "forget"})
    world.advance(1000 * DAY)
    assert world.push("news", task("a")) == ["ignored"]


@pytest.mark.parametrize("state", OVER)
def test_a_bare_task_can_not_be_retried_because_its_body_is_gone(world: World, state: str) -> None:
    go_bare(world, state)

    request = TaskRetry(session="person", n=world.n(), project="news", taskids=["a"])
    assert world.ask(TasksReply, request).outcomes == ["bare"]
    assert world.show("a").state == state


def test_cancelling_a_bare_task_changes_nothing(world: World) -> None:
    go_bare(world)

    assert world.push("news", task("a", **CANCEL)) == ["ignored"]
    assert world.show("a").state == "success"


def test_bare_tasks_are_counted_and_count_for_max_tasks(world: World) -> None:
    go_bare(world)
    world.set(max_tasks=1)

    assert world.push("news", task("b")) == ["rejected"]
    assert world.counts() == TaskCounts(success=1)
