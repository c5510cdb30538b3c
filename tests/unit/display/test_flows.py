"""Layers and critical path of a flow, compared with a naive search."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from taskqueue.display.flows import FlowGraph, Stretch

Node = tuple[set[int], float]


def graph_of(nodes: list[Node]) -> FlowGraph:
    graph = FlowGraph()
    for index, (parents, seconds) in enumerate(nodes):
        graph.add(sorted(each for each in parents if each < index), "success" if seconds else "ready", seconds)
    return graph


def paths(nodes: list[Node], index: int) -> list[list[int]]:
    """List all chains of tasks that end with this one."""
    parents = [each for each in nodes[index][0] if each < index]
    return [[index], *([*path, index] for parent in parents for path in paths(nodes, parent))]


EXAMPLE: list[Node] = [
    (set(), 1.0), (set(), 2.0), (set(), 0.5),
    ({0, 1}, 3.0), ({1, 2}, 1.0), ({0, 3}, 1.0), ({3, 4}, 4.0), ({3, 4}, 2.0), ({2, 4}, 1.0),
]  # fmt: skip
"""Tasks A, B, C; D, E; F, G, H, I."""


def test_a_task_is_one_layer_below_the_lowest_of_those_that_it_waits_for() -> None:
    graph = graph_of(EXAMPLE)

    assert list(graph.layer_of) == [0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert [sum(layer.values()) for layer in graph.layers] == [3, 2, 4]


def test_the_critical_path_is_the_chain_that_took_longest() -> None:
    graph = graph_of(EXAMPLE)

    assert graph.critical_path() == [1, 3, 6]
    assert graph.critical_seconds == 2.0 + 3.0 + 4.0
    assert [graph.seconds(index) for index in graph.critical_path()] == [2.0, 3.0, 4.0]


def test_of_what_has_not_run_there_is_no_critical_path() -> None:
    graph = graph_of([(set(), 2.0), ({0}, 0.0), ({1}, 0.0), (set(), 1.0)])

    assert graph.critical_path() == [0]
    assert graph_of([(set(), 0.0), ({0}, 0.0)]).critical_path() == FlowGraph().critical_path() == []
    assert FlowGraph().critical_seconds == 0


@given(st.lists(st.tuples(st.sets(st.integers(0, 7), max_size=3), st.integers(0, 9).map(float)), max_size=8))
def test_no_chain_took_longer_than_the_critical_path_and_none_is_longer_than_the_layers(nodes: list[Node]) -> None:
    graph = graph_of(nodes)

    every = [path for index in range(len(nodes)) for path in paths(nodes, index)]
    assert graph.critical_seconds == max((sum(nodes[index][1] for index in path) for path in every), default=0)
    assert sum(nodes[index][1] for index in graph.critical_path()) == graph.critical_seconds
    assert len(graph.layers) == max(map(len, every), default=0)
    assert all(graph.layer_of[each] < graph.layer_of[i] for i, (its, _) in enumerate(nodes) for each in its if each < i)


def test_layers_are_joined_to_so_many_stretches_at_most() -> None:
    chain = graph_of([({index - 1} if index else set(), 1.0 if index < 4 else 0.0) for index in range(10)])

    assert chain.stretches(3) == [
        Stretch(1, 4, Counter(success=4)),
        Stretch(5, 8, Counter(ready=4)),
        Stretch(9, 10, Counter(ready=2)),
    ]
    assert [stretch.tasks for stretch in chain.stretches(10)] == [1] * 10
    assert chain.states == Counter(success=4, ready=6)
