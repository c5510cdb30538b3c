"""Histograms: values counted by class."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.model.histogram import Histogram

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
