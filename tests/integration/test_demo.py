"""The demo as a newcomer runs it: real daemon, site and fetchers; killed, resumed, restarted.

Judged from outside: by the site's log, the daemon's replies, and its output.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from taskqueue import Client
from taskqueue.cli.main import taskqueue
from taskqueue.demo.demo import BURST
from taskqueue.demo.site import bundled_pages

pytestmark = pytest.mark.timeout(300, func_only=True)
"""Timeout without the wait for ``turn``."""

COMMAND = [sys.executable, "-m", "taskqueue", "demo"]
WAIT_SECONDS = 90
RATE = 50.0
SLOW = ("--rate", "0.2")
"""Rate at which 32 of the 42 pages of ``folder`` take 160 seconds, so that some are left when it is interrupted."""
QUICK = ("--once", "--rate", "inf")

Demo = subprocess.Popen[bytes]
DemoFactory = Callable[..., Demo]


@pytest.fixture
def turn() -> Iterator[None]:
    """Lock of the one demo test that may run: an interrupted demo needs the port of its site again."""
    with open(__file__) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def demo(turn: None, data: Path) -> Iterator[DemoFactory]:
    """Start a demo; demos still running at the end of the test are killed."""
    with ExitStack() as stack:

        def start(*options: str) -> Demo:
            command = [*COMMAND, "--data", str(data), *options]
            # Unbuffered, so that reading a line takes nothing after it.
            it = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
            stack.callback(it.__exit__, None, None, None)
            stack.callback(it.kill)
            return it

        yield start


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Site of 42 pages, one of them missing."""
    root = tmp_path / "my [pages]"
    root.mkdir()
    links = "".join(f'<a href="page {n}.html">{n}</a>' for n in range(40))
    (root / "index.html").write_text(f'{links}<a href="gone.html">gone</a>')
    for n in range(40):
        (root / f"page {n}.html").write_text('<a href="/?utm_source=page">home</a>')
    return root


PAGES = {"/": 200, "/gone.html": 404} | {f"/page%20{n}.html": 200 for n in range(40)}


class Get(NamedTuple):
    """Line of the site's log."""

    at: float
    status: int
    target: str


def gets(data: Path) -> list[Get]:
    lines = [line.split(" ") for line in (data / "site.log").read_text().splitlines()]
    return sorted(Get(float(at), int(status), target) for at, status, target in lines)


def too_fast(looks: list[tuple[float, int]], arrived: list[Get]) -> list[Get]:
    """Return pages that arrived before their task could be dispatched: after a status that had counted as many already.

    A status is answered after it was asked, and a page arrives after its dispatch, so there are no false alarms.
    """
    return [
        get
        for asked_at, selected in looks
        for number, get in enumerate(arrived, 1)
        if number - selected > BURST + RATE * max(0.0, get.at - asked_at) + 0.001
    ]


def statuses(data: Path) -> dict[str, int]:
    return {get.target: get.status for get in gets(data)}


def ended(it: Demo) -> tuple[int, str]:
    """Return the exit status, and the output not yet read."""
    output = it.communicate(timeout=WAIT_SECONDS)[0]
    return it.returncode, output.decode()


def lines(it: Demo) -> Iterator[str]:
    assert it.stdout is not None
    return map(bytes.decode, it.stdout)


def read_until(it: Demo, pattern: str) -> re.Match[str]:
    """Return the first match in the lines that it prints."""
    seen = []
    for line in lines(it):
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"{pattern!r} is not in:\n{''.join(seen)}")


def is_gone(lock: IO[str]) -> bool:
    """Whether all processes of the demo have ended: each locks the file, except the dashboard, which has a port."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def refuses(page: str) -> bool:
    where = urlsplit(page)
    with socket.socket() as tried:
        tried.settimeout(WAIT_SECONDS)
        return tried.connect_ex((where.hostname, where.port)) == errno.ECONNREFUSED


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"after {WAIT_SECONDS} s {otherwise}"
        select.select([], [], [], 0.02)


def wait_until_gone(data: Path) -> None:
    with (data / "lock").open() as lock:
        wait_until(lambda: is_gone(lock), "a process of the killed demo still runs")


def assert_stopped_cleanly(data: Path) -> None:
    with (data / "lock").open() as lock:
        assert is_gone(lock), "a process of the demo still runs"
    assert "Traceback" not in "".join(log.read_text() for log in data.glob("*.log"))


def test_it_crawls_every_page_of_its_site_once_at_the_pace_and_stays_with_its_page(
    demo: DemoFactory, data: Path, folder: Path
) -> None:
    unfinished = demo("--site", str(folder), "--once", *SLOW)
    read_until(unfinished, r" [1-9]\d? success")
    unfinished.send_signal(signal.SIGINT)
    assert ended(unfinished)[0] == 130

    it = demo()
    read_until(it, rf"Crawling .* The unfinished crawl of {re.escape(str(folder))} is dropped, so this is a new one")
    url = read_until(it, r"daemon +(tcp://\S+),")[1]
    page = read_until(it, r"dashboard +(http://127\.0\.0\.1:\d+/)")[1]
    other = demo("--once")
    looks = []
    with Client(url, timeout=WAIT_SECONDS) as client:
        for line in lines(it):
            asked_at = time.monotonic()
            looks.append((asked_at, client.projects.get("demo").totals.selected))
            if line.startswith("Crawled 557 pages of the bundled site in "):
                assert line.endswith(": 545 success, 12 failed.\n")
                break
        tried = read_until(it, r"taskqueue (task list .*)")[1]
        failed = client.tasks.list("demo", "failed").items
        assert client.daemon.verify() == []
    with urllib.request.urlopen(f"{page}daemon") as answer:
        assert b"running for" in answer.read()

    shown = CliRunner().invoke(taskqueue, shlex.split(tried))
    assert (shown.exit_code, shown.stdout.count("404 Not Found")) == (0, 12)
    assert {task.error for task in failed} == {"404 Not Found"}
    assert statuses(data) == {target: page.status for target, page in bundled_pages().items()}
    assert len(gets(data)) == 557
    assert too_fast(looks, gets(data)) == []

    refusal = f"taskqueue: another demo runs with {data}; stop it, or name another folder with --data\n"
    assert ended(other) == (1, refusal)
    it.send_signal(signal.SIGINT)
    status, output = ended(it)
    assert (status, "Stopping; started again, a new crawl begins." in output) == (0, True)
    assert_stopped_cleanly(data)
    # If its daemon had to be killed, the dashboard ends by itself soon after.
    wait_until(lambda: refuses(page), f"{page} is still served")


@pytest.mark.parametrize(("pages", "early"), [(20 + BURST + 100, 0), (20 + BURST + 101, 1)])
def test_a_page_more_than_the_pace_allows_is_seen(pages: int, early: int) -> None:
    arrived = [Get(52.0, 200, f"/{n}") for n in range(pages)]

    assert len(too_fast([(50.0, 20)], arrived)) == early


def test_stopped_or_killed_it_leaves_nothing_behind_and_goes_on_where_it_was(
    demo: DemoFactory, data: Path, folder: Path
) -> None:
    it = demo("--site", str(folder), "--once", *SLOW)
    read_until(it, r" [1-9]\d? success")
    it.send_signal(signal.SIGTERM)
    status, output = ended(it)
    assert (status, "Stopping; started again, it goes on where it was." in output) == (130, True)
    assert_stopped_cleanly(data)

    status, output = ended(demo("--site", str(folder), *QUICK))
    assert status == 0, output
    assert f"Crawling {folder}. It goes on where it was: " in output
    assert re.search(rf"\nCrawled 42 pages of {re.escape(str(folder))}, .*: 41 success, 1 failed\.\n", output)
    assert statuses(data) == PAGES
    assert len(gets(data)) == 42
    assert_stopped_cleanly(data)

    it = demo("--site", str(folder), "--once", *SLOW)
    read_until(it, "The last crawl was finished, so this is a new one")
    daemon = int(read_until(it, r"daemon .* pid (\d+)")[1])
    fetcher = int(read_until(it, r"fetchers +pid (\d+)")[1])
    os.kill(daemon, signal.SIGKILL)
    read_until(it, rf"daemon \(pid {daemon}\) was killed by SIGKILL: started again")
    os.kill(fetcher, signal.SIGKILL)
    read_until(it, rf"fetcher-1 \(pid {fetcher}\) was killed by SIGKILL: started again")
    read_until(it, r" [1-9]\d? success")
    it.kill()
    wait_until_gone(data)

    status, output = ended(demo("--site", str(folder), *QUICK))
    assert status == 0, output
    done = re.search(r"It goes on where it was: (\d+) pages are done already", output)
    assert done is not None
    assert 1 <= int(done[1]) < 42
    assert ": 41 success, 1 failed." in output
    assert statuses(data) == PAGES


def test_it_shows_its_daemon_no_key_of_another_one(
    demo: DemoFactory, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "local.key").touch()
    monkeypatch.chdir(tmp_path)

    status, output = ended(demo("--site", str(folder), *QUICK))

    assert status == 0, output


def test_under_nohup_it_outlives_its_terminal(demo: DemoFactory, folder: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited by what it starts
    try:
        it = demo("--site", str(folder), "--once", *SLOW)
    finally:
        signal.signal(signal.SIGHUP, before)
    url = read_until(it, r"daemon +(tcp://\S+),")[1]
    it.send_signal(signal.SIGHUP)
    with Client(url, timeout=WAIT_SECONDS) as client:
        client.projects.set("demo", {"rate": float("inf")})

    status, output = ended(it)

    assert status == 0, output
