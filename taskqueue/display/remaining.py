"""How far a project is, in a line: its rates, what is left, how long that takes, and what waits for its time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from taskqueue.display.counts import tasks
from taskqueue.protocol.choices import RemainingReason
from taskqueue.protocol.projects import Remaining
from taskqueue.units import duration_text

UNKNOWN: Final[Mapping[RemainingReason, str]] = {
    "stopped": "it is stopped",
    "paused": "it is paused",
    "out-of-hours": "out of its active hours",
    "no-rate": "its rate is 0",
    "too-few": "fewer than 20 tasks ended in the last hour",
    "idle": "none was attempted in the last five minutes",
    "unclear": "it has not become less for long enough",
    "blocked": "all of them wait for other tasks",
}
"""Why no time is told, by the reason."""


def remaining_text(remaining: Remaining) -> str:
    """``812 left, 4 min to 5 min at 3.4 done/s; 40 wait for a retry, up to 6 h by the table``.

    Empty if nothing is left and nothing waits.
    """
    return "; ".join([*_left(remaining), *_waiting(remaining)])


def to_go_text(unfinished: int, remaining: Remaining | None, *, ignores_retries: bool = False) -> str:
    """``63 tasks to go: 59 now, 4 min to 5 min at 3.4 done/s; 4 wait for a retry, up to 6 h by the table``.

    Empty if nothing is left and nothing waits.

    Args:
        unfinished: tasks that have to end before the project is finished.
        remaining: None: an older daemon does not say.
        ignores_retries: tasks that wait for a retry need not end, and are not among those to go.
    """
    if not unfinished or remaining is None:
        return remaining_text(remaining) if remaining else f"{tasks(unfinished)} to go" if unfinished else ""
    retries = remaining.held_back or 0
    recurring = remaining.left + retries + remaining.later - unfinished
    parts = [*_left(remaining, "now"), *_waiting(remaining)]
    parts += [f"{recurring:,} of these recur and need not end"] if recurring > 0 else []
    ignored = ignores_retries and retries
    told = f"{tasks(unfinished - retries)} to go, without retries" if ignored else f"{tasks(unfinished)} to go"
    return f"{told}: {'; '.join(parts)}"


def time_text(remaining: Remaining) -> str:
    """``4 min to 5 min``, ``no end in sight``, ``unknown``; empty: nothing is left."""
    if remaining.reason == "nothing-left":
        return ""
    if remaining.reason:
        return "no end in sight" if remaining.reason == "growing" else "unknown"
    soonest, latest = _rough(remaining.soonest_seconds), _rough(remaining.latest_seconds)
    return soonest if soonest == latest else f"{soonest} to {latest}"


def _rough(seconds: float) -> str:
    """A duration to the minute from ten minutes on, to the hour from ten hours on."""
    step = next((step for step in (3600, 60) if seconds >= 10 * step), 1)
    return duration_text(round(seconds / step) * step if seconds >= 10 else seconds)


def rate_text(rate: float) -> str:
    """``12``, ``3.4``, ``0.25``: tasks a second, in three digits or more."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def _left(remaining: Remaining, word: str = "left") -> Iterator[str]:
    if remaining.reason == "nothing-left":
        return
    told = f"{remaining.left:,} {word}, "
    done = f"{rate_text(remaining.done_rate)} done/s"
    if remaining.reason == "growing":
        yield f"{told}no end in sight: {rate_text(remaining.new_rate)} new/s, {done}"
    elif remaining.reason:
        yield f"{told}time unknown: {UNKNOWN[remaining.reason]}"
    else:
        yield f"{told}{time_text(remaining)} at {done}"


def _waiting(remaining: Remaining) -> Iterator[str]:
    held_back, later = remaining.held_back, remaining.later
    if held_back is None:
        yield f"{later:,} delayed; those that wait for a retry are still being counted"
        return
    if held_back:
        most = duration_text(remaining.retry_seconds)
        yield f"{held_back:,} {_wait(held_back)} for a retry, up to {most} by the table"
    if later:
        yield f"{later:,} {_wait(later)} for {'its' if later == 1 else 'their'} time"


def _wait(count: int) -> str:
    return "waits" if count == 1 else "wait"
