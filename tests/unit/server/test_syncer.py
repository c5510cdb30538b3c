"""The helper thread that syncs writes: what it covers, how failures come back, how it ends."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from taskqueue.errors import StoreError
from taskqueue.server.meters import Meters
from taskqueue.server.syncer import Durability, Syncer

WAIT_SECONDS = 30


class Disk:
    """Disk whose syncs last until they are let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.failure: Exception | None = None

    def sync(self) -> None:
        self.begun.release()
        assert self.gate.acquire(timeout=WAIT_SECONDS)
        if self.failure is not None:
            raise self.failure

    def wait_for_begin(self) -> None:
        assert self.begun.acquire(timeout=WAIT_SECONDS)


@contextmanager
def syncing(disk: Disk, durability: Durability) -> Iterator[tuple[Syncer, Meters]]:
    meters = Meters()
    syncer = Syncer(disk.sync, durability, meters)
    try:
        yield syncer, meters
    finally:
        disk.gate.release(1000)
        syncer.close()


def write(syncer: Syncer) -> None:
    """Write something to sync soon."""
    syncer.wrote()
    syncer.sync_soon()


def wait_for_wake_up(syncer: Syncer) -> None:
    assert select.select([syncer], [], [], WAIT_SECONDS)[0]


def wakes_up(syncer: Syncer) -> bool:
    return bool(select.select([syncer], [], [], 0)[0])


def test_a_write_is_covered_when_a_sync_that_began_after_it_is_done() -> None:
    disk = Disk()
    with syncing(disk, "commit") as (syncer, _):
        write(syncer)
        disk.wait_for_begin()
        before = syncer.check()

        syncer.sleeping = True
        disk.gate.release()
        wait_for_wake_up(syncer)

        assert (before, syncer.check()) == (0, 1)


def test_what_is_written_during_a_sync_is_covered_by_the_next_one_all_together() -> None:
    disk = Disk()
    with syncing(disk, "commit") as (syncer, meters):
        write(syncer)
        disk.wait_for_begin()
        for _ in range(5):
            write(syncer)

        disk.gate.release()
        disk.wait_for_begin()
        after_first = syncer.check()
        disk.gate.release()
        syncer.finish()

        assert (after_first, syncer.check(), meters.syncs) == (1, 6, 2)


def test_a_sleeping_loop_is_woken_up_until_it_says_that_it_is_awake() -> None:
    disk = Disk()
    with syncing(disk, "commit") as (syncer, _):
        syncer.sleeping = True
        write(syncer)
        disk.gate.release()
        wait_for_wake_up(syncer)

        syncer.clear_wakeup()

        assert not wakes_up(syncer)


def test_a_busy_loop_is_not_woken_up_but_sees_that_there_is_news() -> None:
    disk = Disk()
    with syncing(disk, "commit") as (syncer, _):
        write(syncer)
        disk.wait_for_begin()
        before = syncer.has_progress
        write(syncer)
        disk.gate.release()
        disk.wait_for_begin()
        after_first = syncer.has_progress

        syncer.check()

        assert (before, after_first, syncer.has_progress) == (False, True, False)
        assert not wakes_up(syncer)


def test_a_failed_sync_is_raised_where_the_loop_looks() -> None:
    disk = Disk()
    disk.failure = StoreError("no space left")
    with syncing(disk, "commit") as (syncer, _):
        syncer.sleeping = True
        write(syncer)
        disk.gate.release()
        wait_for_wake_up(syncer)

        assert syncer.has_progress
        with pytest.raises(StoreError, match="no space left"):
            syncer.check()


def test_a_failed_sync_is_raised_at_the_finish_too() -> None:
    disk = Disk()
    disk.failure = StoreError("no space left")
    with syncing(disk, "interval") as (syncer, _):
        write(syncer)
        disk.gate.release()

        with pytest.raises(StoreError, match="no space left"):
            syncer.finish()


def test_what_is_written_is_synced_when_that_is_said_and_once() -> None:
    disk = Disk()
    disk.gate.release(10)
    with syncing(disk, "commit") as (syncer, meters):
        syncer.wrote()
        before = disk.begun.acquire(blocking=False)

        syncer.sync_soon()
        disk.wait_for_begin()
        syncer.sync_soon()
        syncer.finish()

        assert (before, syncer.check(), meters.syncs) == (False, 1, 1)


def test_the_finish_syncs_what_nobody_has_said_of() -> None:
    disk = Disk()
    disk.gate.release(10)
    with syncing(disk, "commit") as (syncer, _):
        syncer.wrote()

        syncer.finish()

        assert syncer.check() == 1


def test_a_sync_is_counted_before_an_answer_that_waits_for_it_can_leave() -> None:
    covered: list[int] = []

    class Watched(Meters):
        """Meters that record, whenever a sync is counted, which write counts as synced."""

        def __setattr__(self, name: str, value: object) -> None:
            if name == "syncs" and value:
                covered.append(syncer.check())
            super().__setattr__(name, value)

    disk = Disk()
    disk.gate.release()
    syncer = Syncer(disk.sync, "commit", Watched())
    write(syncer)
    syncer.finish()
    syncer.close()

    assert (covered, syncer.check()) == ([0], 1)


def test_finish_waits_until_everything_is_synced() -> None:
    disk = Disk()
    disk.gate.release(10)
    with syncing(disk, "commit") as (syncer, _):
        for _ in range(3):
            write(syncer)

        syncer.finish()

        assert syncer.check() == 3


@pytest.mark.parametrize("durability", ["interval", "none"])
def test_without_commit_a_write_is_covered_at_once(durability: Durability) -> None:
    with syncing(Disk(), durability) as (syncer, _):
        write(syncer)

        assert syncer.check() == 1


def test_with_interval_a_write_is_synced_without_further_ado_and_nobody_is_woken_up() -> None:
    disk = Disk()
    with syncing(disk, "interval") as (syncer, meters):
        write(syncer)
        disk.gate.release()
        disk.wait_for_begin()
        syncer.finish()

        assert meters.syncs == 1
        assert not wakes_up(syncer)


def test_with_none_nothing_is_ever_synced() -> None:
    with syncing(Disk(), "none") as (syncer, meters):
        write(syncer)
        syncer.finish()

        assert meters.syncs == 0


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_it_ends_whether_or_not_anything_was_written(durability: Durability) -> None:
    syncer = Syncer(Disk().sync, durability, Meters())

    syncer.finish()
    syncer.close()
    syncer.close()

    assert syncer.written == 0
