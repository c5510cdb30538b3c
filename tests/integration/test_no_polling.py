"""No process polls: wake-ups and messages are counted, idle and loaded.

Each span ends with an event, a task that becomes due, so that it is as long as it takes and no test sleeps. The
daemon's own counters are checked against the kernel's, which counts how often a thread went to sleep.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Message, Peer, PeerFactory

QUIET_SECONDS = 4
"""Length of an idle span, at least: many times the period of any poll."""

SOON_SECONDS = 3
"""Time until something happens by itself; no test may take longer to read the counters before it."""

SAVES = 2
"""Saves of windows, once a minute for each touched project, at a second of its own: a turn, and a wake-up for it and
for
its sync. No test has more than two projects.
"""

TASKS = 10_000
BATCH = 250
CAPACITY = 1000

COUNTERS = ("turns", "wakeups", "frames_in", "frames_out")


def counted(client: Peer, before: dict[str, float]) -> dict[str, float]:
    """Return the daemon's counters since ``before``, including the status request that asks."""
    after = client.shell()
    return {name: after[name] - before[name] for name in COUNTERS}


def assert_woken_once(client: Peer, before: dict[str, float]) -> None:
    """Assert one wake-up, one turn and one message since ``before``, besides this status request."""
    used = counted(client, before)
    assert (used["frames_in"], used["frames_out"]) == (1, 2)
    assert 2 <= used["turns"] <= 2 + SAVES
    # The request may arrive before the daemon has fallen asleep again, and so find it awake.
    assert 1 <= used["wakeups"] <= 2 + SAVES


def switches(daemon: Daemon) -> int:
    """Return how often the loop's thread, or one of ZeroMQ's, went to sleep, as the kernel counts it.

    The syncer's thread is left out: within a sync it sleeps as often as the disk blocks, dozens of times on a busy one.
    """
    assert daemon.process is not None
    threads = Path(f"/proc/{daemon.process.pid}/task").iterdir()
    told = [
        (thread / "status").read_text()
        for thread in threads
        if int(thread.name) == daemon.process.pid or _is_zmq(thread)
    ]
    lines = [line for text in told for line in text.splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def _is_zmq(thread: Path) -> bool:
    return (thread / "comm").read_text().startswith("ZMQ")


def waiting_fetcher(it: Daemon, peer: PeerFactory, capacity: int = 10) -> Peer:
    fetcher = peer(it)
    fetcher.ask("hello", capacity=capacity)
    return fetcher


# ---------------------------------------------------------------------------------------- idle


def test_of_four_delayed_tasks_the_one_due_first_comes_in_its_time_from_a_daemon_that_was_asleep(
    daemon: DaemonFactory, peer: PeerFactory
) -> None:
    it = daemon(durability="none")
    client, fetcher = peer(it), waiting_fetcher(it, peer)
    client.push("news", "a", "b", "c", delay=3600)
    due_at = time.time() + SOON_SECONDS
    client.push("news", "soon", exetime=due_at)
    before = client.shell()

    handed = fetcher.receive()["tasks"]

    assert [task["taskid"] for task in handed] == ["soon"]
    assert time.time() >= due_at
    assert_woken_once(client, before)
    assert client.ask("status")["counts"] == {"delayed": 3, "processing": 1}


@pytest.mark.parametrize("durability", ["commit", "interval", "none"])
def test_an_idle_daemon_neither_wakes_up_nor_computes(
    daemon: DaemonFactory, peer: PeerFactory, durability: str
) -> None:
    it = daemon(durability=durability)
    client, fetchers = peer(it), [waiting_fetcher(it, peer) for _ in range(3)]
    client.push("news", "soon", delay=QUIET_SECONDS)
    before, slept, cpu = client.shell(), switches(it), it.cpu_seconds()

    fetchers[0].receive()

    slept, cpu = switches(it) - slept, it.cpu_seconds() - cpu
    # With "commit" the end of a sync is one more wake-up; a poll of 10 a second would be 40.
    assert counted(client, before)["wakeups"] <= 3 + 2 * SAVES
    assert slept < 15
    assert cpu < 0.2


def test_a_project_without_tokens_does_not_keep_the_daemon_awake(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(durability="none", projects={"slow": {"rate": 1 / SOON_SECONDS, "burst": 1}, "shut": {"rate": 0}})
    client, fetcher = peer(it), waiting_fetcher(it, peer)
    client.push("shut", *(f"task{n}" for n in range(100)))
    client.push("slow", "first", "second")
    first = fetcher.receive()["tasks"]
    before = client.shell()

    second = fetcher.receive()["tasks"]

    assert [task["taskid"] for task in first + second] == ["first", "second"]
    assert_woken_once(client, before)


def test_a_lease_that_runs_out_wakes_the_daemon_up_once(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(durability="none")
    client, fetcher = peer(it), waiting_fetcher(it, peer)
    client.push("news", "a", timeout=SOON_SECONDS)
    fetcher.receive()
    before = client.shell()

    (again,) = fetcher.receive()["tasks"]

    assert (again["taskid"], again["retried"]) == ("a", 1)
    assert_woken_once(client, before)


CLIENT = """
import resource, sys
from taskqueue import Client

def slept():
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

with Client(sys.argv[1]) as client:
    client.push("news", "http://site/now")
    client.done(client.select()[0])
    client.push("news", "http://site/soon", delay=float(sys.argv[2]))
    tasks = client.stream(["news"])
    before = slept()
    next(tasks)
    print(slept() - before, flush=True)
    sys.stdin.readline()
"""
"""Process that waits for a task, and prints how often one of its threads fell asleep meanwhile."""


def test_a_client_that_waits_neither_asks_nor_wakes_up(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon(durability="none")
    watcher = peer(it)

    command = [sys.executable, "-c", CLIENT, it.url, str(QUIET_SECONDS)]
    with Forked(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        slept = int(process.stdout.readline())
        used = watcher.shell()
        process.communicate("\n", timeout=WAIT_SECONDS)

    # A hello at the start, one for each change of its wishes (select, its end, tasks), two pushes, one done.
    assert used["frames_in"] <= 8 + watcher.n
    # Starting to wait and one message concern three threads: the caller's, the client's and ZeroMQ's.
    assert slept < 15


# ---------------------------------------------------------------------------------------- loaded


def test_a_thousand_tasks_take_a_handful_of_messages(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    producer, fetcher = peer(it), peer(it)
    for start in range(0, TASKS, BATCH):
        producer.push("news", *(f"task{n}" for n in range(start, start + BATCH)))
    before = producer.shell()

    fetcher.ask("hello", capacity=CAPACITY)
    selects = [fetcher.receive()]
    while sum(len(select["tasks"]) for select in selects) < TASKS:
        finish(fetcher, selects[-1])
        selects.append(fetcher.receive())
    finish(fetcher, selects[-1])

    used = counted(producer, before)
    assert [len(select["tasks"]) for select in selects] == [CAPACITY] * (TASKS // CAPACITY)
    # One hello in all; for each thousand tasks one select, one done and its answer.
    assert used["frames_in"] == 1 + TASKS / CAPACITY + 1
    assert used["frames_out"] == 1 + 2 * TASKS / CAPACITY + 1
    # At most one wake-up for each message, and one for each sync that a message waits for.
    assert used["wakeups"] <= 2 * used["frames_in"] + 1 + 2 * SAVES


def test_a_fetcher_that_waits_gets_each_push_without_asking(daemon: DaemonFactory, peer: PeerFactory) -> None:
    it = daemon()
    producer, fetcher = peer(it), waiting_fetcher(it, peer, capacity=TASKS)

    for start in range(0, 2000, BATCH):
        producer.push("news", *(f"task{n}" for n in range(start, start + BATCH)))
        select = fetcher.receive()
        assert [task["taskid"] for task in select["tasks"]] == [f"task{n}" for n in range(start, start + BATCH)]

    assert fetcher.n == 1


def finish(fetcher: Peer, select: Message) -> None:
    """Report the tasks of a message as done; the next message may come before the answer."""
    done = [{key: task[key] for key in ("project", "taskid", "token")} for task in select["tasks"]]
    assert fetcher.ask("done", tasks=done)["outcomes"] == ["done"] * len(done)
