"""What the writer of the page relies on: a report fills its own places, and touches nothing else."""

from __future__ import annotations

import pytest

from benchmarks.harness import Column, Report, Result
from benchmarks.report import NoPlace, rewritten

PAGE = """# Benchmarks
Before.
<!-- table: pushes -->
An old table.
<!-- end -->
Between.
<!-- table: pulls -->
Theirs.
<!-- end -->
After.
"""


def pushes(rate: float) -> Result:
    report = Report("pushes", "Pushes", "python -m benchmarks.pushes", [Column("rate", "tasks", "/s")])
    report.add("ours", {"rate": rate})
    return report.result


def test_a_table_takes_the_place_between_its_markers() -> None:
    page = rewritten(PAGE, [pushes(1234)])

    assert "| ours | 1,234 |" in page
    assert "An old table." not in page


def test_everything_else_of_the_page_stays() -> None:
    page = rewritten(PAGE, [pushes(1234)])

    before, _, rest = PAGE.partition("An old table.\n")
    assert page.startswith(before)
    assert page.endswith(rest)


def test_a_second_report_of_the_same_results_changes_nothing() -> None:
    once = rewritten(PAGE, [pushes(1234)])

    assert rewritten(once, [pushes(1234)]) == once


def test_a_report_of_other_results_leaves_nothing_of_the_first() -> None:
    page = rewritten(rewritten(PAGE, [pushes(1234)]), [pushes(99)])

    assert page == rewritten(PAGE, [pushes(99)])


def test_a_table_without_a_place_is_not_dropped_silently() -> None:
    with pytest.raises(NoPlace, match="<!-- table: pushes -->"):
        rewritten("# Benchmarks\n", [pushes(1)])
