"""The harness of attacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.measure import Figures
from tests.attack.results import PAGE, Results, load, rewritten, save, saved, table
from tests.attack.rows import ROWS
from tests.attack.waits import Waits, corrected

QUIET = Waits(1.0, 2.0, 10)


def figures(**others: object) -> Figures:
    facts = {"what": "something", "seconds": 1.0, "memory_before": 40.0, "memory_peak": 50.0, "memory_left": 45.0}
    waits = {"before": QUIET, "during": QUIET, "after": QUIET}
    end = {"newcomer_ms": 1.0, "stop_seconds": 0.3, "ended": "", "note": "", "harm": False}
    return Figures(**(facts | waits | end | others))  # type: ignore[arg-type]


def test_a_wait_stands_for_those_that_would_have_begun_during_it() -> None:
    assert corrected([0.04]) == [0.04]
    assert corrected([0.12]) == [pytest.approx(each) for each in (0.12, 0.07, 0.02)]


def test_figures_within_the_bounds_break_none() -> None:
    assert figures().broken() == []


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"memory_peak": 1100.0}, ["memory"]),
        ({"memory_left": 400.0}, ["not given back"]),
        ({"during": Waits(60.0, 70.0, 3)}, ["slow"]),
        ({"during": Waits(1.0, 2.0, 0)}, ["no tasks"]),
        ({"newcomer_ms": None}, ["newcomers not served"]),
        ({"stop_seconds": None}, ["SIGTERM unheard"]),
        ({"harm": True}, ["harm"]),
        ({"ended": "killed", "stop_seconds": None}, ["killed"]),
    ],
)
def test_each_bound_that_is_broken_is_named(others: dict[str, object], words: list[str]) -> None:
    assert figures(**others).broken() == words


def test_rows_are_kept_in_a_file_and_shown_beside_earlier_ones(tmp_path: Path) -> None:
    save(tmp_path / "after.json", Results(rows={"unread": figures()}), "taskqueue")

    after = load(tmp_path / "after.json").rows
    assert after["unread"] == figures()
    assert "| something | 50 → 50 |" in "\n".join(table(after, after))


def test_the_committed_table_is_made_of_the_committed_results() -> None:
    page = PAGE.read_text()

    assert rewritten(page, *saved()) == page


def test_every_attack_says_what_it_does() -> None:
    assert [row.name for row in ROWS.values() if not row.attack.__doc__] == []
