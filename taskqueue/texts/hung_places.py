"""Words for hung places of fetchers, whose handlers run on after their leases; for the core and all displays.

A lease ends at its deadline, or when an operator, another process or the end of its project takes it away. The place is
occupied until the handler has returned or the fetcher says that it is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskqueue.texts.units import duration_text

NAMES_TOLD: Final = 3
"""Fetchers that a sentence names, at most."""


def brief_hung(places: int, seconds: float) -> str:
    """Describe hung places: ``2 for 9 min``; empty if there are none."""
    return f"{places:,} for {duration_text(seconds)}" if places else ""


def hung_sentence(places: int, concurrency: int, fetchers: Sequence[str], seconds: float, task: str) -> str:
    """``16 of the 16 places of web2 are occupied by handlers whose lease has ended, the longest for 9 min: https://…``.

    Args:
        places: hung places; ``concurrency``: tasks that these fetchers run at once.
        fetchers: their names; the sentence has the first NAMES_TOLD.
        seconds: since when the first of these places hangs; ``task``: words for its task, see ``task_of``.
    """
    most = max(places, concurrency)
    which = f"{places:,} of the {most:,} places" if most > 1 else "the only place"
    names = ", ".join(fetchers[:NAMES_TOLD])
    more = f" and {len(fetchers) - NAMES_TOLD} more" if len(fetchers) > NAMES_TOLD else ""
    held = "is occupied by a handler" if places == 1 else "are occupied by handlers"
    longest = "for" if places == 1 else "the longest for"
    return f"{which} of {names}{more} {held} whose lease has ended, {longest} {duration_text(seconds)}{task}"


def task_of(project: str, taskid: str, url: str) -> str:
    """End a sentence with a task: its URL, or its names; empty if only its fetcher knows it."""
    if url:
        return f": {' '.join(url.split())}"
    return f': task "{taskid}" of project "{project}"' if taskid else ""
