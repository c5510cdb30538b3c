"""Words for places of fetchers that are held by handlers whose leases are over, shared by the core and all displays.

A lease is over when its time is, or when an operator, another process or the end of its project has taken it away. Its
place is not free until the handler has returned, or its fetcher has said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskqueue.units import duration_text

NAMES_TOLD: Final = 3
"""Fetchers that a sentence names."""


def brief_hung(places: int, seconds: float) -> str:
    """``2 for 9 min``; empty if no place hangs."""
    return f"{places:,} for {duration_text(seconds)}" if places else ""


def hung_sentence(places: int, concurrency: int, fetchers: Sequence[str], seconds: float, task: str) -> str:
    """``16 of the 16 places of web2 are held by handlers whose lease is over, the longest for 9 min: https://…``.

    Args:
        places: number of hung places; ``concurrency`` is how many tasks these fetchers run at once.
        fetchers: their names, of which the first NAMES_TOLD are told.
        seconds: how long the first of these places has hung; ``task`` tells its task: see ``task_of``.
    """
    most = max(places, concurrency)
    which = f"{places:,} of the {most:,} places" if most > 1 else "the only place"
    names = ", ".join(fetchers[:NAMES_TOLD])
    more = f" and {len(fetchers) - NAMES_TOLD} more" if len(fetchers) > NAMES_TOLD else ""
    held = "is held by a handler" if places == 1 else "are held by handlers"
    longest = "for" if places == 1 else "the longest for"
    return f"{which} of {names}{more} {held} whose lease is over, {longest} {duration_text(seconds)}{task}"


def task_of(project: str, taskid: str, url: str) -> str:
    """The end of a sentence, in one line: a task's url, or its names, or nothing if its fetcher alone knows it."""
    if url:
        return f": {' '.join(url.split())}"
    return f': task "{taskid}" of project "{project}"' if taskid else ""
