"""The arithmetic of the page of sizes."""

from __future__ import annotations

from benchmarks.report import SIZING, saved, sized
from benchmarks.sizing import machine_row, one_two_five, power_of_two, three_digits

FOUND = {"A": 200.0, "B": 10.0, "C": 500.0, "D": 100.0, "E": 500.0, "F": 1000.0, "G": 100.0}


def test_a_crawl_takes_what_the_page_s_arithmetic_says() -> None:
    row = machine_row(30 * 86_400 * 100, FOUND)

    # 100 pages and 5,000 links a second: 0.02 and 0.05 of a core; 0.5 GB and 259.2 million ids; 100 and 500 kB/s.
    assert row == ("| 259,200,000 | 100 | 5,000 | 0.0700 | 26.4 | 130 | 25.9 | 600 | 1 core, 32 GB, 500 GB of disk |")


def test_machines_come_in_steps() -> None:
    assert [power_of_two(value) for value in (0.1, 1, 1.1, 88)] == [1, 1, 2, 128]
    assert [one_two_five(value) for value in (0.1, 1.5, 3, 11, 1000)] == [1, 2, 5, 20, 1000]


def test_figures_have_three_digits_that_count() -> None:
    assert [three_digits(value) for value in (0.0386, 1.234, 12.34, 123.4, 19_290)] == [
        "0.0386", "1.23", "12.3", "123", "19,290",
    ]  # fmt: skip


def test_the_committed_page_of_sizes_is_made_of_the_committed_results() -> None:
    assert sized(SIZING.read_text(), saved()) == SIZING.read_text()
