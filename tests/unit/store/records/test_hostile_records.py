"""Records from elsewhere: a reader names the unreadable one, and never fails in another way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import msgpack
import pytest

from taskqueue.calendar import Calendar
from taskqueue.core.model.now import Now
from taskqueue.core.scheduler import Scheduler
from taskqueue.errors import TaskQueueError
from taskqueue.protocol.fields import Boot, Wall
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch, Family, StoreReader
from taskqueue.store.files.log_records import record_bytes
from taskqueue.store.files.manifest import read_manifest
from taskqueue.store.ledger import Ledger
from taskqueue.store.records import layout
from taskqueue.store.records.format import EPOCH_KEY, FORMAT_KEY, META
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.tools.consistency import check
from taskqueue.store.tools.export_format import JSON, MESSAGEPACK
from taskqueue.store.tools.exporter import export_lines
from taskqueue.store.tools.findings import Findings
from taskqueue.store.tools.importer import import_lines
from taskqueue.store.tools.store_stats import project_records, sizes_of
from tests.memory_store import Disk, MemoryStore
from tests.unit.store.conftest import Crawl

MUTANTS = 1500
SIZES = 12

Records = dict[Family, list[tuple[bytes, bytes]]]

VALUES: list[Any] = [0, -1, 2**63 - 1, 2**64 - 1, 1e300, float("nan"), "\x1b", "", None, [], {}, b"\xff", "x" * 999]


@pytest.fixture
def records(stored: Crawl) -> Records:
    """Return all entries of a store with a task of every kind."""
    with closing(ReadOnlyStore(stored.path)) as reader:
        found = {family: reader.scan(family, b"", layout.LAST_KEY, 1000) for family in layout.FAMILIES}
    found[META] = [entry for entry in found[META] if entry[0] != EPOCH_KEY]  # a store in memory has its own
    return found


def store_of(records: Records) -> MemoryStore:
    store = MemoryStore(Disk())
    store.write(store.begin(), Batch(puts=dict(records)))
    return store


def changed(value: bytes, chance: random.Random) -> bytes:
    """Change bytes, cut bytes off, or put another value in its place."""
    kind = chance.randrange(4)
    if kind == 0 and value:
        at = chance.randrange(len(value))
        return value[:at] + bytes([chance.randrange(256)]) + value[at + 1 :]
    if kind == 1:
        return value[: chance.randrange(len(value) + 1)]
    if kind == 2:
        return chance.choice([b"", b"\xc0", b"9" * 5000, b"-1", b"x" * 99, b"\xff" * 20, b"\x80", b"\x90", value[::-1]])
    try:
        said = msgpack.unpackb(value, strict_map_key=False)
    except ValueError:
        return value[::-1]
    if isinstance(said, list) and said:
        said[chance.randrange(len(said))] = chance.choice(VALUES)
    return bytes(msgpack.packb(said))


def readers() -> Iterator[Any]:
    """Yield all readers of a store; the last one writes, too."""

    def export(store: StoreReader) -> None:
        for form in (JSON, MESSAGEPACK):
            for _ in export_lines(store, project_records(store), range(1, 7), form, history="all"):
                pass

    def bring(store: MemoryStore) -> None:
        first = b'{"taskqueue":2,"projects":[{"name":"news"},{"name":"x"}]}'
        task = b'{"project":"news","taskid":"new","state":"ready","url":"u"}'
        for _ in import_lines(store, [first, task, b'{"tasks":1}'], "skip", 1.0, Calendar()):
            pass

    yield lambda store: check(store, Findings(most=100))
    yield export
    yield bring


def test_a_changed_record_is_named_or_taken_by_all_that_reads_it(records: Records) -> None:
    every = [(family, place) for family, entries in records.items() for place in range(len(entries))]
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        family, place = chance.choice(every)
        key, value = records[family][place]
        new = (changed(key, chance) or b"z", value) if chance.random() < 0.2 else (key, changed(value, chance))
        with_it = records | {family: [*records[family][:place], new, *records[family][place + 1 :]]}
        store = store_of(with_it)
        for read in readers():
            try:
                read(store)
            except TaskQueueError:
                pass
            except Exception as error:
                raise AssertionError(f"seed {seed}: {error!r} of {family} {new!r}") from error


def test_how_much_a_project_takes_is_told_or_refused(stored: Crawl, records: Records) -> None:
    every = [(family, *entry) for family in (layout.SPECS, *layout.ORDERS.values()) for entry in records[family]]
    as_it_was: Records = {}
    for seed in range(SIZES):
        chance = random.Random(seed)
        family, key, value = chance.choice(every)
        was = as_it_was.get(family, [])
        stored.write(Batch(puts=as_it_was | {family: [*was, (key, changed(value, chance))]}))
        with suppress(TaskQueueError), closing(ReadOnlyStore(stored.path)) as reader:
            sizes_of(reader)
        as_it_was = {family: [(key, value)]}


@pytest.mark.parametrize("value", [b"", b"x", b"-1", b"9" * 5000, b"\xff"])
def test_a_next_project_that_is_no_number_is_a_finding(records: Records, value: bytes) -> None:
    new = layout.NEXT_PROJECT_KEY, value
    with_it = records | {META: [*(entry for entry in records[META] if entry[0] != layout.NEXT_PROJECT_KEY), new]}

    (problem,) = check(store_of(with_it), Findings(most=100)).problems

    assert "is not a number" in str(problem)


@pytest.mark.parametrize("key", [EPOCH_KEY, FORMAT_KEY])
def test_a_store_whose_epoch_or_format_is_no_number_is_not_opened(stored: Crawl, key: bytes) -> None:
    stored.put(META, key, b"9" * 5000)

    with pytest.raises(TaskQueueError, match=r"no number|not a number|has format 9"):
        ReadOnlyStore(stored.path)


def test_a_manifest_of_somebody_else_is_read_in_little_time_and_refused(tmp_path: Any) -> None:
    hostile = [b"\xff" * 200_000, b"\xc8\x01\x01\xc9\x01\x02\xff\xfe", b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x7f"]
    for edit in hostile:
        file = tmp_path / "MANIFEST-000001"
        file.write_bytes(record_bytes(edit, 0))
        with file.open("rb") as read, pytest.raises(TaskQueueError, match="is unknown here"):
            read_manifest("store", read)


def test_a_daemon_starts_on_a_changed_record_or_names_it(records: Records) -> None:
    every = [(family, place) for family, entries in records.items() for place in range(len(entries))]
    for seed in range(MUTANTS):
        chance = random.Random(seed)
        family, place = chance.choice(every)
        key, value = records[family][place]
        new = (changed(key, chance) or b"z", value) if chance.random() < 0.2 else (key, changed(value, chance))
        store = store_of(records | {family: [*records[family][:place], new, *records[family][place + 1 :]]})
        try:
            Scheduler(Ledger(store).begin("boot-2"), CoreConfig(), Calendar(), Now(Wall(1.8e9), Boot(100.0)))
        except TaskQueueError:
            pass
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r} of {family} {new!r}") from error
