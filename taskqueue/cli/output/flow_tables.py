"""Tables of flows, and the drawing of a flow in layers, with its progress and its critical path.

    ██████████▒▒▒▒▒░░░░░░░░░░░░░░░  33 %     finished, processing, still to come
    1 success, 1 processing, 1 blocked
    layer task state       took waits for
    1     A    success    1.2 s
          B    processing
    2     D    blocked          A, B

Everything fits into 80 columns and is readable without colours. A large flow has a row per layer, or per several
layers, instead of one per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace
from rich.table import Table

from taskqueue.cli.input.times import ago
from taskqueue.cli.output.tables import STYLES, bare_table, of_columns
from taskqueue.display.flows import (
    COLUMNS,
    OVER,
    FlowGraph,
    counted,
    cut,
    grouped,
    name_of,
    over,
    so_far,
    took,
    waits_for,
)
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.terminal.screen import Screen, Text
from taskqueue.texts.units import duration_text

TASKS_SHOWN: Final = 50
"""Most tasks of a flow that is drawn with a row per task; a larger one has a row per layer."""

STRETCHES_SHOWN: Final = 30
PATH_SHOWN: Final = 12
NO_LAYER: Final = -1
SHORT_NAME: Final = 16
"""Characters of the longest name by which parents are named; with longer ones they are numbered."""

ROW_NAME, PATH_NAME = 30, 60
"""Characters of a name in a row of the graph, and of the critical path; longer names are cut in the middle."""

BAR_CELLS: Final = 40
LAYER_BAR_CELLS: Final = 16
OVER_CELL, RUNNING_CELL, REST_CELL = "█", "▒", "░"

STATE_STYLES: Final[Mapping[str, str]] = STYLES | {
    "processing": "cyan", "cancelled": "yellow", "blocked": "dim", "delayed": "dim", "staged": "dim", "unknown": "dim",
    "unrolling": "cyan",
}  # fmt: skip


class FlowPicture(NamedTuple):
    """Flow to be drawn.

    Attributes:
        names: names of all tasks.
        tasks: all tasks, or none if there are too many to draw each.
    """

    view: Flow
    graph: FlowGraph
    names: list[str]
    tasks: list[FlowTaskStatus]


def picture(view: Flow, tasks: Iterable[FlowTaskStatus], most: int = TASKS_SHOWN) -> FlowPicture:
    """Combine a flow and its tasks, parents first; tasks are drawn one by one if there are at most ``most``."""
    graph, names, kept = FlowGraph(), list[str](), list[FlowTaskStatus]()
    for task in tasks:
        graph.add((parent for parent in task.depends_on if isinstance(parent, int)), task.state, task.seconds)
        names.append(name_of(task))
        if view.tasks <= most:
            kept.append(task)
    return FlowPicture(view, graph, names, kept)


# ------------------------------------------------------------------------------------------------ lists


LIST_STYLES: Final[Mapping[str, Callable[[Flow], str]]] = {
    "flow": lambda view: "bold",
    "state": lambda view: STATE_STYLES.get(view.state, ""),
    "failed": lambda view: "red" if view.counts.failed else "dim",
}


def of_flows(views: Iterable[Flow]) -> Table:
    """Make a table with a row per flow and its progress; 80 columns."""
    return of_columns(COLUMNS, views, when=ago, styles=LIST_STYLES)


def of_groups(views: Iterable[Flow]) -> Table:
    """Make a table with a row per flow, and one for all flows of a cron entry: the first, and how many more."""
    return of_flows(_with_others(group) for group in grouped(views))


def _with_others(group: Sequence[Flow]) -> Flow:
    """Return the first flow of a group, with the number of others in its name."""
    first, others = group[0], group[1:]
    if not others:
        return first
    failed = sum(view.state == "failed" for view in others)
    told = f"+{len(others)}, {failed} failed" if failed else f"+{len(others)}"
    return replace(first, flow=f"{first.flow} ({told})")


def _state(state: str) -> Text:
    return Text(state, STATE_STYLES.get(state, ""))


# ------------------------------------------------------------------------------------------------ one flow


def draw(shown: FlowPicture, now: float) -> None:
    """Print a flow; ``now`` in unix seconds."""
    screen = Screen()
    for part in drawn(shown, now):
        screen.print(part)


def drawn(shown: FlowPicture, now: float) -> Iterator[Table | Text]:
    """Draw a flow part by part, from top to bottom; ``now`` in unix seconds."""
    yield _headline(shown.view, now)
    yield progress(shown.graph.states, BAR_CELLS).append(f"  {over(shown.view) / max(shown.view.tasks, 1):.0%}")
    yield counts_text(shown.graph.states)
    yield Text()
    yield _rows(shown) if shown.tasks else _layers(shown.graph)
    if path := shown.graph.critical_path():
        yield Text()
        yield _path(shown, path)


def _headline(view: Flow, now: float) -> Text:
    line = Text(f"{view.project}/{view.flow}", "bold").append("  ").append(_state(view.state))
    return line.append(f"  {so_far(view, now)}")


def progress(states: Mapping[str, int], cells: int) -> Text:
    """Draw a bar: finished tasks in the colours of their outcomes, processing ones, the rest."""
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
    """Describe counts, finished ones first: ``6 success, 1 failed``."""
    told = Text()
    for state, count in counted(states):
        told.append(", " if told.plain else "").append(f"{count:,} {state}", STATE_STYLES.get(state, ""))
    return told


def _rows(shown: FlowPicture) -> Table:
    """Make a table with a row per task, by layers; parents are numbered if names are long."""
    layer_of, tasks = shown.graph.layer_of, shown.tasks
    numbered = max(map(len, shown.names)) > SHORT_NAME and any(task.depends_on for task in tasks)
    labels = [f"{task.index}" for task in tasks] if numbered else shown.names
    table = bare_table(["layer", *(["#"] if numbered else []), "task", "state"], ["took"], ["waits for"])
    above = NO_LAYER
    for task in sorted(tasks, key=lambda task: (layer_of[task.index], task.index)):
        layer = layer_of[task.index]
        places = ["" if layer == above else f"{layer + 1}", *([f"{task.index}"] if numbered else [])]
        table.add_row(
            *(Text(place, "dim") for place in places),
            Text(cut(shown.names[task.index], ROW_NAME)),
            _state(task.state),
            Text(took(task)),
            Text(waits_for(task, labels), "dim"),
        )
        above = layer
    return table


def _layers(graph: FlowGraph) -> Table:
    """Make a table with a row per layer, or per several layers."""
    table = bare_table(["layer"], ["tasks"], [""])
    table.add_column("states", overflow="fold")
    for stretch in graph.stretches(STRETCHES_SHOWN):
        numbers = f"{stretch.first:,}" if stretch.first == stretch.last else f"{stretch.first:,}-{stretch.last:,}"
        bar = progress(stretch.states, LAYER_BAR_CELLS)
        table.add_row(Text(numbers), Text(f"{stretch.tasks:,}"), bar, counts_text(stretch.states))
    return table


def _path(shown: FlowPicture, path: Sequence[int]) -> Table:
    """Make a table of the critical path with its seconds; only the first and last tasks of a long one."""
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
    return Text(cut(shown.names[index], PATH_NAME)), Text(duration_text(shown.graph.seconds(index)))
