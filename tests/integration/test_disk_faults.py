"""A daemon whose engine's calls fail says so, answers ``unavailable``, reads the store again, and goes on.

Nothing acknowledged is lost, even in a power cut afterwards.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from errno import EIO, ENOSPC
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.power import Power
from tests.faults.shim import FOR_EVER, SHORT, Call, Shim
from tests.integration.pusher import Pusher

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, PeerFactory

FAULTS: Final[list[tuple[Call, str, int]]] = [
    ("write", ".log", EIO),
    ("write", ".log", ENOSPC),
    ("sync", ".log", EIO),
    ("sync", ".log", ENOSPC),
    ("write", ".sst", EIO),
    ("sync", ".sst", ENOSPC),
    ("open", ".sst", EIO),
    ("open", "CURRENT", EIO),
    ("open", ".log", ENOSPC),
    ("write", "MANIFEST", EIO),
    ("sync", "MANIFEST", EIO),
    ("rename", "CURRENT", EIO),
    ("rename", "CURRENT", ENOSPC),
    ("sync-folder", "", EIO),
]


def start(daemon: DaemonFactory, shim: Shim) -> Daemon:
    return daemon(environment=shim.environment, path=str(shim.store), min_free=0)


def assert_words_in_order(log: str, words: Sequence[str]) -> None:
    at = 0
    for word in words:
        assert word in log[at:], f"no {word} at its place in\n{log}"
        at = log.index(word, at)


@pytest.mark.parametrize(("call", "part", "error"), FAULTS)
def test_a_fault_is_said_and_gone_through_and_a_power_cut_after_it_loses_nothing_acknowledged(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, call: Call, part: str, error: int
) -> None:
    it = start(daemon, shim)
    power = Power(shim)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()

    # Calls on all files but the log happen when the store is read again, after a failed write.
    shim.fail([call], error, part, count=FOR_EVER)
    shim.fail(["write"], error, ".log")
    reason = pusher.push_until_unavailable()
    shim.heal()
    pusher.push_until_answered()

    assert os.strerror(error) in reason
    assert_words_in_order(it.log(), ["store-failed", "store-read-again"])
    assert "Traceback" not in it.log()
    assert pusher.lost() == set()

    it.kill()
    power.cut(Random(1))
    it.start()
    assert pusher.lost() == set()
    pusher.push_until_answered()
    assert it.stop() == 0


@pytest.mark.parametrize(
    ("call", "part"),
    [("open", "config.json"), ("sync", "MANIFEST"), ("rename", "CURRENT"), ("open", ".log"), ("sync-folder", "")],
)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_start_that_a_fault_breaks_off_is_gone_on_with_also_that_of_a_new_store(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, call: Call, part: str, is_new: bool
) -> None:
    it = start(daemon, shim)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()
    it.kill()
    if is_new:
        shutil.rmtree(shim.store)
        pusher.acknowledged.clear()

    shim.fail([call], EIO, part, count=FOR_EVER)
    it.launch()
    it.wait_for_log("store-failed")
    shim.heal()
    it.serving()

    pusher.push_until_answered()
    assert pusher.lost() == set()


@pytest.mark.parametrize("times", [1, 3])
def test_one_fault_of_the_log_costs_one_reading_of_the_store(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, times: int
) -> None:
    it = start(daemon, shim)
    pusher = Pusher(it, peer)

    for _ in range(times):
        shim.fail(["sync"], EIO, ".log")
        pusher.push_until_answered()

    assert it.log().count("store-failed") == it.log().count("store-read-again") == times
    assert pusher.lost() == set()


def test_a_short_write_is_written_on_and_a_full_disk_after_it_is_gone_through(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim
) -> None:
    it = start(daemon, shim)
    power = Power(shim)
    pusher = Pusher(it, peer)

    shim.fail(["write"], SHORT, ".log", count=3)
    pusher.push_until_answered()
    assert "store-failed" not in it.log()
    shim.fail(["write"], SHORT, ".log")
    shim.fail(["write"], ENOSPC, ".log", skip=1)
    pusher.push_until_answered()
    pusher.push_until_answered()
    assert it.log().count("store-read-again") == 1

    it.kill()
    power.cut(Random(2))
    it.start()
    assert pusher.lost() == set()


def test_at_a_stop_a_mark_that_can_not_be_synced_is_said_and_loses_nothing(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim
) -> None:
    it = start(daemon, shim)
    power = Power(shim)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()

    shim.fail(["sync"], EIO, ".log", count=FOR_EVER)
    assert it.stop() == 1
    assert "could not sync the store" in it.log()

    shim.heal()
    power.cut(Random(3))
    it.start()
    assert pusher.lost() == set()
