"""The display of the running demo."""

from __future__ import annotations

import io

from rich.console import Console

from taskqueue.demo.demo import Display, is_finished
from taskqueue.protocol.values import TaskCounts

COUNTS = TaskCounts(ready=1234, delayed=5, processing=6, success=789, failed=12)


def shown(looks: list[tuple[float, TaskCounts]], *, is_terminal: bool, width: int = 100) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=is_terminal, color_system=None, legacy_windows=False)
    with Display(console, "Ctrl-C stops it") as display:
        for seconds, counts in looks:
            display.show(seconds, counts)
    return file.getvalue()


def test_a_terminal_of_80_columns_sees_every_figure_by_name() -> None:
    text = shown([(4.2, COUNTS)], is_terminal=True, width=80)

    for words in ("801 of 2,046 known pages", "4.2 s", "1,234 ready", "5 delayed", "6 processing", "789 success"):
        assert words in text
    assert "12 failed" in text
    assert "Ctrl-C stops it" in text


def test_elsewhere_there_is_a_plain_line_a_second_if_something_has_changed() -> None:
    looks = [(seconds, TaskCounts(ready=9, success=pages)) for seconds, pages in [(0, 0), (0.5, 1), (1.1, 2), (2.3, 2)]]

    assert shown(looks, is_terminal=False).splitlines() == [
        "   0.0 s  9 ready, 0 delayed, 0 processing, 0 success, 0 failed; 0.0 pages/s",
        "   1.1 s  9 ready, 0 delayed, 0 processing, 2 success, 0 failed; 1.8 pages/s",
    ]


def test_speed_is_the_mean_of_the_last_seconds() -> None:
    text = shown(
        [(0.0, TaskCounts()), (10.0, TaskCounts(success=500)), (12.0, TaskCounts(failed=550))], is_terminal=False
    )

    assert text.splitlines()[-1].endswith("25.0 pages/s")


def test_a_crawl_is_finished_if_no_page_is_left_and_there_was_one() -> None:
    assert not is_finished(TaskCounts())
    assert not is_finished(TaskCounts(success=1, delayed=1))
    assert is_finished(TaskCounts(success=1, failed=1))
