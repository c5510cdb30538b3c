"""Crawling again, from end to end: a site that answers conditional requests, a worker, and a daemon that is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from taskqueue import Client
from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory

WORK = [sys.executable, "-m", "taskqueue.cli.main", "work"]

HANDLERS = """
import urllib.request
from urllib.error import HTTPError

def crawl(task):
    request = urllib.request.Request(task.url, headers=task.conditional)
    try:
        with urllib.request.urlopen(request, timeout=9) as response:
            task.fetched(response.status, response.headers)
    except HTTPError as error:
        if error.code != 304:
            raise
        task.fetched(304, error.headers)
"""


class Site:
    """Page with an etag.

    Attributes:
        etag: current etag of the page.
        visits: the etag sent with each request, and the status of its answer.
    """

    def __init__(self) -> None:
        self.etag = '"1"'
        self.visits: Queue[tuple[str, int]] = Queue()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told = self.headers.get("If-None-Match", "")
                status = 304 if told == site.etag else 200
                self.send_response(status)
                self.send_header("ETag", site.etag)
                self.send_header("Content-Length", "0")
                self.end_headers()
                site.visits.put((told, status))

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def visited(self) -> tuple[str, int]:
        """Return the next visit."""
        return self.visits.get(timeout=WAIT_SECONDS)

    @contextmanager
    def served(self) -> Iterator[Site]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


@contextmanager
def at_work(url: str, folder: Path) -> Iterator[None]:
    """Run a worker in a process of its own."""
    (folder / "handlers.py").write_text(HANDLERS)
    worker = Forked([*WORK, "handlers:crawl", "--daemon", url], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(WAIT_SECONDS)


def test_a_page_is_visited_again_and_again_and_sent_only_if_it_has_changed(
    daemon: DaemonFactory, tmp_path: Path
) -> None:
    it = daemon()
    with Site().served() as site, Client(it.url) as client, at_work(it.url, tmp_path):
        client.push("news", site.url, recrawl={"min": 1, "max": 60})
        assert [site.visited() for _ in range(2)] == [("", 200), ('"1"', 304)]

        site.etag = '"2"'
        visit = site.visited()
        while visit == ('"1"', 304):  # it was on its way
            visit = site.visited()
        assert visit == ('"1"', 200)
        assert site.visited() == ('"2"', 304)

        it.kill()
        it.start()
        assert site.visited()[0] == '"2"'


def test_a_recurring_task_with_repeat_ends_by_itself(daemon: DaemonFactory) -> None:
    it = daemon()
    with Client(it.url) as client:
        client.push("news", "http://a/", taskid="a", age=1, auto_recrawl=True, repeat=2)
        for left in (1, 0):
            (task,) = client.select(1)
            client.done(task)
            assert client.tasks.get("news", "a").schedule.repeat == left
            it.kill()
            it.start()
        (task,) = client.select(1)
        client.done(task)

        assert client.tasks.get("news", "a").state == "success"
