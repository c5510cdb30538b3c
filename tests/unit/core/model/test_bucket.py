"""The bucket, with plain numbers for time."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, nextafter

import pytest

from taskqueue.core.model.bucket import Bucket
from taskqueue.protocol.fields import Boot

HOUR = 3600.0
PACES = [(0.001, 1.0), (0.1, 1.0), (1 / 3, 3.0), (1.0, 1.0), (7.3, 20.0), (100.0, 1.0), (997.0, 50.0)]


def run(bucket: Bucket, until: float) -> Iterator[tuple[float, int]]:
    """Take all tokens as soon as there are any; yield the time and number of each take."""
    now = bucket.at
    while now <= until:
        if count := int(bucket.available(now)):
            bucket.take(count, now)
            yield now, count
        at = bucket.token_at()
        assert at > now, "it has not slept"
        now = Boot(at)


def test_a_full_bucket_gives_its_burst_at_once_and_no_more() -> None:
    bucket = Bucket(rate=1, burst=5, level=5, at=Boot(0))

    assert int(bucket.available(Boot(0))) == 5
    bucket.take(5, Boot(0))
    assert bucket.available(Boot(0)) == 0
    assert bucket.available(Boot(0.999)) == 0
    assert int(bucket.available(Boot(1))) == 1


def test_a_bucket_fills_up_to_its_burst_and_not_above() -> None:
    bucket = Bucket(rate=10, burst=3, level=0, at=Boot(0))

    assert bucket.available(Boot(1e6)) == pytest.approx(3)


def test_what_is_kept_of_a_bucket_says_the_same_and_does_not_move_when_somebody_looks() -> None:
    bucket = Bucket(rate=2, burst=5, level=5, at=Boot(0))
    bucket.take(4, Boot(1))
    kept = (bucket.kept_level, bucket.kept_at)

    bucket.available(Boot(1.5))

    assert (bucket.kept_level, bucket.kept_at) == kept == (1.0, Boot(1))
    assert Bucket(2, 5, *kept).level_at(Boot(2.5)) == bucket.level_at(Boot(2.5)) == 4


@pytest.mark.parametrize(("rate", "burst"), PACES)
def test_in_an_hour_it_gives_burst_and_rate_times_the_hour(rate: float, burst: float) -> None:
    bucket = Bucket(rate, burst, burst, at=Boot(0))

    given = sum(count for _, count in run(bucket, HOUR))
    assert burst + rate * HOUR - 1.001 <= given <= burst + rate * HOUR + 1e-6


@pytest.mark.parametrize("booted", [0.0, 1e6, 1e8])
@pytest.mark.parametrize(("rate", "burst"), PACES)
def test_no_window_sees_more_than_burst_and_rate_times_its_length(rate: float, burst: float, booted: float) -> None:
    given = list(run(Bucket(rate, burst, burst, at=Boot(booted)), booted + min(HOUR, 2000 / rate)))

    total = 0
    worst = -inf
    for at, count in given:
        worst = max(worst, rate * (at - booted) - total)
        total += count
        assert total - rate * (at - booted) + worst <= burst + 1e-4


@pytest.mark.parametrize("rate", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("booted", [1e6, 1e8])
def test_large_boot_clocks_and_high_rates_make_no_busy_loop(rate: float, booted: float) -> None:
    bucket = Bucket(rate, 1, 1, at=Boot(booted))

    turns = sum(1 for _ in run(bucket, booted + 1000 / rate))
    assert turns <= 1001


def test_it_gives_fractions_their_time() -> None:
    bucket = Bucket(rate=1 / 3, burst=1, level=1, at=Boot(0))
    bucket.take(1, Boot(0))

    assert bucket.token_at() == pytest.approx(3)
    assert bucket.available(Boot(nextafter(bucket.token_at(), inf))) >= 1


def test_looking_often_does_not_change_the_pace() -> None:
    often, seldom = Bucket(0.7, 4, 0, at=Boot(0)), Bucket(0.7, 4, 0, at=Boot(0))

    for i in range(5000):
        often.available(Boot(i / 1000))
    assert often.available(Boot(5)) == pytest.approx(seldom.available(Boot(5)))


def test_a_bucket_of_rate_inf_is_never_empty() -> None:
    bucket = Bucket(inf, 2, 0, at=Boot(0))

    for _ in range(3):
        assert bucket.available(Boot(1)) == inf
        bucket.take(1_000_000, Boot(1))
    assert bucket.token_at() <= 1


def test_a_rate_of_zero_gives_nothing_ever() -> None:
    bucket = Bucket(0, 5, 5, at=Boot(0))

    assert bucket.available(Boot(1e9)) == 0
    assert bucket.token_at() == inf


def test_a_bucket_fills_at_a_new_rate_from_that_moment_on() -> None:
    bucket = Bucket(rate=0.1, burst=100, level=0, at=Boot(0))

    bucket.change(10, 100, now=Boot(50))
    assert bucket.available(Boot(50)) == pytest.approx(5)
    assert bucket.available(Boot(51)) == pytest.approx(15)


def test_a_smaller_burst_takes_what_is_above_it_and_a_larger_one_gives_nothing() -> None:
    bucket = Bucket(rate=1, burst=10, level=10, at=Boot(0))

    bucket.change(1, 4, now=Boot(0))
    assert bucket.level_at(Boot(0)) == 4
    bucket.change(1, 10, now=Boot(0))
    assert bucket.level_at(Boot(0)) == 4


def test_zero_and_back_keeps_what_was_there() -> None:
    bucket = Bucket(rate=1, burst=10, level=2, at=Boot(0))

    bucket.change(0, 10, now=Boot(3))
    assert bucket.level_at(Boot(100)) == 5
    bucket.change(1, 10, now=Boot(100))
    assert bucket.available(Boot(102)) == pytest.approx(7)


def test_a_level_above_the_burst_is_not_believed() -> None:
    assert int(Bucket(rate=1, burst=2, level=50, at=Boot(0)).available(Boot(0))) == 2


def test_a_clock_that_stands_still_or_steps_back_gives_nothing() -> None:
    bucket = Bucket(rate=1, burst=5, level=0, at=Boot(100))

    assert bucket.available(Boot(100)) == 0
    assert bucket.available(Boot(50)) == 0
    assert int(bucket.available(Boot(101))) == 1
