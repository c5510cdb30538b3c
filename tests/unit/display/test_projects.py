"""Remaining work of a project, in words."""

from __future__ import annotations

from typing import Any

import pytest

from taskqueue.display.projects import UNKNOWN, remaining_text, time_text, to_go_text
from taskqueue.protocol.projects import Remaining


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (
            {"left": 812, "done_rate": 3.4, "soonest_seconds": 240, "latest_seconds": 310},
            "812 left, 4 min to 5 min 10 s at 3.4 done/s",
        ),
        (
            {"left": 1204, "done_rate": 250.4, "soonest_seconds": 2514.3, "latest_seconds": 40_000},
            "1,204 left, 42 min to 11 h at 250 done/s",
        ),
        (
            {"left": 9204, "new_rate": 12, "done_rate": 3.4, "reason": "growing"},
            "9,204 left, no end in sight: 12 new/s, 3.4 done/s",
        ),
        ({"left": 5, "reason": "paused"}, "5 left, time unknown: it is paused"),
        ({"left": 5, "reason": "too-few"}, "5 left, time unknown: fewer than 20 tasks ended in the last hour"),
        (
            {"reason": "nothing-left", "held_back": 812, "retry_seconds": 86_400, "later": 1},
            "812 wait for a retry, up to 1 d by the table; 1 waits for its time",
        ),
        (
            {"reason": "nothing-left", "held_back": None, "later": 40},
            "40 delayed; those that wait for a retry are still being counted",
        ),
        ({"reason": "nothing-left"}, ""),
    ],
)
def test_a_line_says_how_far_it_is(facts: dict[str, Any], text: str) -> None:
    assert remaining_text(Remaining(**facts)) == text


WAITING = {"left": 59, "reason": "too-few", "held_back": 4, "retry_seconds": 21_600}
NOW = "59 now, time unknown: fewer than 20 tasks ended in the last hour"
RETRIES = "4 wait for a retry, up to 6 h by the table"


@pytest.mark.parametrize(
    ("unfinished", "facts", "text"),
    [
        (63, WAITING, f"63 tasks to go: {NOW}; {RETRIES}"),
        (1, {"reason": "nothing-left", "later": 1}, "1 task to go: 1 waits for its time"),
        (60, WAITING, f"60 tasks to go: {NOW}; {RETRIES}; 3 of these recur and need not end"),
        (0, {"reason": "nothing-left", "later": 2}, "2 wait for their time"),
        (0, {"reason": "nothing-left"}, ""),
    ],
)
def test_what_is_to_go_is_told_once_and_in_parts(unfinished: int, facts: dict[str, Any], text: str) -> None:
    assert to_go_text(unfinished, Remaining(**facts)) == text


def test_who_does_not_wait_for_retries_is_told_a_number_without_them() -> None:
    told = to_go_text(63, Remaining(**WAITING), ignores_retries=True)  # type: ignore[arg-type]

    assert told == f"59 tasks to go, without retries: {NOW}; {RETRIES}"


def test_an_older_daemon_says_only_how_many_are_to_go() -> None:
    assert to_go_text(63, None) == "63 tasks to go"
    assert to_go_text(0, None) == ""


@pytest.mark.parametrize("reason", UNKNOWN)
def test_where_no_time_is_known_a_line_says_why_and_a_column_that_it_is_unknown(reason: Any) -> None:
    found = Remaining(left=3, reason=reason)

    assert time_text(found) == "unknown"
    assert UNKNOWN[reason] in remaining_text(found)


def test_a_column_has_the_range_or_that_there_is_no_end_in_sight() -> None:
    assert time_text(Remaining(left=1, soonest_seconds=3, latest_seconds=3)) == "3 s"
    assert time_text(Remaining(left=1, reason="growing")) == "no end in sight"
    assert time_text(Remaining(reason="nothing-left")) == ""
