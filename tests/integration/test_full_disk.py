"""Another program fills the daemon's disk: nothing acknowledged is lost, and the daemon recovers by itself.

The daemon reserves no space here (``min_free`` 0), so that it meets the disk's own errors. Every test runs on a small
real file system, where this user may mount one, and behind a quota everywhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import EDQUOT, EIO, ENOSPC
from itertools import count
from pathlib import Path
from threading import Condition
from typing import Final, get_args

import pytest

from taskqueue import Client
from taskqueue.protocol.choices import TaskState
from taskqueue.store.contract import Batch
from taskqueue.store.records.format import FORMAT, FORMAT_KEY, META
from taskqueue.store.rocksdb.rocks_store import RocksStore
from tests.integration.conftest import WAIT_SECONDS, Daemon, DaemonFactory, Peer, PeerFactory
from tests.integration.free_address import free_address
from tests.integration.nursery import Forked, run_forked
from tests.integration.small_disk import QuotaDisk, SmallDisk, may_mount, mounted

AnyDisk = SmallDisk | QuotaDisk

COMMAND: Final = [sys.executable, "-m", "taskqueue.cli.main"]
BATCH: Final = 10
BODY_BYTES: Final = 100
TIMES_FULL: Final = 2
ASK_AGAIN_MS: Final = 500
TASKS: Final = 500
"""Tasks: more changes than fit into the last page of a file on a full disk."""


class Crawl:
    """Producer and fetcher that repeat unanswered requests, and record acknowledgements.

    Attributes:
        pushed, done: taskids.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.pushed: set[str] = set()
        self.done: set[str] = set()
        self._grown = Condition()
        self._ending = False
        self._pool = ThreadPoolExecutor(2)
        self._work = [self._pool.submit(self._produce), self._pool.submit(self._fetch)]

    def wait_for_more(self) -> None:
        """Wait until more tasks have been pushed and done than at the call."""
        with self._grown:
            pushed, done = len(self.pushed), len(self.done)
            more = self._grown.wait_for(lambda: len(self.pushed) > pushed and len(self.done) > done, WAIT_SECONDS)
            assert more, f"after {pushed} pushed and {done} done tasks it did not go on"

    def end(self) -> None:
        """Let both finish their current requests."""
        self._ending = True
        for each in self._work:
            each.result()
        self._pool.shutdown()

    def _produce(self) -> None:
        with Client(self._url, timeout=2 * WAIT_SECONDS) as client:
            for first in count(step=BATCH):
                if self._ending:
                    return
                taskids = [f"task{n}" for n in range(first, first + BATCH)]
                body = os.urandom(BODY_BYTES).hex()
                pushed = client.push_many(
                    "news", [{"taskid": each, "url": f"http://site/{each}", "save": body} for each in taskids]
                )
                assert pushed.rejected == 0, pushed.errors
                self._note(self.pushed, taskids)

    def _fetch(self) -> None:
        with Client(self._url, timeout=2 * WAIT_SECONDS) as client:
            while not self._ending:
                for task in client.select(BATCH, timeout=1.0):
                    client.done(task)
                    self._note(self.done, [task.taskid])

    def _note(self, ledger: set[str], taskids: list[str]) -> None:
        with self._grown:
            ledger.update(taskids)
            self._grown.notify_all()


@pytest.fixture(params=["quota", "small disk"] if may_mount() else ["quota"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyDisk]:
    if request.param == "quota":
        yield QuotaDisk(tmp_path)
        return
    with mounted(tmp_path):
        yield SmallDisk(tmp_path)


@pytest.fixture
def on_disk(disk: AnyDisk, daemon: DaemonFactory) -> Callable[[], Daemon]:
    """Start a daemon whose store is on the disk."""
    return lambda: daemon(entry=disk.entry, path=str(disk.store_path), min_free=0)


def known(url: str) -> dict[str, str]:
    """List all tasks of the project: states by taskid."""
    with Client(url) as client:
        return {row.taskid: state for state in get_args(TaskState) for row in client.tasks.iter("news", state)}


def wait_until_unavailable(asking: Peer) -> None:
    """Ask until the daemon answers ``unavailable``; a request just before the store failed gets no answer."""
    asking.send("status")
    while not asking.has_message(ASK_AGAIN_MS) or asking.receive().get("code") != "unavailable":
        asking.send("status")


def test_under_load_nothing_acknowledged_is_lost_and_it_goes_on_whenever_there_is_room(
    disk: AnyDisk, on_disk: Callable[[], Daemon], peer: PeerFactory
) -> None:
    it = on_disk()
    crawl = Crawl(it.url)
    crawl.wait_for_more()

    for _ in range(TIMES_FULL):
        disk.fill()
        wait_until_unavailable(peer(it))
        disk.make_room()
        crawl.wait_for_more()
    crawl.end()

    tasks = known(it.url)
    assert crawl.pushed <= tasks.keys()
    assert {tasks[each] for each in crawl.done} == {"success"}
    assert it.log().count("store-read-again") >= TIMES_FULL
    assert "Traceback" not in it.log()
    assert it.stop() == 0


def test_killed_and_started_again_on_the_full_disk_it_listens_and_goes_on_when_there_is_room(
    disk: AnyDisk, on_disk: Callable[[], Daemon], peer: PeerFactory
) -> None:
    it = on_disk()
    crawl = Crawl(it.url)
    crawl.wait_for_more()

    disk.fill()
    wait_until_unavailable(peer(it))
    it.kill()
    it.launch()
    it.wait_for_log(f"requests to {it.url} are answered unavailable")
    wait_until_unavailable(peer(it))
    disk.make_room()
    it.serving()
    crawl.wait_for_more()
    crawl.end()

    tasks = known(it.url)
    assert crawl.pushed <= tasks.keys()
    assert {tasks[each] for each in crawl.done} == {"success"}


def set_rate(client: Client, n: int) -> None:
    client.projects.set("news", {"rate": 1000.0 + n})


def cancel(client: Client, n: int) -> None:
    assert client.tasks.cancel("news", [f"task{n}"]) == ["done"]


def act_often(act: Callable[[Client, int], None], client: Client) -> None:
    for n in range(TASKS):
        act(client, n)


@pytest.mark.parametrize("act", [set_rate, cancel])
def test_what_an_operator_asks_of_it_on_a_full_disk_is_done_when_there_is_room(
    disk: AnyDisk, on_disk: Callable[[], Daemon], peer: PeerFactory, act: Callable[[Client, int], None]
) -> None:
    it = on_disk()
    peer(it).push("news", *[f"task{n}" for n in range(TASKS)])

    with Client(it.url, timeout=2 * WAIT_SECONDS) as client, ThreadPoolExecutor(1) as pool:
        disk.fill()
        acts = pool.submit(act_often, act, client)
        wait_until_unavailable(peer(it))
        disk.make_room()
        acts.result(WAIT_SECONDS)

    assert it.log().count("store-read-again") == 1
    assert "Traceback" not in it.log()
    assert it.stop() == 0


def test_a_new_store_on_a_full_disk_is_made_when_there_is_room(
    disk: AnyDisk, on_disk: Callable[[], Daemon], peer: PeerFactory
) -> None:
    it = on_disk()
    assert it.stop() == 0
    subprocess.run(["rm", "-r", str(disk.store_path)], check=True)

    disk.fill()
    it.launch()
    it.wait_for_log("store-failed")
    disk.make_room()
    it.serving()

    assert peer(it).push("news", "task") == ["new"]


def test_while_it_waits_for_the_disk_a_stop_is_heeded_and_said_to_be_none_of_a_usable_store(
    disk: AnyDisk, on_disk: Callable[[], Daemon], peer: PeerFactory
) -> None:
    it = on_disk()
    peer(it).push("news", *[f"task{n}" for n in range(100)])
    it.kill()
    disk.fill()
    it.launch()
    it.wait_for_log("store-still-fails")

    assert it.stop(signal.SIGTERM) == 1
    assert "taskqueue: stopped while the store could not be used: " in it.log()


def test_a_daemon_whose_output_goes_to_a_full_disk_serves_all_the_same(tmp_path: Path, peer: PeerFactory) -> None:
    url = f"tcp://{free_address()}"
    command = [*COMMAND, "daemon", "start", "--bind", url, "--store", str(tmp_path / "data")]
    with open("/dev/full", "w") as full, Forked(command, stdout=full, stderr=full) as it:
        try:
            assert peer(url).ask("verify")["problems"] == []
        finally:
            it.terminate()

    assert it.returncode == 0


@pytest.mark.parametrize("code", [ENOSPC, EDQUOT, EIO])
def test_a_start_waits_for_a_disk_that_is_full_or_over_its_quota_or_does_not_work(
    tmp_path: Path, daemon: DaemonFactory, peer: PeerFactory, code: int
) -> None:
    disk = QuotaDisk(tmp_path)
    it = daemon(entry=disk.entry, path=str(disk.store_path), min_free=0)
    it.stop()
    disk.fill(code)
    it.launch()
    it.wait_for_log("store-failed")

    refused = peer(it).ask("status")
    assert refused["code"] == "unavailable"
    assert os.strerror(code) in refused["reason"]
    disk.make_room()
    it.serving()


def damage(it: Daemon) -> None:
    (it.store_path / "CURRENT").write_text("nothing\n")


def take_its_place(it: Daemon) -> None:
    (it.store_path).rename(it.store_path.with_name("aside"))
    it.store_path.touch()


def make_newer(it: Daemon) -> None:
    with closing(RocksStore(it.store_path)) as store:
        store.write(store.begin(), Batch(puts={META: [(FORMAT_KEY, b"%d" % (FORMAT + 1))]}))


@pytest.mark.parametrize(
    ("mishap", "words"),
    [
        (damage, "CURRENT names "),
        (take_its_place, "could not open the store: "),
        (make_newer, f"format {FORMAT + 1} is newer than {FORMAT}"),
    ],
)
def test_a_start_ends_at_once_with_its_message_where_waiting_would_not_help(
    daemon: DaemonFactory, mishap: Callable[[Daemon], None], words: str
) -> None:
    it = daemon()
    it.stop()
    mishap(it)
    it.launch()

    assert it.ended() == 1
    assert f"taskqueue: {it.store_path}: {words}" in it.log()


def test_a_start_ends_at_once_where_another_daemon_has_the_store(daemon: DaemonFactory) -> None:
    it = daemon()
    config = it.config_file.with_name("other.toml")
    config.write_text(f'[daemon]\nbind = "tcp://127.0.0.1:*"\n[store]\npath = "{it.store_path}"\n')

    other = run_forked([*COMMAND, "daemon", "start", "-c", config])

    assert other.returncode == 1
    assert f"{it.store_path}: another daemon has this store open" in other.stderr
