"""Order in which answers leave, read from a real daemon's calls: what it wrote, synced and sent, in order.

    commit      after a sync that began when the last write of its turn had returned
    interval    after that write; a sync follows, at most one in INTERVAL_SECONDS
    none        after that write; turns sync nothing
    all         at a start nothing leaves before the new epoch and the mark of an unclean end are synced,
                and a clean stop ends with everything synced, its mark the last

A write is synced, or covered, by a sync of the same file that began after the write had returned, and ended well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest

from taskqueue.server.syncer import INTERVAL_SECONDS
from taskqueue.store.files.synced_mark import NAME as MARK
from tests.faults.record import Event, Message, covered, events, log_syncs, log_writes, sent
from tests.faults.shim import WITH_BYTES, Shim

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory, Peer, PeerFactory

DURABILITIES: Final = ("commit", "interval", "none")
REQUESTS: Final = 20
FETCHER_FIRST: Final = 1000
"""First number of a fetcher's requests, above all of the producer's, so that an answer's number identifies its request.
"""
ONLOOKER_FIRST: Final = 2000
"""First number of an onlooker's requests, above all others."""
LONG_ENOUGH: Final = 4 * INTERVAL_SECONDS
"""Time by which a sync that no promise asks for would have begun."""

Started = tuple["Daemon", Shim]


@pytest.fixture
def started(daemon: DaemonFactory, shim: Shim) -> Callable[[str], Started]:
    """Start a daemon over a shim, with this durability."""

    def start(durability: str) -> Started:
        environment = {**shim.environment, **WITH_BYTES}
        return daemon(environment=environment, path=str(shim.store), durability=durability), shim

    return start


class Requests:
    """Producer that pushes, and fetcher that reports with follow-ups.

    Attributes:
        named: by request number, the taskid that only its turn writes.
    """

    def __init__(self, it: Daemon, peer: PeerFactory) -> None:
        self.producer, self.fetcher = peer(it), peer(it)
        self.named: dict[int, str] = {}
        self.producer.push("news", *(f"page{n}" for n in range(2 * REQUESTS)))
        self.fetcher.n = FETCHER_FIRST
        self.fetcher.ask("hello", capacity=2 * REQUESTS)
        self._tasks = self.fetcher.receive()["tasks"]

    def send(self) -> None:
        """Send REQUESTS of each, without waiting for answers."""
        for _ in range(REQUESTS):
            task = self._tasks.pop()
            pushed, follows = (f"{word}-{len(self.named):04}-" for word in ("pushed", "follows"))
            report = {key: task[key] for key in ("project", "taskid", "token")} | {"new": [later_task(follows)]}
            self.named[self.producer.send("new-task", project="news", tasks=[later_task(pushed)])] = pushed
            self.named[self.fetcher.send("done", tasks=[report])] = follows

    def receive(self) -> None:
        """Receive all answers to ``send``."""
        for peer in (self.producer, self.fetcher):
            for _ in range(REQUESTS):
                peer.receive()

    def written(self, calls: list[Event]) -> dict[int, int]:
        """Return the index of the last write with each request's taskid, by request number."""
        writes = log_writes(calls)
        found = {n: [at for at in writes if taskid.encode() in calls[at].bytes] for n, taskid in self.named.items()}
        return {n: places[-1] for n, places in found.items() if places}

    def answered(self, calls: list[Event]) -> dict[int, int]:
        """Return the index of the call that sent each request's answer, by request number."""
        return {message["n"]: at for at, message in sent(calls) if message.get("n") in self.named}


def last_change(write: Event) -> int:
    """Return the number of the last change in a batch written to RocksDB's log in one piece: behind checksum, length
    and type,
    the batch has its first number and the number of its changes.
    """
    first, count = struct.unpack_from("<QI", write.bytes, 7)
    return int(first + count - 1)


def mark_seq(write: Event) -> int:
    """Return the number in a mark, which follows a word of eight bytes."""
    return int(struct.unpack_from("<Q", write.bytes, 8)[0])


def later_task(taskid: str) -> Message:
    return {"taskid": taskid, "url": "http://site/", "schedule": {"delay": 3600}}


def wait_until(shim: Shim, client: Peer, condition: Callable[[list[Event]], object]) -> list[Event]:
    """Return the calls once they fulfil the condition; the requests meanwhile change nothing."""
    client.n = ONLOOKER_FIRST
    while not condition(calls := list(events(shim.record))):
        client.ask("status")
    return calls


def first_sent(calls: list[Event], after: int = 0) -> int:
    """Return the index of the first call that sent anything, from an index on."""
    return next(at for at, each in enumerate(calls) if each.call == "send" and at >= after)


def test_with_commit_an_answer_leaves_after_a_sync_that_began_after_its_turns_last_write(
    started: Callable[[str], Started], peer: PeerFactory
) -> None:
    it, shim = started("commit")
    requests = Requests(it, peer)

    shim.hold(["sync"], ".log")
    requests.send()
    wait_until(shim, peer(it), lambda calls: len(requests.written(calls)) == 2 * REQUESTS)
    shim.heal()
    requests.receive()
    requests.send()
    requests.receive()

    calls = list(events(shim.record))
    written, answered, by = requests.written(calls), requests.answered(calls), covered(calls)
    assert written.keys() == answered.keys() == requests.named.keys()
    assert [n for n, at in answered.items() if not by.get(written[n], len(calls)) < at] == []


def test_the_mark_is_never_ahead_of_what_is_synced(started: Callable[[str], Started], peer: PeerFactory) -> None:
    it, shim = started("commit")
    requests = Requests(it, peer)
    first = len(list(events(shim.record)))

    shim.hold(["sync"], ".log")
    onlooker = peer(it)
    for _ in range(2):  # the second round is written while the first one's sync waits
        requests.send()
        wait_until(shim, onlooker, lambda calls: len(requests.written(calls)) == len(requests.named))
    shim.heal()
    requests.receive()
    requests.receive()

    calls = list(events(shim.record))
    by, last = covered(calls), {at: last_change(calls[at]) for at in log_writes(calls)}
    marks = {at: mark_seq(calls[at]) for at in range(first, len(calls)) if calls[at].name == MARK and calls[at].bytes}
    synced = {at: max(change for write, change in last.items() if by.get(write, at) < at) for at in marks}
    assert marks
    assert [(mark, synced[at]) for at, mark in marks.items() if mark > synced[at]] == []


@pytest.mark.parametrize("durability", ["interval", "none"])
def test_without_commit_an_answer_leaves_after_its_write_and_waits_for_no_sync(
    started: Callable[[str], Started], peer: PeerFactory, durability: str
) -> None:
    it, shim = started(durability)
    requests = Requests(it, peer)

    shim.hold(["sync"], ".log")
    requests.send()
    requests.receive()
    calls = list(events(shim.record))
    shim.heal()

    written, answered, by = requests.written(calls), requests.answered(calls), covered(calls)
    assert written.keys() == answered.keys() == requests.named.keys()
    assert [n for n, at in answered.items() if not written[n] < at] == []
    assert set(written.values()) - by.keys()


def test_with_interval_everything_is_synced_soon_and_not_more_often_than_promised(
    started: Callable[[str], Started], peer: PeerFactory
) -> None:
    it, shim = started("interval")
    requests = Requests(it, peer)
    first = len(list(events(shim.record)))

    for _ in range(2):
        requests.send()
        requests.receive()
    calls = wait_until(shim, peer(it), lambda calls: set(log_writes(calls)) <= covered(calls).keys())

    syncs = [calls[at].seconds for at in log_syncs(calls) if at > first]
    assert syncs
    assert min((later - sooner for sooner, later in pairwise(syncs)), default=1.0) >= INTERVAL_SECONDS


def test_with_none_turns_sync_nothing(started: Callable[[str], Started], peer: PeerFactory) -> None:
    it, shim = started("none")
    requests = Requests(it, peer)

    for _ in range(2):
        requests.send()
        requests.receive()
    calls = wait_until(shim, peer(it), lambda calls: calls[-1].seconds > calls[first_sent(calls)].seconds + LONG_ENOUGH)

    assert [at for at in log_syncs(calls) if at > first_sent(calls)] == []


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_clean_stop_ends_with_everything_synced_and_its_mark_the_last(
    started: Callable[[str], Started], peer: PeerFactory, durability: str
) -> None:
    it, shim = started(durability)
    requests = Requests(it, peer)
    requests.send()
    requests.receive()

    assert it.stop() == 0

    calls = list(events(shim.record))
    writes, by = log_writes(calls), covered(calls)
    assert b"clean" in calls[writes[-1]].bytes
    assert set(writes) <= by.keys()


@pytest.mark.parametrize("durability", DURABILITIES)
def test_at_a_start_nothing_leaves_before_its_epoch_and_the_mark_of_an_unclean_end_are_synced(
    started: Callable[[str], Started], peer: PeerFactory, durability: str
) -> None:
    it, shim = started(durability)
    assert it.stop() == 0
    before = len(list(events(shim.record)))
    it.start()
    peer(it).push("news", "task")

    calls = list(events(shim.record))
    sent_at = first_sent(calls, before)
    early = [at for at in log_writes(calls) if before < at < sent_at]
    by = covered(calls)
    assert [word for word in (b"epoch", b"clean") if not any(word in calls[at].bytes for at in early)] == []
    assert [at for at in early if not by.get(at, sent_at) < sent_at] == []


@pytest.mark.parametrize("handout", ["written", "synced"])
def test_with_synced_handouts_and_only_then_a_task_leaves_after_the_sync_of_its_lease(
    daemon: DaemonFactory, shim: Shim, peer: PeerFactory, handout: str
) -> None:
    it = daemon(environment=shim.environment, path=str(shim.store), handout=handout)
    producer, fetcher = peer(it), peer(it)
    producer.push("news", "a")

    shim.hold(["sync"], ".log")
    fetcher.ask("hello", capacity=1)
    while producer.ask("status")["counts"].get("processing") != 1:
        pass
    fetcher.ask("status")
    early = [message["type"] for message in fetcher.aside]
    shim.heal()

    assert early == (["select"] if handout == "written" else [])
    assert [task["taskid"] for task in fetcher.receive()["tasks"]] == ["a"]
