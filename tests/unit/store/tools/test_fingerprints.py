"""A check of a sound store looks no task up; one of a damaged store finds what look-ups of each find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from math import inf
from typing import Final

import pytest
from msgspec.structs import replace

from taskqueue.core.model.task import OVER, PROCESSING, WAITING
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.values import TaskOf
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch, Entry, Family, StoreReader
from taskqueue.store.damaged_rows import DamagedRows
from taskqueue.store.records import layout
from taskqueue.store.records.format import META
from taskqueue.store.tools.consistency import check, find_problems
from taskqueue.store.tools.findings import Findings
from tests.memory_store import Disk, MemoryStore
from tests.unit.core.conftest import World, packed, task
from tests.unit.store.conftest import Crawl

DAMAGES: Final = 400
TASKS: Final = (layout.IDS, layout.SPECS, *layout.ORDERS.values(), layout.HISTORY, layout.RESULTS)

Records = dict[Family, list[Entry]]


class Counted:
    """Store that counts the keys that are looked up in each family."""

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self.looked_up: Counter[Family] = Counter()

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        self.looked_up[family] += len(keys)
        return self._store.get(family, keys)

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry]:
        return self._store.scan(family, start, end, limit)


def lived() -> Disk:
    """Make a store by a core: two projects, one divided into slots; edges, results, itags, tasks put off or failed."""
    news: dict[str, Setting] = {"slot": {"by": "host", "delay": 100.0}}
    defaults: dict[str, Setting] = {"rate": inf, "retry_delay": [50.0]}
    world = World(CoreConfig(defaults=defaults, projects={"news": news, "shop": {"order": "newest"}}))
    fetcher = world.fetcher(capacity=100)
    for project in ("news", "shop"):
        for taskid in ("good", "bad", "later"):
            world.push(project, task(f"{project}-{taskid}", url=f"http://{taskid}.org/", itag="v1", job="monday"))
        world.push(
            project, task(f"{project}-sö", url="http://other.org/"), task(f"{project}-x", url="http://other.org/x")
        )
    fetcher.hello()
    for project in ("news", "shop"):
        fetcher.done(f"{project}-good", result=packed({"title": "x"}))
        fetcher.done(f"{project}-bad", ok=False, error="HTTP 500")
        fetcher.done(f"{project}-later", retry_after=500.0)
        parents = (TaskOf(project, f"{project}-good"), TaskOf(project, f"{project}-bad"))
        world.push(project, replace(task(f"{project}-child"), depends_on=parents))
        world.push(project, replace(task(f"{project}-waits"), depends_on=(TaskOf(project, "ghost"),)))
    world.restart()
    return world.disk


@pytest.fixture(params=["of every kind", "lived"])
def disk(request: pytest.FixtureRequest, crawl: Crawl) -> Disk:
    return crawl.disk if request.param == "of every kind" else lived()


def records_of(disk: Disk) -> Records:
    return {
        family: entries.scan(b"", layout.LAST_KEY, 1000) for family, entries in disk.families.items() if family != META
    }


def damaged(records: Records, meta: dict[bytes, bytes], seed: int) -> Disk:
    """Make a store with an entry deleted, changed, moved, or replaced by its neighbour."""
    chance = random.Random(seed)
    family = chance.choice([family for family in TASKS if records[family]])
    key, value = chance.choice(records[family])
    other = chance.choice(records[family])
    changes: list[tuple[list[Entry], list[bytes]]] = [
        ([], [key]),
        ([(key, flipped(value, chance))], []),
        ([(flipped(key, chance), value)], []),
        ([(flipped(key, chance), value)], [key]),
        ([(key, value[: chance.randrange(len(value) + 1)])], []),
        ([(key, value + bytes([chance.randrange(256)]))], []),
        ([(key, other[1])], []),
        ([(other[0], value), (key, other[1])], []),
    ]
    puts, deletes = chance.choice(changes)
    disk = Disk()
    disk.write(Batch(puts={META: list(meta.items()), **records}))
    disk.write(Batch(puts={family: puts}, deletes={family: deletes}))
    return disk


def flipped(text: bytes, chance: random.Random) -> bytes:
    """Flip a bit."""
    if not text:
        return b"\0"
    at = chance.randrange(len(text))
    return text[:at] + bytes([text[at] ^ 1 << chance.randrange(8)]) + text[at + 1 :]


def told(findings: Findings) -> tuple[list[str], int, int]:
    """Return the reported findings."""
    return sorted(map(str, findings.problems)), findings.entries, findings.tasks


def looked_up(store: StoreReader) -> Findings:
    """Check by looking each task up."""
    findings = Findings()
    find_problems(store, findings, lambda entries: None, DamagedRows())
    return findings


def test_of_a_sound_store_only_what_is_leased_or_has_failed_is_looked_up(disk: Disk) -> None:
    store = Counted(MemoryStore(disk))
    families = disk.families
    leases, attempts = (len(families[family].keys) for family in (layout.ORDERS[PROCESSING], layout.HISTORY))

    findings = check(store, Findings())

    assert told(findings) == told(looked_up(MemoryStore(disk)))
    assert not findings.found
    assert store.looked_up[layout.SPECS] == leases < len(families[layout.SPECS].keys)
    assert store.looked_up[layout.IDS] <= 2 * leases + attempts + len(families[layout.PARENTS].keys)
    assert not any(store.looked_up[layout.ORDERS[state]] for state in OVER)
    assert sum(store.looked_up[layout.ORDERS[state]] for state in WAITING) <= leases


def test_the_problems_of_a_damaged_store_are_those_of_looking_each_task_up(disk: Disk) -> None:
    records, meta = records_of(disk), dict(disk.families[META].values)
    problems = 0
    for seed in range(DAMAGES):
        store = MemoryStore(damaged(records, meta, seed))

        findings = check(store, Findings())

        assert told(findings) == told(looked_up(store)), f"seed {seed}"
        problems += findings.found > 0
    assert problems > DAMAGES // 2


def test_two_entries_that_were_exchanged_are_named(disk: Disk) -> None:
    for family in TASKS:
        entries = disk.families[family]
        for one, other in combinations(entries.keys, 2):
            if entries.values[one] == entries.values[other]:
                continue
            exchange(disk, family, one, other)
            assert told(check(MemoryStore(disk), Findings())) == told(looked_up(MemoryStore(disk)))
            exchange(disk, family, one, other)


def exchange(disk: Disk, family: Family, one: bytes, other: bytes) -> None:
    """Exchange the values at two keys."""
    values = disk.families[family].values
    values[one], values[other] = values[other], values[one]
