"""How notes of running tasks are shown."""

from __future__ import annotations

import pytest

from taskqueue.display.fetchers import COLUMNS
from taskqueue.display.notes import note_line, note_text, progress_of
from taskqueue.protocol.fetchers import Fetcher


@pytest.mark.parametrize(
    ("note", "text", "line"),
    [
        (None, "", ""),
        ("page 3 of 20", "page 3 of 20", "page 3 of 20"),
        (0, "0%", "[....................] 0%"),
        (0.25, "25%", "[#####...............] 25%"),
        (0.999, "99%", "[###################.] 99%"),
        (1.0, "100%", "[####################] 100%"),
        (1.5, "1.5", "1.5"),
        (1_234_567, "1,234,567", "1,234,567"),
        (-3.0, "-3", "-3"),
    ],
)
def test_a_number_from_0_to_1_is_a_progress_bar_and_any_other_note_is_shown_as_it_is(
    note: str | float | None, text: str, line: str
) -> None:
    assert (note_text(note), note_line(note)) == (text, line)
    assert (progress_of(note) is None) == (text == line)


def test_a_list_of_fetchers_has_their_notes_with_a_short_progress_bar() -> None:
    [column] = [column for column in COLUMNS if column.head == "note"]

    assert column.text(Fetcher("s", "web1", 1, 1, 0.0, note=0.5)) == "[##...] 50%"
    assert column.text(Fetcher("s", "web1", 1, 1, 0.0, note="page 3")) == "page 3"
    assert column.text(Fetcher("s", "web1", 1, 1, 0.0)) == ""
