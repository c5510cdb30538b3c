"""Handlers that lead to more new tasks than a message holds: real worker processes, a real daemon."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from taskqueue.protocol.projects import Project
from tests.integration.nursery import Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

WAIT_SECONDS = 300
"""Seconds that a test waits for a number of tasks, at most; it goes on as soon as the number is reached."""

PAGES = 60_000
"""New tasks, each with a url of a thousand characters."""
FAST = {"rate": 1e9, "burst": 1e6}
ONE_TASK = {"rate": 0.000001, "burst": 1}
MEGABYTE = 1_000_000

HANDLERS = """
import os, sys

def pages(number):
    return (f"http://site/page/{each}?from=sitemap&number={each}" for each in range(number))

def crawl(task):
    if task.url.endswith(".xml"):
        return list(pages(10_001))

def large(task):
    if task.url.endswith(".xml"):
        return (f"{url}&{'x' * 960}" for url in pages(60_000))

def broken(task):
    if task.url.endswith(".xml"):
        yield from pages(10_001)
        print("has yielded all", flush=True)
        sys.stdin.readline()
"""

Process = subprocess.Popen[str]


@pytest.fixture
def it(daemon: DaemonFactory, request: pytest.FixtureRequest) -> Daemon:
    """Daemon that takes no worker as silent, unless the test sets after how many seconds it does."""
    return daemon(projects={"site": FAST}, fetcher_timeout=getattr(request, "param", 600))


@pytest.fixture
def client(it: Daemon) -> Iterator[Client]:
    with Client(it.url) as one:
        yield one


@pytest.fixture
def work(it: Daemon, tmp_path: Path) -> Iterator[Callable[[str], Process]]:
    """Start ``taskqueue work`` with one of the handlers; it is killed at the end of the test if it still runs."""
    (tmp_path / "handlers.py").write_text(HANDLERS)
    with ExitStack() as stack:

        def start(handler: str) -> Process:
            command = [sys.executable, "-m", "taskqueue.cli.main", "work", f"handlers:{handler}", "--daemon", it.url]
            pipe = subprocess.PIPE
            process = stack.enter_context(
                Forked(command, cwd=tmp_path, text=True, stdin=pipe, stdout=pipe, stderr=pipe)
            )
            stack.callback(process.kill)
            return process

        yield start


def project_when(client: Client, true: Callable[[Project], bool]) -> Project:
    """Return the project once this is true of it."""
    until = time.monotonic() + WAIT_SECONDS
    while not true(view := client.projects.get("site")):
        assert time.monotonic() < until, view
        time.sleep(0.05)
    return view


def stopped(process: Process) -> str:
    """Stop a worker; return the last line of its log."""
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    return said.splitlines()[-1]


def peak_bytes(process: Process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def test_a_handler_that_returns_more_urls_than_a_message_takes_is_done_once_and_so_are_they(
    client: Client, work: Callable[[str], Process]
) -> None:
    client.projects.set("site", {"processing_timeout": 120, "retries": 1})
    client.push("site", "http://site/sitemap.xml", taskid="sitemap")

    worker = work("crawl")
    view = project_when(client, lambda view: view.counts.success + view.counts.failed == 10_002)

    assert (view.totals.new, view.totals.success, view.totals.timeout) == (10_002, 10_002, 0)
    assert stopped(worker).endswith("event=stopped done=10002 failed=0")


@pytest.mark.parametrize("it", [5], indirect=True)
def test_what_a_killed_worker_had_sent_stays_and_the_next_one_goes_on_with_it(
    client: Client, work: Callable[[str], Process]
) -> None:
    client.projects.set("site", ONE_TASK)
    client.push("site", "http://site/sitemap.xml", taskid="sitemap")
    first = work("broken")
    assert first.stdout is not None
    assert first.stdout.readline() == "has yielded all\n"
    first.kill()
    sent = client.projects.get("site").totals.new

    view = project_when(client, lambda view: view.counts.processing == 0)
    client.projects.set("site", FAST)
    work("crawl")
    after = project_when(client, lambda view: view.counts.success == 10_002)

    assert (sent, view.counts.ready) == (10_001, 10_001)
    assert (after.totals.new, after.totals.success) == (10_002, 10_002)


def test_a_worker_needs_no_more_memory_for_a_sitemap_of_60_megabytes(
    client: Client, work: Callable[[str], Process]
) -> None:
    client.projects.set("site", ONE_TASK)
    client.push("site", "http://site/sitemap.xml", taskid="sitemap")

    worker = work("large")
    view = project_when(client, lambda view: view.counts.success + view.counts.failed == 1)

    assert (view.totals.new, view.counts.ready, view.counts.success) == (PAGES + 1, PAGES, 1)
    assert peak_bytes(worker) < 100 * MEGABYTE
