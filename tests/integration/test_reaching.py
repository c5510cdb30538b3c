"""Messages of commands when no daemon listens at the address, or one that can't answer now.

The time that a command would wait for an answer is longer than any test may take.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from taskqueue import Client, RequestTimeout
from taskqueue.defaults import START_DAEMON
from tests.integration.conftest import WAIT_SECONDS, DaemonFactory, PeerFactory
from tests.integration.free_address import free_address
from tests.integration.nursery import run_forked
from tests.integration.small_disk import QuotaDisk

COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]


@pytest.fixture
def web_server() -> Iterator[str]:
    """Address of a server that answers everything with an error, as a web server does."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        pool.submit(answer, listening)
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def answer(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listening.accept()
            with connection, suppress(OSError):
                connection.recv(64)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def said(url: str, timeout: str = "1h") -> str:
    """Return the line that ``taskqueue status`` prints before it ends with status 1."""
    command = [*COMMAND, "status", "--daemon", url, "--timeout", timeout]
    ended = run_forked(command, timeout=WAIT_SECONDS)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1), ended.stderr
    return ended.stderr


def test_where_nobody_listens_that_is_said_soon() -> None:
    url = f"tcp://{free_address()}"

    assert f"no answer from {url}: nothing listens there. Start the daemon with" in said(url)


def test_a_host_that_is_not_known_is_said_soon() -> None:
    url = "tcp://no-such-host.invalid:7400"
    assert f"no answer from {url}: its host is unknown (" in said(url)


def test_somebody_else_in_place_of_the_daemon_is_said_soon(web_server: str) -> None:
    assert f"no answer from {web_server}: the program that listens there is not a taskqueue daemon." in said(web_server)


def test_somebody_who_says_nothing_is_told_from_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"tcp://127.0.0.1:{mute.getsockname()[1]}"
        why = "a program listens there, but is not a taskqueue daemon, or hangs"

        assert f"no answer from {url}: {why}." in said(url, "4s")


def test_a_daemon_that_waits_for_its_disk_says_so_itself(
    tmp_path: Path, daemon: DaemonFactory, peer: PeerFactory
) -> None:
    disk = QuotaDisk(tmp_path)
    it = daemon(entry=disk.entry, path=str(disk.store_path), min_free=0)
    it.stop()
    disk.fill()
    it.launch()
    it.wait_for_log("store-failed")

    assert said(it.url, "4s") == (
        f"taskqueue: the daemon at {it.url} says: the store can't be used at the moment (No space left on device); "
        "repeat the request later\n"
    )


def test_a_client_that_is_to_wait_waits_for_a_daemon_that_starts_later(daemon: DaemonFactory) -> None:
    it = daemon()
    it.stop()

    with Client(it.url, timeout=WAIT_SECONDS) as client, ThreadPoolExecutor(1) as pool:
        pushed = pool.submit(client.push, "news", "http://a/")
        it.start()
        assert pushed.result() == "new"


def test_a_program_is_told_why_nobody_answers() -> None:
    url = f"tcp://{free_address()}"

    with Client(url, connect_timeout=0.2) as client, pytest.raises(RequestTimeout) as caught:
        client.status()

    assert (caught.value.why, caught.value.heard) == ("nothing listens there", False)
    assert str(caught.value) == f"no answer from {url} in 0.2 s: nothing listens there. {START_DAEMON}"
