"""Bars over time, and sparklines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.web.drawing import charts
from taskqueue.web.drawing.charts import CHART_HEIGHT, CHART_WIDTH, ceiling, draw_chart

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
    drawn = [tuple(map(float, point.split(","))) for point in charts.spark_points(numbers).split()]

    assert len(drawn) == len(numbers)
    assert all(0 <= x <= charts.SPARK_WIDTH and 0 <= y <= charts.SPARK_HEIGHT for x, y in drawn)


def test_a_line_of_less_than_two_numbers_is_none() -> None:
    assert charts.spark_points([3.0]) == ""
