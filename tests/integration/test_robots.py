"""The polite crawler of the examples, unchanged, on a site with a robots.txt and sitemaps."""

from __future__ import annotations

import gzip
import select
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client
from tests.integration.nursery import WAIT_SECONDS, Forked

if TYPE_CHECKING:
    from tests.integration.conftest import Daemon, DaemonFactory

ROOT = Path(__file__).parents[2]


class Site:
    """Server of pages on a loopback port; its robots.txt is behind a redirect, as many are.

    Attributes:
        pages: pages by path.
        asked: number of requests by path.
        agents: User-Agents of the requests.
    """

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {}
        self.asked: Counter[str] = Counter()
        self.agents: set[str] = set()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                site.agents.add(self.headers["User-Agent"])
                body = site.pages.get(self.path, b"")
                moved = self.path == "/robots.txt"
                self.send_response(301 if moved else 200 if self.path in site.pages else 404)
                self.send_header("Content-Type", "text/html" if body.startswith(b"<a") else "application/octet-stream")
                self.send_header("Content-Length", str(len(body)))
                if moved:
                    self.send_header("Location", "/moved/robots.txt")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def says(self, lastmods: dict[str, str]) -> None:
        """List these pages in the sitemap, with the times of their last change."""
        entries = "".join(
            f"<url><loc>{self.url}{path}</loc><lastmod>{lastmod}</lastmod></url>" for path, lastmod in lastmods.items()
        )
        self.pages["/sitemap.xml.gz"] = gzip.compress(f"<urlset>{entries}</urlset>".encode())

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    it = Site()
    rules = "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow: /private\n"
    it.pages = {
        "/moved/robots.txt": f"{rules}Sitemap: {it.url}/sitemap.xml.gz\n".encode(),
        "/": b'<a href="/linked"><a href="/private/linked">',
        **dict.fromkeys(("/linked", "/listed", "/changing", "/private/linked", "/private/listed"), b"<a>"),
    }
    it.says({"/listed": "2026-01-01", "/changing": "2026-01-01", "/private/listed": "2026-01-01"})
    try:
        yield it
    finally:
        it.close()


def crawl(it: Daemon, client: Client, site: Site, expected: set[str]) -> None:
    """Run the example until these paths have been requested and its project has finished."""
    command = [sys.executable, str(ROOT / "examples" / "polite_crawler.py"), f"{site.url}/"]
    with Forked(command, env={"TASKQUEUE_DAEMON": it.url}, stderr=subprocess.DEVNULL) as process:
        try:
            while not expected <= set(site.asked):
                select.select([], [], [], 0.02)
            assert client.projects.wait("demo", WAIT_SECONDS)
        finally:
            process.terminate()
            process.wait(WAIT_SECONDS)


def test_a_polite_crawler_fetches_what_the_site_offers_and_wants_and_later_what_has_changed(
    daemon: DaemonFactory, site: Site
) -> None:
    it = daemon(projects={"demo": {"rate": 100}})
    files = ["/robots.txt", "/moved/robots.txt", "/sitemap.xml.gz"]
    wanted = ["/", "/linked", "/listed", "/changing"]

    with Client(it.url) as client:
        crawl(it, client, site, {*files, *wanted})
        counts = client.projects.get("demo").counts
        dropped = client.tasks.get("demo", url=f"{site.url}/private/listed")

        assert site.asked == dict.fromkeys([*files, *wanted], 1)
        assert site.agents == {"examplebot/1.0 (+https://example.com/bot)"}
        assert (counts.success, counts.failed) == (4, 2)
        assert f"{site.url}/robots.txt disallows it" in dropped.error

        site.asked.clear()
        site.says({"/listed": "2026-01-01", "/changing": "2026-11-22"})
        crawl(it, client, site, {*files, "/changing"})

        assert site.asked == dict.fromkeys([*files, "/changing"], 1)
