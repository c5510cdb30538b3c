"""Rows for undos in a sound store belong to operations, none is missing, and each way to break that is found."""

from __future__ import annotations

from math import inf

import pytest

from taskqueue.settings.settings import CoreConfig
from taskqueue.store.records import layout
from taskqueue.store.records.operations import undo_key, undo_place
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import World
from tests.unit.core.rules.test_operations import bulk, show
from tests.unit.core.rules.test_undo import begin_undo, many, rows, told


@pytest.fixture
def world() -> World:
    """Make a world with one project."""
    return World(CoreConfig(defaults={"rate": inf}, projects={"news": {}}), rarely=True)


def problems(world: World) -> list[str]:
    return [str(problem) for problem in check(MemoryStore(world.disk), Findings()).problems]


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_rows_are_sound_before_an_undo_while_it_runs_and_after_it(world: World, steps: int) -> None:
    many(world)
    operation = bulk(world, "cancel")
    assert problems(world) == []

    begin_undo(world, operation.id)
    for _ in range(steps):
        world.turn()

    assert problems(world) == []


def test_rows_of_no_operation_and_missing_ones_are_named(world: World) -> None:
    many(world)
    number = bulk(world, "cancel").id
    first, _, last = rows(world)
    assert [undo_place(key)[1] for key in (first, last)] == [0, 2]

    entries = world.disk.families[layout.UNDO_ROWS]
    page = entries.values[first]
    for stray in (undo_key(number, 3), undo_key(number + 1, 0)):
        entries.put(stray, page)
    entries.delete(last)

    found = problems(world)
    assert sum("it belongs to no operation" in each for each in found) == 2
    assert sum("there are 2 pages of its rows; it has 3" in each for each in found) == 1


def test_rows_that_can_not_be_decoded_are_named(world: World) -> None:
    many(world, 3)
    bulk(world, "cancel")
    (key,) = rows(world)

    world.disk.families[layout.UNDO_ROWS].put(key, b"\x90")

    assert [each.startswith("undo_rows: ") for each in problems(world)] == [True]


def test_an_undo_counts_the_tasks_of_a_missing_page_as_gone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "_check_rows", lambda self, keys: None)
    names = many(world)
    number = bulk(world, "cancel").id
    world.disk.families[layout.UNDO_ROWS].delete(rows(world)[1])

    undone = begin_undo(world, number)
    world.settle()

    view = show(world, undone)
    assert (view.seen, view.matched, told(view).gone) == (len(names), len(names) - 256, 256)
