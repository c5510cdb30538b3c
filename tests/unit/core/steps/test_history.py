"""History of events: by the minute for a day and by the hour for 90 days, except for idle times."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.core.model import history
from taskqueue.core.model.now import Now
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.insight import HistoryPoint, HistoryReply, StatsHistory
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, MakeWorld, World, task

MINUTE = WALL // 60 * 60
HOUR = WALL // 3600 * 3600


def told(world: World, project: str | None = "news", **asked: Any) -> HistoryReply:
    return world.ask(HistoryReply, StatsHistory(session="person", n=world.n(), project=project, **asked))


def whole(world: World, project: str | None = "news", **asked: Any) -> list[HistoryPoint]:
    """Collect the points of all pages."""
    page = told(world, project, **asked)
    found = page.points
    while page.next:
        page = told(world, project, **asked | {"since": page.next})
        found += page.points
    return found


def news(world: World) -> list[tuple[float, int]]:
    """List minutes since the first one, and their new tasks."""
    return [((point.at - MINUTE) / 60, point.new) for point in whole(world)]


def push(world: World, count: int, project: str = "news") -> None:
    world.push(project, *[task(f"{project}-{world.n()}") for _ in range(count)])


def end_minute(world: World) -> None:
    """Let time pass to the beginning of the next minute."""
    world.advance(60 - world.now.wall % 60)


def test_a_minute_has_a_point_when_it_is_over_and_something_has_happened_in_it(world: World) -> None:
    push(world, 3)
    assert news(world) == []

    world.advance(60)
    push(world, 2)
    world.advance(180)
    push(world, 1)
    world.advance(60)

    assert news(world) == [(0, 3), (1, 2), (4, 1)]


def test_all_kinds_of_events_are_told_apart(world: World) -> None:
    world.set(processing_timeout=5, retry_delay=[1])
    world.push("news", task("a"), task("b", retries=0), task("c"), task("d"))
    fetcher = world.fetcher(capacity=4)
    fetcher.done("a")
    fetcher.fail("b")
    fetcher.fail("c")
    fetcher.hello(capacity=0)
    end_minute(world)

    (point,) = [each for each in whole(world) if each.new]
    assert (point.new, point.selected, point.success, point.failed) == (4, 4, 1, 1)
    assert point.retried == 1 + point.timeout


def test_the_points_of_all_together_are_the_sums_of_those_of_the_projects(world: World) -> None:
    for count in (3, 5):
        push(world, count)
        push(world, 2, "shop")
        world.advance(60)

    assert [point.new for point in whole(world)] == [3, 5]
    assert [point.new for point in whole(world, "shop")] == [2, 2]
    assert [point.new for point in whole(world, None)] == [5, 7]


def test_an_hour_grows_with_its_minutes_and_begins_anew_with_the_next_one(world: World) -> None:
    world.advance(HOUR + 3600 - WALL)
    push(world, 3)
    world.advance(60)
    first = whole(world, every="hour")
    push(world, 2)
    world.advance(60)
    second = whole(world, every="hour")
    world.advance(3600)
    push(world, 4)
    world.advance(60)

    assert [(point.at, point.new) for point in first] == [(HOUR + 3600, 3)]
    assert [(point.at, point.new) for point in second] == [(HOUR + 3600, 5)]
    assert [(point.at, point.new) for point in whole(world, every="hour")] == [(HOUR + 3600, 5), (HOUR + 7200, 4)]


def test_with_many_projects_a_minute_is_written_in_several_turns(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.steps.history.POINTS_A_TURN", 2)
    world = make_world(projects={f"p{n}": {} for n in range(7)})
    for n in range(7):
        push(world, n + 1, f"p{n}")
    end_minute(world)

    assert [[point.new for point in whole(world, f"p{n}")] for n in range(7)] == [[n + 1] for n in range(7)]
    assert [point.new for point in whole(world, None)] == [28]


def test_what_happens_while_a_minute_is_written_belongs_to_the_next_one(
    make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.steps.history.POINTS_A_TURN", 1)
    world = make_world()
    push(world, 1)
    push(world, 1, "shop")
    world.elapsed += 60
    world.turn(world.new_tasks("news", task("x")), world.new_tasks("shop", task("y")))
    world.turn(world.new_tasks("news", task("z")))
    world.settle()
    world.advance(60)

    assert [point.new for point in whole(world)] == [1, 2]
    assert [point.new for point in whole(world, "shop")] == [1, 1]


def test_nobody_is_woken_up_for_minutes_in_which_nothing_happens(world: World) -> None:
    push(world, 1)
    world.advance(120)
    wakes = world.wakes

    world.advance(420)

    assert world.wakes == wakes


def test_after_an_orderly_end_nothing_is_missing_and_the_minute_and_the_hour_go_on(world: World) -> None:
    push(world, 3)
    world.ledger.commit(world.scheduler.last_words())
    world.restart(clean=True)
    push(world, 2)
    push(world, 1, "shop")
    world.advance(60)

    assert news(world) == [(0, 5)]
    assert [point.new for point in whole(world, None)] == [6]
    assert [point.new for point in whole(world, every="hour")] == [5]
    assert [point.new for point in whole(world, None, every="hour")] == [6]


def test_after_a_crash_at_most_a_minute_is_missing(world: World) -> None:
    push(world, 3)
    world.advance(60)
    push(world, 2)
    world.restart()
    push(world, 1)
    world.advance(60)

    assert news(world) == [(0, 3), (1, 1)]


def test_minutes_are_kept_for_a_day_and_hours_for_ninety(world: World) -> None:
    for _ in range(5):
        push(world, 1)
        world.advance(24 * 3600)
    world.advance(86 * 24 * 3600)
    push(world, 1)
    world.advance(60)

    now = world.now.wall
    assert all(point.at > now - 25 * 3600 for point in whole(world))
    assert all(point.at > now - 91 * 24 * 3600 for point in whole(world, every="hour"))
    assert len(whole(world, every="hour")) == 4
    assert len(whole(world, None, every="hour")) == 4
    keys = world.disk.families[layout.POINTS].keys
    assert len(keys) == 2 + 2 * 4, "nothing of what is old is left"


def test_of_too_many_points_the_oldest_go_but_those_of_all_together_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "POINTS_MOST", 10)
    for _ in range(12):
        push(world, 1)
        push(world, 2, "shop")
        world.advance(60)

    left = [point.new for point in whole(world, "shop")]
    assert left == [2] * len(left)
    assert 3 <= len(left) <= 5
    assert len(whole(world, None)) == 12
    assert [point.at for point in whole(world, "shop")] == [point.at for point in whole(world, None)][-len(left) :]


def test_what_a_deleted_project_did_is_in_the_sum_of_all(world: World) -> None:
    push(world, 3)
    push(world, 2, "shop")
    world.do("delete", "shop")
    world.advance(60)
    push(world, 1, "news")
    world.do("delete", "news")
    world.advance(60)

    assert [point.new for point in whole(world, None)] == [5, 1]
    assert isinstance(world.answer(StatsHistory(session="person", n=world.n(), project="shop")), ErrorReply), (
        "it is unknown"
    )


def test_a_project_that_was_reset_goes_on_from_there(world: World) -> None:
    push(world, 3)
    world.do("reset")
    push(world, 2)
    world.advance(60)

    assert news(world) == [(0, 2)]
    assert [point.new for point in whole(world, None)] == [5]


def test_a_clock_that_is_put_back_has_its_minutes_written_anew(world: World) -> None:
    for count in (1, 2, 3, 4):
        push(world, count)
        world.advance(60)
    world.wall_step -= 120
    push(world, 7)
    world.advance(60)

    assert news(world) == [(0, 1), (1, 2), (2, 7)]
    assert [point.new for point in whole(world, every="hour")] == [17]


def test_a_time_can_be_asked_for_and_comes_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.core.steps.history.PAGE_POINTS", 2)
    for count in range(1, 8):
        push(world, count)
        world.advance(60)

    chosen: dict[str, Any] = {"since": MINUTE + 70, "until": MINUTE + 300}
    page = told(world, **chosen)

    assert [point.new for point in page.points] == [2, 3]
    assert page.next == MINUTE + 180
    assert [point.new for point in whole(world, **chosen)] == [2, 3, 4, 5]


def test_a_page_may_have_fewer_points_because_something_happened_elsewhere(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskqueue.core.steps.history.PAGE_POINTS", 2)
    for name in ("shop", "shop", "shop", "news"):
        push(world, 1, name)
        world.advance(60)

    assert told(world).points == []
    assert news(world) == [(3, 1)]


def test_the_points_of_a_minute_are_on_the_disk_with_the_time_of_its_beginning(world: World) -> None:
    push(world, 1)
    world.advance(60)

    kinds = [layout.point_of(key) for key in world.disk.families[layout.POINTS].keys]
    number = world.scheduler._state.projects.by_name["news"].number
    assert sorted(kinds) == [
        ("hour", int(HOUR // 3600), 0),
        ("hour", int(HOUR // 3600), number),
        ("minute", int(MINUTE // 60), 0),
        ("minute", int(MINUTE // 60), number),
    ]


def test_what_is_nobody_s_key_is_none_of_a_point() -> None:
    for key in (b"", b"\x09" * 9, b"\x02" * 5):
        with pytest.raises(ValueError, match="bytes that begin with"):
            layout.point_of(key)


def test_a_turn_after_a_step_of_the_clock_far_back_still_writes(world: World) -> None:
    push(world, 1)
    world.wall_step -= 10 * 24 * 3600
    assert world.scheduler.next_event_at(world.now) <= world.now.boot
    world.settle()
    push(world, 2)
    world.advance(60)

    assert [point.new for point in whole(world)][-1] == 2
    assert isinstance(world.now, Now)
