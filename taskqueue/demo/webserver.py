"""Serves a site on loopback and logs every GET: the ground truth of what was fetched.

The access log has one line per GET, written when the request arrives, before the site delays its answer:

    <seconds of the monotonic clock> <crawler or visitor> <target>

A visitor is any other user agent than the demo's crawler, such as a person with a browser. The monotonic clock
is common to all processes of the machine, so these times compare with those of others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import click

from taskqueue.demo.bundled_site import BundledSite
from taskqueue.demo.folder_site import FolderSite
from taskqueue.demo.page import Page, Site

AGENT = "taskqueue-demo"
"""User-Agent of the demo's crawler."""

LOOPBACK = "127.0.0.1"


class Get(NamedTuple):
    """A GET of the crawler in the access log."""

    at: float
    target: str


def read_access(log: Path) -> Iterator[Get]:
    """The crawler's GETs, in the order of arrival; none if there is no log."""
    if not log.exists():
        return
    for line in log.read_text().splitlines():
        at, who, target = line.split(" ", 2)
        if who == "crawler":
            yield Get(float(at), target)


def site_of(folder: Path | None) -> Site:
    """The site of a folder; None: the bundled one."""
    return FolderSite(folder) if folder else BundledSite()


@contextmanager
def listening(site: Site, port: int, log: Path) -> Iterator[ThreadingHTTPServer]:
    """A server that listens already; ``serve_forever`` answers. Port 0: any.

    Raises:
        OSError: the port is taken.
    """
    with log.open("a", buffering=1) as lines, _Server((LOOPBACK, port), _handler(site, lines.write)) as server:
        yield server


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def _handler(site: Site, write: Callable[[str], object]) -> type[BaseHTTPRequestHandler]:
    writing = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            who = "crawler" if self.headers.get("User-Agent") == AGENT else "visitor"
            with writing:
                write(f"{time.monotonic():.6f} {who} {self.path}\n")
            _answer(self, site.page(self.path))

        def log_message(self, *args: object) -> None:
            """Say nothing: the access log has it."""

    return Handler


def _answer(request: BaseHTTPRequestHandler, page: Page) -> None:
    time.sleep(page.delay_seconds)
    request.send_response(page.status)
    request.send_header("Content-Type", page.content_type)
    request.send_header("Content-Length", str(len(page.body)))
    if page.location:
        request.send_header("Location", page.location)
    request.end_headers()
    request.wfile.write(page.body)


@click.command()
@click.option("--port", type=int, required=True)
@click.option("--log", type=click.Path(path_type=Path), required=True)
@click.option("--folder", type=click.Path(path_type=Path))
def main(port: int, log: Path, folder: Path | None) -> None:
    """Serve the bundled site, or a folder."""
    with listening(site_of(folder), port, log) as server:
        server.serve_forever()
