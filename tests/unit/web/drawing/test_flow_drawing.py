"""Drawings of flows."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from taskqueue.display.flows import STATES, FlowGraph
from taskqueue.protocol.flows import FlowTaskStatus
from taskqueue.web.drawing.flow_drawing import (
    NAMED_MOST,
    SHAPES_MOST,
    FlowDrawing,
    brief,
    critical_of_tasks,
    of_groups,
    of_tasks,
    state_text,
    title,
)  # fmt: skip


def task(index: int, *parents: int, state: str = "success", seconds: float = 0.0) -> FlowTaskStatus:
    return FlowTaskStatus(index, f"t{index}", f"http://site/{index}", state, list(parents), 0, seconds)  # type: ignore[arg-type]


def drawn(tasks: list[FlowTaskStatus]) -> FlowDrawing:
    graph, edges = FlowGraph(), []
    for each in tasks:
        parents = [parent for parent in each.depends_on if isinstance(parent, int)]
        graph.add(parents, each.state, each.seconds)
        edges += [(parent, each.index) for parent in parents]
    drawing = of_tasks(tasks, graph, edges, graph.critical_path())
    assert drawing.critical == critical_of_tasks(graph, edges, graph.critical_path())
    return drawing


def test_each_task_of_a_small_flow_is_a_box_with_its_name_and_state() -> None:
    drawing = drawn([task(0, seconds=1.2), task(1, 0, state="processing"), task(2, 0, state="blocked")])

    assert drawing.kind == "named"
    assert [(shape.key, shape.taskid, shape.state, shape.name, shape.said) for shape in drawing.shapes] == [
        ("0", "t0", "success", "t0", "success · 1.2 s"),
        ("1", "t1", "processing", "t1", "processing"),
        ("2", "t2", "blocked", "t2", "blocked · waits for 0"),
    ]
    assert [band.name for band in drawing.bands] == ["layer 1", "layer 2"]
    assert drawing.shapes[0].title == "t0\nsuccess · 1.2 s"


def test_the_critical_path_goes_from_shape_to_shape() -> None:
    drawing = drawn([task(0, seconds=1), task(1, seconds=5), task(2, 0, 1, seconds=2), task(3, 2, state="ready")])

    assert drawing.edges.count("M") == 3
    assert len(re.findall(r"M[^z]*?(?=M|$)", drawing.critical.partition("a")[0])) == 2
    assert drawing.critical.count("z") == 2


def test_tasks_of_a_larger_flow_are_told_by_signs_and_hover() -> None:
    drawing = drawn([task(index, *([index - 1] if index % 9 else [])) for index in range(NAMED_MOST + 1)])

    assert drawing.kind == "small"
    assert len({(shape.x, shape.y) for shape in drawing.shapes}) == NAMED_MOST + 1


def test_names_are_cut_so_that_tasks_stay_apart() -> None:
    assert brief("https://shop.example/films/page-1?sort=price&currency=EUR") == "/films/page-1"
    assert brief("https://shop.example/") == brief("https://shop.example") == "shop.example"
    assert brief("prices-low") == "prices-low"
    assert len(brief("x" * 99)) == 14
    assert state_text(task(1, state="unknown")) == "unknown"
    assert title(FlowTaskStatus(0, "<b>", "data:,x", "ready")) == "<b>\nready"


# ------------------------------------------------------------------------------------------------ large ones


def grouped(parents_of: list[list[int]], state_of: list[int]) -> FlowDrawing:
    graph, links = FlowGraph(), Counter[tuple[int, int, int, int]]()
    for index, parents in enumerate(parents_of):
        graph.add(parents, STATES[state_of[index]], 1.0)
        for each in parents:
            links[graph.layer_of[each], state_of[each], graph.layer_of[index], state_of[index]] += 1
    path = [(graph.layer_of[index], state_of[index]) for index in graph.critical_path()]
    return of_groups(graph, links, path)


def test_ten_thousand_tasks_are_drawn_by_layer_and_state() -> None:
    parents = [[] if index < 100 else [index - 100, index - 100 + index % 7 - 3] for index in range(10_000)]
    parents = [[each for each in own if 0 <= each < index - 60] for index, own in enumerate(parents)]

    drawing = grouped(parents, [index % len(STATES) for index in range(10_000)])

    assert len(drawing.shapes) <= SHAPES_MOST
    assert sum(int(shape.name.split()[0].replace(",", "")) for shape in drawing.shapes) == 10_000
    assert len({shape.key for shape in drawing.shapes}) == len(drawing.shapes)


def test_a_chain_of_ten_thousand_layers_is_joined() -> None:
    drawing = grouped([[index - 1] if index else [] for index in range(10_000)], [0] * 10_000)

    assert drawing.kind == "groups"
    assert len(drawing.shapes) == len(drawing.bands) <= SHAPES_MOST // len(STATES)
    assert drawing.bands[0].name == "1–182"
    assert drawing.edges.count("M") == len(drawing.shapes) - 1
    assert drawing.critical.count("z") == len(drawing.shapes)


def test_without_counted_edges_neighbouring_layers_are_joined() -> None:
    graph = FlowGraph()
    for index in range(6):
        graph.add([index - 1] if index else [], "ready")

    assert of_groups(graph, {}, []).edges.count("M") == 5


def test_only_the_critical_path_passes_layers_of_groups() -> None:
    graph = FlowGraph()
    for parents in ([], [0], [1, 0]):
        graph.add(parents, "success", 1.0)

    drawing = of_groups(graph, {(0, 0, 1, 0): 1, (1, 0, 2, 0): 1, (0, 0, 2, 0): 1}, [(0, 0), (2, 0)])

    assert drawing.edges.count("M") == 2
    ways, outlines = drawing.critical.count("M") - 2, drawing.critical.count("z")
    assert (ways, outlines) == (1, 2)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sets(st.integers(0, 200), max_size=3), st.integers(0, len(STATES) - 1)), max_size=80))
def test_each_group_is_drawn_once_within_the_drawing(rows: list[tuple[set[int], int]]) -> None:
    parents = [sorted(each for each in own if each < index) for index, (own, _) in enumerate(rows)]

    drawing = grouped(parents, [state for _, state in rows])

    assert sum(int(shape.name.split()[0]) for shape in drawing.shapes) == len(rows)
    for shape in drawing.shapes:
        assert 0 <= shape.x <= drawing.width - drawing.sizes.width
        assert 0 <= shape.y <= drawing.height - drawing.sizes.height
