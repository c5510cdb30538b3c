"""Words for the daemon: its facts, and its history in rows and sentences."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from taskqueue.display.daemon import (
    HISTORY_COLUMNS,
    SLOWEST_SHOWN,
    facts,
    history_parts,
    minute_sentence,
    read_again,
    slowest_minutes,
)
from taskqueue.protocol.daemon import DaemonPoint, DaemonReply, Histogram, StoreLevel

TIMES = Histogram([0.001, 0.01, 0.1], [50, 40, 9, 1], 1.5)


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


HOUR = 1_700_002_800


def minute(number: int, **fields: Any) -> DaemonPoint:
    """Make a minute after HOUR."""
    return DaemonPoint(HOUR + 60 * number, **fields)


def cells(points: list[DaemonPoint]) -> list[dict[str, str]]:
    return [{column.head: column.text(part) for column in HISTORY_COLUMNS} for part in history_parts(points)]


def test_a_row_has_the_pace_of_its_minutes_and_the_slowest_of_their_times() -> None:
    quick = minute(0, turns=600, selected=60, sync_p50_seconds=0.0004, sync_p99_seconds=0.0025, ready=9)
    slow = minute(1, turns=1200, selected=60, sync_p50_seconds=0.0125, sync_p99_seconds=1.25, ready=7)
    busy = [quick, slow, minute(50, resident_bytes=1 << 20)]

    first = cells(busy)[0]

    assert (first["turns/s"], first["out/s"], first["sync ms"], first["ready"]) == ("15.0", "1.0", "12/1,250", "7")


def test_a_short_time_is_told_minute_by_minute_and_a_day_hour_by_hour() -> None:
    assert len(history_parts([minute(number) for number in range(20)])) == 20
    assert len(history_parts([minute(number) for number in range(24 * 60)])) == 24


def test_a_part_without_a_turn_has_no_row() -> None:
    assert [part.at - HOUR for part in history_parts([minute(0), minute(180), minute(1200)])] == [
        0,
        3 * 3600,
        20 * 3600,
    ]


def test_the_slowest_minutes_come_first() -> None:
    busy = [minute(number, sync_most_seconds=0.001 * number) for number in range(9)]
    busy[3] = minute(3, turn_most_seconds=2.5)

    assert [point.at for point in slowest_minutes(busy)][:2] == [HOUR + 180, HOUR + 480]
    assert len(slowest_minutes(busy)) == SLOWEST_SHOWN


def test_a_minute_is_told_with_what_was_slow_and_what_was_done() -> None:
    point = minute(
        10,
        turns=7200,
        new=3,
        selected=1180,
        ended=1174,
        ready=40_000,
        turn_p99_seconds=0.012,
        turn_most_seconds=0.025,
        sync_p99_seconds=0.9,
        sync_most_seconds=11.0,
        resident_bytes=310 << 20,
    )

    assert minute_sentence(point) == (
        "99 of 100 turns in 12 ms (all in 25 ms), syncs in 0.9 s (all in over 10 s); "
        "7,200 turns, 3 new, 1,180 dispatched, 1,174 ended; then 40,000 ready, 310 MiB"
    )


def test_where_the_store_was_read_again_is_told() -> None:
    busy = [minute(0, epoch=3), minute(1, epoch=3), minute(2, epoch=4)]

    assert [point.at for point in read_again(busy)] == [HOUR + 120]
