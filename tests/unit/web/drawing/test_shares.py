"""Bars of shares."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.web.drawing.charts import Share, shares


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
