"""Texts of a project that has changed."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from taskqueue.display.insight import pulse_fields, pulse_line
from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.values import EventTotals, TaskCounts

NEWS = ProjectPulse("news", "g", "running", "", 5.0, 10.0, "", (2, 0, 1, 40, 0, 0, 3), (43, 41, 40, 0, 0, 0))
PAUSED = ProjectPulse("shop", "", "paused", "20 failures in a row", inf, 1.0, "crawl", (0,) * 7, (0,) * 6)
FOR_A_TIME = replace(PAUSED, reason="", paused_until=1_700_000_600.0)


@pytest.mark.parametrize(
    ("pulse", "line"),
    [
        (NEWS, "news  running  2 ready, 0 delayed, 3 blocked, 1 processing, 40 success  5/s"),
        (replace(NEWS, slow=1), "news  running  2 ready, 0 delayed, 3 blocked, 1 processing, 40 success, 1 slow  5/s"),
        (PAUSED, "shop  paused  0 ready, 0 delayed, 0 processing  crawl  20 failures in a row"),
        (FOR_A_TIME, "shop  paused  0 ready, 0 delayed, 0 processing  crawl  until 2023-11-14 22:23 UTC"),
        (replace(FOR_A_TIME, paused_until=1e30), "shop  paused  0 ready, 0 delayed, 0 processing  crawl  until 1e+30"),
    ],
)
def test_a_project_is_told_in_a_line(pulse: ProjectPulse, line: str) -> None:
    assert pulse_line(pulse) == line


def test_its_counts_have_names_for_programs() -> None:
    fields = pulse_fields(NEWS)

    assert (fields["name"], fields["rate"]) == ("news", 5.0)
    assert fields["counts"] == TaskCounts(ready=2, processing=1, success=40, blocked=3)
    assert fields["totals"] == EventTotals(new=43, selected=41, success=40)
