"""Attempts of a task on a line of time, from the first one that is kept to the next one due.

    ■──30 s──■───1 h───■─────6 h─────■ ┄┄12 h┄┄ ◇      attempts, the time between them, when it is due

Waits last seconds to days, attempts milliseconds to hours: on a linear scale all but the longest would be a dot. So
lengths follow the logarithm of durations, and each wait that has room shows its duration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Final, NamedTuple

from taskqueue.protocol.values import Attempt
from taskqueue.texts.units import duration_text

WHOLE: Final = 100.0
"""Length of the line; positions are in percent."""

ATTEMPT_BASE: Final = 0.6
WAIT_BASE: Final = 0.6
"""Length of a duration of 0, in decades."""

LEAST_DECADES: Final = 12.0
"""A shorter line is not stretched, so that few attempts are not drawn larger than many."""

LABEL_ROOM: Final = 6.5
"""Percent of the line that a wait needs to show its duration."""

KIND: Final = {"success": "good", "expired": "mute", "upstream": "mute", "slow": "mute"}
"""Colours by outcome; all other outcomes are bad."""


class Bar(NamedTuple):
    """Attempt.

    Attributes:
        kind: its colour: good, bad, mute, or busy for a running one.
        words: what happened, as a tooltip.
    """

    x: float
    width: float
    kind: str
    words: str


class Wait(NamedTuple):
    """Time between two attempts, or (ahead) until the next; ``label`` is empty if it has no room."""

    x: float
    width: float
    label: str
    ahead: bool = False


class AttemptLine(NamedTuple):
    """Picture of the attempts; positions are in percent of its width.

    Attributes:
        due_x: position of the mark for the next attempt; None if none is due.
        words: alternative text.
    """

    bars: Sequence[Bar]
    waits: Sequence[Wait]
    due_x: float | None
    words: str


class _Part(NamedTuple):
    seconds: float
    attempt: Attempt | None = None
    ahead: bool = False
    running: bool = False

    @property
    def length(self) -> float:
        base = ATTEMPT_BASE if self.attempt or self.running else WAIT_BASE
        return base + log10(1.0 + max(0.0, self.seconds))


def attempt_line(
    attempts: Sequence[Attempt], now: float, *, due_at: float = 0.0, running_since: float = 0.0
) -> AttemptLine | None:
    """Draw attempts, the newest first; None if there is nothing to draw.

    Args:
        due_at: unix seconds of the next attempt; 0 if none is due.
        running_since: unix seconds since when one is running; 0 if none is.
    """
    parts = _parts(attempts, now, due_at, running_since)
    if not any(part.attempt or part.running for part in parts):
        return None
    scale = WHOLE / max(LEAST_DECADES, sum(part.length for part in parts))
    bars: list[Bar] = []
    waits: list[Wait] = []
    x = 0.0
    for part in parts:
        width = part.length * scale
        if part.attempt or part.running:
            bars.append(Bar(round(x, 2), round(width, 2), *_kind_and_title(part)))
        else:
            label = _brief(part.seconds) if width >= LABEL_ROOM else ""
            waits.append(Wait(round(x, 2), round(width, 2), label, part.ahead))
        x += width
    outcomes = ", ".join(each.outcome for each in reversed(attempts))
    words = f"Attempts, the oldest first: {outcomes or 'none has ended'}{'; one is running' if running_since else ''}"
    return AttemptLine(bars, waits, round(x, 2) if parts[-1].ahead else None, words)


def _parts(attempts: Sequence[Attempt], now: float, due_at: float, running_since: float) -> list[_Part]:
    parts: list[_Part] = []
    before = 0.0
    for attempt in reversed(attempts):
        began = attempt.at - attempt.seconds
        if before:
            parts.append(_Part(max(0.0, began - before)))
        parts.append(_Part(attempt.seconds, attempt))
        before = attempt.at
    if running_since:
        if before:
            parts.append(_Part(max(0.0, running_since - before)))
        parts.append(_Part(max(0.0, now - running_since), running=True))
    elif due_at and before:
        parts.append(_Part(max(0.0, due_at - before), ahead=True))
    return parts


def _kind_and_title(part: _Part) -> tuple[str, str]:
    took = duration_text(part.seconds)
    if part.attempt is None:
        return "busy", f"running: {took} since it was dispatched, or its lease extended"
    by = f" by {part.attempt.fetcher}" if part.attempt.fetcher else ""
    return KIND.get(part.attempt.outcome, "bad"), f"{part.attempt.outcome} after {took}{by}"


def _brief(seconds: float) -> str:
    """Format a duration in its largest unit alone."""
    return " ".join(duration_text(seconds).split()[:2])
