"""Drawing of a flow: a shape per task or, for a large flow, per layer and state.

named     up to NAMED_MOST tasks: boxes with their names and states
small     up to the tasks that are kept one by one: squares with the sign of their state
groups    more tasks: boxes with count and state; layers are joined, for at most SHAPES_MOST shapes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from taskqueue.display.flows import STATES, FlowGraph, cut, name_of
from taskqueue.protocol.flows import FlowTaskStatus
from taskqueue.texts.units import duration_text
from taskqueue.web.drawing.layered_graph import ROUND, Edge, Picture, Sizes, draw, outlines, path_data, straight

Kind = Literal["named", "small", "groups"]

NAMED_MOST: Final = 60
SHAPES_MOST: Final = 500
WAYS_MOST: Final = 1500
"""Edges drawn between groups, at most; those that stand for the most edges are kept."""

NAME_CHARS: Final = 14

SIZES: Final[Mapping[Kind, Sizes]] = {
    "named": Sizes(width=144, height=46, gap=14, drop=44, across=12),
    "small": Sizes(width=24, height=24, gap=12, drop=56, across=34),
    "groups": Sizes(width=150, height=32, gap=16, drop=44, across=12),
}


class Shape(NamedTuple):
    """Shape of a task, or of several.

    Attributes:
        key: unique in the drawing.
        x, y: upper left corner.
        name: short name; ``said``: text below it.
        title: tooltip with all details.
        taskid: empty if it stands for several tasks.
    """

    key: str
    x: float
    y: float
    state: str
    name: str
    said: str
    title: str
    taskid: str = ""


class Band(NamedTuple):
    """Layer, or several, and its name."""

    name: str
    y: float
    height: float


class FlowDrawing(NamedTuple):
    """Drawing of a flow.

    Attributes:
        edges, critical: SVG paths (``d``) of all edges, and of the critical path with outlines of its shapes.
    """

    kind: Kind
    sizes: Sizes
    width: int
    height: int
    shapes: list[Shape]
    bands: list[Band]
    edges: str
    critical: str
    round: int = ROUND


def brief(name: str) -> str:
    """Shorten a name; of a URL the path is kept, in which the URLs of a flow differ most."""
    host, _, path = name.partition("://")[2].partition("/")
    return cut(f"/{path.partition('?')[0]}" if path else host or name, NAME_CHARS)


def state_text(task: FlowTaskStatus) -> str:
    """Describe a task's state: ``success · 1.2 s``, ``blocked · waits for 2``."""
    if task.state == "blocked":
        return f"blocked · waits for {task.missing:,}"
    return f"{task.state} · {duration_text(task.seconds)}" if task.seconds else task.state


def title(task: FlowTaskStatus) -> str:
    """Return a task's full name and state."""
    return f"{name_of(task)}\n{state_text(task)}"


def of_tasks(
    tasks: Sequence[FlowTaskStatus], graph: FlowGraph, edges: Iterable[Edge], path: Sequence[int]
) -> FlowDrawing:
    """Draw a shape per task; ``path``: indices of tasks on the critical path."""
    kind: Kind = "named" if len(tasks) <= NAMED_MOST else "small"
    sizes = SIZES[kind]
    picture = _placed(tuple(graph.layer_of), tuple(edges), sizes)
    shapes = [
        Shape(f"{task.index}", *picture.corners[task.index], task.state, brief(name_of(task)), state_text(task),
              title(task), task.taskid)
        for task in tasks
    ]  # fmt: skip
    names = [f"layer {number}" for number in range(1, len(graph.layers) + 1)]
    return _drawing(kind, picture, shapes, names, critical_data(picture, path, sizes))


def critical_of_tasks(graph: FlowGraph, edges: Iterable[Edge], path: Sequence[int]) -> str:
    """Return the critical path of the drawing that ``of_tasks`` makes of this graph."""
    sizes = SIZES["named" if len(graph.layer_of) <= NAMED_MOST else "small"]
    return critical_data(_placed(tuple(graph.layer_of), tuple(edges), sizes), path, sizes)


@lru_cache(maxsize=32)
def _placed(layer_of: tuple[int, ...], edges: tuple[Edge, ...], sizes: Sizes) -> Picture:
    """Place all shapes; cached, because states don't matter here."""
    return draw(layer_of, edges, sizes)


Group = tuple[int, str]
"""Stretch of layers, and state."""


def of_groups(
    graph: FlowGraph, links: Mapping[tuple[int, int, int, int], int], path: Iterable[tuple[int, int]]
) -> FlowDrawing:
    """Draw a shape per layer, or stretch of layers, and state.

    Args:
        links: number of edges by layer and state (its index in STATES) of both ends; groups are joined by those to the
            next stretch. None: each stretch is joined to the next.
        path: layer and state of each task on the critical path.
    """
    stretches = graph.stretches(SHAPES_MOST // len(STATES))
    each = stretches[0].last if stretches else 1
    groups = [
        (number, state) for number, stretch in enumerate(stretches) for state in STATES if stretch.states.get(state)
    ]
    place = {group: number for number, group in enumerate(groups)}
    edges = _group_edges(links, each, place) if links else _neighbours(groups)
    sizes = SIZES["groups"]
    picture = draw([stretch for stretch, _ in groups], edges, sizes, in_order=True)
    shapes = []
    for number, (stretch, state) in enumerate(groups):
        count = stretches[stretch].states[state]
        said = f"{count:,} {state}"
        shapes.append(Shape(f"{stretch}-{state}", *picture.corners[number], state, said, "", said))
    names = [
        f"layer {each.first:,}" if each.first == each.last else f"{each.first:,}–{each.last:,}" for each in stretches
    ]
    passed = [place[layer // each, STATES[state]] for layer, state in path]
    return _drawing("groups", picture, shapes, names, critical_data(picture, list(dict.fromkeys(passed)), sizes))


def _group_edges(links: Mapping[tuple[int, int, int, int], int], each: int, place: Mapping[Group, int]) -> list[Edge]:
    counted: Counter[Edge] = Counter()
    for (layer, state, to_layer, to_state), count in links.items():
        if to_layer // each - layer // each == 1:
            source, target = place[layer // each, STATES[state]], place[to_layer // each, STATES[to_state]]
            counted[source, target] += count
    return [edge for edge, _ in counted.most_common(WAYS_MOST)]


def _neighbours(groups: Sequence[Group]) -> list[Edge]:
    """Return an edge from the first group of each stretch to the first of the next."""
    first: dict[int, int] = {}
    for number, (stretch, _) in enumerate(groups):
        first.setdefault(stretch, number)
    return list(pairwise(first.values()))


def critical_data(picture: Picture, path: Sequence[int], sizes: Sizes) -> str:
    """Return the SVG path along the nodes of a path, with their outlines."""
    ways = [picture.ways.get(edge) or straight(picture, edge, sizes) for edge in pairwise(path)]
    return path_data(ways) + outlines((picture.corners[node] for node in path), sizes)


def _drawing(kind: Kind, picture: Picture, shapes: list[Shape], names: list[str], critical: str) -> FlowDrawing:
    bands = [Band(name, *band) for name, band in zip(names, picture.bands, strict=True)]
    edges = path_data(picture.ways.values())
    return FlowDrawing(
        kind, SIZES[kind], round(picture.width), round(picture.height), shapes, bands, edges, critical
    )  # fmt: skip
