"""The bucket beside a bucket that is filled step by step, with exact fractions."""

from __future__ import annotations

from fractions import Fraction
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from taskqueue.core.model.bucket import Bucket
from taskqueue.protocol.fields import Boot

STEP = Fraction(1, 64)
"""Seconds between two steps of the naive bucket."""

rates = st.sampled_from([0.0, 0.125, 0.75, 1.0, 3.5, 64.0])
bursts = st.sampled_from([1.0, 2.5, 7.0])
steps = st.integers(0, 640)
acts = st.one_of(
    st.tuples(st.just("take"), steps, st.integers(1, 9)),
    st.tuples(st.just("change"), steps, st.tuples(rates, bursts)),
)


class NaiveBucket:
    """Bucket that gains ``rate`` times a step at each step, and spills what exceeds its burst."""

    def __init__(self, rate: float, burst: float) -> None:
        self.rate, self.burst = Fraction(rate), Fraction(burst)
        self.level = self.burst

    def step(self) -> None:
        self.level = min(self.burst, self.level + self.rate * STEP)

    def take(self, count: int) -> int:
        taken = min(count, int(self.level)) if self.rate else 0
        self.level -= taken
        return taken

    def change(self, rate: float, burst: float) -> None:
        self.rate, self.burst = Fraction(rate), Fraction(burst)
        self.level = min(self.level, self.burst)


@settings(max_examples=300)
@given(rate=rates, burst=bursts, booted=st.sampled_from([0, 12_345, 10**8]), acts=st.lists(acts, max_size=20))
def test_it_gives_what_a_bucket_gives_that_is_filled_step_by_step(
    rate: float, burst: float, booted: int, acts: list[tuple[str, int, int | tuple[float, float]]]
) -> None:
    bucket, naive = Bucket(rate, burst, burst, at=Boot(booted)), NaiveBucket(rate, burst)
    now = Fraction(booted)
    for _, wait, what in acts:
        now += wait * STEP
        for _ in range(wait):
            naive.step()
        if isinstance(what, tuple):
            naive.change(*what)
            bucket.change(*what, now=Boot(float(now)))
        else:
            taken = min(what, int(bucket.available(Boot(float(now)))))
            bucket.take(taken, Boot(float(now)))
            assert taken == naive.take(what)
        assert abs(bucket.level_at(Boot(float(now))) - naive.level) < 1e-5


@settings(max_examples=300)
@given(
    rate=st.floats(1e-3, 1e5),
    burst=st.floats(1, 1e4),
    booted=st.floats(0, 1e8),
    waits=st.lists(st.floats(0, 1e4), max_size=30),
)
def test_whoever_wakes_when_told_finds_a_token_soon_and_never_too_many(
    rate: float, burst: float, booted: float, waits: list[float]
) -> None:
    bucket = Bucket(rate, burst, burst, at=Boot(booted))
    total, worst = 0, -inf
    for wait in waits:
        now = max(bucket.at + wait, bucket.token_at())
        looks = 0
        while not (count := int(bucket.available(Boot(now)))):
            told = bucket.token_at()
            assert told > now
            now, looks = told, looks + 1
        bucket.take(count, Boot(now))
        assert looks <= 3
        worst = max(worst, rate * (now - booted) - total)
        total += count
        assert total - rate * (now - booted) + worst <= burst + 1e-3 + rate * now * 1e-15 * len(waits)
