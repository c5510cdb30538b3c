"""Fetcher here, processor there: one process fetches tasks and another one reports them, against a real daemon."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from taskqueue import Client, Task
from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from taskqueue.protocol.fetchers import Fetcher
    from tests.integration.conftest import Daemon, DaemonFactory

EXAMPLE = Path(__file__).parents[2] / "examples" / "fetcher_and_processor.py"

FETCHER = """
import sys
from taskqueue import PassedOn, Worker

def fetch(task):
    print(task.to_bytes().hex(), flush=True)
    raise PassedOn

Worker(fetch, client=sys.argv[1], concurrency=1).run()
"""
"""Program that takes one task at a time and passes it on by stdout, without fetching."""

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python with these arguments; the process is killed at the end of the test if it still runs."""
    with ExitStack() as stack:

        def start(*arguments: str, **environment: str) -> Process:
            command, variables = [sys.executable, *arguments], {**os.environ, **environment}
            process = stack.enter_context(Forked[str](command, stdout=subprocess.PIPE, text=True, env=variables))
            stack.callback(process.kill)
            return process

        yield start


@pytest.fixture
def it(daemon: DaemonFactory) -> Daemon:
    return daemon(fetcher_timeout=60)


@pytest.fixture
def client(it: Daemon) -> Iterator[Client]:
    """Client of the processor."""
    with Client(it.url, name="processor") as one:
        yield one


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    """Twenty pages, each of which links to the next two; returns the first."""
    for number in range(20):
        following = "".join(f"<a href='{after}.html'>next</a>" for after in (number + 1, number + 2) if after < 20)
        (tmp_path / f"{number}.html").write_text(f"<html><body>{following}</body></html>")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/0.html"
        server.shutdown()
        thread.join()


def passed_on(process: Process) -> Task:
    """Read the next task that the fetcher has passed on."""
    assert process.stdout is not None
    return Task.from_bytes(bytes.fromhex(process.stdout.readline()))


def fetcher_of(client: Client) -> Fetcher:
    return next(view for view in client.fetchers.list().fetchers if view.capacity)


def wait_until(true: Callable[[], object]) -> None:
    """Ask until it is true; pytest's timeout ends it otherwise."""
    while not true():
        select.select([], [], [], 0.02)


def test_the_example_crawls_a_site_and_knows_its_end(it: Daemon, client: Client, site: str, start: Start) -> None:
    channel = f"ipc://{it.store_path.parent}/channel"
    client.push("demo", site)
    for role in ("processor", "fetcher", "fetcher"):
        start(str(EXAMPLE), role, TASKQUEUE_DAEMON=it.url, CHANNEL=channel)

    client.projects.wait("demo")

    view = client.projects.get("demo")
    assert (view.counts.success, view.totals.selected, view.finished) == (20, 20, 1)
    assert (view.totals.retried, view.totals.timeout) == (0, 0)


def test_what_was_passed_on_takes_no_slot_and_is_held_until_it_is_reported(
    it: Daemon, client: Client, start: Start
) -> None:
    client.push_many("news", [f"http://site/{number}" for number in range(50)])
    fetcher = start("-c", FETCHER, it.url)

    tasks = [passed_on(fetcher) for _ in range(50)]
    held = client.projects.get("news").counts.processing
    for task in tasks:
        client.done(task, new=[f"{task.url}/more"] if task.url.endswith("/0") else [])
    last = passed_on(fetcher)

    assert held == 50
    assert (last.url, client.projects.get("news").finished) == ("http://site/0/more", 0)
    client.done(last)
    assert client.projects.wait("news", timeout=WAIT_SECONDS)
    assert client.projects.get("news").totals.selected == 51
    wait_until(lambda: fetcher_of(client).holds == 0)


def test_each_task_that_is_reported_before_its_fetcher_says_so_leaves_room_for_the_next(
    it: Daemon, client: Client, start: Start
) -> None:
    client.push_many("news", [f"http://site/{number}" for number in range(200)])
    fetcher = start("-c", FETCHER, it.url)

    for _ in range(200):
        client.done(passed_on(fetcher))

    assert client.projects.wait("news", timeout=WAIT_SECONDS)
    assert client.projects.get("news").totals.selected == 200


def test_a_processor_may_prolong_and_hand_back_what_it_was_passed(it: Daemon, client: Client, start: Start) -> None:
    client.push("news", "http://site/")
    fetcher = start("-c", FETCHER, it.url)
    first = passed_on(fetcher)

    extended = client.extend(first, 1000)
    seconds = client.tasks.get("news", url="http://site/").lease_seconds
    released = client.release(first)
    second = passed_on(fetcher)

    assert (extended, released) == (True, 1)
    assert 600 < seconds <= 1000
    assert client.done(first).outcome == "stale"
    assert client.done(second).outcome == "done"


def test_a_fetcher_that_stops_leaves_what_it_passed_on_to_the_processors(
    it: Daemon, client: Client, start: Start
) -> None:
    client.push("news", "http://site/")
    fetcher = start("-c", FETCHER, it.url)
    task = passed_on(fetcher)
    wait_until(lambda: fetcher_of(client).holds == 1)
    fetcher.terminate()
    fetcher.wait(WAIT_SECONDS)

    processing = client.projects.get("news").counts.processing
    outcome = client.done(task).outcome

    assert (processing, outcome) == (1, "done")
    assert client.projects.get("news").totals.selected == 1


def test_a_loop_that_works_on_a_task_is_handed_no_other_when_its_lease_ends_but_a_new_loop_is(
    it: Daemon, client: Client
) -> None:
    client.projects.set("news", {"processing_timeout": 2})
    client.push_many("news", [f"http://site/{number}" for number in range(3)])
    with Client(it.url, name="fetcher") as fetcher:
        for _ in fetcher.stream(["news"], places=1):
            wait_until(lambda: client.projects.get("news").totals.timeout == 1)
            selected = client.projects.get("news").totals.selected
            client.projects.set("news", {"processing_timeout": 600})
            break
        done = [fetcher.done(task).outcome for task in islice(fetcher.stream(["news"], places=1), 3)]

    assert selected == 1
    assert done == ["done"] * 3
    assert client.projects.get("news").totals.selected == 4


def test_a_client_without_a_worker_passes_on_what_it_selected(it: Daemon, client: Client) -> None:
    client.push_many("news", [f"http://site/{number}" for number in range(3)])
    with Client(it.url, name="fetcher") as fetcher:
        travelled = []
        for task in fetcher.stream(["news"], places=1):
            travelled.append(task.to_bytes())
            fetcher.pass_on(task)
            if len(travelled) == 3:
                break
        outcomes = [client.done(Task.from_bytes(each)).outcome for each in travelled]

    assert outcomes == ["done"] * 3
