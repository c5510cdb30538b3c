"""History of the daemon, in rows and sentences."""

from __future__ import annotations

from typing import Any

from taskqueue.display.daemon import (
    HISTORY_COLUMNS,
    SLOWEST_SHOWN,
    history_parts,
    minute_sentence,
    read_again,
    slowest_minutes,
)
from taskqueue.protocol.daemon import DaemonPoint

HOUR = 1_700_002_800


def minute(number: int, **fields: Any) -> DaemonPoint:
    """Make a minute after HOUR."""
    return DaemonPoint(HOUR + 60 * number, **fields)


def cells(points: list[DaemonPoint]) -> list[dict[str, str]]:
    return [{column.head: column.told(part) for column in HISTORY_COLUMNS} for part in history_parts(points)]


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
