"""History of the daemon, by the minute, for a day, across restarts."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from taskqueue.core.model.daemon_minutes import MINUTES_KEPT, DaemonMinute
from taskqueue.core.steps import history
from taskqueue.protocol.daemon import DaemonHistory, DaemonHistoryReply, DaemonPoint
from taskqueue.protocol.projects import ProjectDo
from taskqueue.store.records import layout
from tests.unit.core.conftest import WALL, World, task

MINUTE = int(WALL // 60)
"""Minute in which the world begins."""


def pass_minute(world: World, minutes: int = 1, **figures: int) -> None:
    """Let a minute pass with these figures of the shell, and further minutes without a turn."""
    measured = DaemonMinute(int(world.now.wall // 60), **{"turns": 1} | figures)
    world.advance(minutes * 60 - world.now.wall % 60)
    world.turn(figures=measured)
    world.settle()


def told(world: World, **asked: Any) -> DaemonHistoryReply:
    return world.ask(DaemonHistoryReply, DaemonHistory(session="person", n=world.n(), **asked))


def points(world: World, **asked: Any) -> list[DaemonPoint]:
    """Collect the points of all pages."""
    page = told(world, **asked)
    found = page.points
    while page.next:
        page = told(world, **asked | {"since": page.next})
        found += page.points
    return found


def minutes(world: World) -> list[tuple[int, int]]:
    """List minutes since the first one, and their turns."""
    return [(round(point.at / 60) - MINUTE, point.turns) for point in points(world)]


def stored(world: World) -> list[DaemonMinute]:
    entries = world.disk.families[layout.POINTS].values
    return [layout.decode_daemon_minute(value) for key, value in sorted(entries.items()) if key[:1] == b"\4"]


def test_a_minute_is_told_with_its_figures_what_happened_in_it_and_what_was_queued_then(world: World) -> None:
    world.push("news", *map(task, "abcd"), task("later", exetime=WALL + 9999))
    fetcher = world.fetcher(capacity=2)
    fetcher.done("a")
    pass_minute(world, turns=9, commits=5, syncs=4, sync_p99=2_500, sync_most=900_000, resident_bytes=1 << 26)

    (point,) = points(world)
    assert (point.at, point.turns, point.commits, point.syncs) == (MINUTE * 60, 9, 5, 4)
    assert (point.sync_p99_seconds, point.sync_most_seconds, point.resident_bytes) == (0.0025, 0.9, 1 << 26)
    assert (point.new, point.selected, point.ended) == (5, 3, 1)
    assert (point.ready, point.delayed, point.blocked, point.processing) == (1, 1, 0, 2)


def test_a_minute_without_a_turn_has_no_point(world: World) -> None:
    pass_minute(world, turns=3)
    pass_minute(world, minutes=5, turns=2)
    pass_minute(world, turns=1)

    assert minutes(world) == [(0, 3), (1, 2), (6, 1)]


def test_the_history_wakes_no_daemon_that_sleeps(world: World) -> None:
    pass_minute(world)

    assert world.scheduler.next_event_at(world.now) == inf


def test_what_happens_in_a_minute_is_told_of_that_minute_only(world: World) -> None:
    world.push("news", task("a"))
    pass_minute(world)
    world.push("news", task("b"), task("c"))
    pass_minute(world)

    assert [point.new for point in points(world)] == [1, 2]


def test_what_a_deleted_project_did_is_counted(world: World) -> None:
    world.push("news", task("a"), task("b"))
    world.answer(ProjectDo(session="person", n=world.n(), project="news", action="delete", actor="anna"))
    pass_minute(world)

    (point,) = points(world)
    assert (point.new, point.ready) == (2, 0)


def test_kill_9_loses_the_running_minute_only(world: World) -> None:
    world.push("news", task("a"))
    pass_minute(world, turns=3)
    world.push("news", task("b"))
    world.crash()
    pass_minute(world, turns=2)

    assert minutes(world) == [(0, 3), (1, 2)]
    assert [point.new for point in points(world)] == [1, 0]


def test_an_orderly_end_keeps_the_running_minute(world: World) -> None:
    world.push("news", task("a"))
    world.ledger.commit(world.scheduler.last_words(DaemonMinute(MINUTE, turns=7)))
    world.restart(clean=True)

    assert minutes(world) == [(0, 7)]


def test_a_minute_with_a_restart_in_it_has_the_counts_of_both_parts_and_the_times_of_the_slower(world: World) -> None:
    world.push("news", task("a"))
    world.ledger.commit(world.scheduler.last_words(DaemonMinute(MINUTE, turns=7, sync_p99=900_000, turn_p50=10)))
    world.restart(clean=True)
    world.push("news", task("b"))
    pass_minute(world, turns=2, sync_p99=1000, turn_p50=20)

    (point,) = points(world)
    assert (point.turns, point.new, point.ready, point.epoch) == (9, 2, 2, 2)
    assert (point.sync_p99_seconds, point.turn_p50_seconds) == (0.9, 20e-6)


def test_a_day_is_kept_and_takes_no_more_room_after_that(world: World) -> None:
    for turns in range(1, MINUTES_KEPT + 31):
        pass_minute(world, turns=turns)

    assert len(stored(world)) == MINUTES_KEPT
    assert [turns for _, turns in minutes(world)] == list(range(32, MINUTES_KEPT + 31))
    world.restart()
    assert len(points(world)) == MINUTES_KEPT - 1  # the current one has not ended


def test_what_is_older_than_a_day_is_not_told(world: World) -> None:
    pass_minute(world, turns=1)
    pass_minute(world, minutes=MINUTES_KEPT, turns=2)

    assert minutes(world) == []


def test_when_the_wall_clock_is_put_back_its_minutes_are_kept_anew(world: World) -> None:
    for turns in (1, 2, 3, 4):
        pass_minute(world, turns=turns)
    world.wall_step = -170
    world.turn(figures=DaemonMinute(MINUTE + 4, turns=5))
    pass_minute(world, turns=6)

    assert minutes(world) == [(0, 1), (1, 6)]
    world.restart()
    assert minutes(world) == [(0, 1), (1, 6)]
    assert len(stored(world)) == 2


def test_a_minute_that_a_clock_put_back_shows_again_is_kept_in_place_of_the_former_one(world: World) -> None:
    for turns in (1, 2, 3):
        pass_minute(world, turns=turns)
    world.wall_step = -110
    pass_minute(world, turns=6)

    assert minutes(world) == [(0, 1), (1, 6)]


def test_a_wall_clock_that_leaps_to_another_year_for_a_moment_costs_the_minutes_of_that_moment(world: World) -> None:
    pass_minute(world, turns=1)
    world.wall_step = 400 * 86_400 + 7 * 60
    pass_minute(world, turns=2)
    world.wall_step = 0
    pass_minute(world, turns=3)
    pass_minute(world, turns=4)

    assert minutes(world) == [(0, 1), (2, 3), (3, 4)]


def test_a_time_is_chosen_to_the_minute(world: World) -> None:
    for turns in (1, 2, 3, 4):
        pass_minute(world, turns=turns)
    start = (MINUTE + 1) * 60.0

    assert [point.turns for point in points(world, since=start, until=start + 120)] == [2, 3]
    assert [point.turns for point in points(world, since=start + 1)] == [3, 4]


def test_a_long_time_is_told_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE_MINUTES", 2)
    for turns in (1, 2, 3, 4, 5):
        pass_minute(world, turns=turns)

    assert len(told(world).points) == 2
    assert minutes(world) == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]


def test_the_bytes_of_a_minute_stay_as_they_are_and_other_versions_may_have_fewer_numbers_or_more() -> None:
    kept = layout.encode(DaemonMinute(28_000_000, 3, 40, 30, 20))

    assert kept.hex() == "dc0016ce01ab3f00032 81e14".replace(" ", "") + "00" * 17
    assert layout.decode_daemon_minute(kept) == DaemonMinute(28_000_000, 3, 40, 30, 20)
    assert layout.decode_daemon_minute(layout.encode((28_000_000, 3))) == DaemonMinute(28_000_000, 3)
    assert layout.decode_daemon_minute(layout.encode((*DaemonMinute(28_000_000), 5))) == DaemonMinute(28_000_000)
    with pytest.raises(layout.UNREADABLE):
        layout.decode_daemon_minute(layout.encode(()))
