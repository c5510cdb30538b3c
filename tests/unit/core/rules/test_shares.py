"""Shares: which part of what fetchers take each project gets, and how exactly a pace is kept."""

from __future__ import annotations

import pytest

from benchmarks.fairness import share
from benchmarks.pace import PACES, keep_pace

MIXED = [1.0 + index % 5 for index in range(20)]
"""Weights of 20 projects."""


@pytest.mark.parametrize("step", [1, 10, 100])
def test_twenty_projects_get_shares_in_proportion_to_their_weights(step: int) -> None:
    assert share(MIXED, 6_000 if step == 1 else 20_000, step=step).worst < 0.05


def test_twenty_projects_of_equal_weight_get_equal_shares() -> None:
    assert share([1.0] * 20, 20_000).worst < 0.05


def test_a_weight_may_be_a_part_of_one() -> None:
    assert share([0.1, 0.5, 1.0, 2.5], 4_000).worst < 0.05


def test_a_project_with_very_many_delayed_tasks_gets_no_more_than_its_share() -> None:
    assert share([1.0] * 20, 4_000, delayed=30_000).parts[0] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("rate", "burst"), PACES)
def test_a_pace_is_used_to_the_full_and_never_exceeded_in_any_window(rate: float, burst: float) -> None:
    figures = keep_pace(rate, burst, min(3600.0, 6000.0 / rate))

    assert abs(figures.handed_out - figures.allowed) <= 1 or figures.ratio == pytest.approx(1, abs=0.0005)
    assert figures.worst <= 1e-5
