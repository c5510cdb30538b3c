"""What is told of a project that has changed: in a line, and by the names of its fields."""

from __future__ import annotations

from typing import Final

from taskqueue.display.counts import brief
from taskqueue.display.projects import pace_text
from taskqueue.protocol.views import Counts, Totals
from taskqueue.protocol.watch_views import ProjectPulse

STATES: Final = ("ready", "delayed", "blocked", "processing", "success", "failed", "cancelled")
"""In the order in which they are told; those of ``top`` are told also when there are none."""

ALWAYS: Final = ("ready", "delayed", "processing")


def pulse_line(pulse: ProjectPulse) -> str:
    """``news  running  2 ready, 0 delayed, 1 processing, 40 success  5/s``; with the reason of a pause."""
    counts = Counts(*pulse.counts)
    told = [(state, getattr(counts, state)) for state in STATES]
    tasks = ", ".join(f"{brief(count)} {state}" for state, count in told if count or state in ALWAYS)
    pace = f"{pace_text(pulse.rate)}/s" if not pulse.bucket else pulse.bucket
    return "  ".join(part for part in (pulse.name, pulse.state, tasks, pace, pulse.reason) if part)


def pulse_fields(pulse: ProjectPulse) -> dict[str, object]:
    """Its fields by name, counts and totals as in any other view of a project."""
    fields: dict[str, object] = {name: getattr(pulse, name) for name in ProjectPulse.__struct_fields__}
    return fields | {"counts": Counts(*pulse.counts), "totals": Totals(*pulse.totals)}
