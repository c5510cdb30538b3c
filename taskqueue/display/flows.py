"""Words for a flow and its tasks, and its shape: layers, and the critical path.

    layer 1    layer 2    layer 3          A task is one layer below the lowest of its parents, so tasks
      A ─┬──────► D ───────► G             of a layer never wait for each other.
      B ─┴──────► E ────────┘

The shape is computed in one pass over the tasks, parents first, in about 30 bytes per task besides its name.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.display.columns import ListColumn, time_column
from taskqueue.protocol.choices import FlowTaskState, OverState
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.texts.units import duration_text

OVER: Final[tuple[str, ...]] = get_args(OverState)
STATES: Final[tuple[str, ...]] = tuple(dict.fromkeys((*OVER, "processing", *get_args(FlowTaskState))))
"""States of a flow's tasks, in the order in which they are shown."""

PARENTS_SHOWN: Final = 6


def over(view: Flow) -> int:
    """Count the finished tasks of a flow."""
    return sum(getattr(view.counts, state) for state in OVER)


COLUMNS: Final[tuple[ListColumn[Flow], ...]] = (
    ListColumn("project", lambda view: view.project, words=True),
    ListColumn("flow", lambda view: view.flow, words=True),
    ListColumn("state", lambda view: view.state, words=True),
    time_column("began", lambda view: view.began_at),
    ListColumn("took", lambda view: duration_text(view.ended_at - view.began_at) if view.ended_at else ""),
    ListColumn("tasks", lambda view: f"{view.tasks:,}"),
    ListColumn("finished", lambda view: f"{over(view):,}"),
    ListColumn("failed", lambda view: f"{view.counts.failed:,}"),
)


def grouped(views: Iterable[Flow]) -> list[list[Flow]]:
    """Group the flows of each cron entry, in the order in which the views name them first."""
    groups: dict[tuple[str, str, str], list[Flow]] = {}
    for view in views:
        groups.setdefault((view.project, view.cron, "" if view.cron else view.flow), []).append(view)
    return list(groups.values())


def so_far(view: Flow, now: float) -> str:
    """Describe a flow's progress and age: ``7 of 9 tasks finished, 4 min 10 s``; ``now`` in unix seconds."""
    told = f"{over(view):,} of {view.tasks:,} tasks finished"
    if view.state == "staged":
        return f"{told}, not submitted yet"
    made = f", {view.unrolled:,} made so far" if view.state == "unrolling" else ""
    return f"{told}{made}, {duration_text((view.ended_at or now) - view.began_at)}"


def counted(states: Mapping[str, int]) -> list[tuple[str, int]]:
    """List states with their numbers of tasks, in order; those without tasks are left out."""
    return [(state, states[state]) for state in dict.fromkeys((*STATES, *states)) if states.get(state)]


def counted_text(states: Mapping[str, int]) -> str:
    """Format tasks by state: ``6 success, 1 failed``; empty if there are no tasks."""
    return ", ".join(f"{count:,} {state}" for state, count in counted(states))


def took(task: FlowTaskStatus) -> str:
    """Format how long a task ran; empty if it has not run."""
    return duration_text(task.seconds) if task.seconds else ""


def name_of(task: FlowTaskStatus) -> str:
    """Return the taskid, or the URL if the taskid was derived from it."""
    return task.url if task.taskid == default_taskid(task.url) else task.taskid


def cut(name: str, most: int) -> str:
    """Shorten a long name to its beginning and, rather more, its end, in which URLs differ."""
    return name if len(name) <= most else f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"


def waits_for(task: FlowTaskStatus, labels: Sequence[str]) -> str:
    """List the parents of a task: by label in the flow, by (project and) taskid outside of it."""
    named = [labels[each] if isinstance(each, int) else "/".join(each) for each in task.depends_on]
    more = len(named) - PARENTS_SHOWN
    return ", ".join(named[:PARENTS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


NO_TASK: Final = -1


class Stretch(NamedTuple):
    """Consecutive layers, numbered from 1, and their tasks by state."""

    first: int
    last: int
    states: Counter[str]

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return sum(self.states.values())


class FlowGraph:
    """Shape of a flow, built from its tasks one by one, parents first.

    Attributes:
        layers: tasks by state, per layer.
        layer_of: layer of each task, from 0.
    """

    def __init__(self) -> None:
        self.layers: list[Counter[str]] = []
        self.layer_of = array("L")
        self._seconds = array("d")
        self._until = array("d")
        self._via = array("q")

    def add(self, parents: Iterable[int], state: str, seconds: float = 0.0) -> None:
        """Add the next task, with the indices of its parents and how long it took."""
        layer, until, via = 0, 0.0, NO_TASK
        for parent in parents:
            layer = max(layer, self.layer_of[parent] + 1)
            if via == NO_TASK or self._until[parent] > until:
                until, via = self._until[parent], parent
        self.layer_of.append(layer)
        self._seconds.append(seconds)
        self._until.append(until + seconds)
        self._via.append(via)
        if layer == len(self.layers):
            self.layers.append(Counter())
        self.layers[layer][state] += 1

    @property
    def states(self) -> Counter[str]:
        """Tasks by state, in all layers."""
        return sum(self.layers, Counter())

    @property
    def critical_seconds(self) -> float:
        """Seconds of the critical path."""
        return max(self._until, default=0.0)

    def critical_path(self) -> list[int]:
        """Return the chain of dependent tasks that took longest, without tasks that did not run.

        No number of fetchers would have made the flow faster.
        """
        path: list[int] = []
        last = max(range(len(self._until)), key=self._until.__getitem__, default=NO_TASK)
        while last != NO_TASK:
            path.append(last)
            last = self._via[last]
        return [index for index in reversed(path) if self._seconds[index] > 0]

    def seconds(self, index: int) -> float:
        """Return how long a task took."""
        return self._seconds[index]

    def stretches(self, most: int) -> Sequence[Stretch]:
        """Join the layers into at most ``most`` stretches of about equal length."""
        each = max(1, -(-len(self.layers) // most))
        starts = range(0, len(self.layers), each)
        return [_stretch(start, self.layers[start : start + each]) for start in starts]


def _stretch(start: int, layers: Sequence[Counter[str]]) -> Stretch:
    return Stretch(start + 1, start + len(layers), sum(layers, Counter()))
