"""Clients reach daemons on IPv6, behind names with several addresses, and over connections that go dead."""

from __future__ import annotations

import re
import select
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from taskqueue import Client
from tests.faults.shim import WITHOUT_IPV6, Shim
from tests.integration.conftest import ROOT, WAIT_SECONDS, Daemon, DaemonFactory
from tests.integration.nursery import Forked, run_forked
from tests.ipv6 import NEEDS_IPV6

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]

HANDLERS = "def crawl(task):\n    return []\n"

LINES = 5000
RUNS = 4


def on(it: Daemon, bind: str) -> Daemon:
    """Start the daemon on another address."""
    it.url = bind
    return it.start()


def port_of(it: Daemon) -> str:
    return it.url.rpartition(":")[2]


def run(*arguments: str, cwd: Path = ROOT) -> str:
    """Run a command, which has to succeed; return its output."""
    done = run_forked([*COMMAND, *arguments], cwd=cwd, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------------------------------- IPv6


@NEEDS_IPV6
def test_commands_and_workers_reach_a_daemon_on_ipv6(daemon: DaemonFactory, tmp_path: Path) -> None:
    it = on(daemon(start=False), "tcp://[::1]:*")
    (tmp_path / "handlers.py").write_text(HANDLERS)
    run("push", "news", "http://a/", "--daemon", it.url)
    work = [*COMMAND, "work", "handlers:crawl", "news", "--daemon", it.url]

    with Forked[bytes](work, cwd=tmp_path, stderr=subprocess.DEVNULL) as worker, Client(it.url) as client:
        assert client.projects.wait("news", timeout=WAIT_SECONDS)
        assert [fetcher.address for fetcher in client.fetchers.iter() if fetcher.capacity] == ["::1"]
        worker.terminate()

    assert "1" in run("status", "--daemon", it.url)


@NEEDS_IPV6
def test_the_page_reaches_a_daemon_on_ipv6_and_is_reached_there(daemon: DaemonFactory) -> None:
    it = on(daemon(start=False, web="[::1]:0"), "tcp://[::1]:*")
    found = re.search(r"http://\[::1\]:\d+/", it.wait_for_log("shows the daemon at"))

    assert found is not None
    with urllib.request.urlopen(f"{found[0]}daemon") as page:
        assert b"running for" in page.read()


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("[::1]", marks=NEEDS_IPV6), "localhost"])
def test_a_daemon_that_listens_everywhere_is_reached_by_both_families(daemon: DaemonFactory, host: str) -> None:
    it = on(daemon(start=False, insecure=True), "tcp://*:*")

    with Client(f"tcp://{host}:{port_of(it)}") as client:
        assert client.push("news", "http://a/") == "new"


def test_a_machine_without_ipv6_is_listened_on_by_ipv4_which_is_said_once(daemon: DaemonFactory, shim: Shim) -> None:
    it = daemon(start=False, insecure=True, path=str(shim.store), environment=shim.environment | WITHOUT_IPV6)
    on(it, "tcp://*:*")

    assert it.url.startswith("tcp://0.0.0.0:")
    assert it.log().count("ipv6-missing") == 1
    with Client(f"tcp://127.0.0.1:{port_of(it)}") as client:
        assert client.push("news", "http://a/") == "new"


# ---------------------------------------------------------------------------------------- a line that goes dead


class DeadLine:
    """Proxy whose connections go dead when it is cut: they lead nowhere and don't end.

    A NAT that has forgotten its table acts alike.
    """

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"tcp://127.0.0.1:{self._listening.getsockname()[1]}"
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._dead: list[socket.socket] = []
        self._cut = threading.Event()
        self._commands, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._live)
        self._thread.start()

    def cut(self) -> None:
        """Forward nothing more on existing connections."""
        self._commands.send(b"c")
        assert self._cut.wait(WAIT_SECONDS)

    def close(self) -> None:
        self._commands.send(b"e")
        self._thread.join()

    def _live(self) -> None:
        while True:
            ready, _, _ = select.select([self._listening, self._ended, *self._pairs], [], [])
            if self._ended in ready and self._ended.recv(1) == b"e":
                break
            if self._ended in ready:
                self._dead += self._pairs
                self._pairs = {}
                self._cut.set()
                continue
            self._pass_on(ready)
        for each in (self._listening, self._ended, self._commands, *self._pairs, *self._dead):
            each.close()

    def _pass_on(self, ready: list[socket.socket]) -> None:
        if self._listening in ready:
            near, far = self._listening.accept()[0], socket.create_connection(("127.0.0.1", self._port))
            self._pairs |= {near: far, far: near}
        for each in ready:
            if each in self._pairs:
                with suppress(OSError):
                    if received := each.recv(65_536):
                        self._pairs[each].sendall(received)
                        continue
                other = self._pairs.pop(each)
                del self._pairs[other]
                each.close()
                other.close()


@pytest.fixture
def line(daemon: DaemonFactory) -> Iterator[DeadLine]:
    with closing(DeadLine(daemon().url)) as it:
        yield it


def test_a_push_on_a_line_that_has_gone_dead_succeeds_within_the_default_timeout(line: DeadLine) -> None:
    with Client(line.url) as client:
        assert client.push("news", "http://a/") == "new"
        line.cut()

        assert client.push("news", "http://b/") == "new"


# ---------------------------------------------------------------------------------------- order


def test_a_file_is_queued_in_its_order_by_a_client_that_has_just_connected(
    daemon: DaemonFactory, tmp_path: Path
) -> None:
    it = daemon()
    file = tmp_path / "urls.txt"
    urls = [f"http://a/{n}" for n in range(LINES)]
    file.write_text("".join(f"{url}\n" for url in urls))

    with Client(it.url) as client:
        for name in (f"p{n}" for n in range(RUNS)):
            run("push", name, "--file", str(file), "--daemon", it.url)
            assert [task.url for task in client.tasks.iter(name, state="ready")] == urls
