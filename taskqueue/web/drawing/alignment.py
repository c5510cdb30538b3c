"""Where the nodes of a layer stand, so that edges are nearly upright, without changing their order.

Each node wants to stand in the middle of its neighbours. The places nearest to these wishes (least squares) that keep
the order and the distances are found by pooling neighbours that come too close to each other: M. Ayer et al.: An
Empirical Distribution Function for Sampling with Incomplete Information (1955).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from taskqueue.web.drawing.layer_order import Edge, Layers

SWEEPS: Final = 10


def aligned(layers: Layers, edges: Sequence[Edge], widths: Sequence[float], gap: float) -> list[float]:
    """The middle of each node; neighbours of a layer are at least ``gap`` apart."""
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
    for sweep in range(SWEEPS):
        wished = upper if sweep == 0 else near
        rows = list(zip(layers, offsets, strict=True))
        for layer, offset in rows if sweep % 2 == 0 else reversed(rows):
            wishes = [_middle(middles, wished[node], middles[node]) for node in layer]
            for node, at in zip(layer, nearest(wishes, offset), strict=True):
                middles[node] = at
    return middles


def nearest(wishes: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Places as near to the wishes as can be, each at least as far from the one before as ``offsets`` are apart."""
    pools: list[tuple[float, int]] = []  # (sum of what its members wish for the first of all, members)
    for wish, offset in zip(wishes, offsets, strict=True):
        total, members = wish - offset, 1
        while pools and pools[-1][0] * members >= total * pools[-1][1]:
            before, others = pools.pop()
            total, members = total + before, members + others
        pools.append((total, members))
    starts = [total / members for total, members in pools for _ in range(members)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _offsets(widths: Sequence[float], gap: float) -> list[float]:
    """The middles of nodes that stand as close to each other as they may, the first one at 0."""
    found = [0.0]
    for left, right in pairwise(widths):
        found.append(found[-1] + (left + right) / 2 + gap)
    return found[: len(widths)]


def _middle(middles: Sequence[float], nodes: Sequence[int], nothing: float) -> float:
    return sum(middles[node] for node in nodes) / len(nodes) if nodes else nothing
