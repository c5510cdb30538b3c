"""Exported or repaired tasks of slots are in their slots again once a daemon has them."""

from __future__ import annotations

from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest

from taskqueue.calendar import Calendar
from taskqueue.protocol.slots import SlotList, SlotListReply
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch, Store
from taskqueue.store.records import layout
from taskqueue.store.records.format import META
from taskqueue.store.records.reading import pages
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON
from taskqueue.store.tools.exporter import export_lines
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.rocks_repair import repair
from taskqueue.store.tools.store_stats import project_records
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import World, laid_over, task

SLOTS = {"a.org": 2, "b.org": 1, "own": 1}
"""Ready tasks of each slot in the end."""


def made(**defaults: Any) -> World:
    given = laid_over({"rate": inf, "slot": {"by": "host", "delay": 10.0}}, defaults)
    return World(CoreConfig(defaults=given, projects={"news": {}}))


def filled() -> World:
    """Push two tasks of a.org, one of b.org that is processing, and one that names its slot."""
    world = made()
    world.push("news", task("b1", url="http://b.org/1"))
    world.advance(60)
    world.fetcher(capacity=1)
    world.push("news", *[task(f"a{n}", url=f"http://a.org/{n}") for n in range(2)])
    world.push("news", task("own", url="http://a.org/own", slot="own"))
    return world


def lines_of(world: World) -> list[bytes]:
    store = MemoryStore(world.disk)
    return list(export_lines(store, project_records(store), range(1, 8), JSON))


def bring(world: World, lines: list[bytes]) -> None:
    """Import into the store of a daemon that is stopped meanwhile."""
    world.ledger.stop()
    list(import_lines(MemoryStore(world.disk), lines, "skip", 0.0, Calendar()))


def problems(world: World) -> list[str]:
    return [str(problem) for problem in check(MemoryStore(world.disk), Findings()).problems]


def backlogs(world: World) -> dict[str, int]:
    """Count the ready tasks of each slot."""
    asked = SlotList(session="person", n=world.n(), project="news", all=True)
    world.turn(asked)
    world.settle()
    [reply] = [each for each in world.inbox if each.n == asked.n]
    assert isinstance(reply, SlotListReply)
    return {slot.name: slot.ready for slot in reply.slots}


def test_an_imported_project_is_divided_when_a_daemon_starts() -> None:
    other = made()
    world = World(CoreConfig(defaults={"rate": inf, "slot": {"by": "host"}}))

    bring(world, lines_of(filled()))
    assert project_records(MemoryStore(world.disk))[0].slots is None
    assert problems(world) == []
    world.config = other.config
    world.restart()

    assert problems(world) == []
    assert backlogs(world) == SLOTS
    assert world.project().slots is not None


def test_what_is_imported_into_a_divided_project_is_moved_to_its_slots() -> None:
    world = made()
    world.push("news", task("c1", url="http://c.org/1"))

    bring(world, lines_of(filled()))
    assert problems(world) == []
    world.restart()

    assert problems(world) == []
    assert backlogs(world) == SLOTS | {"c.org": 1}


def test_what_is_imported_into_a_project_that_was_divided_once_stays_where_it_is() -> None:
    world = made()
    world.push("news", task("c1", url="http://c.org/1"))
    world.set(slot={"by": "none"})

    bring(world, lines_of(filled()))
    assert problems(world) == []
    world.restart()

    assert problems(world) == []
    assert sorted(world.fetcher().taken) == ["a0", "a1", "b1", "c1", "own"]


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_repaired_store_is_divided_when_a_daemon_starts(tmp_path: Path, *, is_moving: bool) -> None:
    world = filled()
    if is_moving:
        world.config = CoreConfig(
            defaults=laid_over(world.config.defaults, {"slot": {"by": "domain"}}), projects={"news": {}}
        )
        world.turn(config=world.config)
    world.ledger.stop()
    with closing(RocksStore(str(tmp_path / "old"))) as store:
        copy(MemoryStore(world.disk), store)

    repaired = repair(str(tmp_path / "old"), str(tmp_path / "new"), 0.0, Calendar(), lambda tasks: None)

    assert (repaired.lost, repaired.tasks) == ([], 4)
    fresh = made()
    with closing(ReadOnlyStore(str(tmp_path / "new"))) as reader:
        assert check(reader, Findings()).problems == []
        fresh.disk.families = type(fresh.disk)().families
        copy(reader, MemoryStore(fresh.disk))
    fresh.restart()
    assert problems(fresh) == []
    assert backlogs(fresh) == SLOTS


def copy(source: Any, target: Store) -> None:
    """Copy all entries except the store's own."""
    puts = {
        family: [entry for page in pages(source, family) for entry in page]
        for family in layout.FAMILIES
        if family != META
    }
    kept = [layout.NEXT_PROJECT_KEY, layout.SECRET_KEY]
    values = zip(kept, source.get(META, kept), strict=True)
    puts[META] = [(key, value) for key, value in values if value is not None]
    epoch = target.begin()
    target.write(epoch, Batch(puts=puts))
