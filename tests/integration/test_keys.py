"""Daemons with keys: who is let in, what the others are told, and what happens when a key is taken back."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import socket
import socketserver
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread

import msgpack
import pytest
import zmq

from benchmarks.wrong_keys import loopback_sources
from taskqueue import Client, RequestRejected, RequestTimeout, Task, Unauthorised, Worker
from taskqueue.access import access_file
from taskqueue.access.key_file import KeyFile, make_key, server_key, write_new_key
from taskqueue.client.connection.connection import present_key
from taskqueue.protocol.callers import Role
from tests import zmtp
from tests.integration.conftest import ROOT, WAIT_SECONDS, Daemon, DaemonFactory, PeerFactory, authorised
from tests.integration.free_address import free_address

SOON = 0.5
"""Seconds after which a client that waits for nothing gives up an unreachable daemon."""


class Keyed:
    """A daemon with keys.

    Attributes:
        path: of its access file.
        server: its public key.
    """

    def __init__(self, made: Daemon, folder: Path) -> None:
        self.daemon = made
        self.path = folder / "access.json"
        self.server = server_key(folder).public
        self.daemon.configure(keys=str(self.path))

    def start(self) -> Keyed:
        self.daemon.start()
        return self

    def key(self, name: str = "web1", role: Role = "admin", *, is_known: bool = True) -> KeyFile:
        """A new key that fits this daemon, and that it knows."""
        return authorised(self.path.parent, name, role) if is_known else make_key(name, self.server)

    def client(self, key: KeyFile | None, timeout: float = WAIT_SECONDS) -> Client:
        return Client(self.daemon.url, key=key, timeout=timeout)


KeyedFactory = Callable[..., Keyed]


@pytest.fixture
def keyed(daemon: DaemonFactory, tmp_path: Path) -> KeyedFactory:
    """Make a daemon with keys, not started yet."""
    return lambda **settings: Keyed(daemon(start=False, **settings), tmp_path)


def why(url: str, key: KeyFile | None) -> str:
    """Error of a client that can't get in."""
    client = Client(url, key=key, timeout=WAIT_SECONDS, connect_timeout=SOON)
    with client, pytest.raises(Unauthorised) as caught:
        client.push("p", "http://site/")
    return str(caught.value)


def test_a_client_with_a_known_key_is_served(keyed: KeyedFactory) -> None:
    it = keyed()
    key = it.key()
    it.start()

    with it.client(key) as client:
        assert client.push("p", "http://site/") == "new"
        (task,) = client.select()
        client.done(task)
    it.daemon.wait_for_log("key-met key=web1 address=127.0.0.1")


def test_each_wrong_key_is_told_what_is_wrong_and_what_to_do(keyed: KeyedFactory, daemon: DaemonFactory) -> None:
    it = keyed().start()
    stranger = it.key("ben", is_known=False)
    known = it.key("web1")
    for_another = KeyFile(known.name, known.public, known.secret, make_key("other").public)

    unknown = why(it.daemon.url, stranger)
    assert "does not know this client's key" in unknown
    assert f"taskqueue key authorise ben {stranger.public}" in unknown
    missing = why(it.daemon.url, None)
    assert "takes only clients with a key" in missing
    assert "TASKQUEUE_KEY" in missing
    another = why(it.daemon.url, for_another)
    assert "its public key is another" in another
    assert "taskqueue key server" in another
    keyless = why(daemon().url, known)
    assert "has no keys, but this client has one" in keyless
    nowhere = Client(f"tcp://{free_address()}", key=known, timeout=WAIT_SECONDS, connect_timeout=SOON)
    with nowhere, pytest.raises(RequestTimeout, match="nothing listens there") as absent:
        nowhere.daemon.show()
    assert not isinstance(absent.value, Unauthorised)
    it.daemon.wait_for_log(f"key-refused count=1 key={stranger.public[:8]} address=127.0.0.1")


def test_a_program_that_is_no_daemon_is_not_taken_for_one_with_another_key(keyed: KeyedFactory) -> None:
    key = keyed().key()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, key=key, timeout=SOON) as client, pytest.raises(RequestTimeout) as caught:
            client.daemon.show()

    assert not isinstance(caught.value, Unauthorised)


def run(it: Daemon, *arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("TASKQUEUE_")}
    variables |= {
        "PYTHONPATH": str(ROOT),
        "TASKQUEUE_DAEMON": it.url,
        "TASKQUEUE_TIMEOUT": f"{WAIT_SECONDS}s",
    } | environment
    command = [sys.executable, "-m", "taskqueue", *arguments]
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


def test_commands_take_a_key_and_have_an_exit_status_for_a_refusal(keyed: KeyedFactory, tmp_path: Path) -> None:
    it = keyed().start()
    write_new_key(tmp_path / "web1.key", it.key("web1"))
    write_new_key(tmp_path / "ben.key", it.key("ben", is_known=False))

    assert run(it.daemon, "push", "p", "http://site/", "--key", "web1.key", cwd=tmp_path).returncode == 0
    assert run(it.daemon, "status", cwd=tmp_path, TASKQUEUE_KEY="web1.key").returncode == 0
    refused = run(it.daemon, "status", "--key", "ben.key", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (77, "")
    assert "taskqueue key authorise ben" in refused.stderr
    assert run(it.daemon, "status", cwd=tmp_path).returncode == 77
    missing = run(it.daemon, "status", "--key", "none.key", cwd=tmp_path)
    assert (missing.returncode, "none.key" in missing.stderr) == (2, True)
    (tmp_path / "web1.key").chmod(0o644)
    assert "chmod 600" in run(it.daemon, "status", "--key", "web1.key", cwd=tmp_path).stderr


def test_commands_on_the_daemons_machine_find_its_local_key(keyed: KeyedFactory, tmp_path: Path) -> None:
    it = keyed().start()
    (tmp_path / "data").mkdir()

    assert (tmp_path / "local.key").stat().st_mode & 0o777 == 0o600
    told = run(it.daemon, "status", cwd=tmp_path, TASKQUEUE_DAEMON_KEYS=str(it.path))
    assert told.returncode == 0, told.stderr
    (tmp_path / "data" / "local.key").symlink_to(tmp_path / "local.key")
    assert run(it.daemon, "status", cwd=tmp_path).returncode == 0


def test_a_client_in_a_handler_finds_the_local_key_that_its_worker_finds(keyed: KeyedFactory, tmp_path: Path) -> None:
    it = keyed().start()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "local.key").symlink_to(tmp_path / "local.key")
    (tmp_path / "crawler.py").write_text(
        "from taskqueue import Client\nclient = Client()\ndef crawl(task): client.push('p', 'http://site/2')\n"
    )
    assert run(it.daemon, "push", "p", "http://site/1", cwd=tmp_path).returncode == 0

    worked = run(it.daemon, "work", "crawler:crawl", "p", "--until-finished", cwd=tmp_path)

    assert worked.returncode == 0, worked.stderr
    assert "http://site/2" in run(it.daemon, "task", "list", "p", "--state", "success", cwd=tmp_path).stdout


def test_a_key_that_is_authorised_late_is_let_in(keyed: KeyedFactory) -> None:
    it = keyed().start()
    key = it.key("late", is_known=False)

    with it.client(key) as client, ThreadPoolExecutor() as threads:
        pushed = threads.submit(client.push, "p", "http://site/")
        it.daemon.wait_for_log("key-refused")
        access_file.authorise(it.path, "late", key.public, "admin")
        assert pushed.result(WAIT_SECONDS) == "new"


def test_a_rotated_key_works_beside_the_new_one_until_the_rotation_is_finished(keyed: KeyedFactory) -> None:
    it = keyed().start()
    old = it.key("web1")
    new = it.key("web1", is_known=False)

    with it.client(old) as before, it.client(new) as after:
        assert before.push("p", "http://site/1") == "new"
        access_file.rotate(it.path, "web1", new.public)
        assert after.push("p", "http://site/2") == "new"
        assert before.push("p", "http://site/3") == "new"

        access_file.finish_rotation(it.path, "web1")
        it.daemon.wait_for_log("key-revoked key=web1 connections=1")
        assert after.push("p", "http://site/4") == "new"
    assert "does not know this client's key" in why(it.daemon.url, old)


def test_the_tasks_of_a_revoked_key_go_back_at_once_and_nothing_is_held_against_them(keyed: KeyedFactory) -> None:
    it = keyed(fetcher_timeout=3600.0).start()
    thief, other = it.key("thief"), it.key("other")

    with it.client(thief) as stolen, it.client(other) as client:
        for number in range(20):
            client.push("p", f"http://site/{number}")
        held = stolen.select(20)
        assert len(held) == 20

        access_file.revoke(it.path, "thief")
        back: list[Task] = []
        while len(back) < 20:
            back += client.select(20)
        assert {task.taskid for task in back} == {task.taskid for task in held}
        found = client.tasks.get("p", back[0].taskid)
        assert (found.crashes, found.retried, found.history) == (0, 0, [])
    assert "key-revoked key=thief connections=1" in it.daemon.log()
    assert "fetcher-silent" not in it.daemon.log()


def test_nothing_that_a_revoked_key_says_counts_and_others_are_not_disturbed(
    keyed: KeyedFactory, tmp_path: Path
) -> None:
    it = keyed().start()
    thief, other = it.key("thief"), it.key("other")

    with it.client(thief, timeout=1.0) as stolen, it.client(other) as client:
        assert stolen.push("p", "http://site/0") == "new"
        access_file.revoke(it.path, "thief")
        it.daemon.wait_for_log("key-revoked key=thief")
        with pytest.raises(Unauthorised):
            stolen.push("p", "http://site/1")
        assert client.push("p", "http://site/1") == "new"
        assert client.daemon.show().shell["closed_revoked"] == 1


def test_a_key_stops_when_it_expires(keyed: KeyedFactory) -> None:
    it = keyed().start()
    key = make_key("brief", it.server)
    access_file.authorise(it.path, "brief", key.public, "admin", expires_at=time.time() + 5)

    with it.client(key) as client:
        client.push("p", "http://site/")
        it.daemon.wait_for_log("key-revoked key=brief connections=1")
    assert "has expired" in why(it.daemon.url, key)


def test_a_damaged_access_file_lets_nobody_new_in_and_cuts_nobody(keyed: KeyedFactory) -> None:
    it = keyed().start()
    key, new = it.key("web1"), it.key("web2")
    good = it.path.read_bytes()

    with it.client(key) as client:
        client.push("p", "http://site/1")
        it.path.write_text("{")
        it.daemon.wait_for_log("keys-unreadable")
        assert "does not know" in why(it.daemon.url, new)
        assert client.push("p", "http://site/2") == "new"
        it.path.write_bytes(good)
        with it.client(new) as later:
            assert later.push("p", "http://site/3") == "new"


def test_sighup_reads_the_access_file_too(keyed: KeyedFactory) -> None:
    it = keyed().start()

    it.daemon.hangup()

    it.daemon.wait_for_log("keys-read names=0")


def test_a_peer_without_curve_is_not_heard(keyed: KeyedFactory, peer: PeerFactory) -> None:
    it = keyed().start()
    stranger = peer(it.daemon)
    key = it.key()

    # libzmq takes no message any more once it has seen the refusal.
    stranger.socket.setsockopt(zmq.SNDTIMEO, 0)
    with suppress(zmq.Again):
        stranger.send("status")
    with it.client(key) as client:
        assert client.push("p", "http://site/") == "new"
    assert not stranger.has_message(0)


@pytest.mark.parametrize("bind", ["tcp://*:*", "tcp://0.0.0.0:*"])
def test_nothing_but_this_machine_is_listened_to_without_keys(daemon: DaemonFactory, bind: str, tmp_path: Path) -> None:
    it = daemon(start=False)
    it.url = bind
    it.launch()

    assert it.ended() == 2
    assert "other machines reach" in it.log()
    assert "taskqueue key authorise" in it.log()
    assert "--insecure" in it.log()

    it.configure(insecure=True)
    it.start()
    it.stop()
    it.configure(insecure=False, keys=str(tmp_path / "access.json"))
    it.url = bind
    it.start()


@pytest.mark.parametrize("bind", ["tcp://127.0.0.1:*", "tcp://localhost:*", "tcp://127.1.2.3:*", "tcp://lo:*"])
def test_loopback_needs_no_keys_however_it_is_written(daemon: DaemonFactory, bind: str) -> None:
    it = daemon(start=False)
    it.url = bind

    assert "tcp://127." in it.start().url


def test_a_socket_file_needs_no_key(keyed: KeyedFactory, tmp_path: Path) -> None:
    it = keyed()
    it.daemon.url = f"ipc://{tmp_path}/socket"
    it.start()

    with it.client(None) as client:
        assert client.push("p", "http://site/") == "new"
    with it.client(it.key()) as client:  # one that has a key needs not leave it out
        assert client.push("p", "http://site/") == "ignored"


def test_the_web_process_of_a_daemon_with_keys_is_let_in(keyed: KeyedFactory) -> None:
    it = keyed(web="127.0.0.1:0")
    token = access_file.authorise_token(it.path, "anna", "viewer")
    it.start()
    line = it.daemon.wait_for_log("shows the daemon at")
    found = re.search(r"http://127\.0\.0\.1:\d+/", line)

    assert found is not None
    asked = urllib.request.Request(f"{found[0]}daemon", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked) as page:
        assert b"running for" in page.read()
    it.daemon.wait_for_log("key-met key=web ")


def dealer(it: Keyed, key: KeyFile, stack: ExitStack, routing_id: bytes = b"") -> zmq.Socket[bytes]:
    """A socket with this key, which is not connected yet."""
    made: zmq.Socket[bytes] = stack.enter_context(zmq.Context.instance().socket(zmq.DEALER))
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.RCVTIMEO, WAIT_SECONDS * 1000)
    present_key(made, key)
    if routing_id:
        made.setsockopt(zmq.ROUTING_ID, routing_id)
    return made


def packed(kind: str, **fields: object) -> bytes:
    return bytes(msgpack.packb({"type": kind, "v": 1, "session": "s", "n": 1} | fields))


@pytest.mark.parametrize("routing_id", [b"", b"chosen"])
def test_a_connection_inherits_no_key_of_the_one_before(keyed: KeyedFactory, routing_id: bytes) -> None:
    it = keyed().start()

    for name in ("first", "second", "third"):
        key = it.key(name)
        while f"key-met key={name} " not in it.daemon.log():  # the daemon may not know the end of the former one yet
            with ExitStack() as stack, suppress(zmq.Again):
                asking = dealer(it, key, stack, routing_id)
                asking.setsockopt(zmq.RCVTIMEO, 1000)
                asking.connect(it.daemon.url)
                asking.send(packed("daemon-show"))
                asking.recv()


def test_a_key_that_is_revoked_before_its_first_message_is_not_heard(keyed: KeyedFactory) -> None:
    it = keyed()
    thief, other = it.key("thief"), it.key("other")
    it.start()

    with ExitStack() as stack, it.client(other) as client:
        late = dealer(it, thief, stack)
        monitor = stack.enter_context(late.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED))
        stack.callback(late.disable_monitor)
        late.connect(it.daemon.url)
        assert monitor.poll(WAIT_SECONDS * 1000)
        access_file.revoke(it.path, "thief")
        it.daemon.wait_for_log("keys-read names=1")
        before = client.daemon.show().shell["closed_revoked"]

        late.send(packed("new-task", project="p", tasks=[{"taskid": "a", "url": "http://a/"}]))

        while client.daemon.show().shell["dropped"] == 0:
            pass
        assert before == 0  # no client could know whose it was
        assert client.projects.list().items == []
        assert not late.poll(0)


def test_nothing_counts_that_a_busy_client_sends_after_its_key_was_revoked(keyed: KeyedFactory) -> None:
    it = keyed().start()
    thief, other = it.key("thief"), it.key("other")

    def push_for_ever(client: Client) -> None:
        for batch in itertools.count():
            client.push_many("p", [f"http://site/{batch}/{number}" for number in range(256)])

    with it.client(thief, timeout=5.0) as stolen, it.client(other) as client, ThreadPoolExecutor() as threads:
        pushing = threads.submit(push_for_ever, stolen)
        while not [each for each in client.projects.list().items if each.counts.ready > 1000]:
            pass
        access_file.revoke(it.path, "thief")
        it.daemon.wait_for_log("key-revoked key=thief connections=1")
        client.daemon.show()  # what was being decided then has been
        (before,) = client.projects.list().items
        # A push on its way may be refused before its connection is cut.
        assert isinstance(pushing.exception(WAIT_SECONDS), Unauthorised | RequestRejected)
        (after,) = client.projects.list().items
        assert after.counts == before.counts


def test_no_report_of_a_busy_fetcher_counts_after_its_key_was_revoked(keyed: KeyedFactory) -> None:
    it = keyed().start()
    thief, other = it.key("thief"), it.key("other")

    is_over = Event()

    def work(client: Client) -> None:
        while not is_over.is_set():
            with suppress(RequestTimeout):
                for task in client.select(100):
                    client.done(task)

    with it.client(thief, timeout=1.0) as stolen, it.client(other) as client, ThreadPoolExecutor() as threads:
        client.push_many("p", [f"http://site/{number}" for number in range(10_000)])
        working = threads.submit(work, stolen)
        while client.projects.list().items[0].counts.success < 100:
            pass
        access_file.revoke(it.path, "thief")
        it.daemon.wait_for_log("key-revoked key=thief connections=1")
        client.daemon.show()  # what was being decided then has been
        (before,) = client.projects.list().items
        is_over.set()
        working.result(WAIT_SECONDS)
        (after,) = client.projects.list().items

    assert after.counts.success == before.counts.success < 10_000
    assert (after.counts.processing, after.counts.ready) == (0, 10_000 - after.counts.success)


def test_a_worker_whose_key_was_refused_for_a_while_is_served_again_without_a_restart(
    keyed: KeyedFactory, tmp_path: Path
) -> None:
    it = keyed().start()
    key, other = it.key("web1"), it.key("other")
    new = it.key("web1", is_known=False)
    write_new_key(tmp_path / "web1.key", key)
    done: list[str] = []
    worker = Worker(
        lambda task: done.append(task.url), ["p"], client=it.daemon.url, key=tmp_path / "web1.key", max_tasks=2
    )

    with it.client(other) as client, ThreadPoolExecutor() as threads:
        client.push("p", "http://site/1")
        serving = threads.submit(lambda: asyncio.run(worker.serve()))
        while not client.projects.list().items[0].counts.success:
            pass
        access_file.rotate(it.path, "web1", new.public)
        access_file.finish_rotation(it.path, "web1")
        while client.daemon.show().shell["keys_refused"] < 3:
            pass
        access_file.rotate(it.path, "web1", key.public)
        client.push("p", "http://site/2")
        serving.result(WAIT_SECONDS)

    assert done == ["http://site/1", "http://site/2"]


class Wiretap(socketserver.ThreadingTCPServer):
    """Proxy before a daemon that keeps all bytes of both directions."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Tapped)
        self.there = ("127.0.0.1", int(url.rpartition(":")[2]))
        self.url = f"tcp://127.0.0.1:{self.server_address[1]}"
        self.heard: list[bytes] = []
        Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *reason: object) -> None:
        self.shutdown()
        self.server_close()


class _Tapped(socketserver.BaseRequestHandler):
    server: Wiretap

    def handle(self) -> None:
        with socket.create_connection(self.server.there) as daemon, ThreadPoolExecutor() as threads:
            threads.submit(self._pass, daemon, self.request)
            self._pass(self.request, daemon)

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        """Pass bytes on until one of both ends."""
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                self.server.heard.append(piece)
                target.sendall(piece)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("has_keys", [True, False])
def test_an_eavesdropper_reads_tasks_without_keys_and_nothing_with_them(
    has_keys: bool, keyed: KeyedFactory, daemon: DaemonFactory
) -> None:
    if has_keys:
        it = keyed()
        key, url = it.key("secretname"), it.start().daemon.url
    else:
        key, url = None, daemon().url

    with Wiretap(url) as tap, Client(tap.url, key=key, timeout=WAIT_SECONDS) as client:
        assert client.push("secretproject", "http://secretsite/", taskid="secrettask") == "new"
        (task,) = client.select()
        client.done(task)
        assert client.tasks.get("secretproject", "secrettask").state == "success"
    said = b"".join(tap.heard)

    for word in (b"secretproject", b"secretsite", b"secrettask"):
        assert (word in said) is not has_keys
    assert len(said) > 500
    assert b"secretname" not in said


def test_a_false_daemon_that_knows_the_client_gets_nothing_and_the_client_says_why(
    keyed: KeyedFactory, daemon: DaemonFactory, tmp_path: Path
) -> None:
    (tmp_path / "false").mkdir()
    false = Keyed(daemon(start=False), tmp_path / "false")
    key = keyed().key("web1")  # of the true daemon, which need not run
    access_file.authorise(false.path, "web1", key.public, "admin")
    false.start()

    assert "its public key is another" in why(false.daemon.url, key)
    with false.client(false.key("its-own")) as spy:
        assert spy.projects.list().items == []
    assert "key-met key=web1" not in false.daemon.log()


def test_an_address_that_begins_too_many_connections_is_cut_before_the_handshake_and_let_in_later(
    keyed: KeyedFactory,
) -> None:
    it = keyed().start()
    key = it.key()
    place = ("127.0.0.1", int(it.daemon.url.rpartition(":")[2]))

    until = time.monotonic() + WAIT_SECONDS
    while "connections-hasty" not in it.daemon.log():
        assert time.monotonic() < until, "no connection was found hasty"
        with ExitStack() as crowd:
            for _ in range(200):
                crowd.enter_context(socket.create_connection(place))
    with it.client(key) as client:
        assert client.push("p", "http://site/") == "new"
        assert client.daemon.show().shell["closed_hasty"] > 0


def test_strangers_from_many_addresses_wait_while_a_client_from_a_known_one_is_served(keyed: KeyedFactory) -> None:
    it = keyed().start()
    key, sources = it.key(), loopback_sources()
    with it.client(key) as client:
        client.daemon.show()

    until = time.monotonic() + WAIT_SECONDS
    while "connections-hasty" not in it.daemon.log():
        assert time.monotonic() < until, "no stranger had to wait"
        with ExitStack() as crowd:
            for _ in range(200):
                with suppress(ConnectionResetError):  # it may be cut before it knows that it is connected
                    crowd.enter_context(zmtp.raw(it.daemon.url, WAIT_SECONDS, next(sources)))
            with it.client(key) as client:
                assert client.push("p", "http://site/") in {"new", "ignored"}
    with it.client(key) as client:
        assert client.daemon.show().shell["closed_hasty"] > 0
