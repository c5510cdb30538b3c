"""Lines of ``taskqueue project wait`` without a terminal."""

from __future__ import annotations

from taskqueue.cli.commands.projects import is_told


def test_lines_come_less_and_less_often_and_every_ten_minutes_in_the_end() -> None:
    """The daemon answers every half a minute; the first answer comes at once, and gets no line."""
    minutes = [place / 2 for place in range(100) if is_told(place)]

    assert minutes == [0.5, 1.5, 3.5, 10, 20, 30, 40]
