"""Bars in the terminal: numbers of events in each part of a time span."""

from __future__ import annotations

import pytest

from taskqueue.cli.commands.stats import (
    CELLS,
    Comparison,
    EventCount,
    ProjectHistory,
    Span,
    bars,
    cells,
    change,
    earlier,
    history_table,
)
from taskqueue.protocol.insight import HistoryPoint
from taskqueue.terminal.screen import Screen

DAY = 86_400.0


def test_what_happened_in_a_time_is_spread_evenly_over_its_parts() -> None:
    span = Span(100.0, 140.0)

    assert cells([EventCount(Span(100.0, 120.0), 6)], span, 4) == [3, 3, 0, 0]
    assert cells([EventCount(Span(105.0, 125.0), 4)], span, 4) == [1, 2, 1, 0]


def test_of_what_began_before_or_ends_after_only_the_part_inside_counts() -> None:
    span = Span(100.0, 140.0)

    assert cells([EventCount(Span(90.0, 110.0), 4)], span, 4) == [2, 0, 0, 0]
    assert cells([EventCount(Span(130.0, 150.0), 4)], span, 4) == [0, 0, 0, 2]
    assert cells([EventCount(Span(10.0, 50.0), 4), EventCount(Span(150.0, 170.0), 4)], span, 4) == [0, 0, 0, 0]


def test_the_highest_bar_is_for_the_most_and_nothing_stands_where_nothing_was() -> None:
    assert bars([0, 0.1, 50, 100], 100) == " ▁▅█"


@pytest.mark.parametrize(("now", "before", "said"), [(112, 100, "+12 %"), (50, 100, "-50 %"), (3, 0, "")])
def test_the_change_is_told_in_percent_of_before(now: float, before: float, said: str) -> None:
    assert change(now, before) == said


def test_a_day_beside_the_day_before_fits_into_80_columns() -> None:
    now = 1_700_000_000.0
    span = Span(now - DAY, now)
    minutes = [HistoryPoint(span.start + 60 * n, new=2000, success=1900, failed=20) for n in range(1440)]
    hours = [HistoryPoint(earlier(span).start + 3600 * n, new=60_000, success=100_000) for n in range(24)]
    compared = Comparison(
        ProjectHistory("a-project-with-a-name", "minute", minutes), ProjectHistory(None, "hour", hours)
    )

    terminal = Screen()
    with terminal.capture() as captured:
        terminal.print(history_table(compared, span))
    lines = captured.get().splitlines()

    assert max(len(line.rstrip()) for line in lines) <= 80
    assert lines[0].strip() == "a-project-with-a-name"
    assert "the last 1 d" in lines[1]
    assert [line.split()[0] for line in lines[2:]] == ["new", "before", "success", "before", "failed", "before"]
    assert lines[2].split()[1:] == ["█" * CELLS, "2,880,000", "2,000.0", "+100", "%"]
    assert lines[3].split()[1:] == ["▅" * CELLS, "1,440,000", "1,000.0"]


def test_an_hour_that_is_not_over_counts_for_the_time_that_it_has_lasted() -> None:
    span = Span(0.0, 5400.0)
    told = ProjectHistory(None, "hour", [HistoryPoint(3600.0, new=900)])

    terminal = Screen()
    with terminal.capture() as captured:
        terminal.print(history_table(Comparison(told, ProjectHistory(None, "hour", [])), span))

    assert "900" in captured.get()
