"""Bounds of the failures in the store: their number, the oldest one, and those past their retention."""

from __future__ import annotations

from math import inf

from taskqueue.core.model.attempt_records import Failure, KeptFailure
from taskqueue.core.model.failure_log import FAILURES_MOST, FAILURES_SECONDS, SPARE_FAILURES, SPARE_SECONDS, FailureLog
from taskqueue.core.model.task import SEQ_BITS, key_time, time_key
from taskqueue.protocol.fields import Wall

NOW = Wall(1.7e9)
ONE = Failure(1, "a", "a.org", "me", "no title")


def kept(*keys: int) -> list[KeptFailure]:
    return [KeptFailure(key, ONE) for key in keys]


def number(key: int) -> int:
    return key & ((1 << SEQ_BITS) - 1)


# ------------------------------------------------------------------------------------------------ bounds


def test_of_nothing_there_is_nothing_to_drop() -> None:
    log = FailureLog(0, 0)

    assert (log.count, log.at, log.old_at) == (0, inf, inf)
    assert not log.is_over(NOW)


def test_keys_are_times_and_then_numbers_without_a_gap() -> None:
    log = FailureLog(0, 0)

    keys = [log.add(NOW), log.add(NOW), log.add(NOW + 1)]

    assert keys == sorted(keys)
    assert [number(key) for key in keys] == [1, 2, 3]
    assert [key_time(key) for key in keys] == [NOW, NOW, NOW + 1]
    assert log.count == 3


def test_it_goes_on_counting_from_what_the_store_has() -> None:
    log = FailureLog(time_key(NOW, 7), time_key(NOW + 5, 11))

    assert (log.count, log.at) == (5, NOW)
    assert number(log.add(NOW + 6)) == 12


def test_a_failure_before_the_first_one_is_the_first_one() -> None:
    """The wall clock was put back."""
    log = FailureLog(time_key(NOW, 7), time_key(NOW, 7))

    key = log.add(NOW - 100)

    assert (log.low, log.at) == (key, NOW - 100)


# ------------------------------------------------------------------------------------------------ retention


def test_what_is_a_week_old_is_old_and_what_soon_will_be_goes_with_it() -> None:
    log = FailureLog(time_key(NOW, 1), time_key(NOW + 100, 3))
    page = kept(time_key(NOW, 1), time_key(NOW + SPARE_SECONDS - 1, 2), time_key(NOW + 100, 3))

    assert log.old_at == NOW + FAILURES_SECONDS
    assert not log.is_over(Wall(log.old_at - 1))
    assert log.is_over(Wall(log.old_at))
    assert log.old_of(page, Wall(log.old_at)) == 2
    assert log.old_of(page, Wall(log.old_at + 100)) == 3


def test_when_there_is_one_too_many_some_of_the_first_ones_go() -> None:
    log = FailureLog(time_key(NOW, 1), time_key(NOW + 1, FAILURES_MOST))
    assert not log.is_over(NOW)

    log.add(NOW + 2)

    assert log.is_over(NOW)
    page = kept(*(time_key(NOW, n) for n in range(1, 2000)))
    assert log.old_of(page, NOW) == SPARE_FAILURES + 1


def test_when_nothing_on_a_page_is_old_it_says_so_and_need_not_be_looked_at_again() -> None:
    """Times and numbers may disagree: the first failure by time is not the first by number."""
    log = FailureLog(time_key(NOW, 1), time_key(NOW + 1, 2 * FAILURES_MOST))
    page = kept(time_key(NOW, 2 * FAILURES_MOST - 5))

    assert log.old_of(page, NOW) == 0
    log.begin_with(page[0].key)
    assert not log.is_over(NOW)


def test_when_all_are_gone_none_is_left_and_the_next_one_is_the_first() -> None:
    log = FailureLog(time_key(NOW, 1), time_key(NOW, 3))

    log.begin_with(0)

    assert (log.count, log.at) == (0, inf)
    key = log.add(NOW + 9)
    assert (log.count, log.low, number(key)) == (1, key, 4)
