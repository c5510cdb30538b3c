"""Parents before children, and the cycle if that is impossible."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.settings.graph_order import Cycle, parents_first

EXAMPLE: dict[str, list[str]] = {
    "A": [], "B": [], "C": [], "G": ["D", "E"], "H": ["D", "E"], "I": ["C", "E"],
    "F": ["A", "D"], "D": ["A", "B"], "E": ["B", "C"],
}  # fmt: skip


def test_each_task_comes_after_its_parents_else_in_the_order_of_the_file() -> None:
    assert parents_first(EXAMPLE) == ["A", "B", "C", "D", "F", "E", "G", "H", "I"]


def test_what_is_in_order_stays_as_it_is() -> None:
    assert parents_first({"b": [], "a": ["b"], "c": ["b", "a", "b"]}) == ["b", "a", "c"]


def cycle_of(parents: dict[str, list[str]]) -> Sequence[str]:
    """Return the names of a cycle; none if there is an order."""
    try:
        parents_first(parents)
    except Cycle as cycle:
        return cycle.names
    return []


@given(st.lists(st.sets(st.integers(0, 39), max_size=6), max_size=40), st.randoms(use_true_random=False))
def test_every_graph_without_a_cycle_has_an_order(edges: list[set[int]], random: object) -> None:
    parents = {str(number): [str(each) for each in its if each < number] for number, its in enumerate(edges)}
    shuffled = list(parents)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    order = parents_first({name: parents[name] for name in shuffled})

    place = {name: number for number, name in enumerate(order)}
    assert place.keys() == parents.keys()
    assert all(place[parent] < place[name] for name, its in parents.items() for parent in its)


@given(st.lists(st.sets(st.integers(0, 19), max_size=3), min_size=1, max_size=20))
def test_a_cycle_that_is_told_is_one(edges: list[set[int]]) -> None:
    size = len(edges)
    parents = {str(number): [str(each % size) for each in its] for number, its in enumerate(edges)}

    names = cycle_of(parents)

    following = [*names[1:], *names[:1]]
    assert len(set(names)) == len(names)
    assert all(parent in parents[name] for name, parent in zip(names, following, strict=True))


def test_a_cycle_is_printed_from_one_of_its_tasks_back_to_it() -> None:
    with pytest.raises(Cycle, match=r"^A → F → D → A$"):
        parents_first({**EXAMPLE, "A": ["F"], "F": ["D"], "D": ["A", "B"], "X": ["A"]})


def test_a_task_that_waits_for_itself_is_the_shortest_cycle() -> None:
    with pytest.raises(Cycle, match=r"^A → A$"):
        parents_first({"A": ["A"]})


def test_a_long_chain_is_ordered_without_recursion() -> None:
    chain = {str(number): [str(number + 1)] for number in range(50_000)} | {"50000": []}

    assert parents_first(chain)[0] == "50000"
