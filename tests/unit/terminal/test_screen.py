"""A console and a log that obey no foreign text."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from rich.table import Table

from taskqueue.terminal.lines import say, say_lines
from taskqueue.terminal.log_lines import LogLines
from taskqueue.terminal.screen import Screen, Text

EVIL = "\x1b]0;owned\x07\u202e\n[red]x[/red]:boom:"
SHOWN = r"\u001b]0;owned\u0007\u202e\n[red]x[/red]:boom:"


def shown(*parts: object, terminal: bool = False) -> str:
    screen = Screen(file=io.StringIO(), force_terminal=terminal, width=100, color_system=None)
    screen.print(*parts)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue()


def test_a_cell_has_room_for_all_that_is_shown_of_it() -> None:
    table = Table("name", "number", box=None)
    table.add_row(Text(EVIL), "1")

    assert SHOWN in shown(table)
    assert max(map(len, shown(table, terminal=True).splitlines())) <= 100


@pytest.mark.parametrize("terminal", [True, False])
def test_a_plain_text_is_not_obeyed_either(terminal: bool) -> None:
    table = Table(EVIL, title=EVIL, box=None)
    table.add_row(EVIL)
    for part in (EVIL, table):
        text = shown(part, terminal=terminal)
        assert not any(not char.isprintable() and char != "\n" for char in text)
        assert "[red]x[/red]:boom:" in text


def test_a_text_of_parts_is_one_that_can_be_shown() -> None:
    assert Text.assemble("  ", (EVIL, "bold"), "\n").plain == f"  {SHOWN}\n".replace(r"\n", "\n")


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    say(EVIL, err=True)
    say_lines("a\x1b\nb")

    assert capsys.readouterr() == (f"{SHOWN}\na\\u001b\nb\n", f"{SHOWN}\n")


def test_an_event_is_a_line_of_a_log_and_its_traceback_has_lines_of_its_own() -> None:
    log, written = logging.getLogger("test-log-lines"), io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(LogLines())
    log.handlers[:], log.propagate = [handler], False
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.error("failed url=%s", EVIL, exc_info=sys.exc_info())

    first, *rest = written.getvalue().splitlines()
    assert first.endswith(f"ERROR   failed url={SHOWN}")
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-2:] == [r"ValueError: \u001b]0;owned\u0007\u202e", "[red]x[/red]:boom:"]
