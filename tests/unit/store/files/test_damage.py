"""Damage of logs, judged by their known state."""

from __future__ import annotations

import pytest

from taskqueue.store.files.damage import Damage, compare_logs
from taskqueue.store.files.log_records import Unreadable
from taskqueue.store.files.manifest import Manifest, Table
from taskqueue.store.files.synced_mark import SyncedMark
from taskqueue.store.files.write_log import Run, WriteLog

NAME = "MANIFEST-000005"

FLAW = Unreadable(50, "a record whose checksum does not match")


def log(number: int, *parts: tuple[int, int] | Unreadable) -> WriteLog:
    """Make a log with these runs of changes, each by its first and last number."""
    runs = [part if isinstance(part, Unreadable) else Run(part[0], part[1], *part) for part in parts]
    return WriteLog(f"{number:06d}.log", number, runs, 1000)


def mark(seq: int, *, opened_seq: int = 0, first_log: int = 4, manifest: str = NAME) -> SyncedMark:
    return SyncedMark(seq, opened_seq, first_log, manifest, 0, 1e9, "boot")


def judged(
    *logs: WriteLog,
    marked: SyncedMark | None,
    first_log: int = 4,
    last_seq: int = 0,
    largest_seq: int = 0,
    explained: bool = False,
    has_failed: bool = False,
) -> Damage | None:
    tables = {(0, 9): Table(0, 100, largest_seq)} if largest_seq else {}
    manifest = Manifest(first_log=first_log, last_seq=last_seq, tables=tables)
    return compare_logs(NAME, manifest, logs, marked, explained=explained or has_failed, has_failed=has_failed)


@pytest.mark.parametrize("explained", [True, False])
@pytest.mark.parametrize(
    "logs",
    [
        [log(4)],
        [log(4, FLAW)],
        [log(4, (1, 100))],
        [log(4, (1, 60), FLAW)],
        [log(4, (1, 60)), log(6, (61, 100))],
        [log(4, (1, 60)), log(6, FLAW)],
        [log(4, (1, 60), FLAW), log(6, (61, 100))],
        [log(4, (1, 60), FLAW, (71, 80)), log(6, (61, 100))],
        [log(4, (1, 60), FLAW), log(6, (61, 60), (61, 100))],
    ],
)
def test_what_a_crash_leaves_is_no_damage(logs: list[WriteLog], explained: bool) -> None:
    assert judged(*logs, marked=None, explained=explained) is None
    last = 60 if logs[0].parts and logs[0].parts != [FLAW] else 0
    assert judged(*logs, marked=mark(last), explained=explained) is None


@pytest.mark.parametrize("explained", [True, False])
@pytest.mark.parametrize(
    ("logs", "lost", "said"),
    [
        ([log(4, (1, 60))], 40, "000004.log, at byte 1,000: it ends with change 60, but 100 was synced"),
        ([log(4, (1, 60), FLAW)], 40, "000004.log, at byte 50: a record whose checksum does not match"),
        ([log(4, (1, 60), FLAW, (71, 120))], 60, "000004.log, at byte 50: a record whose checksum does not match"),
        ([log(4, (1, 60)), log(8, (71, 100))], 40, "000008.log, at byte 71: changes 61 to 70 are missing before it"),
        ([log(6, (61, 100))], 100, "000004.log, at byte 0: it is missing"),
        ([], 100, "000004.log, at byte 0: it is missing"),
        ([log(4)], 100, "000004.log, at byte 0: it has lost its content"),
        ([log(4), log(6)], 100, "000004.log, at byte 0: it has lost its content"),
        ([log(4, FLAW, (61, 100))], 100, "000004.log, at byte 50: a record whose checksum does not match"),
    ],
)
def test_less_than_was_safe_is_damage(logs: list[WriteLog], lost: int, said: str, explained: bool) -> None:
    damage = judged(*logs, marked=mark(100), explained=explained)

    assert damage is not None
    assert damage.is_unexplained
    assert damage.lost == lost
    assert damage.lines()[0] == said


def test_logs_are_empty_though_another_one_follows_if_the_first_write_after_an_opening_has_failed() -> None:
    opened = mark(100, opened_seq=100)

    assert judged(log(4), log(6), marked=opened, last_seq=100, has_failed=True) is None
    for damage in (
        judged(log(4), log(6), marked=opened, last_seq=100, explained=True),
        judged(log(4), log(6), marked=mark(101, opened_seq=100), last_seq=100, has_failed=True),
    ):
        assert damage is not None
        assert damage.is_unexplained


def test_a_gap_is_damage_even_if_nobody_knows_what_was_safe() -> None:
    damage = judged(log(4, (1, 60)), log(8, (71, 100)), marked=None)

    assert damage is not None
    assert damage.is_unexplained
    assert (damage.kept, damage.stop) == (60, ("000004.log", 60))


def test_a_gap_behind_what_was_safe_is_cut_but_not_told_if_a_power_cut_explains_it() -> None:
    damage = judged(log(4, (1, 60), FLAW, (71, 100)), marked=mark(60), explained=True)

    assert damage is not None
    assert not damage.is_unexplained
    assert damage.stop == ("000004.log", 60)


def test_logs_that_are_not_needed_any_more_are_not_missed() -> None:
    assert judged(log(6, (61, 100)), marked=mark(100), first_log=6, last_seq=80, largest_seq=60) is None


def test_the_log_that_the_manifest_needs_is_missed() -> None:
    damage = judged(log(8, (81, 100)), marked=mark(100), first_log=6, last_seq=90, largest_seq=60)

    assert damage is not None
    assert damage.lines()[0] == "000006.log, at byte 0: it is missing"


def test_a_mark_of_an_earlier_opening_says_nothing_of_which_log_comes_first() -> None:
    old = mark(60, first_log=4, manifest="MANIFEST-000001")

    assert judged(log(13), marked=old, first_log=9, last_seq=60, largest_seq=60) is None


def test_a_beginning_that_nothing_leads_to_is_missed_without_a_mark() -> None:
    damage = judged(log(8, (81, 100)), marked=None, first_log=6, last_seq=60)

    assert damage is not None
    assert damage.lines()[0] == "000008.log, at byte 0: changes 61 to 80 are missing before it"


@pytest.mark.parametrize(("largest_seq", "ahead"), [(60, False), (61, True)])
def test_tables_may_be_ahead_of_what_is_left_of_the_logs(largest_seq: int, ahead: bool) -> None:
    damage = judged(log(4, (1, 60), FLAW, (71, 100)), marked=mark(100), largest_seq=largest_seq)

    assert damage is not None
    assert damage.tables_ahead == ahead
