"""A failing disk beneath a database server: the daemon answers ``unavailable``, then goes on.

pg_wal    a failed write or sync of the server's log ends the server, which restarts itself
base/5    a table that can't grow fails the turn
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from errno import EIO, ENOSPC
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.faults.shim import FOR_EVER, SHORT, Call, Shim
from tests.integration.pusher import REST_MS, Pusher
from tests.postgres import QUICK, Cluster

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory, Message, Peer, PeerFactory

LOG: Final = "pg_wal"
TABLES: Final = "base/5"
"""Folder of the database ``postgres``."""

FAULTS: Final[list[tuple[str, Call, int, int]]] = [
    (LOG, "pwrite", EIO, 1),
    (LOG, "pwrite", ENOSPC, 1),
    (LOG, "sync", EIO, 1),
    (TABLES, "pwrite", ENOSPC, FOR_EVER),
    (TABLES, "pwrite", EIO, FOR_EVER),
]
"""Failing calls: which, how, and how often; a server whose log fails for ever gives up."""

SCHEMAS: Final = count()

Server = tuple[dict[str, str], Shim, Cluster]
"""Settings of a store in a private schema, the shim beneath its server's files, and the server."""
ServerOver = Callable[[str], Server]


@pytest.fixture(scope="module")
def server_over(shim_library: Path) -> Iterator[ServerOver]:
    """Start a server that syncs, over a shim beneath a folder of its data."""
    servers: dict[str, tuple[Cluster, Shim]] = {}

    def over(part: str) -> Server:
        if part not in servers:
            cluster = Cluster(*QUICK, "fsync=on", "restart_after_crash=on")
            servers[part] = cluster, cluster.start_over(shim_library, part)
        cluster, shim = servers[part]
        return {"url": cluster.url, "schema": f"crawl{next(SCHEMAS)}"}, shim, cluster

    yield over
    for cluster, _ in servers.values():
        cluster.stop()


@pytest.mark.parametrize(("part", "call", "error", "times"), FAULTS)
def test_a_fault_of_the_servers_disk_is_said_and_gone_through_and_nothing_acknowledged_is_lost(
    daemon: DaemonFactory, peer: PeerFactory, server_over: ServerOver, part: str, call: Call, error: int, times: int
) -> None:
    store, shim, _ = server_over(part)
    it = daemon(**store)
    pusher = Pusher(it, peer)
    pusher.push_until_answered()

    shim.fail([call], error, count=times)
    pusher.push_until_failed()
    shim.heal()
    pusher.push_until_answered()

    log = it.log()
    assert 0 <= log.find("store-failed") < log.find("store-read-again")
    assert "Traceback" not in log
    assert "store-lost" not in log
    assert pusher.lost() == set()
    assert peer(it).ask("verify")["problems"] == []


def test_a_short_write_of_the_servers_log_is_written_on_by_the_server(
    daemon: DaemonFactory, peer: PeerFactory, server_over: ServerOver
) -> None:
    store, shim, _ = server_over(LOG)
    it = daemon(**store)
    pusher = Pusher(it, peer)

    shim.fail(["pwrite"], SHORT, count=3)
    while not shim.struck:
        pusher.push_until_answered()

    assert "store-failed" not in it.log()
    assert pusher.lost() == set()


@pytest.mark.parametrize(("durability", "is_answered"), [("commit", False), ("interval", True), ("none", True)])
def test_with_commit_and_only_then_an_answer_waits_until_the_server_has_synced_its_log(
    daemon: DaemonFactory, peer: PeerFactory, server_over: ServerOver, durability: str, is_answered: bool
) -> None:
    store, shim, _ = server_over(LOG)
    it = daemon(**store, durability=durability, timeout=60)
    pusher, onlooker = peer(it), peer(it)
    pusher.push("news", "first")

    shim.hold(["sync"])
    n = pusher.send("new-task", project="news", tasks=[{"taskid": "second", "url": "http://site/"}])
    ready = 0
    while ready != 2:  # until the turn has ended
        ready = onlooker.ask("status")["projects"][0]["counts"].get("ready")
    assert pusher.has_message(0 if durability == "commit" else 60_000) == is_answered

    shim.heal()
    assert pusher.receive()["n"] == n


# ---------------------------------------------------------------------------------------- hand-outs


def die_and_come_back(cluster: Cluster, shim: Shim) -> None:
    """Kill the server, which loses all that it has not written to its log, and start it again."""
    cluster.signal(signal.SIGKILL)
    shim.heal()
    cluster.start()


def all_handed_out(fetcher: Peer) -> list[Message]:
    """Say hello until it counts; return the tasks that come before its welcome."""
    while fetcher.ask("hello", capacity=1, after_hand_out=True)["type"] != "welcome":
        fetcher.has_message(REST_MS)
    return handed_out(fetcher)


def handed_out(fetcher: Peer) -> list[Message]:
    """Return the tasks that have come before the last answer."""
    arrived, fetcher.aside = fetcher.aside, []
    return [task for message in arrived if message["type"] == "select" for task in message["tasks"]]


@pytest.mark.parametrize("handout", ["written", "synced"])
def test_with_synced_handouts_and_only_then_a_task_whose_lease_a_dying_server_forgets_was_with_no_fetcher(
    daemon: DaemonFactory, peer: PeerFactory, server_over: ServerOver, handout: str
) -> None:
    store, shim, cluster = server_over(LOG)
    it = daemon(**store, handout=handout, timeout=60)
    producer, first, second = peer(it), peer(it), peer(it)
    producer.push("news", "a")

    shim.hold(["pwrite"])
    first.ask("hello", capacity=1)
    while producer.ask("status")["counts"].get("processing") != 1:  # until the turn has ended
        pass
    first.ask("status")
    before = handed_out(first)
    die_and_come_back(cluster, shim)
    it.wait_for_log("store-read-again")
    [again] = all_handed_out(second)

    assert [task["taskid"] for task in before] == (["a"] if handout == "written" else [])
    assert again["taskid"] == "a"
    assert again["token"] not in [task["token"] for task in before]


def test_with_synced_handouts_a_task_stays_with_its_fetcher_when_the_server_dies(
    daemon: DaemonFactory, peer: PeerFactory, server_over: ServerOver
) -> None:
    store, shim, cluster = server_over(LOG)
    it = daemon(**store, handout="synced", timeout=60)
    producer, first, second = peer(it), peer(it), peer(it)
    producer.push("news", "a")
    [task] = all_handed_out(first)

    shim.hold(["pwrite"])
    producer.send("new-task", project="news", tasks=[{"taskid": "b", "url": "http://site/"}])
    while first.ask("status")["counts"].get("ready") != 1:  # until the turn has ended
        pass
    die_and_come_back(cluster, shim)
    it.wait_for_log("store-read-again")

    assert all_handed_out(second) == []  # "b" was not acknowledged, and is lost
    report = {key: task[key] for key in ("project", "taskid", "token")}
    assert first.ask("done", tasks=[report])["outcomes"] == ["done"]
