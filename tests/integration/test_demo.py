"""The demo as a newcomer runs it: a real daemon, site and fetchers; killed, gone on with, started again."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120, func_only=True)
"""The wait for one's turn does not count."""

COMMAND = [sys.executable, "-m", "taskqueue.cli.main", "demo"]
WAIT_SECONDS = 90
BRISK = ("--rate", "150")
"""For what is not about the pace."""

Demo = subprocess.Popen[bytes]
DemoFactory = Callable[..., Demo]


@pytest.fixture(autouse=True)
def turn() -> Iterator[None]:
    """One demo test at a time on this machine: one that is interrupted needs the port of its site again."""
    with open(Path(tempfile.gettempdir()) / f"taskqueue-demo-tests-{os.getuid()}", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def demo(data: Path) -> Iterator[DemoFactory]:
    """Start a demo; at the end of the test those that still run are killed."""
    with ExitStack() as stack:

        def start(*options: str) -> Demo:
            command = [*COMMAND, "--data", str(data), *options]
            # Without a buffer, so that a line is read without what comes after it.
            it = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0)
            stack.callback(it.__exit__, None, None, None)
            stack.callback(it.kill)
            return it

        yield start


def ended(it: Demo) -> tuple[int, str]:
    """Exit status and what it printed, since it was last read."""
    output = it.communicate(timeout=WAIT_SECONDS)[0]
    return it.returncode, output.decode()


def read_until(it: Demo, pattern: str) -> re.Match[str]:
    """The first match of a line that it prints."""
    assert it.stdout is not None
    seen = []
    for line in map(bytes.decode, it.stdout):
        seen.append(line)
        if match := re.search(pattern, line):
            return match
    raise AssertionError(f"{pattern!r} is not in:\n{''.join(seen)}")


def processes_of(data: Path) -> list[int]:
    """Processes that have this data folder in their command line."""
    entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in entries if str(data) in _command_line(entry)]


def _command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text()
    except OSError:
        return ""


def wait_until_gone(data: Path) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while processes_of(data):
        assert time.monotonic() < until, processes_of(data)


def test_once_crawls_every_page_exactly_once_at_the_pace_and_says_so(demo: DemoFactory, data: Path) -> None:
    status, output = ended(demo("--once"))

    assert status == 0, output
    assert "Crawl 1: the bundled site, 557 pages\n" in output
    assert "✓ pages      all 557 fetched, each exactly once: 513 × 200, 12 × 404, 32 redirects" in output
    assert "✓ tasks      545 success, 12 failed, 0 left" in output
    assert '✓ 404s       12 of 12 failed, with the reason: "404 Not Found"' in output
    assert "✓ pace       fastest window: " in output
    assert processes_of(data) == []


def test_after_a_finished_crawl_the_next_start_says_so_and_begins_a_new_one(demo: DemoFactory) -> None:
    assert ended(demo("--once", "--rate", "inf"))[0] == 0

    status, output = ended(demo("--once", "--rate", "inf"))

    assert status == 0, output
    assert "Crawl 2: the bundled site, 557 pages. Crawl 1 was finished, so this is a new one" in output
    assert "✓ pages      all 557 fetched, each exactly once" in output


def test_killed_in_the_middle_it_leaves_nothing_behind_and_goes_on_where_it_was(demo: DemoFactory, data: Path) -> None:
    first = demo("--once", *BRISK)
    read_until(first, r" [1-9]\d\d success")
    first.kill()
    wait_until_gone(data)

    status, output = ended(demo("--once", *BRISK))

    assert status == 0, output
    done = re.search(r"Crawl 1: the bundled site, 557 pages\. It goes on where it was: (\d+) are done already", output)
    assert done is not None
    assert 100 <= int(done[1]) < 557
    assert "✓ pages      all 557 fetched, each " in output
    assert "it was interrupted: " in output


@pytest.mark.parametrize("name", ["scheduler", "fetcher"])
def test_a_process_that_is_killed_is_started_again_and_the_crawl_goes_on(demo: DemoFactory, name: str) -> None:
    it = demo("--once", *BRISK)
    pid = int(read_until(it, rf"{name}.* pid (\d+)")[1])
    read_until(it, r" [1-9]\d\d success")
    os.kill(pid, signal.SIGKILL)

    read_until(it, rf"{name}.* \(pid {pid}\) was killed by SIGKILL: started again")
    status, output = ended(it)

    assert status == 0, output
    assert "✓ pages      all 557 fetched, each " in output
    assert "it was interrupted: " in output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_everything_cleanly_and_goes_on_the_next_time(
    demo: DemoFactory, data: Path, how: signal.Signals
) -> None:
    it = demo(*BRISK)
    read_until(it, r" [1-9]\d\d success")
    it.send_signal(how)

    status, output = ended(it)
    assert status == 0, output
    assert "Stopping" in output
    assert "Traceback" not in output + "".join(log.read_text() for log in data.glob("*.log"))
    assert processes_of(data) == []

    status, output = ended(demo("--once", *BRISK))
    assert status == 0, output
    assert "It goes on where it was: " in output
    assert "✓ pages      all 557 fetched, each exactly once, although it was interrupted" in output


def test_without_once_it_and_its_page_stay_when_the_crawl_is_finished_until_it_is_interrupted(
    demo: DemoFactory,
) -> None:
    it = demo("--rate", "inf")
    page = read_until(it, r"page +(http://127\.0\.0\.1:\d+/)")[1]
    read_until(it, r"Crawl 1 is finished")
    with urllib.request.urlopen(f"{page}daemon") as answer:
        assert b"running for" in answer.read()
    read_until(it, r"taskqueue status")
    it.send_signal(signal.SIGINT)

    assert ended(it)[0] == 0


def test_any_folder_of_pages_can_be_crawled(demo: DemoFactory, tmp_path: Path) -> None:
    pages = tmp_path / "my [pages]"
    pages.mkdir()
    (pages / "index.html").write_text('<a href="a b.html">a</a> <a href="gone.html">gone</a>')
    (pages / "a b.html").write_text('<a href="index.html?utm_source=a">home</a>')

    status, output = ended(demo("--once", "--site", str(pages)))

    assert status == 0, output
    assert f"Crawl 1: {pages}, 4 pages\n" in output
    assert "✓ pages      all 4 fetched, each exactly once: 3 × 200, 1 × 404, 0 redirects" in output


def test_an_unfinished_crawl_of_another_site_is_dropped_and_it_says_so(demo: DemoFactory, tmp_path: Path) -> None:
    first = demo("--once")
    read_until(first, r" [1-9]\d\d success")
    first.send_signal(signal.SIGINT)
    assert ended(first)[0] == 130
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.html").write_text("all")

    status, output = ended(demo("--once", "--site", str(pages)))

    assert status == 0, output
    assert "Crawl 1 was of another site and is dropped, so this is a new one" in output


def test_two_demos_do_not_share_a_folder(demo: DemoFactory, data: Path) -> None:
    first = demo()
    read_until(first, r"\d+ success")

    status, output = ended(demo("--once"))

    assert status == 1
    assert output == (f"taskqueue: another demo is running with {data}; stop it, or name another folder with --data\n")
