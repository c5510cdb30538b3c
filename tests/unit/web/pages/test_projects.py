"""Pauses in the row of a project."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.values import EventTotals, TaskCounts
from taskqueue.web.live.projects import ProjectRow
from taskqueue.web.pages.projects import cells_of


@pytest.mark.parametrize(
    ("reason", "until", "told"),
    [
        ("", 0.0, ""),
        ("10 failures in a row", 0.0, "10 failures in a row"),
        ("", 1_700_000_600.0, "until 2023-11-14 22:23 UTC"),
    ],
)
def test_a_row_tells_why_a_project_is_paused_or_until_when(reason: str, until: float, told: str) -> None:
    pulse = ProjectPulse("news", "", "paused", reason, inf, 1.0, "", (0,) * 7, (0,) * 6, until)

    assert cells_of(ProjectRow(pulse, TaskCounts(), EventTotals()))["why"] == told
