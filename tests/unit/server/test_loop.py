"""The loop when its store fails or is slow: waiting replies are dropped, the core is loaded again, nothing is lost.

The real loop on a real socket; only the disk is made to fail. The client runs in a second thread, because the loop's
signals belong to the first.
"""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any

import msgpack
import pytest
import zmq

from taskqueue.core.model.now import Now
from taskqueue.errors import Corrupt, Fenced, StoreError
from taskqueue.protocol.fields import Peer, Wall
from taskqueue.server import loop as loop_module
from taskqueue.server.clock import Clock, boot_id
from taskqueue.server.engine import Engine
from taskqueue.server.limits import DiskSpace
from taskqueue.server.loop import Loop
from taskqueue.server.meters import Meters
from taskqueue.server.network.router import Router
from taskqueue.server.signals import Signals
from taskqueue.server.systemd import ServiceReports
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.contract import Batch, Family
from taskqueue.store.ledger import Ledger
from taskqueue.store.rocksdb.rocks_store import RocksStore

UNASKED_MS = 40_000
REPEAT_MS = 100
SOON_MS = 200
REPEATS = 300
SLOW_SECONDS = 0.2


class WallClock(Clock):
    """Clock whose wall time is set by hand."""

    def __init__(self, wall: float) -> None:
        super().__init__()
        self.wall = wall

    def now(self) -> Now:
        return Now(Wall(self.wall), super().now().boot)


class Trouble:
    """Failures of a disk: errors to raise, by call, each once.

    Attributes:
        opened: number of times the store was opened.
        order: the syncs that began, and the types of the messages that were sent, in their order.
    """

    def __init__(self) -> None:
        self.opened = 0
        self.order: list[str] = []
        self.coming: dict[str, list[Exception]] = {}
        self.stop_comes = False
        self.over = Event()
        self.over.set()
        self.sync_begun = Event()
        self.synced = Event()
        self.synced.set()

    def let_fail(self, what: str, *errors: Exception) -> None:
        self.coming.setdefault(what, []).extend(errors)

    def let_recover(self) -> None:
        """Cancel all failures."""
        self.coming = {}

    def let_hang(self) -> None:
        """Let writes wait until ``over`` is set."""
        self.over.clear()

    def let_syncs_hang(self) -> None:
        """Let syncs wait until ``synced`` is set; ``sync_begun`` is set when one does."""
        self.sync_begun.clear()
        self.synced.clear()

    def let_stop(self) -> None:
        """Stop the daemon at the next sync, which is a slow one."""
        self.stop_comes = True

    def may_fail(self, what: str) -> None:
        if errors := self.coming.get(what):
            raise errors.pop(0)
        if what == "write":
            self.over.wait()
        if what == "sync":
            self.order.append("sync")
            self.sync_begun.set()
            self.synced.wait()
        if what == "sync" and self.stop_comes:
            self.stop_comes = False
            os.kill(os.getpid(), signal.SIGTERM)
            Event().wait(SLOW_SECONDS)


class FailingStore:
    """RocksStore on a failing disk; writes of ``begin`` always work, opening may fail."""

    def __init__(self, path: Path, trouble: Trouble) -> None:
        trouble.may_fail("open")
        self._store = RocksStore(path)
        trouble.opened += 1
        self._trouble = trouble
        self._begun = False

    def begin(self) -> int:
        return self._store.begin()

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._store.get(family, keys)

    def scan(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._store.scan(family, start, end, limit)

    def scan_back(self, family: Family, start: bytes, end: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        return self._store.scan_back(family, start, end, limit)

    def write(self, epoch: int, batch: Batch) -> None:
        if self._begun:
            self._trouble.may_fail("write")
        self._store.write(epoch, batch)

    def sync(self) -> None:
        if self._begun:
            self._trouble.may_fail("sync")
        self._store.sync()
        self._begun = True

    def levels(self) -> dict[int, list[int]]:
        return self._store.levels()

    def log_bytes(self) -> int:
        return self._store.log_bytes()

    def close(self) -> None:
        self._store.close()


class NotingRouter(Router):
    """Router that records sent messages. A select takes so long that a sync could begin meanwhile."""

    def __init__(self, meters: Meters, trouble: Trouble) -> None:
        super().__init__("tcp://127.0.0.1:*", 1 << 20, meters)
        self._trouble = trouble

    def send(self, peer: Peer, payload: bytes) -> bool:
        kind = msgpack.unpackb(payload)["type"]
        if kind == "select":
            self._trouble.sync_begun.wait(SLOW_SECONDS)
        self._trouble.order.append(kind)
        return super().send(peer, payload)


class Client:
    """Client that repeats its request until it is answered.

    Attributes:
        url: address of the daemon.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = uuid.uuid4().hex
        self._n = 0
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, UNASKED_MS)
        self._socket.connect(url)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        self.send(kind, **fields)
        while (answer := self.own_answer())["type"] == "error":
            continue
        return answer

    def own_answer(self) -> dict[str, Any]:
        """Return the next message to the last request; a repeated request is answered more than once."""
        while (answer := self.answer()).get("n") != self._n:
            continue
        return answer

    def answer(self) -> dict[str, Any]:
        """Return the next message of any kind."""
        for _ in range(REPEATS):
            if self._socket.poll(REPEAT_MS):
                return dict(msgpack.unpackb(self._socket.recv()))
            self._socket.send(self._last)
        raise AssertionError("no answer")

    def unasked(self) -> dict[str, Any]:
        """Return the next message that comes without a further request."""
        assert self._socket.poll(UNASKED_MS), "nothing came"
        return dict(msgpack.unpackb(self._socket.recv()))

    def until(self, kind: str, milliseconds: int = UNASKED_MS) -> list[str]:
        """Return the types of messages up to one of this kind; empty if none of this kind comes in time."""
        types: list[str] = []
        while self._socket.poll(milliseconds):
            types.append(msgpack.unpackb(self._socket.recv())["type"])
            if types[-1] == kind:
                return types
        return []

    def say(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask once; return the next message."""
        self.send(kind, **fields)
        return self.unasked()

    def push(self, taskid: str) -> list[str]:
        task = {"taskid": taskid, "url": "http://site/"}
        return list(self.ask("new-task", project="news", tasks=[task])["outcomes"])

    def repeat(self) -> dict[str, Any]:
        """Send the last request again, once; return the next message."""
        self._socket.send(self._last)
        return self.unasked()

    def send(self, kind: str, **fields: Any) -> None:
        self._n += 1
        self._last = msgpack.packb({"type": kind, "v": 1, "session": self._session, "n": self._n} | fields)
        self._socket.send(self._last)

    def close(self) -> None:
        self._socket.close()


def serve(
    path: Path,
    trouble: Trouble,
    script: Callable[[Client], None],
    *,
    ends_itself: bool = False,
    disk: DiskSpace | None = None,
    reload: Callable[[], tuple[CoreConfig, Sequence[str]] | None] = lambda: None,
    clock: Clock | None = None,
) -> None:
    """Run a loop while the client follows its script; then stop it by SIGTERM, unless it ends by itself."""
    clock, meters, over = clock or Clock(), Meters(), Event()

    def begin(config: CoreConfig) -> Engine:
        ledger = Ledger(FailingStore(path, trouble))
        return Engine(ledger, boot_id(), config, clock.now(), "commit", meters)

    def probe() -> None:
        trouble.may_fail("probe")

    def follow(url: str) -> None:
        with closing(Client(url)) as client:
            try:
                script(client)
            finally:
                trouble.over.set()
                trouble.synced.set()
                if not ends_itself:
                    os.kill(os.getpid(), signal.SIGTERM)
                over.wait()  # a slow request of a client that has left is dropped

    with (
        Signals() as signals,
        closing(NotingRouter(meters, trouble)) as router,
        ThreadPoolExecutor(1) as pool,
    ):
        config = CoreConfig(auto_create=True)
        room = disk or DiskSpace(str(path), min_free=0)
        service = ServiceReports({})
        loop = Loop(router, signals, clock, meters, begin, probe, reload, lambda events: None, room, service, config)
        loop.start()
        script_run = pool.submit(follow, router.endpoint)
        try:
            loop.run()
        finally:
            over.set()
        script_run.result()


def start_project(client: Client) -> None:
    client.send("project-do", project="news", action="start")


def test_after_a_failed_write_the_repeated_request_is_done(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        trouble.let_fail("write", StoreError("no space left"))

        assert client.push("a") == ["new"]
        assert client.push("a") == ["ignored"]
        assert client.ask("status")["shell"]["reloads"] == 1

    serve(tmp_path, trouble, script)


def test_after_a_failed_sync_nothing_unsafe_was_acknowledged_and_the_repeat_is_answered_once(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        assert client.push("a") == ["new"]
        trouble.let_fail("sync", StoreError("i/o error"))

        assert client.push("b") == ["new"]
        status = client.ask("status")
        assert status["counts"] == {"ready": 2}
        assert status["shell"]["reloads"] == 1

    serve(tmp_path, trouble, script)


def test_after_a_failed_sync_answers_wait_for_syncs_that_began_after_it(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        for number in range(10):
            client.push(f"before{number}")
        trouble.let_fail("sync", StoreError("i/o error"))
        client.push("b")
        trouble.let_syncs_hang()
        client.send("project-do", project="news", action="stop")
        client.send("status")

        # A reply that needs no sync doesn't wait: so it overtakes the replies to earlier requests, twice.
        before = client.until("status-reply")
        client.send("status")
        before += client.until("status-reply")
        trouble.synced.set()

        assert "project-reply" not in before
        assert client.until("project-reply")

    serve(tmp_path, trouble, script)


def test_a_config_that_was_read_again_is_in_force_after_the_store_has_failed(tmp_path: Path) -> None:
    trouble = Trouble()

    def push_to(client: Client, project: str) -> list[str]:
        tasks = [{"taskid": "a", "url": "http://site/"}]
        return list(client.ask("new-task", project=project, tasks=tasks)["outcomes"])

    def script(client: Client) -> None:
        client.push("a")
        os.kill(os.getpid(), signal.SIGHUP)
        assert any(push_to(client, f"project{n}") == ["rejected"] for n in range(REPEATS))
        trouble.let_fail("write", StoreError("no space left"))
        client.push("b")

        assert client.ask("status")["shell"]["reloads"] == 1
        assert push_to(client, "another") == ["rejected"]

    serve(tmp_path, trouble, script, reload=lambda: (CoreConfig(auto_create=False), ["daemon.auto_create"]))


def test_a_select_leaves_before_the_sync_of_its_turn_begins(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        client.say("hello", capacity=1)
        trouble.order.clear()
        trouble.sync_begun.clear()

        first = client.say("new-task", project="news", tasks=[{"taskid": "a", "url": "http://site/"}])

        assert {first["type"], client.unasked()["type"]} == {"select", "new-task-reply"}
        assert trouble.order == ["select", "sync", "new-task-reply"]

    serve(tmp_path, trouble, script)


def test_while_too_much_waits_for_the_disk_nothing_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_module, "MAX_WAITING_BYTES", 1)
    trouble = Trouble()

    def script(client: Client) -> None:
        client.push("a")
        trouble.let_syncs_hang()
        client.send("project-do", project="news", action="stop")
        trouble.sync_begun.wait()
        client.send("status")
        assert client.until("status-reply", SOON_MS) == []
        trouble.synced.set()

        assert "project-reply" in client.until("status-reply")

    serve(tmp_path, trouble, script)


def test_while_the_store_stays_unwell_requests_are_answered_unavailable(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        trouble.let_fail("open", *[StoreError("no such disk")] * 100)
        trouble.let_fail("write", StoreError("no such disk"))

        client.send("new-task", project="news", tasks=[{"taskid": "a", "url": "http://site/"}])
        assert client.own_answer()["code"] == "unavailable"
        trouble.let_recover()
        while (answer := client.own_answer())["type"] == "error":
            assert answer["code"] == "unavailable"
        assert answer["outcomes"] == ["new"]

    serve(tmp_path, trouble, script)


def test_a_store_that_a_probe_finds_unusable_is_not_opened_until_another_probe_finds_it_well(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        trouble.let_fail("probe", *[StoreError("no such disk")] * 100)
        trouble.let_fail("write", StoreError("no such disk"))

        client.send("new-task", project="news", tasks=[{"taskid": "a", "url": "http://site/"}])
        assert client.own_answer()["code"] == "unavailable"
        assert trouble.opened == 1
        trouble.let_recover()
        while client.own_answer()["type"] == "error":
            continue
        assert trouble.opened == 2

    serve(tmp_path, trouble, script)


def test_each_connection_that_has_said_something_is_told_when_the_store_was_read_again_so_that_it_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_module, "ASKED_AT_ONCE", 2)
    trouble = Trouble()

    def script(client: Client) -> None:
        with ExitStack() as stack:
            silent, *others = [stack.enter_context(closing(Client(client.url))) for _ in range(6)]
            for each in others:
                each.ask("status")
            before = client.ask("status")["epoch"]
            trouble.let_fail("write", StoreError("no space left"))

            told = client.say("new-task", project="news", tasks=[{"taskid": "a", "url": "http://site/"}])
            assert (told["type"], told["epoch"]) == ("hello-wanted", before + 1)
            assert [each.unasked() for each in others] == [told] * len(others)
            assert client.repeat()["outcomes"] == ["new"]
            assert silent.say("status")["type"] == "status-reply"

    serve(tmp_path, trouble, script)


def test_a_client_that_was_told_unavailable_is_told_when_the_store_was_read_again(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        trouble.let_fail("open", *[StoreError("no such disk")] * 100)
        trouble.let_fail("write", StoreError("no such disk"))

        client.send("project-do", project="news", action="start")
        assert client.own_answer()["code"] == "unavailable"
        trouble.let_recover()

        assert client.until("hello-wanted")

    serve(tmp_path, trouble, script)


def test_an_epoch_grows_with_each_reload(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        before = client.ask("status")["epoch"]
        trouble.let_fail("write", StoreError("no space left"))
        client.push("a")

        assert client.ask("status")["epoch"] > before

    serve(tmp_path, trouble, script)


def test_a_scheduler_that_was_replaced_stops(tmp_path: Path) -> None:
    trouble = Trouble()
    trouble.let_fail("write", Fenced("epoch 7 has begun"))

    with pytest.raises(Fenced):
        serve(tmp_path, trouble, start_project, ends_itself=True)


def test_a_corrupt_store_stops_the_daemon(tmp_path: Path) -> None:
    trouble = Trouble()
    trouble.let_fail("write", Corrupt("a record can't be read"))

    with pytest.raises(Corrupt):
        serve(tmp_path, trouble, start_project, ends_itself=True)


def test_a_stop_while_the_store_is_unwell_is_not_called_clean(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        client.ask("status")
        trouble.let_fail("open", *[StoreError("no such disk")] * 100)
        trouble.let_fail("write", StoreError("no such disk"))
        client.send("project-do", project="news", action="start")

        assert client.own_answer()["code"] == "unavailable"

    with pytest.raises(StoreError, match="stopped while the store could not be used"):
        serve(tmp_path, trouble, script)


def test_a_stop_waits_for_the_disk_and_sends_what_waited_for_it(tmp_path: Path) -> None:
    trouble = Trouble()

    def script(client: Client) -> None:
        trouble.let_stop()

        assert client.push("a") == ["new"]

    serve(tmp_path, trouble, script, ends_itself=True)


def test_slow_requests_are_spread_over_turns_and_answered_in_their_order(tmp_path: Path) -> None:
    trouble = Trouble()
    heard: list[int] = []
    turns: list[int] = []

    def script(client: Client) -> None:
        turns.append(client.ask("status")["shell"]["turns"])
        trouble.let_hang()
        start_project(client)
        for _ in range(40):
            client.send("task-list", project="news", state="ready", url="*a*")
            client.send("project-show", project="news")
        trouble.over.set()
        while heard[-1:] != [82]:
            n = client.answer()["n"]
            if n > 2 and n not in heard:
                heard.append(n)
        turns.append(client.ask("status")["shell"]["turns"])

    serve(tmp_path, trouble, script)
    assert heard == list(range(3, 83))
    assert turns[1] - turns[0] >= 40 / 2


def test_a_stop_is_marked_as_a_clean_one(tmp_path: Path) -> None:
    serve(tmp_path, Trouble(), lambda client: None)

    with closing(Ledger(RocksStore(tmp_path))) as ledger:
        assert ledger.begin("another boot").clean


def test_on_a_disk_that_is_nearly_full_it_looks_again_by_itself_and_goes_on(tmp_path: Path) -> None:
    disk = DiskSpace(str(tmp_path), min_free=0)

    def script(client: Client) -> None:
        assert client.push("a") == ["new"]
        disk.use(1 << 60)
        client.ask("hello", capacity=1)
        assert not disk.has_room

        disk.use(0)
        assert client.until("select")

    serve(tmp_path, Trouble(), script, disk=disk)


def test_the_daemon_tells_of_its_process_its_turns_and_its_store(tmp_path: Path) -> None:
    def script(client: Client) -> None:
        client.push("a")
        client.push("b")

        told = client.ask("daemon-show")

        assert (told["pid"], told["epoch"], told["durability"]) == (os.getpid(), 1, "commit")
        assert told["resident_bytes"] > 1 << 20
        assert told["resident_bytes_most"] == 1 << 30
        assert told["free_bytes"] > 0
        assert told["shell"]["turns"] == sum(told["histograms"]["turn_seconds"]["counts"])
        assert told["shell"]["writes"] == sum(told["histograms"]["commit_seconds"]["counts"])
        assert sum(told["histograms"]["sync_seconds"]["counts"]) >= 1
        assert told["histograms"]["turn_tasks"]["sum"] == 2
        assert 0 < told["log_bytes"] <= sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
        assert sum(level["tables"] for level in told.get("levels", ())) == len(list(tmp_path.rglob("*.sst")))

    serve(tmp_path, Trouble(), script)


def test_how_the_daemon_was_by_the_minute_is_kept_over_an_orderly_restart(tmp_path: Path) -> None:
    clock = WallClock(6_000_000.0)
    told: list[dict[str, Any]] = []

    def work(client: Client) -> None:
        client.push("a")
        clock.wall += 60
        client.push("b")

    def look(client: Client) -> None:
        told.extend(client.ask("daemon-history")["points"])

    serve(tmp_path, Trouble(), work, clock=clock)
    clock.wall += 60
    serve(tmp_path, Trouble(), look, clock=clock)

    assert [(point["at"], point["epoch"], point["new"]) for point in told] == [(6_000_000, 1, 1), (6_000_060, 1, 1)]
    assert all(point["turns"] >= point["commits"] >= 1 for point in told)
    assert all(point["sync_most_seconds"] >= point["sync_p99_seconds"] > 0 for point in told)
    assert all(point["resident_bytes"] > 1 << 20 for point in told)


def test_a_minute_is_not_lost_when_the_turn_that_was_to_keep_it_could_not_be_written(tmp_path: Path) -> None:
    clock, trouble = WallClock(6_000_000.0), Trouble()
    told: list[dict[str, Any]] = []

    def script(client: Client) -> None:
        client.push("a")
        clock.wall += 60
        trouble.let_fail("write", StoreError("no space"))
        client.push("b")
        told.extend(client.ask("daemon-history")["points"])

    serve(tmp_path, trouble, script, clock=clock)

    assert [(point["at"], point["turns"] >= 1) for point in told] == [(6_000_000, True)]
