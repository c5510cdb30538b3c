"""Exports from elsewhere: imported, or refused in one line; the store's own entries never change."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgpack
import pytest

from taskqueue.calendar import Calendar
from taskqueue.errors import StoreError
from taskqueue.protocol.value_stream import BrokenStream, lines, values
from taskqueue.store.records import layout
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK, ExportFormat
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import BadLine, import_lines
from tests.memory_store import Disk, MemoryStore

MUTANTS = 600

FIRST: dict[str, Any] = {
    "taskqueue": 2,
    "projects": [
        {
            "name": "news", "state": "running", "overrides": {"rate": 2.5, "cron": {"daily": {"every": "1d"}}},
            "totals": {"new": 3}, "cron": {"daily": [1.6e9, "x", 3, 1]}, "pause": [3, 1.7e9, 2, 1, "why", 0],
            "finished": 2,
        },
        {"name": "shop"},
    ],
}  # fmt: skip
TASKS: list[dict[str, Any]] = [
    {"project": "news", "taskid": "a", "state": "ready", "url": "u", "priority": 3, "body": {"save": [1, 2]},
     "schedule": {"priority": 3, "age": 100, "itag": "v"}, "itag": "v", "job": "monday"},
    {"project": "news", "taskid": "b", "state": "delayed", "url": "u", "exetime": 2e9, "retried": 2},
    {"project": "news", "taskid": "c", "state": "processing", "url": "u",
     "deferred": {"url": "u", "schedule": {"exetime": 1.9e9}, "body": {"x": 1}}},
    {"project": "news", "taskid": "d", "state": "success", "url": "u", "ended_at": 1.7e9, "depth": 2},
    {"project": "shop", "taskid": "e", "state": "failed", "ended_at": 1.7e9, "bare": True},
]  # fmt: skip
HISTORY: list[dict[str, Any]] = [
    {"history": "hour", "at": 1_700_000_000, "projects": {"news": [5, 4, 4, 0, 0, 0]}, "all": [5, 4, 4, 0, 0, 0]},
    {"history": "minute", "at": 1_700_000_060, "projects": {"news": [5, 4, 4, 0, 0, 0], "shop": [1, 1, 1, 1, 1, 1]}},
]
LAST: dict[str, Any] = {"tasks": 5}
EXPORT = [FIRST, *TASKS, *HISTORY, LAST]

VALUES: list[Any] = [
    0, -1, 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 10**400, 1.5, -0.0, 1e308, float("inf"), float("-inf"),
    float("nan"), 1e12, True, None, "", "x", "\0", "9" * 5000, "\u202e", "inf", "news", [], {}, [[]], {"": 1}, b"\xff",
]  # fmt: skip


def brought(export: bytes, store: MemoryStore, form: ExportFormat = JSON) -> int:
    """Import, and return the number of new tasks."""
    file = io.BytesIO(export)
    parts = lines(file, 1 << 20) if form is JSON else values(file, 1 << 20)
    return [each.new for each in import_lines(store, parts, "skip", 1000.0, Calendar(), form)][-1]


def written(parts: list[Any], form: ExportFormat = JSON) -> bytes:
    if form is JSON:
        return b"".join(json.dumps(part, default=repr).encode() + b"\n" for part in parts)
    return b"".join(map(_packed, parts))


def _packed(part: Any) -> bytes:
    try:
        return bytes(msgpack.packb(part))
    except OverflowError:
        return b"\xc1"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all parts of a value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(part: Any, chance: random.Random) -> Any:
    """Change or remove a value somewhere."""
    part = json.loads(json.dumps(part))
    *path, last = chance.choice(list(places(part)))
    inner = part
    for key in path:
        inner = inner[key]
    if chance.random() < 0.2 and isinstance(inner, dict):
        del inner[last]
    else:
        inner[last] = chance.choice(VALUES)
    return part


def damaged(export: bytes, chance: random.Random) -> bytes:
    """Change or remove bytes somewhere, or cut the export off."""
    at = chance.randrange(len(export))
    middle = chance.choice([b"", bytes([chance.randrange(256)]), b"\xdf\xff\xff\xff\xff", b'"', b"["])
    return export[:at] + middle + (export[at + chance.randrange(9) :] if chance.random() < 0.8 else b"")


@pytest.mark.parametrize("form", [JSON, MESSAGEPACK], ids=["json", "msgpack"])
def test_any_change_of_an_export_is_taken_or_refused_and_leaves_a_sound_store(form: ExportFormat) -> None:
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        parts = list(EXPORT)
        place = chance.randrange(len(parts))
        parts[place] = changed(parts[place], chance)
        export = written(parts, form) if chance.random() < 0.7 else damaged(written(EXPORT, form), chance)
        store = MemoryStore(Disk())
        try:
            brought(export, store, form)
        except (StoreError, BrokenStream):
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r} of {export!r}") from error

        found = check(store, Findings(most=1))
        assert found.found == 0, f"seed {seed}: {found.problems[0]} of {export!r}"


@pytest.mark.parametrize("seed", range(20))
def test_what_was_there_stays_as_it_was(seed: int) -> None:
    store = MemoryStore(Disk())
    brought(written(EXPORT), store)
    before = {family: store.scan(family, b"", layout.LAST_KEY, 100) for family in (layout.IDS, layout.SPECS)}
    chance = random.Random(seed)

    with suppress(StoreError):
        brought(written([changed(FIRST, chance), *(changed(task, chance) for task in TASKS), LAST]), store)

    for family, entries in before.items():
        assert set(entries) <= set(store.scan(family, b"", layout.LAST_KEY, 100))


def refusal(first: dict[str, Any], *more: dict[str, Any]) -> str:
    with pytest.raises(BadLine) as caught:
        brought(written([first, *more, {"tasks": 0}]), MemoryStore(Disk()))
    return str(caught.value)


def project(**said: Any) -> dict[str, Any]:
    return {"taskqueue": 2, "projects": [{"name": "news", **said}]}


@pytest.mark.parametrize("number", [-1, 2**53, 2**63, 2**64 - 1])
def test_counts_that_nobody_could_go_on_counting_are_refused(number: int) -> None:
    assert "totals.new: expected a number from 0 to 8,796,093,022,207" in refusal(project(totals={"new": number}))
    assert "cron.daily.ran: " in refusal(project(cron={"daily": [1.0, "", number, 0]}))
    assert "pause.failures: " in refusal(project(pause=[number]))
    assert "projects[0].finished" in refusal(project(finished=number))


def test_times_that_no_calendar_has_are_refused() -> None:
    assert "pause.check_at: expected a number from 0 to" in refusal(project(pause=[1, 1e300]))
    assert "cron.daily.last_at: " in refusal(project(cron={"daily": [1e12]}))
    assert "cron.daily.waiting: " in refusal(project(cron={"daily": [1.0, "", 1, 0, [2.0, -1.0]]}))


def test_more_than_can_happen_in_an_hour_is_refused_so_that_its_sum_can_be_kept() -> None:
    events = {"history": "hour", "at": 0, "projects": {"news": [2**40, 0, 0, 0, 0, 0]}}

    assert "expected int <= 1099511627775" in refusal(project(), events)


def test_a_project_that_would_be_written_with_megabytes_each_turn_is_refused() -> None:
    cron = {f"{index}-{'x' * 200}": [1.0] for index in range(1_000)}

    assert "more than 196,608 bytes" in refusal(project(cron=cron))


def test_a_text_of_a_project_that_is_longer_than_the_daemon_makes_any_is_refused() -> None:
    assert "pause.reason: 301 is too long; at most 300" in refusal(project(pause=[1, 1.0, 1, 1, "x" * 301]))
    assert "cron.daily.problem: 301 is " in refusal(project(cron={"daily": [1.0, "", 1, 0, [], "x" * 301]}))
    assert "cron.daily.waiting: 11 is " in refusal(project(cron={"daily": [1.0, "", 1, 0, [2.0] * 11]}))


def test_more_projects_than_memory_should_hold_are_refused() -> None:
    many = [{"name": f"p{n}"} for n in range(100_001)]
    export = json.dumps({"taskqueue": 2, "projects": many}).encode()

    with pytest.raises(BadLine, match="100,001 projects; at most 100,000 are allowed"):
        list(import_lines(MemoryStore(Disk()), [export], "skip", 1000.0, Calendar()))


@pytest.mark.parametrize(
    "line",
    [
        b'{"tasks":' + b"9" * 5000 + b"}",
        b'{"taskqueue":' + b"9" * 5000 + b',"projects":[]}',
        b'{"project":"news","taskid":"a","state":"' + b"x" * 100_000 + b'","url":"u"}',
        b'{"project":"news","taskid":"a","state":"ready","url":"u","body":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"project":"news","taskid":"a","state":"ready","url":"u","priority":1e999}',
        b'{"project":"news","taskid":"a","state":"ready","url":"u","exetime":NaN}',
        b'{"project":"news","taskid":"\xff","state":"ready","url":"u"}',
        b'{"project":"news","taskid":"a","state":"ready","url":"u","body":{"$msgpack":"3///////"}}',
    ],
)
def test_a_line_that_can_not_be_is_refused_in_a_few_words(line: bytes) -> None:
    for export in (b'{"taskqueue":2,"projects":[{"name":"news"}]}\n' + line + b"\n", line + b"\n"):
        with pytest.raises(BadLine) as caught:
            brought(export, MemoryStore(Disk()))
        assert len(str(caught.value)) < 600


def test_a_line_without_an_end_is_not_read_to_it() -> None:
    with pytest.raises(BrokenStream, match="line 2 is longer than 1,048,576"):
        brought(written([FIRST]) + b"x" * (1 << 21), MemoryStore(Disk()))
