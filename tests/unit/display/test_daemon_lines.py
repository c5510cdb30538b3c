"""Facts about the daemon, and quantiles of histograms."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace

from taskqueue.display.daemon import facts
from taskqueue.protocol.daemon import DaemonReply, Histogram, StoreLevel
from taskqueue.quantiles import mean, quantile

TIMES = Histogram([0.001, 0.01, 0.1], [50, 40, 9, 1], 1.5)


@pytest.mark.parametrize(("part", "value"), [(0.25, 0.0005), (0.5, 0.001), (0.7, 0.0055), (0.99, 0.1), (1.0, inf)])
def test_a_quantile_lies_in_its_class_in_proportion(part: float, value: float) -> None:
    assert quantile(TIMES, part) == pytest.approx(value)


def test_nothing_is_estimated_of_nothing() -> None:
    assert quantile(Histogram([1.0], [0, 0]), 0.5) is None
    assert mean(Histogram([1.0], [0, 0])) is None


def test_each_thing_is_told_in_a_line() -> None:
    reply = DaemonReply(
        n=1,
        epoch=7,
        version="1.2",
        python="3.11.2",
        pid=4711,
        uptime_seconds=100.0,
        durability="commit",
        projects=3,
        sessions=4,
        fetchers=2,
        capacity=50,
        holds=12,
        task_bytes=1 << 20,
        task_bytes_most=256 << 20,
        resident_bytes=90 << 20,
        resident_bytes_most=1 << 30,
        levels=[StoreLevel(0, 2, 1 << 20), StoreLevel(6, 1, 3 << 20)],
        log_bytes=5 << 20,
        free_bytes=5 << 30,
        shell={"turns": 250.0, "frames_in": 10.0, "frames_out": 12.0, "malformed": 1.0},
        histograms={"turn_seconds": TIMES, "turn_tasks": Histogram([1.0, 2.0], [1, 3, 0], 7.0)},
    )

    told = dict(facts(reply))

    assert told["version"] == "taskqueue 1.2, not compiled, Python 3.11.2"
    assert told["running for"] == "1 min 40 s, as process 4711, epoch 7"
    assert told["turns"] == "250, 2.5 a second; half within 1 ms, 99 of 100 within 0.1 s"
    assert told["tasks a turn"] == "1.8 in the mean; 99 of 100 turns have 2 at most"
    assert told["commit"] == "none yet; answers leave by durability commit"
    assert told["messages"] == "10 in, 12 out; 1 refused"
    assert told["fetchers"] == "2, which hold 12 of 50"
    assert dict(facts(replace(reply, hung=3)))["fetchers"].endswith("; handlers whose lease has ended occupy 3 more")
    assert told["knows"] == "3 projects, 4 sessions"
    assert told["memory"] == "90 MiB of 1 GiB"
    assert told["store"] == "4 MiB in 3 tables, 5 MiB in its write-ahead log; level 0: 1 MiB in 2, level 6: 3 MiB in 1"
    assert told["disk"] == "5 GiB free"


def test_before_the_first_table_it_is_told_how_large_the_log_of_the_store_is() -> None:
    told = dict(facts(DaemonReply(n=1, epoch=1, log_bytes=5 << 20)))

    assert told["store"] == "5 MiB in its write-ahead log, and no tables yet"


def test_of_a_store_in_a_database_it_is_told_which_one() -> None:
    told = dict(facts(DaemonReply(n=1, epoch=1, database="postgresql://db.example/crawl schema taskqueue")))

    assert told["store"] == "postgresql://db.example/crawl schema taskqueue"
    assert "disk" not in told


def test_a_disk_that_is_nearly_full_is_told_with_what_follows() -> None:
    told = dict(facts(DaemonReply(n=1, epoch=1, has_room=False, free_bytes=10)))

    assert told["knows"] == "0 projects, 0 sessions"
    assert told["disk"] == "10 B free; too little: no tasks are taken or dispatched"
