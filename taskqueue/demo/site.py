"""Site that the demo crawls: a folder of HTML pages, or the bundled one, served by a thread on loopback.

The bundled site is an invented magazine of 557 pages with the difficulties of real sites:

    /             links to all topics
    /topic/N      links to its articles and to the next topic: a ring
    /article/N    links to other articles: cycles; one with #fragment, one with ?utm_...: duplicates
    /archive/N    not urgent: the crawler fetches it later
    /moved/N      redirects; some to another redirect, two to each other
    /missing/N    404

Queries don't change pages. The site's log has a line per request: monotonic seconds at its arrival, status, target.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple
from urllib.parse import unquote

LOOPBACK = "127.0.0.1"

ARTICLES = 440
TOPICS = 17
ARCHIVED = 55
MOVED = 32
MISSING = 12

REDIRECTS = (301, 302, 303, 307, 308)
OTHER_LINKS = ("mailto:editor@lantern.example", "javascript:void(0)", "https://lantern.example/elsewhere", "#top")
"""Links to no page of this site."""

Link = tuple[str, str]
"""(href, text)"""


class Page(NamedTuple):
    """Response; ``location`` is the target of a redirect."""

    status: int
    body: bytes = b""
    location: str = ""


def bundled_pages() -> dict[str, Page]:
    """Return all pages of the bundled site by target, including linked ones that are missing."""
    return (
        {"/": _html("The Lantern", _home_links())}
        | {f"/topic/{n}": _html(f"Topic {n}", _topic_links(n)) for n in range(TOPICS)}
        | {f"/article/{n}": _html(f"Article {n}", _article_links(n)) for n in range(ARTICLES)}
        | {f"/archive/{n}": _html(f"From the archive, {n}", _near_and_far(n * 8)) for n in range(ARCHIVED)}
        | {f"/moved/{n}": Page(REDIRECTS[n % len(REDIRECTS)], location=_moved_to(n)) for n in range(MOVED)}
        | {f"/missing/{n}": Page(404, b"There is no such page.\n") for n in range(MISSING)}
    )


def _home_links() -> Iterator[Link]:
    for n in range(TOPICS):
        yield f"/topic/{n}", f"Topic {n}"
    for href in OTHER_LINKS:
        yield href, href
    yield "/?utm_source=home", "Home"


def _topic_links(n: int) -> Iterator[Link]:
    yield f"{(n + 1) % TOPICS}", "Next topic"
    for article in range(n, ARTICLES, TOPICS):
        yield f"../article/{article}", f"Article {article}"


def _article_links(n: int) -> Iterator[Link]:
    yield from _near_and_far(n)
    yield "#comments", "Comments"
    yield "/", "Home"
    if n % 14 == 0:
        yield f"/moved/{n // 14}", "As we wrote before"
    if n % 8 == 0:
        yield f"/archive/{n // 8}", "From the archive"
    if n % 37 == 0:
        yield f"/missing/{n // 37}", "A page that is gone"


def _near_and_far(n: int) -> Iterator[Link]:
    """Yield links to four articles, near and far, each with another form of URL."""
    yield f"/article/{(n + 1) % ARTICLES}", "Next"
    yield f"/article/{(n - 1) % ARTICLES}#comments", "Previous"
    yield f"/article/{(7 * n + 3) % ARTICLES}?utm_source=related", "Related"
    yield f"/article/{(31 * n + 11) % ARTICLES}?#intro", "Read on"


def _moved_to(n: int) -> str:
    if n < 2:
        return f"/moved/{1 - n}"
    if n % 8 == 7:
        return f"{n - 1}"
    return f"../article/{13 * n % ARTICLES}#moved"


def _html(title: str, links: Iterator[Link]) -> Page:
    items = "\n".join(f'  <li><a href="{href}">{text}</a></li>' for href, text in links)
    text = f"<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}\n</ul>\n"
    return Page(200, text.encode())


@contextmanager
def served(folder: Path | None, port: int, log: IO[str]) -> Iterator[int]:
    """Serve a folder (None: the bundled site) while the block runs; yield the port. Port 0: any.

    Raises:
        OSError: the port is taken.
    """
    pages = {} if folder else bundled_pages()
    with _Server((LOOPBACK, port), partial(_Handler, pages, log, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), name="site", daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *args: object) -> None:
        """Ignore a fetcher that was killed before it had its answer."""


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, pages: dict[str, Page], log: IO[str], *args: Any, **options: Any) -> None:
        self._pages = pages
        self._log = log
        super().__init__(*args, **options)

    def setup(self) -> None:
        self._arrived_at = time.monotonic()
        super().setup()

    def send_head(self) -> BinaryIO | None:
        """Send the head of the answer to a GET or HEAD; return the body, or None if it was sent, too."""
        if self._pages:
            return self._answer(self._pages.get(self.path.partition("?")[0], Page(404)))
        if "\0" in unquote(self.path):  # No file name can contain it.
            self.send_error(404)
            return None
        return super().send_head()

    def _answer(self, page: Page) -> BinaryIO:
        self.send_response(page.status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page.body)))
        if page.location:
            self.send_header("Location", page.location)
        self.end_headers()
        return BytesIO(page.body)

    def list_directory(self, path: object) -> None:
        """Answer 404 for a folder without index.html."""
        self.send_error(404)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log an answer before it is sent. Each line is one write, so that threads don't mix their lines."""
        self._log.write(f"{self._arrived_at:.6f} {int(code)} {self.path}\n")

    def log_message(self, *args: object) -> None:
        """Ignore messages: the site's log has them."""
