"""Stores of projects that go by newest, whose ready tasks have places of their own."""

from __future__ import annotations

from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from taskqueue.calendar import Calendar
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch
from taskqueue.store.records import layout
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.rocks_repair import repair
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import World, task
from tests.unit.store.tools.test_slot_import import bring, copy, lines_of, problems


def stack(order: str = "newest") -> World:
    return World(CoreConfig(defaults={"rate": inf, "order": order}, projects={"news": {}}))


def filled() -> World:
    """Push tasks of which one is processing, and one has succeeded."""
    world = stack()
    world.push("news", task("held"), task("done"))
    fetcher = world.fetcher(capacity=2)
    fetcher.done("done")
    fetcher.hello(capacity=0)
    world.push("news", *(task(name) for name in "abc"), task("later", delay=50), task("high", priority=1))
    return world


def taken(world: World) -> list[str]:
    """Return the order in which a fetcher gets all ready tasks."""
    fetcher = world.fetcher(capacity=1, name="reader")
    fetcher.finish_all()
    return fetcher.taken


def test_a_store_by_newest_is_consistent_whatever_happens_to_its_tasks() -> None:
    world = filled()

    assert problems(world) == []
    world.crash()
    assert problems(world) == []
    assert taken(world) == ["high", "c", "b", "a"]


def test_a_task_by_newest_whose_spec_is_lost_is_a_problem() -> None:
    world = filled()
    (key, *_) = [key for key in world.disk.families["ready"].keys if key[-layout.SEQ_BYTES] >= 0x80]
    world.disk.write(Batch(deletes={layout.SPECS: [layout.spec_key_of(key)]}))

    assert any("its spec is missing" in problem for problem in problems(world))


@pytest.mark.parametrize("order", ["arrival", "newest"])
def test_tasks_exported_from_a_project_by_newest_go_by_the_order_of_the_project_that_takes_them(order: str) -> None:
    lines = lines_of(filled())
    world = stack(order)
    world.push("news", task("here"))

    bring(world, lines)
    world.restart()

    assert problems(world) == []
    expected = {"newest": ["high", "c", "b", "a", "held", "here"], "arrival": ["high", "here", "held", "a", "b", "c"]}
    assert taken(world) == expected[order]


def test_a_repaired_store_goes_by_newest_again(tmp_path: Path) -> None:
    world = filled()
    world.ledger.stop()
    with closing(RocksStore(str(tmp_path / "old"))) as store:
        copy(MemoryStore(world.disk), store)

    repaired = repair(str(tmp_path / "old"), str(tmp_path / "new"), 0.0, Calendar(), lambda tasks: None)

    assert (repaired.lost, repaired.tasks) == ([], 7)
    fresh = stack()
    with closing(ReadOnlyStore(str(tmp_path / "new"))) as reader:
        fresh.disk.families = type(fresh.disk)().families
        copy(reader, MemoryStore(fresh.disk))
    fresh.restart()
    assert problems(fresh) == []
    assert taken(fresh) == ["high", "c", "b", "a", "held"]
