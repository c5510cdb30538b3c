"""Layouts of graphs in layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.web.drawing.layered_graph import (
    Picture,
    Sizes,
    crossings,
    draw,
    layers_of,
    nearest,
    ordered,
    outlines,
    path_data,
)

SIZES = Sizes(width=100, height=30, gap=10, drop=40, across=6)

Graph = tuple[list[int], list[tuple[int, int]]]


@st.composite
def graphs(draw_one: st.DrawFn, most: int = 24) -> Graph:
    """Draw layers of nodes, each node as deep as its longest path, and edges to later layers."""
    parents = [
        draw_one(st.sets(st.integers(0, node - 1), max_size=3)) if node else set[int]()
        for node in range(draw_one(st.integers(0, most)))
    ]
    layer_of: list[int] = []
    for own in parents:
        layer_of.append(max((layer_of[each] + 1 for each in own), default=0))
    return layer_of, [(source, node) for node, own in enumerate(parents) for source in sorted(own)]


def boxes(picture: Picture) -> Iterable[tuple[float, float, float, float]]:
    return ((x, y, x + SIZES.width, y + SIZES.height) for x, y in picture.corners)


@given(graphs())
def test_each_node_is_drawn_once_in_the_band_of_its_layer_and_none_upon_another(graph: Graph) -> None:
    layer_of, edges = graph

    picture = draw(layer_of, edges, SIZES)

    assert len(picture.corners) == len(layer_of)
    for (_, y), layer in zip(picture.corners, layer_of, strict=True):
        top, height = picture.bands[layer]
        assert top <= y
        assert y + SIZES.height <= top + height
    for one, other in combinations(boxes(picture), 2):
        assert one[2] <= other[0] + 1e-6 or other[2] <= one[0] + 1e-6 or one[3] <= other[1] or other[3] <= one[1]


@given(graphs())
def test_nothing_is_outside_of_the_drawing(graph: Graph) -> None:
    picture = draw(*graph, SIZES)

    points = [(x, y) for left, top, right, foot in boxes(picture) for x, y in ((left, top), (right, foot))]
    for x, y in [*points, *(point for way in picture.ways.values() for point in way)]:
        assert -1e-6 <= x <= picture.width
        assert 0 <= y <= picture.height


@given(graphs())
def test_each_edge_leads_down_from_one_node_to_the_other(graph: Graph) -> None:
    layer_of, edges = graph

    picture = draw(layer_of, edges, SIZES)

    assert set(picture.ways) == set(edges)
    for (source, target), way in picture.ways.items():
        heights = [y for _, y in way]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]
        for node, (x, y), side in ((source, way[0], SIZES.height), (target, way[-1], 0)):
            left, top = picture.corners[node]
            assert (x, y) == (left + SIZES.width / 2, top + side)


@given(graphs())
def test_an_edge_that_passes_a_layer_leads_around_its_nodes(graph: Graph) -> None:
    layer_of, edges = graph

    picture = draw(layer_of, edges, SIZES)

    if len(max(layers_of(layer_of), key=len, default=[])) > SIZES.across:
        return
    for (source, target), way in picture.ways.items():
        for x, y in way[1:-1]:
            assert not any(
                left < x < right and top <= y <= foot
                for node, (left, top, right, foot) in enumerate(boxes(picture))
                if node not in (source, target)
            )


@given(graphs())
def test_the_order_has_no_more_crossings_than_that_of_the_numbers(graph: Graph) -> None:
    layer_of, edges = graph

    order = ordered(layer_of, edges)

    assert [sorted(layer) for layer in order] == layers_of(layer_of)
    assert crossings(order, edges) <= crossings(layers_of(layer_of), edges)


@given(graphs(most=9))
def test_crossings_are_pairs_of_edges_in_another_order_above_than_below(graph: Graph) -> None:
    layer_of, edges = graph
    place = {node: rank for layer in layers_of(layer_of) for rank, node in enumerate(layer)}

    found = sum(
        (layer_of[a], layer_of[b]) == (layer_of[c], layer_of[d]) and (place[a] - place[c]) * (place[b] - place[d]) < 0
        for (a, b), (c, d) in combinations(edges, 2)
    )

    assert crossings(layers_of(layer_of), edges) == found


def test_what_crosses_without_need_is_put_in_order() -> None:
    layer_of, edges = [0, 0, 0, 1, 1, 1], [(0, 5), (1, 4), (2, 3)]

    assert crossings(layers_of(layer_of), edges) == 3
    assert crossings(ordered(layer_of, edges), edges) == 0


def test_a_chain_is_drawn_upright() -> None:
    picture = draw([0, 1, 2, 3], [(0, 1), (1, 2), (2, 3)], SIZES)

    assert len({x for x, _ in picture.corners}) == 1


def test_a_layer_that_is_too_wide_stands_in_rows() -> None:
    picture = draw([0] + [1] * 20, [(0, node) for node in range(1, 21)], SIZES)

    assert {y for _, y in picture.corners[1:]} == {80.0, 120.0, 160.0, 200.0}
    assert picture.bands[1] == (80.0, 150.0)


wishes = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20)), min_size=1, max_size=8)


@given(wishes, st.lists(st.integers(-3, 3), min_size=8, max_size=8))
def test_no_other_places_with_these_distances_are_nearer_to_the_wishes(
    rows: list[tuple[int, int]], moves: list[int]
) -> None:
    wished = [float(wish) for wish, _ in rows]
    offsets = [float(sum(step for _, step in rows[:number])) for number in range(len(rows))]

    found = nearest(wished, offsets)

    def far(places: list[float]) -> float:
        return sum((place - wish) ** 2 for place, wish in zip(places, wished, strict=True))

    least = [b - a for a, b in pairwise(offsets)]
    assert all(b - a >= gap - 1e-6 for (a, b), gap in zip(pairwise(found), least, strict=True))
    others = [place + move / 4 for place, move in zip(found, moves, strict=False)]
    if all(b - a >= gap for (a, b), gap in zip(pairwise(others), least, strict=True)):
        assert far(found) <= far(others) + 1e-6


def test_ways_and_outlines_are_paths_of_svg() -> None:
    assert path_data([[(1, 2), (1, 9)], [(0, 0), (4, 10)]]) == "M1.0 2.0V9.0M0.0 0.0C0.0 5.0 4.0 5.0 4.0 10.0"
    assert re.fullmatch(r"M16\.0 20\.0h88(a6 6 0 0 1 [\d -]+[vh]?-?\d*){4}z", outlines([(10, 20)], SIZES))
    assert path_data([]) == outlines([], SIZES) == ""
