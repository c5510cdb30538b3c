"""Figures of the meters, minute by minute."""

from __future__ import annotations

from taskqueue.server.meters import Meters, MinuteMeter


def took(meters: Meters, seconds: float, turns: int = 1) -> None:
    """Take turns, each with a commit and a sync of this duration."""
    for _ in range(turns):
        meters.turns += 1
        meters.writes += 1
        meters.syncs += 1
        for each in (meters.turn, meters.commit, meters.sync):
            each.note(seconds)


def test_figures_are_those_of_the_minute_and_not_since_the_start() -> None:
    meters = Meters()
    meter = MinuteMeter(meters)
    assert meter.ended(600.0) is None
    took(meters, 2.0, turns=100)

    first = meter.ended(660.0)
    took(meters, 0.001, turns=3)
    second = meter.ended(725.0)

    assert first is not None
    assert second is not None
    assert (first.minute, first.turns, second.minute, second.turns) == (10, 100, 11, 3)
    assert (second.commits, second.syncs) == (3, 3)
    assert first.sync_p50 > 1_000_000
    assert second.turn_most == second.commit_most == second.sync_most == 1000
    assert second.resident_bytes > 1 << 20


def test_a_minute_is_told_once_and_not_before_it_is_over() -> None:
    meters = Meters()
    meter = MinuteMeter(meters)
    meter.ended(600.0)
    took(meters, 0.001)

    assert meter.ended(659.9) is None
    assert meter.ended(660.0) is not None
    assert meter.ended(660.1) is None


def test_a_minute_without_a_turn_is_passed_over() -> None:
    meters = Meters()
    meter = MinuteMeter(meters)
    meter.ended(600.0)
    took(meters, 0.001)
    meter.ended(660.0)

    assert meter.ended(720.0) is None
    assert meter.figures() is None


def test_the_running_minute_can_be_told_at_an_end() -> None:
    meters = Meters()
    meter = MinuteMeter(meters)
    meter.ended(600.0)
    took(meters, 0.001, turns=2)

    figures = meter.figures()

    assert figures is not None
    assert (figures.minute, figures.turns) == (10, 2)


def test_one_slow_sync_among_thousands_shows_and_one_that_took_more_than_10_s_as_11() -> None:
    meters = Meters()
    meter = MinuteMeter(meters)
    meter.ended(600.0)
    took(meters, 0.001, turns=9_999)
    took(meters, 60.0)

    figures = meter.figures()

    assert figures is not None
    assert figures.sync_p99 <= 1000
    assert figures.sync_most == 11_000_000
