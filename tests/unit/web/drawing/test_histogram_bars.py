"""Histograms drawn as bars."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.protocol.daemon import Histogram
from taskqueue.web.drawing.charts import CLASSES_LEAST, HISTOGRAM_HEIGHT, HISTOGRAM_WIDTH, bars_of


def test_each_class_between_the_first_and_the_last_that_has_values_is_a_bar() -> None:
    bars = bars_of(Histogram([1, 2, 4, 8, 16, 32, 64], [0, 0, 4, 2, 0, 1, 3, 1]), "{:g}".format)

    assert [bar.told for bar in bars.bars] == [
        "2 to 4: 4", "4 to 8: 2", "8 to 16: 0", "16 to 32: 1", "32 to 64: 3", "more than 64: 1",
    ]  # fmt: skip
    assert [bar.height for bar in bars.bars] == [80, 40, 0, 20, 60, 20]
    assert (bars.first, bars.last) == ("2", "more")
    step = HISTOGRAM_WIDTH / 6
    assert [bars.place(value) for value in (1, 2, 6, inf)] == [0, 0, round(1.5 * step, 1), HISTOGRAM_WIDTH]


def test_few_classes_are_drawn_with_those_beside_them() -> None:
    bars = bars_of(Histogram([1, 2, 4, 8, 16, 32, 64], [0, 0, 0, 9, 0, 0, 0, 0]), "{:g}".format)

    assert len(bars.bars) == CLASSES_LEAST
    assert [bar.height for bar in bars.bars if bar.height] == [HISTOGRAM_HEIGHT]


@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=20), st.floats(0, 10**6))
def test_bars_and_marks_are_within_the_drawing(counts: list[int], value: float) -> None:
    bars = bars_of(Histogram([2.0**power for power in range(len(counts) - 1)], counts), str)

    for bar in bars.bars:
        assert 0 <= bar.x <= bar.x + bar.width <= HISTOGRAM_WIDTH + 0.5
        assert 0 <= bar.y <= bar.y + bar.height <= HISTOGRAM_HEIGHT + 0.2
    assert 0 <= bars.place(value) <= HISTOGRAM_WIDTH
