"""Jitter: evenly spread, and always the same for equal values."""

from __future__ import annotations

from taskqueue.core.model.hashes import JITTER, jitter


def test_it_is_the_same_of_the_same_values_and_another_of_others() -> None:
    assert jitter("a", 1) == jitter("a", 1)
    assert len({jitter("a", 1), jitter("a", 2), jitter("b", 1), jitter("a"), jitter("a1")}) == 5


def test_it_is_spread_evenly_over_a_tenth_more_and_less() -> None:
    factors = sorted(jitter(f"{number:x}", 3) for number in range(10_000))

    assert 1 - JITTER <= factors[0] < 1 - 0.99 * JITTER
    assert 1 + 0.99 * JITTER < factors[-1] <= 1 + JITTER
    assert abs(sum(factors) / len(factors) - 1) < 0.01 * JITTER
    for tenth in range(10):
        below = sum(factor < 1 - JITTER + JITTER / 5 * (tenth + 1) for factor in factors)
        assert abs(below - 1000 * (tenth + 1)) < 150
