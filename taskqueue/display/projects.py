"""Words for a project: pace, events, remaining work, and settings with the layer that each comes from.

Remaining work is one line: what is left, how long it takes at which rate, and what waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from taskqueue.display.counts import tasks
from taskqueue.protocol.choices import RemainingReason
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.projects import Project, Remaining
from taskqueue.settings.flat_names import flat
from taskqueue.texts.units import duration_text

EVENTS: Final = ("success", "retried", "failed")
"""Outcomes of attempts, in the order in which they are drawn."""

WINDOWS: Final[Mapping[str, str]] = {"5m": "minutes", "1h": "hour", "1d": "day"}
"""Times before now in which events are counted: field names by the names that users see."""

ALL: Final = "all"
"""Name of the count of all events since the project was created."""


def pace_text(number: float) -> str:
    """Format a rate or a burst: ``5``, ``0.25``, ``inf``."""
    return f"{number:g}" if abs(number) < 1e6 or number in (float("inf"), float("-inf")) else f"{number:.0f}"


def took_text(seconds: float) -> str:
    """Format the duration of attempts: ``48 ms``, ``1.2 s``, ``4 min 10 s``."""
    return duration_text(seconds) if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def events_text(success: int, retried: int, failed: int) -> str:
    """Format events: ``1,204 success, 3 retried, 1 failed``."""
    return ", ".join(f"{count:,} {name}" for name, count in zip(EVENTS, (success, retried, failed), strict=True))


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
"""Texts of reasons why no remaining time is known."""


def remaining_text(remaining: Remaining) -> str:
    """Describe remaining work: ``812 left, 4 min to 5 min at 3.4 done/s; 40 wait for a retry, up to 6 h by the table``.

    Empty if nothing is left and nothing waits.
    """
    return "; ".join([*_left(remaining), *_waiting(remaining)])


def to_go_text(unfinished: int, remaining: Remaining | None, *, ignores_retries: bool = False) -> str:
    """Describe what a project has to finish: ``63 tasks to go: 59 now, 4 min to 5 min at 3.4 done/s; 4 wait for …``.

    Empty if nothing is left and nothing waits.

    Args:
        unfinished: tasks that have to end before the project is finished.
        remaining: None from older daemons.
        ignores_retries: True if tasks that wait for a retry need not end; they are not counted.
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
    """Format the remaining time: ``4 min to 5 min``, ``no end in sight``, ``unknown``; empty if nothing is left."""
    if remaining.reason == "nothing-left":
        return ""
    if remaining.reason:
        return "no end in sight" if remaining.reason == "growing" else "unknown"
    soonest, latest = _rough(remaining.soonest_seconds), _rough(remaining.latest_seconds)
    return soonest if soonest == latest else f"{soonest} to {latest}"


def _rough(seconds: float) -> str:
    """Round a duration to minutes from ten minutes on, to hours from ten hours on."""
    step = next((step for step in (3600, 60) if seconds >= 10 * step), 1)
    return duration_text(round(seconds / step) * step if seconds >= 10 else seconds)


def rate_text(rate: float) -> str:
    """Format a rate in tasks a second, in three digits or more: ``12``, ``3.4``, ``0.25``."""
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


SAID: Final = "project set"
"""Source of a setting that a user set while the daemon ran."""

LAYERS: Final = {"project": "config file", "defaults": "[defaults]"}


def setting_text(value: Setting) -> str:
    """Format a setting so that ``parse`` can read it."""
    if isinstance(value, list | tuple):
        return ",".join(setting_text(part) for part in value)
    if isinstance(value, dict) or value is None:
        return json.dumps(_without_inf(value), ensure_ascii=False, default=repr)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _without_inf(value: Setting) -> Setting:
    """Replace infinite numbers by the text "inf", which settings accept, because JSON lacks them."""
    if isinstance(value, dict):
        return {key: _without_inf(part) for key, part in value.items()}
    return "inf" if isinstance(value, float) and value == inf else value


def schedule_of(entry: Mapping[str, Setting]) -> str:
    """Describe when a cron entry of the settings runs: ``every 5m``, ``0 3 * * * Europe/Berlin``."""
    return f"every {entry['every']}" if entry.get("every") else f"{entry.get('cron', '')} {entry.get('zone', 'UTC')}"


def is_empty_setting(value: Setting) -> bool:
    """Return whether a setting is empty, and so not used."""
    return value is None or value in ("", {})


def said_by(view: Project, name: str) -> str:
    """Name the source of a project's setting, or of one key of a table, by its flat name."""
    if name in dict(flat(view.overrides)):
        return SAID
    where = view.configured.get(name, [])
    if not where and name == "rate" and view.settings.get("bucket"):
        return "bucket"
    return ", ".join(LAYERS[layer] for layer in where) or "default"
