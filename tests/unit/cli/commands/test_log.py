"""The table of changes."""

from __future__ import annotations

from taskqueue.cli.commands.log import of_log
from taskqueue.protocol.values import Change
from taskqueue.terminal.screen import Screen


def shown(*entries: Change) -> list[str]:
    """Return the lines of the table in a terminal of 80 columns."""
    terminal = Screen()
    terminal.width = 80
    with terminal.capture() as captured:
        terminal.print(of_log(entries))
    return captured.get().splitlines()


def test_a_change_has_a_row_that_fits_into_80_columns() -> None:
    entry = Change(
        1, 1.7e9, "project delete", "anna@web1.example.org", "10.11.12.13", "news-of-the-world", "papers", 1_204_118,
        "operation 17592186044417",
    )  # fmt: skip

    lines = shown(entry)

    assert max(map(len, lines)) <= 80
    words = " ".join(line[52:].strip() for line in lines)
    assert "project delete news-of-the-world (group papers), 1,204,118 tasks: operation 17592186044417" in words


def test_what_a_terminal_would_obey_is_shown_as_its_number() -> None:
    (_, row) = shown(Change(1, 1.7e9, "project set", "me\x1b[2J", detail="a\nb"))

    assert "me\\u001b[2J" in row
    assert "a\\nb" in row
