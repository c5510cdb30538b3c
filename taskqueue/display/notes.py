"""Words for the notes of running tasks; apart from ``tasks``, whose import takes longer than a list of fetchers may."""

from __future__ import annotations

from typing import Final

BAR_CHARS: Final = 20
"""Characters of a progress bar."""

SHORT_BAR_CHARS: Final = 5
"""Characters of a progress bar in a list: at 80 columns a longer one would be split over several lines."""


def progress_of(note: str | float | None) -> float | None:
    """Return how far a task is, from 0 to 1, if its note is such a number; else None."""
    return note if not isinstance(note, str | None) and 0 <= note <= 1 else None


def note_text(note: str | float | None) -> str:
    """Format a note: its text, a number, or, of one from 0 to 1, its whole percents; empty if there is none."""
    if isinstance(note, str | None):
        return note or ""
    return f"{note:,.10g}" if progress_of(note) is None else f"{int(100 * note)}%"


def note_line(note: str | float | None, bar_chars: int = BAR_CHARS) -> str:
    """Format a note, with a progress bar if it says how far the task is."""
    done = progress_of(note)
    bar = "" if done is None else f"[{'#' * int(done * bar_chars):.<{bar_chars}}] "
    return bar + note_text(note)
