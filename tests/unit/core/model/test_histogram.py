"""Histograms: values counted by class; and bins for durations, whose middle is near each value in it."""

from __future__ import annotations

from bisect import bisect_left

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.model.histogram import (
    BINS,
    HALVES_FROM,
    LAST,
    Histogram,
    bin_of,
    mean_and_p95,
    middle,
    of_octaves,
    upper_seconds,
)
from taskqueue.core.model.history import CountersRecord
from taskqueue.core.model.windows import Counters
from taskqueue.core.requests.insight import windows_of
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.values import EventTotals

BOUNDS = [0.5, 1.0, 4.0]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 4.0, 8.0])))
def test_each_value_is_in_the_first_class_whose_bound_it_does_not_exceed(values: list[float]) -> None:
    histogram = Histogram(BOUNDS)
    for value in values:
        histogram.note(value)

    below = [sum(value <= bound for value in values) for bound in BOUNDS]
    assert [sum(histogram.counts[: place + 1]) for place in range(len(BOUNDS))] == below
    assert sum(histogram.counts) == len(values)
    assert histogram.sum == sum(values)


NOW = Wall(1e9)

WORST = (2**0.5 - 1) / (2**0.5 + 1)
"""Largest relative distance of the middle of half an octave from its ends."""


@given(st.integers(HALVES_FROM, 2_965_000))
def test_the_middle_of_a_bin_is_within_18_percent_of_all_that_is_in_it(milliseconds: int) -> None:
    assert abs(middle(bin_of(milliseconds)) - milliseconds) <= (WORST + 1e-9) * milliseconds
    assert WORST < 0.18


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_what_took_longer_is_in_no_earlier_bin(one: int, other: int) -> None:
    low, high = sorted((one, other))

    assert 0 <= bin_of(low) <= bin_of(high) <= LAST


@given(st.integers(0, 10**9))
def test_counters_find_the_same_bin(milliseconds: int) -> None:
    counters = Counters(EventTotals())
    counters.took(milliseconds / 1000, NOW)

    assert counters.saved().times[1:].index(1) == bin_of(milliseconds)


def test_there_is_no_mean_of_nothing() -> None:
    assert mean_and_p95(0, [0] * BINS) is None


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 7, 8, 15, 16, 22, 23, 100, 3_000_000, 4_194_304, 10**12])
def test_what_an_older_store_has_of_an_octave_is_in_the_first_bin_of_that_octave(milliseconds: int) -> None:
    octave = min(milliseconds.bit_length(), 23)

    found = of_octaves([[1, 2] if n == octave else [] for n in range(24)])
    assert len(found) == BINS
    assert found[bin_of(2**octave // 2)] == [1, 2]
    assert sum(map(len, found)) == 2


def test_counters_of_an_older_store_are_shown_and_go_on() -> None:
    """An old record has one attempt of 1 s, two of 30 s, and no number of bins."""
    octaves = [int(n == 10) + 2 * (n == 15) for n in range(24)]
    columns = [[[1], [], [3], [], [], []]] * 3 + [[[61_000], *([n] if n else [] for n in octaves)]] * 3
    rings = msgspec.Raw(msgspec.msgpack.encode(columns))
    written = msgspec.msgpack.encode((100_000_000, 0, (1, 0, 3, 0, 0, 0), [61_000, *octaves], rings))
    record = msgspec.msgpack.decode(written, type=CountersRecord)
    counters = Counters.load(record, EventTotals(new=1, success=3), NOW)

    for window in (windows_of(counters, NOW).minutes, windows_of(counters, NOW).day):
        assert (window.success, window.mean_seconds) == (3, 61 / 3)
        assert 16 < window.p95_seconds < 33
    assert counters.saved() == record
    counters.took(30.0, NOW)
    assert windows_of(counters, NOW).hour.mean_seconds == 91 / 4
    assert windows_of(started_again(counters), NOW) == windows_of(counters, NOW)


def started_again(counters: Counters) -> Counters:
    record = msgspec.msgpack.decode(msgspec.msgpack.encode(counters.saved()), type=CountersRecord)
    return Counters.load(record, EventTotals(*record.totals), NOW)


@given(st.integers(0, 3_000_000))
def test_what_took_less_than_the_upper_end_of_a_bin_is_in_it_or_an_earlier_one(milliseconds: int) -> None:
    ends = upper_seconds()

    assert len(ends) == LAST
    assert bisect_left(ends, milliseconds / 1000) == bin_of(milliseconds)
