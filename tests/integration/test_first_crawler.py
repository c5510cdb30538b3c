"""The README's crawler and the one of the examples, as they stand, on a site that means no good."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from taskqueue import Client

if TYPE_CHECKING:
    from tests.integration.conftest import DaemonFactory

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "taskqueue.cli.main"]
WAIT_SECONDS = 60.0

PAGES = 40
DEAD = 15
"""More than the failures in a row at which a project pauses itself."""


class Site:
    """Serves pages on a port of loopback, and counts what is asked for."""

    def __init__(self, pages: dict[str, str], moved: dict[str, str]) -> None:
        self.asked: Counter[str] = Counter()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked[self.path] += 1
                text = pages.get(self.path, "").encode()
                self.send_response(302 if self.path in moved else 200 if self.path in pages else 404)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                if self.path in moved:
                    self.send_header("Location", moved[self.path])
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[tuple[Site, Site]]:
    """A site that leads to local files, to its neighbour and to dead ends; and that neighbour."""
    with ExitStack() as stack:
        other = Site({"/": "", "/secret": ""}, {})
        stack.callback(other.close)
        local = tmp_path / "local.html"
        local.write_text('<a href="/read-from-disk">')
        pages = {"/": _front(other.port, local)}
        pages |= {f"/page/{n}": f'<a href="{n + 1}">next</a> <a href="/#top">home</a>' for n in range(PAGES)}
        moved = {"/moved": "/page/0", "/away": f"http://127.0.0.1:{other.port}/secret", "/disk": local.as_uri()}
        site = Site(pages, moved)
        stack.callback(site.close)
        yield site, other


def _front(port: int, local: Path) -> str:
    dead = "".join(f'<a href="/dead/{n}">' for n in range(DEAD))
    return f"""{dead}<a href="{local.as_uri()}"> <a href="file:///etc/passwd"> <a href="http://127.0.0.1:{port}/">
               <a href="//localhost:{port}/"> <a href="mailto:ann@site"> <a href="javascript:x()"> <a href="data:,x">
               <a href="page/0"> <a href="/moved"> <a href="/away"> <a href="/disk"> <a href="?q=a b">"""


def run(url: str, *arguments: str) -> None:
    """A command, as a person types it."""
    subprocess.run([*COMMAND, *arguments, "--url", url], check=True, timeout=WAIT_SECONDS, stdout=subprocess.DEVNULL)


def crawl(url: str, project: str, start: list[str], folder: Path) -> Client:
    """Run a crawler until its project is finished; returns a client of the daemon."""
    crawler = subprocess.Popen(start, cwd=folder, env={"TASKQUEUE_URL": url, "PYTHONPATH": str(ROOT)})
    try:
        client = Client(url)
        assert client.projects.wait(project, WAIT_SECONDS)
    finally:
        crawler.terminate()
        crawler.wait(WAIT_SECONDS)
    return client


def judge(client: Client, project: str, site: Site, other: Site) -> None:
    """All pages of the site were fetched, each once; nothing else was; and the project has not paused itself."""
    good = {"/", "/?q=a%20b", "/moved", "/away", "/disk", *(f"/page/{n}" for n in range(PAGES + 1))}
    assert site.asked == dict.fromkeys(good | {f"/dead/{n}" for n in range(DEAD)}, 1)
    assert other.asked == {}
    view = client.projects.show(project)
    # Two pages are none: the one with a question mark, and the last one of all.
    assert (view.counts.success, view.counts.failed, view.state) == (len(good) - 2, DEAD + 2, "running")
    client.close()


def test_the_crawler_of_the_readme_crawls_its_site_and_nothing_else(
    daemon: DaemonFactory, sites: tuple[Site, Site], tmp_path: Path
) -> None:
    site, other = sites
    url = daemon(auto_create=False, defaults={"rate": 1}).url
    section = (ROOT / "README.md").read_text().split("## A crawler in ten lines")[1].split("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    shown = re.findall(r"^    taskqueue ((?:project|push|work) .*)", section, re.MULTILINE)
    *before, work = [line.split() for line in shown[:3]]
    (tmp_path / "crawler.py").write_text(code)

    for arguments in before:
        run(url, *(each.replace(":8000", f":{site.port}") for each in arguments))

    judge(crawl(url, "docs", [*COMMAND, *work], tmp_path), "docs", site, other)


def test_the_crawler_of_the_examples_does_so_too(
    daemon: DaemonFactory, sites: tuple[Site, Site], tmp_path: Path
) -> None:
    site, other = sites
    url = daemon(projects={"demo": {"rate": 100}}).url
    run(url, "push", "demo", f"http://127.0.0.1:{site.port}/")

    judge(crawl(url, "demo", [sys.executable, str(ROOT / "examples" / "crawler.py")], tmp_path), "demo", site, other)
