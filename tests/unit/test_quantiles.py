"""Quantiles and means of histograms."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.protocol.daemon import Histogram
from taskqueue.quantiles import mean, quantile

TIMES = Histogram([0.001, 0.01, 0.1], [50, 40, 9, 1], 1.5)


@pytest.mark.parametrize(("part", "value"), [(0.25, 0.0005), (0.5, 0.001), (0.7, 0.0055), (0.99, 0.1), (1.0, inf)])
def test_a_quantile_lies_in_its_class_in_proportion(part: float, value: float) -> None:
    assert quantile(TIMES, part) == pytest.approx(value)


def test_nothing_is_estimated_of_nothing() -> None:
    assert quantile(Histogram([1.0], [0, 0]), 0.5) is None
    assert mean(Histogram([1.0], [0, 0])) is None
