"""Recovery from a power cut: a real daemon's files are cut back to what was really synced."""

from __future__ import annotations

import os
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.faults.power import Least, Power
from tests.faults.record import covered, events, log_writes
from tests.faults.shim import Shim
from tests.integration.nursery import Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

TASKS = 50

SYNCING_BY_TWO = """
import os, sys, threading
folder = os.open(sys.argv[1], os.O_RDONLY)
threads = [threading.Thread(target=os.fsync, args=(folder,)) for _ in range(2)]
open(os.path.join(sys.argv[1], "before"), "w").close()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
open(os.path.join(sys.argv[1], "after"), "w").close()
"""


def cut(it: Daemon, shim: Shim, power: Power, chance: Random) -> None:
    """Cut the power, and start the daemon in another boot of the machine."""
    it.kill()
    power.cut(chance)
    shim.boot_id.write_text("second boot\n")
    it.start()


def ready(client: Peer) -> int:
    return int(client.ask("status")["counts"].get("ready", 0))


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_after_it_a_bucket_starts_empty_although_the_stop_before_was_clean(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, durability: str
) -> None:
    limits = {"rate": 0.0001, "burst": TASKS}
    it = daemon(environment=shim.environment, path=str(shim.store), durability=durability, projects={"news": limits})
    peer(it).push("news", "task")
    assert it.stop() == 0
    power = Power(shim)
    it.start()
    assert peer(it).ask("project-show", project="news")["project"]["tokens"] == pytest.approx(TASKS, abs=0.1)

    cut(it, shim, power, Least(1))

    assert peer(it).ask("project-show", project="news")["project"]["tokens"] == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_with_interval_what_was_synced_meanwhile_is_kept(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, seed: int
) -> None:
    it = daemon(environment=shim.environment, path=str(shim.store), durability="interval")
    power, client = Power(shim), peer(it)
    client.push("news", *(f"early{n}" for n in range(TASKS)))
    while not set(log_writes(calls := list(events(shim.record)))) <= covered(calls).keys():
        client.ask("status")
    client.push("news", *(f"late{n}" for n in range(TASKS)))

    cut(it, shim, power, Random(seed))

    assert ready(peer(it)) in (TASKS, 2 * TASKS)


@pytest.mark.parametrize("seed", range(4))
def test_with_none_a_turn_is_there_whole_or_not_at_all(
    daemon: DaemonFactory, peer: PeerFactory, shim: Shim, seed: int
) -> None:
    it = daemon(environment=shim.environment, path=str(shim.store), durability="none")
    power, client = Power(shim), peer(it)
    for turn in range(4):
        client.push("news", *(f"task{turn}-{n}" for n in range(TASKS)))

    cut(it, shim, power, Random(seed))

    client = peer(it)
    assert ready(client) % TASKS == 0
    assert client.ask("verify")["problems"] == []


def test_a_name_is_kept_that_two_threads_synced_at_once_and_one_that_nobody_synced_is_not(shim: Shim) -> None:
    shim.store.mkdir()
    power = Power(shim)
    shim.hold(["sync-folder"])
    command = [sys.executable, "-c", SYNCING_BY_TWO, str(shim.store)]

    with Forked(command, env=os.environ | shim.environment) as process:
        while begun(shim) < 2:
            assert process.poll() is None
        shim.heal()
    power.cut(Least(1))

    assert process.returncode == 0
    assert [path.name for path in shim.store.iterdir()] == ["before"]


def begun(shim: Shim) -> int:
    """Count started syncs of the folder."""
    calls = events(shim.record) if shim.record.exists() else []
    return sum(each.call == "sync-folder" and not each.ended for each in calls)
