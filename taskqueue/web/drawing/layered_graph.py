"""Layout of a graph in layers, from top to bottom: positions of nodes, and routes of edges.

    ┌───┐   ┌───┐     An edge that crosses layers has a *bend* in each of them, which is ordered and placed like a
    └─┬─┘   └─┬─┘     narrow node, so that edges lead around nodes. If a layer is wider than the drawing may be,
      │   ┌───┤       layers are drawn in several rows, and edges pass straight below nodes.
    ┌─┴───┴┐  │
    └──────┘  ╵

The layer of a node is the length of the longest path to it. Within a layer nodes are ordered so that few edges cross:

    layer 0      a     b          Each layer is sorted by the means (barycentres) of its neighbours' positions in the
                  ╲   ╱ ╲         layers above, from the second layer down; then by those in the layers below, from
    layer 1        c     d        the last but one up; and so on. The order with the fewest crossings is kept.

K. Sugiyama, S. Tagawa, M. Toda: Methods for Visual Understanding of Hierarchical System Structures (1981). Crossings
are counted as inversions: W. Barth, M. Jünger, P. Mutzel: Simple and Efficient Bilayer Cross Counting (2002).

Then nodes are aligned within their order, so that edges are nearly vertical. Each node should stand in the middle of
its neighbours. Pooling neighbours that come too close finds the nearest positions (least squares) that keep order and
distances: M. Ayer et al.: An Empirical Distribution Function for Sampling with Incomplete Information (1955).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

MARGIN: Final = 10.0

ROUND: Final = 6
"""Radius of a node's corners."""

BENDS_MOST: Final = 1500
"""Bends of a drawing, at most; with more, edges that cross layers are straight."""

Point = tuple[float, float]


class Sizes(NamedTuple):
    """Sizes in pixels.

    Attributes:
        gap: distance between two nodes of a layer.
        drop: distance between two layers.
        across: nodes side by side, at most.
        left: room for the names of layers.
    """

    width: float
    height: float
    gap: float
    drop: float
    across: int
    left: float = 56.0


Edge = tuple[int, int]
"""Edge from a node to one in a later layer."""


class Picture(NamedTuple):
    """Layout of a graph.

    Attributes:
        corners: upper left corner of each node.
        ways: route of each edge, from the lower side of a node to the upper side of another.
        bands: top and height of each layer.
    """

    width: float
    height: float
    corners: list[Point]
    ways: dict[Edge, list[Point]]
    bands: list[Point]


def draw(layer_of: Sequence[int], edges: Sequence[Edge], sizes: Sizes, *, in_order: bool = False) -> Picture:
    """Lay out a graph.

    Args:
        layer_of: layer of each node; no layer is empty.
        in_order: keep nodes of a layer in the order of their numbers, in the middle of the drawing.
    """
    edges = list(dict.fromkeys(edges))
    widest = max(map(len, layers_of(layer_of)), default=0)
    bends = sum(layer_of[target] - layer_of[source] - 1 for source, target in edges)
    in_rows = in_order or widest > sizes.across
    bend = bends <= BENDS_MOST and not in_rows
    nodes, parts, chains = _bent(layer_of, edges) if bend else (list(layer_of), edges, {})
    layers = layers_of(nodes) if in_order else ordered(nodes, parts)
    if in_rows:
        return _in_rows(layers, edges, sizes._replace(across=min(widest, sizes.across)))
    widths = [sizes.width if node < len(layer_of) else 0.0 for node in range(len(nodes))]
    middles = aligned(layers, parts, widths, sizes.gap)
    return _in_layers(layer_of, middles, edges, chains, sizes)


def _bent(layer_of: Sequence[int], edges: Iterable[Edge]) -> tuple[list[int], list[Edge], dict[Edge, list[int]]]:
    """Return the layers of nodes and bends, the parts of edges between them, and the bends of each edge."""
    nodes, parts, chains = list(layer_of), list[Edge](), dict[Edge, list[int]]()
    for source, target in edges:
        bends = range(len(nodes), len(nodes) + layer_of[target] - layer_of[source] - 1)
        nodes += range(layer_of[source] + 1, layer_of[target])
        chain = [source, *bends, target]
        parts += pairwise(chain)
        chains[source, target] = list(bends)
    return nodes, parts, chains


def _in_layers(
    layer_of: Sequence[int],
    middles: Sequence[float],
    edges: Iterable[Edge],
    chains: dict[Edge, list[int]],
    sizes: Sizes,
) -> Picture:
    layers = max(layer_of, default=-1) + 1
    leftmost = min(middles, default=0.0) - sizes.width / 2
    shift = sizes.left - leftmost
    tops = [MARGIN + layer * (sizes.height + sizes.drop) for layer in range(layers)]
    corners = [(middles[node] + shift - sizes.width / 2, tops[layer]) for node, layer in enumerate(layer_of)]
    ways = {}
    for source, target in edges:
        way = [_below(corners[source], sizes)]
        for number, bend in enumerate(chains.get((source, target), ()), layer_of[source] + 1):
            way += [(middles[bend] + shift, tops[number]), (middles[bend] + shift, tops[number] + sizes.height)]
        ways[source, target] = [*way, _above(corners[target], sizes)]
    width = max(middles, default=0.0) + shift + sizes.width / 2 + MARGIN
    return Picture(width, _foot(tops, sizes.height), corners, ways, [(top, sizes.height) for top in tops])


def _in_rows(layers: Layers, edges: Iterable[Edge], sizes: Sizes) -> Picture:
    """Draw each layer in as many rows as it needs, filled by columns, so that its order goes from left to right."""
    corners: list[Point] = [(0.0, 0.0)] * sum(map(len, layers))
    step = sizes.width + sizes.gap
    whole = sizes.across * step - sizes.gap
    bands: list[Point] = []
    top = MARGIN
    for layer in layers:
        rows = -(-len(layer) // sizes.across)
        columns = -(-len(layer) // rows)
        start = sizes.left + (whole - columns * step + sizes.gap) / 2
        for rank, node in enumerate(layer):
            corners[node] = start + rank // rows * step, top + rank % rows * (sizes.height + sizes.gap)
        bands.append((top, rows * (sizes.height + sizes.gap) - sizes.gap))
        top += bands[-1][1] + sizes.drop
    ways = {edge: [_below(corners[edge[0]], sizes), _above(corners[edge[1]], sizes)] for edge in edges}
    return Picture(sizes.left + whole + MARGIN, top - sizes.drop + MARGIN, corners, ways, bands)


def _foot(tops: Sequence[float], height: float) -> float:
    return (tops[-1] + height if tops else MARGIN) + MARGIN


def _below(corner: Point, sizes: Sizes) -> Point:
    return corner[0] + sizes.width / 2, corner[1] + sizes.height


def _above(corner: Point, sizes: Sizes) -> Point:
    return corner[0] + sizes.width / 2, corner[1]


def straight(picture: Picture, edge: Edge, sizes: Sizes) -> list[Point]:
    """Return a straight route from a node to another; empty if that is not below it."""
    start, end = _below(picture.corners[edge[0]], sizes), _above(picture.corners[edge[1]], sizes)
    return [start, end] if start[1] < end[1] else []


def path_data(ways: Iterable[Sequence[Point]]) -> str:
    """Join routes into one SVG path (``d``) of smooth curves that only go down."""
    return "".join(_curve(way) for way in ways if way)


def _curve(way: Sequence[Point]) -> str:
    (x, y), *others = way
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        half = (y + to_y) / 2
        parts.append(
            f"V{to_y:.1f}" if to_x == x else f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"
        )
        x, y = to_x, to_y
    return "".join(parts)


def outlines(corners: Iterable[Point], sizes: Sizes) -> str:
    """Join rounded rectangles of nodes into one SVG path (``d``)."""
    across, down = sizes.width - 2 * ROUND, sizes.height - 2 * ROUND
    turn = f"a{ROUND} {ROUND} 0 0 1 "
    sides = (
        f"h{across:g}{turn}{ROUND} {ROUND}v{down:g}{turn}-{ROUND} {ROUND}h{-across:g}{turn}-{ROUND} -{ROUND}v{-down:g}"
    )
    return "".join(f"M{x + ROUND:.1f} {y:.1f}{sides}{turn}{ROUND} -{ROUND}z" for x, y in corners)


# ---------------------------------------------------------------------------------------------- the order within layers

Layers = list[list[int]]
"""Nodes of each layer, from left to right."""

ORDER_SWEEPS: Final = 12


def layers_of(layer_of: Sequence[int]) -> Layers:
    """Return the nodes of each layer, in the order of their numbers."""
    layers: Layers = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for node, layer in enumerate(layer_of):
        layers[layer].append(node)
    return layers


def ordered(layer_of: Sequence[int], edges: Sequence[Edge]) -> Layers:
    """Order the nodes of each layer so that few edges cross, in O((nodes + edges) log)."""
    above: list[list[int]] = [[] for _ in layer_of]
    below: list[list[int]] = [[] for _ in layer_of]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    layers = layers_of(layer_of)
    places = _places(layers, len(layer_of))
    best, fewest = [list(layer) for layer in layers], crossings(layers, edges)
    for sweep in range(ORDER_SWEEPS):
        if not fewest:
            break
        goes_down = sweep % 2 == 0
        _sweep(layers if goes_down else layers[::-1], above if goes_down else below, places)
        if (crossed := crossings(layers, edges)) < fewest:
            best, fewest = [list(layer) for layer in layers], crossed
    return best


def crossings(layers: Layers, edges: Iterable[Edge]) -> int:
    """Count the pairs of crossing edges between the same two layers."""
    place = {node: (number, rank) for number, layer in enumerate(layers) for rank, node in enumerate(layer)}
    between: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for source, target in edges:
        (upper, left), (lower, right) = place[source], place[target]
        between.setdefault((upper, lower), []).append((left, right))
    return sum(_inversions(right for _, right in sorted(pairs)) for pairs in between.values())


def _inversions(numbers: Iterable[int]) -> int:
    seen: list[int] = []
    found = 0
    for number in numbers:
        found += len(seen) - bisect_right(seen, number)
        insort(seen, number)
    return found


def _sweep(layers: Iterable[list[int]], neighbours: Sequence[Sequence[int]], places: list[float]) -> None:
    """Sort each layer by its neighbours' positions; nodes without neighbours stay near theirs."""
    for layer in layers:
        means = {node: _mean([places[each] for each in neighbours[node]], places[node]) for node in layer}
        layer.sort(key=means.__getitem__)
        _number(layer, places)


def _mean(numbers: Sequence[float], nothing: float) -> float:
    return sum(numbers) / len(numbers) if numbers else nothing


def _places(layers: Layers, nodes: int) -> list[float]:
    """Return positions within layers, from 0 to 1, which can be compared between layers of different sizes."""
    places = [0.0] * nodes
    for layer in layers:
        _number(layer, places)
    return places


def _number(layer: Sequence[int], places: list[float]) -> None:
    for rank, node in enumerate(layer):
        places[node] = (rank + 0.5) / len(layer)


# ------------------------------------------------------------------------------------------------- places within layers

ALIGNMENT_SWEEPS: Final = 10


def aligned(layers: Layers, edges: Sequence[Edge], widths: Sequence[float], gap: float) -> list[float]:
    """Return the middle of each node; neighbours in a layer are at least ``gap`` apart."""
    near: list[list[int]] = [[] for _ in widths]
    upper: list[list[int]] = [[] for _ in widths]
    for source, target in edges:
        upper[target].append(source)
        near[source].append(target)
        near[target].append(source)
    middles = [0.0] * len(widths)
    offsets = [_offsets([widths[node] for node in layer], gap) for layer in layers]
    for layer, offset in zip(layers, offsets, strict=True):
        for node, at in zip(layer, offset, strict=True):
            middles[node] = at - (offset[0] + offset[-1]) / 2
    for sweep in range(ALIGNMENT_SWEEPS):
        wished = upper if sweep == 0 else near
        rows = list(zip(layers, offsets, strict=True))
        for layer, offset in rows if sweep % 2 == 0 else reversed(rows):
            wishes = [_middle(middles, wished[node], middles[node]) for node in layer]
            for node, at in zip(layer, nearest(wishes, offset), strict=True):
                middles[node] = at
    return middles


def nearest(wishes: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Return the positions nearest to the wishes whose distances are at least those of ``offsets``."""
    pools: list[tuple[float, int]] = []  # (sum of its members' wishes for the first of all, members)
    for wish, offset in zip(wishes, offsets, strict=True):
        total, members = wish - offset, 1
        while pools and pools[-1][0] * members >= total * pools[-1][1]:
            before, others = pools.pop()
            total, members = total + before, members + others
        pools.append((total, members))
    starts = [total / members for total, members in pools for _ in range(members)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _offsets(widths: Sequence[float], gap: float) -> list[float]:
    """Return the middles of nodes placed as close as allowed, the first one at 0."""
    found = [0.0]
    for left, right in pairwise(widths):
        found.append(found[-1] + (left + right) / 2 + gap)
    return found[: len(widths)]


def _middle(middles: Sequence[float], nodes: Sequence[int], nothing: float) -> float:
    return sum(middles[node] for node in nodes) / len(nodes) if nodes else nothing
