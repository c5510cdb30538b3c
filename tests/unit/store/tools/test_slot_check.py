"""The slots of a sound store lead to each ready task; each way in which one could be forgotten is found and named."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from msgspec.structs import replace

from taskqueue.core.model.records import ProjectRecord
from taskqueue.protocol.projects import ProjectSet
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Family
from taskqueue.store.records import layout
from taskqueue.store.records.slots import name_key, slot_key
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.findings import Findings
from tests.memory_store import MemoryStore
from tests.unit.core.conftest import World, task

NEWS = 1


def divided(by: str = "host", slots: int = 100_000) -> World:
    """Push two tasks of a.org, one of b.org, which is processing, and one without a host."""
    config = CoreConfig(
        defaults={"rate": inf, "slot": {"by": by, "delay": 100.0}}, projects={"news": {}}, slots_in_memory=slots
    )
    world = World(config)
    push(world, "http://b.org/1")
    world.advance(100)
    world.fetcher(capacity=1)
    push(world, "http://a.org/1", "http://a.org/2", "data:,x")
    return world


def push(world: World, *urls: str) -> None:
    world.push("news", *[task(url, url=url) for url in urls])


def problems(world: World) -> list[str]:
    return [str(problem) for problem in check(MemoryStore(world.disk), Findings()).problems]


def entries(world: World, family: Family) -> list[bytes]:
    return list(world.disk.families[family].keys)


def put(world: World, family: Family, key: bytes, value: bytes = b"") -> None:
    world.disk.families[family].put(key, value)


def delete(world: World, family: Family, key: bytes) -> None:
    world.disk.families[family].delete(key)


def project(world: World) -> ProjectRecord:
    return layout.decode_project(world.disk.families[layout.PROJECTS].values[layout.project_key(NEWS)])


def say(world: World, **changes: object) -> None:
    """Change the record of the project's division."""
    record = project(world)
    assert record.slots is not None
    put(
        world,
        layout.PROJECTS,
        layout.project_key(NEWS),
        layout.encode(replace(record, slots=replace(record.slots, **changes))),
    )


def number_of(world: World, name: str) -> int:
    return int.from_bytes(world.disk.families[layout.SLOT_NAMES].values[name_key(NEWS, name)], "big")


def forget_entries(world: World, name: str, *families: Family) -> None:
    """Delete the entries of a slot."""
    end = number_of(world, name).to_bytes(4, "big")
    for family in families or (layout.SLOTS_READY, layout.SLOTS_WAITING):
        for key in entries(world, family):
            if key.endswith(end):
                delete(world, family, key)


def move_entry(world: World, family: Family, division: int, place: bytes) -> None:
    """Leave only this entry of a.org."""
    forget_entries(world, "a.org")
    put(world, family, slot_key(NEWS, division) + place + number_of(world, "a.org").to_bytes(4, "big"))


# ------------------------------------------------------------------------------------------------ what is sound


@pytest.mark.parametrize("by", ["host", "domain", "named"])
def test_a_divided_project_agrees(by: str) -> None:
    world = divided(by)
    world.restart()

    assert problems(world) == []


def test_slots_that_have_left_memory_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.core.moves.slots.SLOTS_LEAST", 1)
    world = divided(slots=1)
    push(world, *[f"http://h{number}.org/" for number in range(9)])
    world.restart()  # each has to wait once more, and so leaves memory

    assert entries(world, layout.SLOTS_WAITING)
    assert problems(world) == []


def test_a_project_that_is_being_divided_agrees_at_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskqueue.core.steps.slot_division.MOVED_TASKS", 1)
    world = divided("none")
    for by in ("host", "named", "none"):
        world.turn(ProjectSet(session="person", n=world.n(), project="news", settings={"slot": {"by": by}}))
        moving = 0
        while world.next_wake() <= world.elapsed:
            assert problems(world) == []
            moving += project(world).slots.is_moving  # type: ignore[union-attr]
            world.turn()
        assert moving
        assert problems(world) == []


# ------------------------------------------------------------------------------------------------ what is not


Damage = Callable[[World], None]

DAMAGES: dict[str, tuple[Damage, str]] = {
    "a slot without its entry": (
        lambda world: forget_entries(world, "a.org"),
        "has no entry in its order that is not late",
    ),
    "an entry that comes after its best task": (
        lambda world: move_entry(world, layout.SLOTS_READY, 1, b"\xff" * 12),
        "has no entry in its order that is not late",
    ),
    "an entry by time that comes after its time": (
        lambda world: move_entry(world, layout.SLOTS_WAITING, 1, (1 << 50).to_bytes(8, "big")),
        "has no entry in its order that is not late",
    ),
    "an entry of another division": (
        lambda world: move_entry(world, layout.SLOTS_READY, 0, bytes(12)),
        "has no entry in its order that is not late",
    ),
    "tasks that are to be moved, of which the project does not know": (
        lambda world: say(world, division=99, next_slot=99),
        "but the project is not moving tasks",
    ),
    "a name that leads nowhere": (
        lambda world: put(world, layout.SLOT_NAMES, name_key(NEWS, "c.org"), (77).to_bytes(4, "big")),
        "slot number 77 does not have this name",
    ),
    "a slot to which its name does not lead": (
        lambda world: delete(world, layout.SLOT_NAMES, name_key(NEWS, "a.org")),
        "its name 'a.org' does not lead to it",
    ),
    "a slot whose number is yet to be given": (
        lambda world: say(world, next_slot=number_of(world, "a.org")),
        "the next slot would get number",
    ),
    "a slot that can't be read": (
        lambda world: put(world, layout.SLOTS, slot_key(NEWS, number_of(world, "a.org")), b"\xc1"),
        "can't be read",
    ),
    "an entry that is not a key": (
        lambda world: put(world, layout.SLOTS_READY, slot_key(NEWS, 1) + b"abc"),
        "11 bytes are not a key",
    ),
    "slots of a project that is not divided": (
        lambda world: put(
            world, layout.PROJECTS, layout.project_key(NEWS), layout.encode(replace(project(world), slots=None))
        ),
        "its project is not divided into slots",
    ),
    "slots of no project": (
        lambda world: put(world, layout.SLOT_NAMES, name_key(9, "c.org"), bytes(4)),
        "its project is unknown",
    ),
    "an entry below the bound": (
        lambda world: put(
            world,
            layout.PROJECTS,
            layout.project_key(NEWS),
            layout.encode(replace(project(world), ready_low=b"\xff" * 16)),
        ),
        "has no entry in its order that is not late",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_and_named(name: str) -> None:
    damage, reason = DAMAGES[name]
    world = divided()

    damage(world)

    assert any(reason in problem for problem in problems(world)), problems(world)


@pytest.mark.parametrize("family", sorted(layout.PROJECT_FAMILIES), ids=str)
def test_a_family_of_which_no_key_is_whole_is_named(family: Family) -> None:
    world = divided()
    for key in entries(world, family):
        delete(world, family, key)

    put(world, family, b"abc")

    assert any("it is too short for a key" in problem for problem in problems(world)), problems(world)
