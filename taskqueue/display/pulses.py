"""What is told of a project that has changed: in a line, and by the names of its fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from taskqueue.display.counts import STATES, brief
from taskqueue.display.projects import pace_text
from taskqueue.protocol.insight import ProjectPulse
from taskqueue.protocol.values import Counts, Totals

ALWAYS: Final = ("ready", "delayed", "processing")
"""States that are told also when no task is in them."""


def pulse_line(pulse: ProjectPulse) -> str:
    """``news  running  2 ready, 0 delayed, 1 processing, 40 success  5/s``; with the reason or the end of a pause."""
    counts = Counts(*pulse.counts)
    told = [(state, getattr(counts, state)) for state in STATES]
    tasks = ", ".join(f"{brief(count)} {state}" for state, count in told if count or state in ALWAYS)
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
    return fields | {"counts": Counts(*pulse.counts), "totals": Totals(*pulse.totals)}
