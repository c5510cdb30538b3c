"""What the comparison of dependent tasks relies on: its graphs, and what it reads from a ledger."""

from __future__ import annotations

from math import isclose

from benchmarks.dependencies.graphs import Kind, Node, graph, name_of, outcome
from benchmarks.peers.ordinary import ROW_BYTES, Row

KINDS: tuple[Kind, ...] = ("plain", "joins", "star")


def test_parents_come_before_their_children_in_every_graph_but_a_cycle() -> None:
    for kind in KINDS:
        seen: set[str] = set()
        for node in graph(kind, 3):
            assert seen.issuperset(node.parents)
            seen.add(node.name)


def test_joins_and_what_they_are_compared_with_have_as_many_tasks() -> None:
    assert len(list(graph("joins", 7))) == len(list(graph("plain", 7))) == 21


def test_a_name_fills_its_place_in_a_row_of_the_ledger() -> None:
    assert len(f"{name_of(99, 'c')} 1700000000.123456\n") == ROW_BYTES


def test_a_child_that_ran_once_is_told_from_one_that_never_ran_or_ran_again() -> None:
    nodes = [Node("a"), *(Node(child, ("a",)) for child in ("once", "never", "again"))]
    rows = [Row("a", 1.0), Row("once", 2.0), Row("again", 3.0), Row("again", 4.0)]

    seen = outcome(nodes, rows)

    assert (seen.once, seen.never, seen.again, seen.early) == (1, 1, 1, 0)
    assert isclose(seen.latest, 2.0)


def test_a_child_that_ran_before_one_of_its_parents_had_ended_is_early() -> None:
    nodes = [Node("a"), Node("b"), Node("late", ("a", "b")), Node("alone", ("a", "b"))]

    assert outcome(nodes, [Row("a", 1.0), Row("late", 2.0), Row("b", 3.0)]).early == 1
    assert outcome(nodes, [Row("a", 1.0), Row("alone", 2.0)]).early == 1
