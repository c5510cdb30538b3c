"""The example client that uses the protocol and nothing of this package."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from tests.integration.nursery import WAIT_SECONDS, Forked, run_forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

EXAMPLE = Path(__file__).parents[2] / "examples" / "raw_protocol.py"


@pytest.fixture
def it(daemon: DaemonFactory, monkeypatch: pytest.MonkeyPatch) -> Daemon:
    started = daemon(projects={"demo": {}}, fetcher_timeout=3)
    monkeypatch.setenv("TASKQUEUE_DAEMON", started.url)
    return started


@pytest.fixture
def fetcher(it: Daemon) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(EXAMPLE), "fetch", "demo"]
    process = Forked(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate(timeout=WAIT_SECONDS)


def push(*urls: str) -> str:
    command = [sys.executable, str(EXAMPLE), "push", "demo", *urls]
    return run_forked(command, check=True).stdout


def test_it_imports_nothing_but_pyzmq_msgpack_and_the_standard_library() -> None:
    tree = ast.walk(ast.parse(EXAMPLE.read_text()))
    named = {alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names}
    tree = ast.walk(ast.parse(EXAMPLE.read_text()))
    named |= {str(node.module) for node in tree if isinstance(node, ast.ImportFrom)}

    assert named - set(sys.stdlib_module_names) == {"zmq", "msgpack"}


def test_its_producer_and_its_fetcher_do_a_crawl(it: Daemon, fetcher: subprocess.Popen[str]) -> None:
    assert push("http://site/a", "http://site/b#top") == "['new', 'new']\n"
    assert push("http://site/b") == "['ignored']\n"

    assert fetcher.stdout is not None
    ran: list[str] = []
    while len({*ran}) < 2:
        ran.append(fetcher.stdout.readline().split(" ")[0])
        assert ran[-1], "the fetcher has ended"
    with Client(it.url) as client:
        client.projects.wait("demo", timeout=WAIT_SECONDS)
        counts = client.projects.get("demo").counts
    assert {*ran} == {"http://site/a", "http://site/b#top"}
    assert len(ran) == 2 or it.wait_for_log("fetcher-silent")  # the fetcher was suspended
    assert counts.success == 2


def test_its_fetcher_goes_on_after_kill_9_of_the_daemon(it: Daemon, fetcher: subprocess.Popen[str]) -> None:
    assert fetcher.stdout is not None
    push("http://site/a")
    assert fetcher.stdout.readline().startswith("http://site/a")

    it.kill()
    it.start()

    push("http://site/b")
    assert fetcher.stdout.readline().startswith("http://site/b")


def test_ctrl_c_gives_back_what_it_holds(it: Daemon, fetcher: subprocess.Popen[str]) -> None:
    assert fetcher.stdout is not None
    push("http://site/a")
    fetcher.stdout.readline()

    fetcher.send_signal(signal.SIGINT)

    assert fetcher.wait(WAIT_SECONDS) == 0
    with Client(it.url) as client:
        assert client.fetchers.list().fetchers == []
