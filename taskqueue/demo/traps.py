"""A magazine with the traps of real sites, which the tutorial crawls: ``python -m taskqueue.demo.traps [PORT]``.

    /                  front page, with links to all pages below but the articles
    /list              links to 20 articles
    /article?…         links to both neighbours, whose queries are in another order than those of the list
    /calendar?month=…  links to the next month, without end
    /login?next=…      links to a login page that comes back to this one, without end
    /popular           refuses every other request with 429 and a Retry-After of 2 s
    /report            never answers in edition 1
    /drafts/1          disallowed by robots.txt
    /missing           404

The file ``edition`` in the current folder has the number of the edition. In edition 2 the report answers; in edition 3
one article has changed and another is new. Each request is a line of the file ``site.log``: its status and its target.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit
from zlib import crc32

from taskqueue.terminal.lines import say

LOOPBACK: Final = "127.0.0.1"
PORT: Final = 8000
ARTICLES: Final = 20
HANG_SECONDS: Final = 600.0
"""How long the report of edition 1 keeps a request: longer than fetchers wait."""
RETRY_AFTER_SECONDS: Final = 2
MENDED, RENEWED = 2, 3
"""First editions in which the report answers, and in which articles have changed."""

ROBOTS_TXT: Final = "User-agent: *\nDisallow: /drafts/\n"

requests_of_popular = count(1)


class Answer(NamedTuple):
    """A response to a GET request."""

    status: int
    body: str = ""
    content_type: str = "text/html; charset=utf-8"


def edition() -> int:
    """Number in the file ``edition``; 1 if there is none."""
    file = Path("edition")
    return int(file.read_text()) if file.exists() else 1


def answer(target: str) -> Answer:
    """The response to a request; waits ``HANG_SECONDS`` for the report of edition 1."""
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    match parts.path:
        case "/robots.txt":
            return Answer(200, ROBOTS_TXT, "text/plain")
        case "/popular" if next(requests_of_popular) % 2:
            return Answer(429)
        case "/report" if edition() < MENDED:
            time.sleep(HANG_SECONDS)
    links = _links(parts.path, query, target)
    return Answer(404) if links is None else Answer(200, _html(_title(parts.path, query), links))


def _links(path: str, query: dict[str, str], target: str) -> list[str] | None:
    """Links of a page; None if there is no such page."""
    match path:
        case "/":
            return ["/list", "/calendar?month=2027-01", "/login?next=/", "/popular", "/report", "/drafts/1", "/missing"]
        case "/list":
            return [f"/article?lang=en&n={n}" for n in _articles()]
        case "/article" if query.get("n", "").isdecimal() and int(query["n"]) in _articles():
            n = int(query["n"])
            near = [f"/article?n={other}&lang=en" for other in (n - 1, n + 1) if other in _articles()]
            return [*near, f"/login?next={quote(target, safe='')}", "/"]
        case "/calendar" if "month" in query:
            return [f"/calendar?month={_month_after(query['month'])}", "/"]
        case "/login":
            return [f"/login?next={quote(target, safe='')}", "/"]
        case "/popular" | "/report" | "/drafts/1":
            return ["/"]
    return None


def _articles() -> range:
    return range(1, ARTICLES + 1 + (edition() >= RENEWED))


def _month_after(month: str) -> str:
    year, number = map(int, month.split("-"))
    return f"{year + number // 12:04}-{number % 12 + 1:02}"


def _title(path: str, query: dict[str, str]) -> str:
    if path != "/article":
        return path.strip("/").split("/")[0].capitalize() or "The Heron"
    was_revised = query["n"] == "7" and edition() >= RENEWED
    return f"Article {query['n']}{', revised' if was_revised else ''}"


def _html(title: str, links: list[str]) -> str:
    items = "".join(f'<li><a href="{link.replace("&", "&amp;")}">{link.partition("?")[0]}</a></li>\n' for link in links)
    return f"<!doctype html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}</ul>\n"


class Handler(BaseHTTPRequestHandler):
    """Handler of GET requests, also conditional ones."""

    def do_GET(self) -> None:
        """Send the page, or 304 if the request has its ETag."""
        reply = answer(self.path)
        body = reply.body.encode()
        etag = f'"{crc32(body):08x}"'
        is_known = reply.status == 200 and self.headers.get("If-None-Match") == etag
        self.send_response(304 if is_known else reply.status)
        for name, value in _headers(reply, etag, 0 if is_known else len(body)):
            self.send_header(name, value)
        self.end_headers()
        if not is_known:
            self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Append a line to ``site.log``; a single write, so that threads don't mix their lines."""
        with Path("site.log").open("a") as log:
            log.write(f"{int(code)} {self.path}\n")

    def log_message(self, *args: object) -> None:
        """Print nothing on stderr: ``site.log`` has the request."""


def _headers(reply: Answer, etag: str, size: int) -> Iterator[tuple[str, str]]:
    yield "Content-Type", reply.content_type
    yield "Content-Length", str(size)
    if reply.status == 200:
        yield "ETag", etag
    if reply.status == 429:
        yield "Retry-After", str(RETRY_AFTER_SECONDS)


class Server(ThreadingHTTPServer):
    """Serves each request in a thread of its own."""

    request_queue_size = 128

    def handle_error(self, *args: object) -> None:
        """Print nothing: fetchers that time out close their connections."""


def main(port: str = str(PORT)) -> None:
    """Serve the site until Ctrl-C."""
    with Server((LOOPBACK, int(port)), Handler) as server:
        say(f"The Heron, at http://{LOOPBACK}:{port}/ until Ctrl-C")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
