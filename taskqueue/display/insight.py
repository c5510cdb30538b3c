"""Words for what happened: failures that have something in common, changes that somebody made, projects that changed.

A change is told as when, who and what; a project that has changed in a line, or by the names of its fields.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from taskqueue.display.columns import ListColumn, time_column
from taskqueue.display.counts import STATES, brief, projects, tasks
from taskqueue.display.projects import pace_text
from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.values import Change, EventTotals, TaskCounts

NAMELESS_GROUPS: Final = {"error": "(no reason given)", "host": "(no host)"}
"""What people are told instead of an empty name."""


def share(failures: int, of: int) -> str:
    """Which part they are; a small one is not none."""
    return f"{failures / of:.0%}" if failures * 100 >= of else "<1%"


NAMED_MOST: Final = 5
"""Projects that an entry about all of them names."""


def who(entry: Change) -> str:
    """Who asked, and from where."""
    return f"{entry.actor} {entry.address}".strip()


def what(entry: Change) -> str:
    """Such as ``project delete (group papers), 12 projects, 1,204 tasks: operation 17``."""
    is_all = bool(entry.projects) and not entry.group and not entry.project
    group = f" (group {entry.group})" if entry.group else " (all)" if is_all else ""
    of_group = f", {projects(len(entry.projects))}" if entry.projects else ""
    if is_all:
        of_group += f" ({', '.join(entry.projects[:NAMED_MOST])}{', …' * (len(entry.projects) > NAMED_MOST)})"
    count = f", {tasks(entry.count)}" if entry.count else ""
    changed = f"{entry.what} {entry.project}".strip() + group + of_group + count
    return f"{changed}: {entry.detail}".strip() if entry.detail else changed


CHANGE_COLUMNS: Final[tuple[ListColumn[Change], ...]] = (
    time_column("when", lambda entry: entry.at),
    ListColumn("who", who, words=True),
    ListColumn("change", what, words=True),
)

ALWAYS_TOLD: Final = ("ready", "delayed", "processing")
"""States that are told also when no task is in them."""


def pulse_line(pulse: ProjectPulse) -> str:
    """``news  running  2 ready, 0 delayed, 1 processing, 40 success  5/s``; with the reason or the end of a pause."""
    counts = TaskCounts(*pulse.counts)
    told = [(state, getattr(counts, state)) for state in STATES]
    tasks = ", ".join(f"{brief(count)} {state}" for state, count in told if count or state in ALWAYS_TOLD)
    pace = f"{pace_text(pulse.rate)}/s" if not pulse.bucket else pulse.bucket
    return "  ".join(part for part in (pulse.name, pulse.state, tasks, pace, pause_text(pulse)) if part)


def pause_text(pulse: ProjectPulse) -> str:
    """Why it has paused itself, or when the pause by a person ends: ``until 2026-11-22 03:10 UTC``; else empty."""
    if not pulse.paused_until:
        return pulse.reason
    try:
        return f"until {datetime.fromtimestamp(pulse.paused_until, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # a daemon may say anything
        return f"until {pulse.paused_until:g}"


def pulse_fields(pulse: ProjectPulse) -> dict[str, object]:
    """Its fields by name, counts and totals as in any other view of a project."""
    fields: dict[str, object] = {name: getattr(pulse, name) for name in ProjectPulse.__struct_fields__}
    return fields | {"counts": TaskCounts(*pulse.counts), "totals": EventTotals(*pulse.totals)}
