"""The order of nodes within their layers, in which few edges cross.

    layer 0      a     b          Each layer is put in the order of the means (barycentres) of its neighbours' places in
                  ╲   ╱ ╲         the layers above, from the second layer down; then in that of the layers below, from
    layer 1        c     d        the last but one up; and so on. The order with the fewest crossings is kept.

K. Sugiyama, S. Tagawa, M. Toda: Methods for Visual Understanding of Hierarchical System Structures (1981). Crossings
are counted as inversions: W. Barth, M. Jünger, P. Mutzel: Simple and Efficient Bilayer Cross Counting (2002).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Final

Edge = tuple[int, int]
"""From a node to one in a later layer."""

Layers = list[list[int]]
"""Nodes of each layer, from left to right."""

SWEEPS: Final = 12


def layers_of(layer_of: Sequence[int]) -> Layers:
    """The nodes of each layer, in the order in which they are numbered."""
    layers: Layers = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for node, layer in enumerate(layer_of):
        layers[layer].append(node)
    return layers


def ordered(layer_of: Sequence[int], edges: Sequence[Edge]) -> Layers:
    """Nodes of each layer in an order in which few edges cross; in time of some (nodes + edges) * log."""
    above: list[list[int]] = [[] for _ in layer_of]
    below: list[list[int]] = [[] for _ in layer_of]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    layers = layers_of(layer_of)
    places = _places(layers, len(layer_of))
    best, fewest = [list(layer) for layer in layers], crossings(layers, edges)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        goes_down = sweep % 2 == 0
        _sweep(layers if goes_down else layers[::-1], above if goes_down else below, places)
        if (crossed := crossings(layers, edges)) < fewest:
            best, fewest = [list(layer) for layer in layers], crossed
    return best


def crossings(layers: Layers, edges: Iterable[Edge]) -> int:
    """How many pairs of edges cross, of those that lead from the same layer to the same layer."""
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
    """Put each layer in the order of its neighbours' places; who has none stays near its own."""
    for layer in layers:
        means = {node: _mean([places[each] for each in neighbours[node]], places[node]) for node in layer}
        layer.sort(key=means.__getitem__)
        _number(layer, places)


def _mean(numbers: Sequence[float], nothing: float) -> float:
    return sum(numbers) / len(numbers) if numbers else nothing


def _places(layers: Layers, nodes: int) -> list[float]:
    """Where each node is in its layer, from 0 to 1, so that places in layers of different sizes can be compared."""
    places = [0.0] * nodes
    for layer in layers:
        _number(layer, places)
    return places


def _number(layer: Sequence[int], places: list[float]) -> None:
    for rank, node in enumerate(layer):
        places[node] = (rank + 0.5) / len(layer)
