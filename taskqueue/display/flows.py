"""Words for a flow and its tasks, and its shape: its layers, and the chain of its tasks that took longest.

    layer 1    layer 2    layer 3          A task is one layer below the lowest of those that it waits for, so tasks
      A ─┬──────► D ───────► G             of a layer never wait for each other.
      B ─┴──────► E ────────┘

The shape is computed in one pass over the tasks, parents first, in some 30 bytes a task besides its name.
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
from taskqueue.units import duration_text

OVER: Final[tuple[str, ...]] = get_args(OverState)
STATES: Final[tuple[str, ...]] = tuple(dict.fromkeys((*OVER, "processing", *get_args(FlowTaskState))))
"""Of tasks, in the order in which they are told."""

PARENTS_SHOWN: Final = 6


def over(view: Flow) -> int:
    """How many of its tasks are over."""
    return sum(getattr(view.counts, state) for state in OVER)


COLUMNS: Final[tuple[ListColumn[Flow], ...]] = (
    ListColumn("project", lambda view: view.project, words=True),
    ListColumn("flow", lambda view: view.flow, words=True),
    ListColumn("state", lambda view: view.state, words=True),
    time_column("began", lambda view: view.began_at),
    ListColumn("took", lambda view: duration_text(view.ended_at - view.began_at) if view.ended_at else ""),
    ListColumn("tasks", lambda view: f"{view.tasks:,}"),
    ListColumn("over", lambda view: f"{over(view):,}"),
    ListColumn("failed", lambda view: f"{view.counts.failed:,}"),
)


def so_far(view: Flow, now: float) -> str:
    """Describe a flow's progress and age: ``7 of 9 tasks finished, 4 min 10 s``; ``now`` in unix seconds."""
    told = f"{over(view):,} of {view.tasks:,} tasks finished"
    if view.state == "staged":
        return f"{told}, not submitted yet"
    made = f", {view.unrolled:,} made so far" if view.state == "unrolling" else ""
    return f"{told}{made}, {duration_text((view.ended_at or now) - view.began_at)}"


def counted(states: Mapping[str, int]) -> list[tuple[str, int]]:
    """States with their tasks, in order; those without tasks are left out."""
    return [(state, states[state]) for state in dict.fromkeys((*STATES, *states)) if states.get(state)]


def counted_text(states: Mapping[str, int]) -> str:
    """``6 success, 1 failed``; empty: there are no tasks."""
    return ", ".join(f"{count:,} {state}" for state, count in counted(states))


def took(task: FlowTaskStatus) -> str:
    """How long a task ran; empty: it has not run."""
    return duration_text(task.seconds) if task.seconds else ""


def name_of(task: FlowTaskStatus) -> str:
    """Its taskid, or its url if it has the taskid that is made of that."""
    return task.url if task.taskid == default_taskid(task.url) else task.taskid


def cut(name: str, most: int) -> str:
    """The name; of a long one its beginning and, rather more, its end, in which urls differ."""
    return name if len(name) <= most else f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"


def waits_for(task: FlowTaskStatus, labels: Sequence[str]) -> str:
    """What it waits for: others of the flow by their labels, what is outside by (project and) taskid."""
    named = [labels[each] if isinstance(each, int) else "/".join(each) for each in task.depends_on]
    more = len(named) - PARENTS_SHOWN
    return ", ".join(named[:PARENTS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


NOBODY: Final = -1


class Stretch(NamedTuple):
    """Layers that follow each other, from the first to the last of them, 1 is the first of all; tasks by state."""

    first: int
    last: int
    states: Counter[str]

    @property
    def tasks(self) -> int:
        """How many they have."""
        return sum(self.states.values())


class FlowGraph:
    """Takes the tasks of a flow one by one, each after those that it waits for.

    Attributes:
        layers: tasks by state, from the first layer on.
        layer_of: of each task, from 0.
    """

    def __init__(self) -> None:
        self.layers: list[Counter[str]] = []
        self.layer_of = array("L")
        self._seconds = array("d")
        self._until = array("d")
        self._via = array("q")

    def add(self, parents: Iterable[int], state: str, seconds: float = 0.0) -> None:
        """Take the next task: indices of those that it waits for, and how long it took."""
        layer, until, via = 0, 0.0, NOBODY
        for parent in parents:
            layer = max(layer, self.layer_of[parent] + 1)
            if via == NOBODY or self._until[parent] > until:
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
        """Tasks by state, of all layers."""
        return sum(self.layers, Counter())

    @property
    def critical_seconds(self) -> float:
        """How long the critical path took."""
        return max(self._until, default=0.0)

    def critical_path(self) -> list[int]:
        """The chain of tasks, each of which waited for the one before, that took longest together; of those that ran.

        Nothing else of the flow could have ended it earlier: with any number of fetchers it takes that long.
        """
        path: list[int] = []
        last = max(range(len(self._until)), key=self._until.__getitem__, default=NOBODY)
        while last != NOBODY:
            path.append(last)
            last = self._via[last]
        return [index for index in reversed(path) if self._seconds[index] > 0]

    def seconds(self, index: int) -> float:
        """How long a task took."""
        return self._seconds[index]

    def stretches(self, most: int) -> Sequence[Stretch]:
        """The layers, joined to at most ``most`` stretches of about the same number of them."""
        each = max(1, -(-len(self.layers) // most))
        starts = range(0, len(self.layers), each)
        return [_stretch(start, self.layers[start : start + each]) for start in starts]


def _stretch(start: int, layers: Sequence[Counter[str]]) -> Stretch:
    return Stretch(start + 1, start + len(layers), sum(layers, Counter()))
