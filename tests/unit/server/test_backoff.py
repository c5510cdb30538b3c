"""Pauses of the daemon between attempts to use its store again."""

from __future__ import annotations

from taskqueue.server.store_opener import Backoff


def pauses(backoff: Backoff, now: float, until: float) -> list[float]:
    """Return the pauses of attempts that fail at once, from one moment to another."""
    found: list[float] = []
    while now < until:
        found.append(backoff.next(now))
        now += found[-1]
    return found


def test_the_first_attempt_is_at_once_then_each_quarter_of_a_second_and_after_a_minute_each_second() -> None:
    found = pauses(Backoff(), now=1000.0, until=1070.0)

    assert found == [0.0] + [0.25] * 240 + [1.0] * 10


def test_after_something_has_worked_they_begin_anew() -> None:
    backoff = Backoff()
    pauses(backoff, now=0.0, until=100.0)

    backoff.reset()

    assert backoff.next(100.0) == 0.0
    assert backoff.next(100.0) == 0.25


def test_a_store_that_has_not_been_tried_for_a_minute_had_recovered_though_nothing_was_written() -> None:
    backoff = Backoff()
    pauses(backoff, now=0.0, until=100.0)

    assert backoff.next(130.0) == 1.0
    assert backoff.next(200.0) == 0.0
