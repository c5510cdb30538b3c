"""Words for groups of failures, changes by users, and projects that have changed.

A change is shown as when, who and what; a changed project as a line, or as a map of fields.
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
"""Names shown for groups without one."""


def share(failures: int, of: int) -> str:
    """Format the part that failures have of all; a small part is ``<1%``, not 0."""
    return f"{failures / of:.0%}" if failures * 100 >= of else "<1%"


NAMED_MOST: Final = 5
"""Projects that a change of all of them names, at most."""


def who(entry: Change) -> str:
    """Return who made a change, and from where."""
    return f"{entry.actor} {entry.address}".strip()


def what(entry: Change) -> str:
    """Describe a change: ``project delete (group papers), 12 projects, 1,204 tasks: operation 17``."""
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
"""States that are shown even without tasks."""


def pulse_line(pulse: ProjectPulse) -> str:
    """Describe a project in a line, with the reason or end of a pause: ``news  running  2 ready, … 1 slow  5/s``."""
    counts = TaskCounts(*pulse.counts)
    told = [(state, getattr(counts, state)) for state in STATES]
    tasks = ", ".join(f"{brief(count)} {state}" for state, count in told if count or state in ALWAYS_TOLD)
    tasks += f", {brief(pulse.slow)} slow" if pulse.slow else ""
    pace = f"{pace_text(pulse.rate)}/s" if not pulse.bucket else pulse.bucket
    return "  ".join(part for part in (pulse.name, pulse.state, tasks, pace, pause_text(pulse)) if part)


def pause_text(pulse: ProjectPulse) -> str:
    """Describe a pause: the reason of an automatic one; ``until 2026-11-22 03:10 UTC`` for a user's; else empty."""
    if not pulse.paused_until:
        return pulse.reason
    try:
        return f"until {datetime.fromtimestamp(pulse.paused_until, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):  # the daemon may send any number
        return f"until {pulse.paused_until:g}"


def pulse_fields(pulse: ProjectPulse) -> dict[str, object]:
    """Return the fields of a project by name, counts and totals as in other views of a project."""
    fields: dict[str, object] = {name: getattr(pulse, name) for name in ProjectPulse.__struct_fields__}
    return fields | {"counts": TaskCounts(*pulse.counts), "totals": EventTotals(*pulse.totals)}
