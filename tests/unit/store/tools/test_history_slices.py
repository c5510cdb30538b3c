"""Events by the minute and the hour, moved to another store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.model.history import KeptPoint, KeptSlice, Row
from taskqueue.core.model.records import ProjectRecord, WriteSet
from taskqueue.protocol.choices import Resolution
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.reading import pages
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK, ExportFormat
from taskqueue.store.tools.importer import BadLine, import_lines
from tests.memory_store import Disk, MemoryStore
from tests.unit.store.conftest import exported

HOUR = 472_222
NEWS, SHOP = (5, 4, 3, 2, 1, 0), (10, 0, 0, 0, 0, 0)
ALL = (20, 4, 3, 2, 1, 0)
"""Sums over all projects, with those of a deleted one."""


def fill(disk: Disk, *projects: str, points: dict[Resolution, dict[int, dict[str, Row]]] | None = None) -> None:
    """Make a store with these projects.

    Args:
        points: events by resolution, time, and project, or "" for all together.
    """
    with closing(MemoryStore(disk)) as store:
        ledger = Ledger(store)
        ledger.begin("boot-1")
        writes = WriteSet(projects=[ProjectRecord(n, name) for n, name in enumerate(projects, 1)], next_project=9)
        for resolution, slices in (points or {}).items():
            for at, rows in slices.items():
                numbers = {name: n for n, name in enumerate(projects, 1)}
                writes.points += [KeptPoint(resolution, at, numbers[name], row) for name, row in rows.items() if name]
                writes.slices.append(KeptSlice(resolution, at, rows[""], len(rows) - 1))
        ledger.commit(writes)


@pytest.fixture
def disk() -> Disk:
    """Make a disk with a minute and two hours of the projects news and shop."""
    disk = Disk()
    fill(
        disk,
        "news",
        "shop",
        points={
            "minute": {60 * HOUR + 7: {"": NEWS, "news": NEWS}},
            "hour": {HOUR: {"": ALL, "news": NEWS, "shop": SHOP}, HOUR + 1: {"": SHOP, "shop": SHOP}},
        },
    )
    return disk


def slices(lines: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines[1:-1]]


def imported(disk: Disk, lines: list[bytes], form: ExportFormat = JSON) -> None:
    with closing(MemoryStore(disk)) as store:
        for _ in import_lines(store, lines, "skip", 0.0, Calendar(), form):
            pass


def kept(disk: Disk) -> Iterator[tuple[tuple[Resolution, int, int], list[int]]]:
    with closing(MemoryStore(disk)) as reader:
        for page in pages(reader, layout.POINTS):
            yield from ((layout.point_of(key), list(layout.decode_events(value))) for key, value in page)


def test_each_minute_and_hour_is_a_line_after_the_tasks(disk: Disk) -> None:
    assert slices(exported(disk)) == [
        {"history": "minute", "at": 3600 * HOUR + 420, "projects": {"news": [*NEWS]}, "all": [*NEWS]},
        {"history": "hour", "at": 3600 * HOUR, "projects": {"news": [*NEWS], "shop": [*SHOP]}, "all": [*ALL]},
        {"history": "hour", "at": 3600 * HOUR + 3600, "projects": {"shop": [*SHOP]}, "all": [*SHOP]},
    ]


def test_of_one_project_there_is_only_its_own(disk: Disk) -> None:
    assert slices(exported(disk, "news", history="projects")) == [
        {"history": "minute", "at": 3600 * HOUR + 420, "projects": {"news": [*NEWS]}},
        {"history": "hour", "at": 3600 * HOUR, "projects": {"news": [*NEWS]}},
    ]
    assert slices(exported(disk, history="none")) == []


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK], ids=["json", "messagepack"])
def test_an_empty_store_gets_all_of_it(disk: Disk, new: Disk, form: ExportFormat) -> None:
    imported(new, exported(disk, form=form), form)

    assert list(kept(new)) == list(kept(disk))
    assert exported(new) == exported(disk)


def test_brought_in_twice_it_is_the_same(disk: Disk, new: Disk) -> None:
    for _ in range(2):
        imported(new, exported(disk))

    assert exported(new) == exported(disk)


def test_what_is_known_stays_and_what_is_new_is_added_to_the_sum(disk: Disk, new: Disk) -> None:
    own, other = (1, 1, 0, 0, 0, 0), (7, 0, 0, 0, 0, 0)
    there: dict[Resolution, dict[int, dict[str, Row]]] = {
        "hour": {HOUR: {"": (8, 1, 0, 0, 0, 0), "x": other, "news": own}}
    }
    fill(new, "x", "news", points=there)

    imported(new, exported(disk))

    assert slices(exported(new))[1] == {
        "history": "hour",
        "at": 3600 * HOUR,
        "projects": {"x": [*other], "news": [*own], "shop": [*SHOP]},
        "all": [18, 1, 0, 0, 0, 0],
    }


def test_the_sum_of_a_part_without_one_is_that_of_its_projects(disk: Disk, new: Disk) -> None:
    imported(new, exported(disk, "shop", history="projects"))

    assert [each["all"] for each in slices(exported(new))] == [[*SHOP], [*SHOP]]


def test_a_scheduler_goes_on_with_what_was_brought_in(disk: Disk, new: Disk) -> None:
    imported(new, exported(disk))

    with closing(MemoryStore(new)) as store:
        loaded = Ledger(store).begin("boot-1").history["hour"]

    assert loaded.slices == {HOUR: 2, HOUR + 1: 1}
    assert (loaded.sum, list(loaded.rows.values())) == (SHOP, [SHOP])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"history":"day","at":0,"projects":{}}', "line 2: history: 'day' is none of hour, minute"),
        (b'{"history":"hour","at":-1,"projects":{}}', "line 2: at: expected int >= 0"),
        (
            b'{"history":"hour","at":0,"projects":{"news":[1]}}',
            r"line 2: projects\[\.\.\.\]: expected array of length >= 6",
        ),
        (
            b'{"history":"hour","at":0,"projects":{"other":[1,2,3,4,5,6]}}',
            'line 2: project "other" is not in the first',
        ),
    ],
)
def test_a_line_that_can_not_be_is_named(disk: Disk, new: Disk, line: bytes, says: str) -> None:
    with pytest.raises(BadLine, match=says):
        imported(new, [exported(disk)[0], line, b'{"tasks":0}'])
