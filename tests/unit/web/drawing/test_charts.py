"""Charts: bars over time and sparklines, histograms, and bars of shares."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.protocol.daemon import Histogram
from taskqueue.web.drawing.charts import (
    CHART_HEIGHT,
    CHART_WIDTH,
    CLASSES_LEAST,
    HISTOGRAM_HEIGHT,
    HISTOGRAM_WIDTH,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    Share,
    bars_of,
    ceiling,
    draw_chart,
    shares,
    spark_points,
)

COUNTS = st.fixed_dictionaries({"success": st.floats(0, 1e9), "failed": st.floats(0, 1e9)})


@given(st.lists(COUNTS, max_size=200))
def test_no_bar_leaves_the_drawing_and_bars_stand_upon_each_other(counts: list[dict[str, float]]) -> None:
    chart = draw_chart(counts, [""] * len(counts))

    for slot in chart.slots:
        floor = CHART_HEIGHT
        for bar in slot.bars:
            assert bar.y + bar.height == pytest.approx(floor, abs=0.02)
            assert bar.y >= -0.05
            assert 0 <= bar.x <= bar.x + bar.width <= CHART_WIDTH + 0.01
            floor = bar.y


@pytest.mark.parametrize(
    ("number", "edge"), [(0, 1), (0.3, 0.5), (1, 1), (3, 5), (7, 10), (10, 10), (101, 200), (450, 500), (999, 1000)]
)
def test_the_upper_edge_is_a_round_number_that_is_not_less(number: float, edge: float) -> None:
    assert ceiling(number) == pytest.approx(edge)


@given(st.floats(1e-6, 1e12))
def test_the_upper_edge_is_not_less_and_at_most_two_and_a_half_times_as_much(number: float) -> None:
    assert number <= ceiling(number) * (1 + 1e-9) <= 2.51 * number


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=120))
def test_a_line_stays_within_its_word(numbers: list[float]) -> None:
    drawn = [tuple(map(float, point.split(","))) for point in spark_points(numbers).split()]

    assert len(drawn) == len(numbers)
    assert all(0 <= x <= SPARK_WIDTH and 0 <= y <= SPARK_HEIGHT for x, y in drawn)


def test_a_line_of_less_than_two_numbers_is_none() -> None:
    assert spark_points([3.0]) == ""


def test_each_class_between_the_first_and_the_last_that_has_values_is_a_bar() -> None:
    bars = bars_of(Histogram([1, 2, 4, 8, 16, 32, 64], [0, 0, 4, 2, 0, 1, 3, 1]), "{:g}".format)

    assert [bar.title for bar in bars.bars] == [
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


def test_parts_are_as_wide_as_what_they_stand_for() -> None:
    assert shares([("success", 2), ("failed", 0), ("processing", 1)], 4) == [
        Share("success", 0, 50), Share("processing", 50, 25),
    ]  # fmt: skip
    assert shares([("success", 0)], 0) == []


@given(st.lists(st.tuples(st.text(), st.integers(0, 10**9)), max_size=6))
def test_parts_lie_side_by_side_within_the_bar(parts: list[tuple[str, int]]) -> None:
    bar = shares(parts, sum(count for _, count in parts))

    ends = [0.0, *(share.x + share.width for share in bar)]
    assert all(abs(share.x - end) < 0.02 for share, end in zip(bar, ends, strict=False))
    assert not bar or abs(ends[-1] - 100) < 0.02
