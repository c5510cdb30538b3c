"""Pages made of results: each fills its own places, touches nothing else, and is committed as it is made."""

from __future__ import annotations

import re

import pytest

from benchmarks.harness import Column, Ratio, Report, Result
from benchmarks.report import PAGE, README, NoPlace, markdown_of, readme, rewritten, saved

TEXT = """# Benchmarks
Before.
<!-- table: pushes -->
An old table.
<!-- end -->
Between.
<!-- table: pulls cpu -->
<!-- end -->
After.
"""


def pushes(rate: float) -> Result:
    report = Report("pushes", "Pushes", "python -m benchmarks.idle", [Column("rate", "tasks", "/s")])
    report.add("ours", {"rate": rate})
    return report.result


def pulls() -> Result:
    columns = [Column("rate", "tasks", "/s"), Column("cpu", "CPU", "µs")]
    report = Report(
        "pulls", "Pulls", "python -m benchmarks.idle", columns, [Ratio("now", "cpu", "ours", "ours, before")]
    )
    report.add("ours", {"rate": 7, "cpu": 11})
    report.add("ours, before", {"rate": 5, "cpu": 22})
    return report.result


def test_a_table_takes_the_place_between_its_markers() -> None:
    page = rewritten(TEXT, [pushes(1234), pulls()])

    assert "| ours | 1,234 |" in page
    assert "An old table." not in page


def test_everything_else_of_the_page_stays() -> None:
    page = rewritten(TEXT, [pushes(1234), pulls()])

    assert re.sub(r"(<!-- table.*?-->\n).*?(<!-- end)", r"\1\2", page, flags=re.DOTALL) == TEXT.replace(
        "An old table.\n", ""
    )


def test_a_marker_chooses_columns_and_an_earlier_build_is_left_out() -> None:
    page = rewritten(TEXT, [pushes(1), pulls()])

    assert "|  | CPU, µs |\n|---|---:|\n| ours | 11 |\n" in page
    assert "before |" not in page
    assert "| now |" not in page


def test_a_second_report_of_the_same_results_changes_nothing() -> None:
    once = rewritten(TEXT, [pushes(1234), pulls()])

    assert rewritten(once, [pushes(1234), pulls()]) == once


def test_a_report_of_other_results_leaves_nothing_of_the_first() -> None:
    page = rewritten(rewritten(TEXT, [pushes(1234), pulls()]), [pushes(99), pulls()])

    assert page == rewritten(TEXT, [pushes(99), pulls()])


@pytest.mark.parametrize("marker", ["pops", "pushes latency"])
def test_a_marker_for_what_does_not_exist_is_an_error(marker: str) -> None:
    with pytest.raises(NoPlace, match=marker.split()[-1]):
        rewritten(f"<!-- table: {marker} -->\n<!-- end -->\n", [pushes(1)])


def test_the_readme_has_all_columns_and_an_earlier_build_of_each_result() -> None:
    page = readme([pulls()])

    assert "| ours, before | 5 | 22 |" in page
    assert "| now | 0.50 |" in page
    assert page.index("## An idle daemon") < page.index("### Pulls") < page.index("## Idle clients")


def test_a_result_without_a_section_is_not_dropped_silently() -> None:
    strange = Report("strange", "Strange", "python -m benchmarks.strange --rounds 1", [])

    with pytest.raises(NoPlace, match=r"benchmarks\.strange"):
        readme([strange.result])


def test_indented_lines_of_a_docstring_are_a_fenced_block() -> None:
    lines = list(markdown_of("Head.\n\n    run ``it``\n    again\n\nTail of ``code``."))

    assert lines == ["Head.", "", "```text", "run `it`", "again", "```", "", "Tail of `code`."]


def test_the_committed_pages_are_made_of_the_committed_results() -> None:
    results = saved()

    assert readme(results) == README.read_text()
    assert rewritten(PAGE.read_text(), results) == PAGE.read_text()
