"""Words for the notes of running tasks; apart from ``tasks``, whose import takes longer than a list of fetchers may."""

from __future__ import annotations

from typing import Final

BAR_CHARS: Final = 20
"""Characters of a progress bar."""


def progress_of(note: str | float | None) -> float | None:
    """Return how far a task is, from 0 to 1, if its note is such a number; else None."""
    return note if not isinstance(note, str | None) and 0 <= note <= 1 else None


def note_text(note: str | float | None) -> str:
    """Format a note: its text, a number, or, of one from 0 to 1, its whole percents; empty if there is none."""
    if isinstance(note, str | None):
        return note or ""
    return f"{note:,.10g}" if progress_of(note) is None else f"{int(100 * note)}%"


def note_line(note: str | float | None) -> str:
    """Format a note for a line of its own, with a progress bar if it says how far the task is."""
    done = progress_of(note)
    bar = "" if done is None else f"[{'#' * int(done * BAR_CHARS):.<{BAR_CHARS}}] "
    return bar + note_text(note)
