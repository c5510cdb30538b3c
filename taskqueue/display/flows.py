"""What is told of a flow and of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, get_args

from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.protocol.choices import FlowTaskState, OverState
from taskqueue.protocol.flows import FlowTaskView, FlowView
from taskqueue.units import duration_text

HEADS: Final = ("project", "flow", "state", "began", "took", "tasks", "over", "failed")
"""Of a list of flows."""

OVER: Final[tuple[str, ...]] = get_args(OverState)
STATES: Final[tuple[str, ...]] = tuple(dict.fromkeys((*OVER, "processing", *get_args(FlowTaskState))))
"""Of tasks, in the order in which they are told."""

PARENTS_SHOWN: Final = 6


def over(view: FlowView) -> int:
    """How many of its tasks are over."""
    return sum(getattr(view.counts, state) for state in OVER)


def took(view: FlowView) -> str:
    """How long it took; empty: it has not ended."""
    return duration_text(view.ended_at - view.began_at) if view.ended_at else ""


def so_far(view: FlowView, now: float) -> str:
    """How far it is, and since when: ``7 of 9 tasks over, 4 min 10 s``; ``now`` in unix seconds."""
    told = f"{over(view):,} of {view.tasks:,} tasks over"
    if view.state == "staged":
        return f"{told}, not submitted yet"
    made = f", {view.unrolled:,} made so far" if view.state == "unrolling" else ""
    return f"{told}{made}, {duration_text((view.ended_at or now) - view.began_at)}"


def counted(states: Mapping[str, int]) -> list[tuple[str, int]]:
    """States with their tasks, in order; those without tasks are left out."""
    return [(state, states[state]) for state in dict.fromkeys((*STATES, *states)) if states.get(state)]


def name_of(task: FlowTaskView) -> str:
    """Its taskid, or its url if it has the taskid that is made of that."""
    return task.url if task.taskid == default_taskid(task.url) else task.taskid


def cut(name: str, most: int) -> str:
    """The name; of a long one its beginning and, rather more, its end, in which urls differ."""
    return name if len(name) <= most else f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"


def waits_for(task: FlowTaskView, labels: Sequence[str]) -> str:
    """What it waits for: others of the flow by their labels, what is outside by (project and) taskid."""
    named = [labels[each] if isinstance(each, int) else "/".join(each) for each in task.depends_on]
    more = len(named) - PARENTS_SHOWN
    return ", ".join(named[:PARENTS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
