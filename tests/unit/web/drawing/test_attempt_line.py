"""Attempts on a line of time."""

from __future__ import annotations

from taskqueue.protocol.values import Attempt
from taskqueue.web.drawing.attempt_line import WHOLE, attempt_line

NOW = 100_000.0


def failed(at: float, seconds: float = 1.0) -> Attempt:
    return Attempt(at, "failed", "fetcher", seconds, "HTTP 503")


def test_attempts_stand_in_the_order_of_time_with_the_waits_between_them() -> None:
    line = attempt_line([Attempt(40_000.0, "success", "", 2.0), failed(36_000.0), failed(32_000.0)], NOW)

    assert line is not None
    assert [bar.kind for bar in line.bars] == ["bad", "bad", "good"]
    assert [bar.words for bar in line.bars] == ["failed after 1 s by fetcher"] * 2 + ["success after 2 s"]
    assert [wait.label for wait in line.waits] == ["1 h", "1 h"]
    places = [each.x for pair in zip(line.bars, line.waits, strict=False) for each in pair]
    assert places == sorted(places)
    assert line.words == "Attempts, the oldest first: failed, failed, success"


def test_a_task_that_was_never_run_has_no_line() -> None:
    assert attempt_line([], NOW, due_at=NOW + 60) is None


def test_when_the_next_attempt_is_due_ends_the_line() -> None:
    line = attempt_line([failed(NOW - 10)], NOW, due_at=NOW + 3590)

    assert line is not None
    (wait,) = line.waits
    assert (wait.label, wait.ahead) == ("1 h", True)
    assert line.due_x is not None
    assert round(wait.x + wait.width, 1) == round(line.due_x, 1)


def test_an_attempt_that_is_under_way_is_on_it() -> None:
    line = attempt_line([], NOW, running_since=NOW - 30)

    assert line is not None
    assert [(bar.kind, bar.words) for bar in line.bars] == [
        ("busy", "running: 30 s since it was dispatched, or its lease extended")
    ]


def test_the_line_never_leaves_its_picture_whatever_the_clocks_say() -> None:
    attempts = [Attempt(NOW + 1e9, "crashed", "", 1e9), *(failed(-1.0, 1e12) for _ in range(20))]
    line = attempt_line(attempts, NOW, due_at=1.0)

    assert line is not None
    for x, width, *_ in (*line.bars, *line.waits):
        assert 0 <= x <= x + width <= WHOLE + 0.1
