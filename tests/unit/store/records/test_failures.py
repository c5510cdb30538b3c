"""Failed attempts are found again by time, on every store."""

from __future__ import annotations

from contextlib import closing
from typing import Protocol

import pytest
from rocksdict import Options, Rdict

from taskqueue.core.model.attempt_records import Failure, FailuresRef, FoundFailures, KeptFailure
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import time_key
from taskqueue.errors import Unreadable
from taskqueue.store.contract import Batch, Store
from taskqueue.store.ledger import Ledger
from taskqueue.store.records.insight import failure_key
from taskqueue.store.records.layout import FAILURES, FAMILIES
from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.store_stats import read_stats
from tests.unit.store.conftest import Crawl

NOW = 1.7e9


class Ground(Protocol):
    """Type of the fixture ``ground``."""

    store: Store

    def open(self) -> Ledger: ...


def failed(n: int, at: float = NOW, error: str = "no title") -> KeptFailure:
    return KeptFailure(time_key(at, n), Failure(7, f"t{n}", "a.org", "host:1", error))


def find(ledger: Ledger, start: int = 0, end: int = time_key(2 * NOW, 0), limit: int = 100) -> FoundFailures:
    [found] = ledger.find(Needs(failures=[FailuresRef(start, end, limit)])).failures.values()
    return found


def test_failures_are_found_in_the_order_of_their_times(ledger: Ledger) -> None:
    later, earlier = failed(1, NOW + 1, "Zeitüberschreitung"), failed(2, NOW)

    ledger.commit(WriteSet(failures=[later, earlier]))

    found = find(ledger)
    assert (found.failures, found.next) == ([earlier, later], 0)


def test_a_part_says_where_the_next_one_begins(ledger: Ledger) -> None:
    all_of_them = [failed(n) for n in range(1, 6)]
    ledger.commit(WriteSet(failures=all_of_them))

    first = find(ledger, limit=3)
    rest = find(ledger, first.next, limit=3)

    assert first.failures + rest.failures == all_of_them
    assert (first.next, rest.next) == (all_of_them[3].key, 0)
    assert find(ledger, end=all_of_them[2].key).failures == all_of_them[:2]


def test_those_before_a_key_go_and_what_comes_with_that_stays(ledger: Ledger) -> None:
    ledger.commit(WriteSet(failures=[failed(n) for n in range(1, 6)]))

    ledger.commit(WriteSet(failures_from=failed(4).key, failures=[failed(6, NOW - 100)]))

    assert find(ledger).failures == [failed(6, NOW - 100), failed(4), failed(5)]


def test_a_start_knows_the_first_and_the_last_one(ground: Ground, ledger: Ledger) -> None:
    loaded = ground.open().begin("boot-1")
    assert (loaded.first_failure, loaded.last_failure) == (0, 0)
    again = Ledger(ground.store)
    again.begin("boot-1")
    again.commit(WriteSet(failures=[failed(n) for n in range(1, 6)]))

    loaded = ground.open().begin("boot-1")

    assert (loaded.first_failure, loaded.last_failure) == (failed(1).key, failed(5).key)


def test_one_that_can_not_be_read_is_named(ground: Ground, ledger: Ledger) -> None:
    ground.store.write(1, Batch(puts={FAILURES: [(failure_key(failed(1).key), b"\xc1")]}))

    with pytest.raises(Unreadable, match="family failures"):
        find(ledger)


def test_a_check_of_the_store_reads_them(crawl: Crawl) -> None:
    crawl.put(FAILURES, failure_key(failed(1).key), b"\xc1")

    findings = crawl.check()

    assert [problem.family for problem in findings.problems] == ["failures"]


def test_a_store_from_before_there_were_any_is_looked_at_as_it_is_and_gets_them_when_it_is_opened(
    stored: Crawl,
) -> None:
    options = {name: Options(raw_mode=True) for name in (*FAMILIES, "default")}
    database = Rdict(stored.path, Options(raw_mode=True), options)
    database.drop_column_family(FAILURES)
    database.close()

    assert stored.check().problems == []
    with closing(ReadOnlyStore(stored.path)) as reader:
        assert reader.get(FAILURES, [failure_key(failed(1).key)]) == [None]
        assert [family.keys for family in read_stats(reader, 1 << 20).families if family.name == FAILURES] == [0]
    with closing(RocksStore(stored.path)) as store:
        ledger = Ledger(store)
        ledger.begin("boot-2")
        ledger.commit(WriteSet(failures=[failed(1)]))
        assert find(ledger).failures == [failed(1)]
