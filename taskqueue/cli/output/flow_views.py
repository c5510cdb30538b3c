"""Flows for people: a list of them, and one as its graph in layers, with its progress and its critical path.

    ██████████▒▒▒▒▒░░░░░░░░░░░░░░░  33 %     over, processing, still to come
    1 success, 1 processing, 1 blocked
    layer task state       took waits for
    1     A    success    1.2 s
          B    processing
    2     D    blocked          A, B

Everything fits into 80 columns and is told without colours, too. Of a large flow there is a row a layer, or for several
of them, instead of one a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, get_args

from rich.table import Table

from taskqueue.cli.input.times import ago
from taskqueue.cli.output.flow_graph import FlowGraph
from taskqueue.cli.output.tables import STYLES, bare_table
from taskqueue.client.tasks.identity import default_taskid
from taskqueue.protocol.choices import FlowTaskState, OverState
from taskqueue.protocol.views import FlowTaskView, FlowView
from taskqueue.terminal.screen import Screen, Text
from taskqueue.units import duration_text

TASKS_SHOWN: Final = 50
"""Of a flow with more tasks there is a row a layer."""

STRETCHES_SHOWN: Final = 30
PATH_SHOWN: Final = 12
PARENTS_SHOWN: Final = 6
NO_LAYER: Final = -1
SHORT_NAME: Final = 16
"""Characters; where a name is longer, parents are told by their numbers."""

ROW_NAME, PATH_NAME = 30, 60
"""Characters of a name in a row of the graph, and of the critical path; longer ones are cut in the middle."""

BAR_CELLS: Final = 40
LAYER_BAR_CELLS: Final = 16
OVER_CELL, RUNNING_CELL, REST_CELL = "█", "▒", "░"

OVER: Final[tuple[str, ...]] = get_args(OverState)
STATES: Final = (*OVER, "processing", *(state for state in get_args(FlowTaskState) if state not in OVER))
"""In the order in which they are told."""

STATE_STYLES: Final[Mapping[str, str]] = STYLES | {
    "processing": "cyan", "cancelled": "yellow", "blocked": "dim", "delayed": "dim", "staged": "dim", "unknown": "dim",
    "unrolling": "cyan",
}  # fmt: skip


class FlowPicture(NamedTuple):
    """A flow as it is shown.

    Attributes:
        names: of all tasks.
        tasks: all of them, or none if there are too many to show each.
    """

    view: FlowView
    graph: FlowGraph
    names: list[str]
    tasks: list[FlowTaskView]


def picture(view: FlowView, tasks: Iterable[FlowTaskView], most: int = TASKS_SHOWN) -> FlowPicture:
    """A flow with its tasks, parents first; each of these is shown if there are at most ``most``."""
    graph, names, kept = FlowGraph(), list[str](), list[FlowTaskView]()
    for task in tasks:
        graph.add((parent for parent in task.depends_on if isinstance(parent, int)), task.state, task.seconds)
        names.append(name_of(task))
        if view.tasks <= most:
            kept.append(task)
    return FlowPicture(view, graph, names, kept)


def name_of(task: FlowTaskView) -> str:
    """Its taskid, or its url if it has the taskid that is made of that."""
    return task.url if task.taskid == default_taskid(task.url) else task.taskid


# ------------------------------------------------------------------------------------------------ lists


def of_flows(views: Iterable[FlowView]) -> Table:
    """A row a flow: how far it is. Fits into 80 columns."""
    table = bare_table(["project", "flow", "state", "began"], ["took", "tasks", "over", "failed"])
    for view in views:
        words = (Text(view.project), Text(view.flow, "bold"), _state(view.state), Text(ago(view.began_at)))
        took = duration_text(view.ended_at - view.began_at) if view.ended_at else ""
        failed = Text(f"{view.counts.failed:,}", "red" if view.counts.failed else "dim")
        table.add_row(*words, Text(took), Text(f"{view.tasks:,}"), Text(f"{over(view):,}"), failed)
    return table


def over(view: FlowView) -> int:
    """How many of its tasks are over."""
    return sum(getattr(view.counts, state) for state in OVER)


def _state(state: str) -> Text:
    return Text(state, STATE_STYLES.get(state, ""))


# ------------------------------------------------------------------------------------------------ one flow


def draw(shown: FlowPicture, now: float) -> None:
    """Print the flow; ``now`` in unix seconds."""
    screen = Screen()
    for part in drawn(shown, now):
        screen.print(part)


def drawn(shown: FlowPicture, now: float) -> Iterator[Table | Text]:
    """The flow, part by part, from top to bottom; ``now`` in unix seconds."""
    yield _headline(shown.view, now)
    yield progress(shown.graph.states, BAR_CELLS).append(f"  {over(shown.view) / max(shown.view.tasks, 1):.0%}")
    yield counts_text(shown.graph.states)
    yield Text()
    yield _rows(shown) if shown.tasks else _layers(shown.graph)
    if path := shown.graph.critical_path():
        yield Text()
        yield _path(shown, path)


def _headline(view: FlowView, now: float) -> Text:
    line = Text(f"{view.project}/{view.flow}", "bold").append("  ").append(_state(view.state))
    line.append(f"  {over(view):,} of {view.tasks:,} tasks over")
    if view.state == "staged":
        return line.append(", not submitted yet")
    if view.state == "unrolling":
        line.append(f", {view.unrolled:,} made so far")
    return line.append(f", {duration_text((view.ended_at or now) - view.began_at)}")


def progress(states: Mapping[str, int], cells: int) -> Text:
    """A bar: what is over, in the colours of how, then what is processing, then the rest."""
    tasks = sum(states.values())
    bar, drawn_cells, counted = Text(), 0, 0
    for state in (*OVER, "processing"):
        counted += states.get(state, 0)
        until = counted * cells // max(tasks, 1)
        cell = RUNNING_CELL if state == "processing" else OVER_CELL
        bar.append(cell * (until - drawn_cells), STATE_STYLES[state])
        drawn_cells = until
    return bar.append(REST_CELL * (cells - drawn_cells), "dim")


def counts_text(states: Mapping[str, int]) -> Text:
    """``6 success, 1 failed``, with what is over first."""
    told = Text()
    for state in dict.fromkeys((*STATES, *states)):
        if states.get(state):
            told.append(", " if told.plain else "").append(f"{states[state]:,} {state}", STATE_STYLES.get(state, ""))
    return told


def _rows(shown: FlowPicture) -> Table:
    """A row a task, by layers; where names are long, parents are told by their numbers."""
    layer_of, tasks = shown.graph.layer_of, shown.tasks
    numbered = max(map(len, shown.names)) > SHORT_NAME and any(task.depends_on for task in tasks)
    labels = [f"{task.index}" for task in tasks] if numbered else shown.names
    table = bare_table(["layer", *(["#"] if numbered else []), "task", "state"], ["took"], ["waits for"])
    above = NO_LAYER
    for task in sorted(tasks, key=lambda task: (layer_of[task.index], task.index)):
        layer = layer_of[task.index]
        places = ["" if layer == above else f"{layer + 1}", *([f"{task.index}"] if numbered else [])]
        took = duration_text(task.seconds) if task.seconds else ""
        table.add_row(
            *(Text(place, "dim") for place in places),
            Text(_cut(shown.names[task.index], ROW_NAME)),
            _state(task.state),
            Text(took),
            Text(_parents(task, labels), "dim"),
        )
        above = layer
    return table


def _parents(task: FlowTaskView, labels: Sequence[str]) -> str:
    """What it waits for: others of the flow by their labels, what is outside by (project and) taskid."""
    named = [labels[each] if isinstance(each, int) else "/".join(each) for each in task.depends_on]
    more = len(named) - PARENTS_SHOWN
    return ", ".join(named[:PARENTS_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _layers(graph: FlowGraph) -> Table:
    """A row a layer, or for several that follow each other."""
    table = bare_table(["layer"], ["tasks"], [""])
    table.add_column("states", overflow="fold")
    for stretch in graph.stretches(STRETCHES_SHOWN):
        numbers = f"{stretch.first:,}" if stretch.first == stretch.last else f"{stretch.first:,}-{stretch.last:,}"
        bar = progress(stretch.states, LAYER_BAR_CELLS)
        table.add_row(Text(numbers), Text(f"{stretch.tasks:,}"), bar, counts_text(stretch.states))
    return table


def _path(shown: FlowPicture, path: Sequence[int]) -> Table:
    """The critical path with its seconds; of a long one its first and last tasks."""
    so_far = "" if shown.view.ended_at else " so far"
    table = bare_table([f"critical path{so_far}"], [duration_text(shown.graph.critical_seconds)])
    half = PATH_SHOWN // 2
    first, last = (path, []) if len(path) <= PATH_SHOWN else (path[:half], path[-half:])
    for index in first:
        table.add_row(*_step(shown, index))
    if last:
        table.add_row(Text(f"… {len(path) - len(first) - len(last):,} more", "dim"), Text())
    for index in last:
        table.add_row(*_step(shown, index))
    return table


def _step(shown: FlowPicture, index: int) -> tuple[Text, Text]:
    return Text(_cut(shown.names[index], PATH_NAME)), Text(duration_text(shown.graph.seconds(index)))


def _cut(name: str, most: int) -> str:
    """The name; of a long one its beginning and, rather more, its end, in which urls differ."""
    return name if len(name) <= most else f"{name[: most // 3]}…{name[most // 3 + 1 - most :]}"
