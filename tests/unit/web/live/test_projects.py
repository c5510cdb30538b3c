"""Speed of a project in the list of projects."""

from __future__ import annotations

from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.values import EventTotals, TaskCounts
from taskqueue.web.live.projects import FORGOTTEN_SECONDS, ProjectRow

PULSE = ProjectPulse("news", "", "running", "", 1.0, 3.0, "", (), ())


def test_a_speed_is_that_of_the_last_seconds_and_not_of_a_night_in_which_nobody_looked() -> None:
    row = ProjectRow(PULSE, TaskCounts(), EventTotals(selected=10))
    row.note_speed(0.0)
    row.totals = EventTotals(selected=20)
    row.note_speed(2.0)
    assert row.speed == 5.0

    row.totals = EventTotals(selected=1000)
    row.note_speed(2.0 + FORGOTTEN_SECONDS + 1)
    assert row.speed is None
