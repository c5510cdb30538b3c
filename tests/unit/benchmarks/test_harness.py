"""Figures of benchmarks: they are those of the rounds, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.harness import Column, Goal, Ratio, Report, about, alternate, as_said, build, load, tables

RATE = Column("rate", "tasks", "/s")
AGAINST = Ratio("ours against theirs", "rate", "ours", "theirs", "≥ 1.5")


def a_report(*, ratios: tuple[Ratio, ...] = (AGAINST,), goals: tuple[Goal, ...] = ()) -> Report:
    return Report("pushes", "Pushes", "python -m benchmarks.pushes", [RATE], ratios, goals)


def test_a_cell_has_the_median_of_the_rounds_and_their_range() -> None:
    report = a_report()

    for rate in (300, 100, 1200):
        report.add("ours", {"rate": rate})

    assert "| ours | 300 (100 to 1,200) |" in tables(report.result)


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds_and_not_the_ratio_of_the_medians() -> None:
    report = a_report()

    for ours, theirs in ((100, 100), (400, 200), (900, 300)):
        report.add("theirs", {"rate": theirs})
        report.add("ours", {"rate": ours})
    report.add("ours", {"rate": 10_000})

    assert "| ours against theirs | 2.00 (1.00 to 3.00) | ≥ 1.5 |" in tables(report.result)


def test_a_peer_that_is_missing_is_said_to_be_and_no_ratio_is_made_of_it() -> None:
    report = a_report()

    report.add("ours", {"rate": 100})
    report.missing("theirs", "the command theirs is not on PATH")

    lines = tables(report.result)
    assert "| theirs | not measured: the command theirs is not on PATH |" in lines
    assert "| ours against theirs | not measured | ≥ 1.5 |" in lines


def test_a_goal_stands_beside_its_figure_and_is_not_asserted() -> None:
    report = a_report(ratios=(), goals=(Goal("pushes", "rate", "ours", "≥ 1,000"),))

    report.add("ours", {"rate": 1})

    assert "| pushes | 1 | ≥ 1,000 |" in tables(report.result)


def test_a_figure_of_no_column_is_refused() -> None:
    with pytest.raises(KeyError):
        a_report().add("ours", {"speed": 1})


def test_contenders_take_turns_in_an_order_that_turns_round() -> None:
    turns = list(alternate(3, ["a", "b"]))

    assert turns == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"), (3, "b")]


def test_what_was_saved_is_what_is_shown(tmp_path: Path) -> None:
    report = a_report()
    report.add("ours", {"rate": 100.25})
    report.missing("theirs", "it is not installed")

    saved = load(report.save(tmp_path))

    assert saved == report.result
    assert saved.rows[0].values == {"rate": [100.25]}


def test_the_command_that_is_shown_has_the_options_that_were_given() -> None:
    said = as_said("python -m benchmarks.pushes --tasks 1", ["--tasks", "5", "--save"])

    assert said == "python -m benchmarks.pushes --tasks 5"


def test_the_command_that_is_shown_names_no_place_of_the_machine_that_measured() -> None:
    said = as_said("python -m benchmarks.pushes", ["--compiled", "/home/me/venv", "--rounds", "5"])

    assert said == "python -m benchmarks.pushes --compiled VENV --rounds 5"


def test_a_table_says_how_its_python_was_built() -> None:
    report = a_report()
    report.result.machine["build"] = build("'--enable-optimizations' '--with-lto=full'")

    assert "built with PGO, with LTO, " in about(report.result)
    assert build("'--enable-shared'") == "without PGO, without LTO, shared library"
    assert build("--with-lto=no") == "without PGO, without LTO"
