"""Site that judges its crawlers by its own record: with traps, wishes, and hostile answers.

    /                  links to all of them, to a foreign host, and to a file on the local disk
    /page/N            a few pages in a row, each of which links to /, too
    /busy/N, /mends    429 or 503 at first, with a Retry-After of a second, as a number or as a date
    /gone/N            404, more of them than failures in a row that pause a project
    /hangs, /huge, /endless, /bomb, /broken        no answer; 300 MB; 300 MB in chunks; 64 MB in 64 kB; no gzip
    /calendar, /session, /login, /spiral           traps: each page links to a new one
    /moved, /away, /disk                           redirects: to a page, to the foreign host, to the local disk
    /latin, /wide      written in Latin-1 without saying so, and in UTF-16
    /private, /unloved disallowed by robots.txt, and behind a nofollow link

Its judgements on time only say "too early": a slow machine is never at fault.
"""

from __future__ import annotations

import gzip
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from typing import Final, NamedTuple
from urllib.parse import quote

PAGES: Final = 4
DEAD: Final = 12
"""Dead pages, more than the failures in a row that pause a project."""

REST_SECONDS: Final = 1
"""Seconds that Retry-After asks for."""
CRAWL_DELAY: Final = 1.0
TRANSIT_SECONDS: Final = 0.9
"""Longest difference between the transit times of a crawler's first and last request."""

MAX_DEPTH: Final = 20
HUGE_BYTES: Final = 300 << 20
MOST_BYTES: Final = 32 << 20
"""Bytes of one answer that may leave before a crawler cuts it: 8 MiB that it reads, and what lies in sockets."""

TRAPS: Final = ("/calendar", "/session", "/login", "/spiral")
LARGE: Final = ("/huge", "/endless", "/bomb")
UNREADABLE: Final = ("/hangs", "/broken", *LARGE)
BUSY: Final = ("/busy/0", "/busy/1", "/mends")
FILES: Final = ("/robots.txt", "/sitemap.xml")


ROBOTS_TXT: Final = "User-agent: *\nDisallow: /private\nCrawl-delay: 1\nSitemap: {}/sitemap.xml\n"


class Visit(NamedTuple):
    """Request and its answer; times by ``time.monotonic``."""

    path: str
    agent: str
    arrived_at: float
    answered_at: float
    status: int
    sent_bytes: int


class Answer(NamedTuple):
    """Answer to send; without a length the connection is closed after the pieces."""

    status: int
    headers: dict[str, str]
    pieces: Iterator[bytes]


class JudgingSite:
    """Site on a loopback port, and its record.

    Args:
        links: links of its front page, in HTML.
        front: further paths that the front page links to; all of the above by default.
        robots: True if it has a robots.txt, and a sitemap that names /news.
    """

    def __init__(self, links: str = "", front: tuple[str, ...] = (), robots: bool = False) -> None:
        self.visits: list[Visit] = []
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._links = links
        self._front = front or ALL
        self._robots = robots
        self._redirects = {"/moved": "/page/0"}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        """Stop serving, and release hanging requests."""
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def redirect(self, path: str, target: str) -> None:
        """Answer a path by a redirect."""
        self._redirects[path] = target

    def offers(self, keeps_to_robots: bool) -> set[str]:
        """Return paths that a good crawler asks for, traps apart."""
        found = {"/", *(path for path in self._front if not path.startswith(TRAPS))}
        pages = [int(path[6:]) for path in found if path.startswith("/page/")]
        found |= {f"/page/{n}" for first in pages for n in range(first, PAGES)}
        found |= {quote(named) for path, named in WRITTEN.items() if path in found}
        return found if keeps_to_robots else found | {"/unloved", "/private/x"}

    def asked(self, *, files: bool = False) -> Counter[str]:
        """Count requests by path."""
        return Counter(visit.path for visit in self.visits if files or visit.path not in FILES)

    def answer(self, path: str) -> Answer:
        """Choose the answer to a request."""
        with self._lock:
            self._asked[path] += 1
            first = self._asked[path] == 1
        plain, _, query = path.partition("?")
        if plain in self._redirects:
            return _page("", status=302, location=self._redirects[plain])
        if plain in BUSY and first:
            return _refused(429 if plain.startswith("/busy") else 503)
        if plain == "/hangs":
            self._closing.wait()
        if plain in UNREADABLE:
            return _unreadable(plain)
        if plain in FILES and self._robots:
            return _page(ROBOTS_TXT.format(self.url) if plain == FILES[0] else f"{self.url}/news\n", kind="text/plain")
        if plain.split("/")[1] in ("private", "unloved", "latin", "wide", "page", *(trap[1:] for trap in TRAPS)):
            return _leading_on(plain, query)
        if plain == "/":
            return _page(self._links + "".join(f'<a href="{each}">' for each in self._front) + UNLOVED)
        return _page("") if plain in (*BUSY, *NAMED) else _page("", status=404)


ALL: Final = (
    "/page/0", *BUSY, *(f"/gone/{n}" for n in range(DEAD)), *UNREADABLE,
    "/calendar?month=1", "/session?id=0", "/login?next=/", "/spiral/", "/moved", "/away", "/disk", "/latin", "/wide",
)  # fmt: skip
UNLOVED: Final = '<a rel="nofollow" href="/unloved"><a href="/private/x">'
WRITTEN: Final = {"/latin": "/café", "/wide": "/naïve"}
NAMED: Final = (*map(quote, WRITTEN.values()), "/news", "/sport", "/weather")
"""Pages without links."""


def complaints(site: JudgingSite, *, keeps_to_robots: bool = False) -> list[str]:
    """List the site's complaints about its crawlers, none of which may still run."""
    return [
        *(f"{path}: not asked for" for path in sorted(site.offers(keeps_to_robots) - set(site.asked()))),
        *_asked_again(site),
        *_trapped(site),
        *_unheeded(site),
        *(
            f"{visit.path}: {visit.sent_bytes:,} bytes were taken"
            for visit in site.visits
            if visit.sent_bytes > MOST_BYTES
        ),
        *(f"{visit.path}: by {visit.agent!r}" for visit in site.visits if "examplebot" not in visit.agent),
        *(f"{visit.path}: no such link" for visit in site.visits if re.search("%EF%BF%BD|from-disk", visit.path)),
        *(_against_robots(site) if keeps_to_robots else ()),
    ]


def _asked_again(site: JudgingSite) -> Iterator[str]:
    for path, times in site.asked(files=True).items():
        most = 2 if path in BUSY else 1
        if times > most:
            yield f"{path}: asked for {times} times"


def _trapped(site: JudgingSite) -> Iterator[str]:
    for trap in TRAPS:
        if (pages := sum(visit.path.startswith(trap) for visit in site.visits)) > MAX_DEPTH:
            yield f"{trap}: {pages} pages of a trap"


def _unheeded(site: JudgingSite) -> Iterator[str]:
    """Yield requests that came sooner than a refusal had asked for."""
    for refused in (visit for visit in site.visits if visit.status in (429, 503)):
        for visit in site.visits:
            passed = visit.arrived_at - refused.answered_at
            if 0 < passed < REST_SECONDS:
                yield f"{visit.path}: {passed:.3f} s after the {refused.status} of {refused.path}"


def _against_robots(site: JudgingSite) -> Iterator[str]:
    yield from (f"{path}: not to be fetched" for path in site.asked() if path.startswith(("/private", "/unloved")))
    pages = sorted(visit.arrived_at for visit in site.visits if visit.path not in FILES)
    least = (len(pages) - 1) * CRAWL_DELAY - TRANSIT_SECONDS
    if (took := pages[-1] - pages[0]) < least:
        yield f"{len(pages)} pages in {took:.3f} s, in spite of Crawl-delay: {CRAWL_DELAY:g}"


def _page(html: str | bytes, *, status: int = 200, kind: str = "text/html", location: str = "") -> Answer:
    body = html if isinstance(html, bytes) else html.encode()
    headers = {"Content-Type": kind, "Content-Length": str(len(body))} | ({"Location": location} if location else {})
    return Answer(status, headers, iter([body]))


def _refused(status: int) -> Answer:
    """Make a refusal; a date has whole seconds, so it is at least a second after the answer's own, which is rounded
    down."""
    asked = str(REST_SECONDS) if status == 429 else formatdate(int(time.time()) + REST_SECONDS, usegmt=True)
    return Answer(status, {"Retry-After": asked, "Content-Length": "0"}, iter([]))


def _unreadable(path: str) -> Answer:
    much = repeat(b"<p>" * 21845, HUGE_BYTES // 65535)
    match path:
        case "/huge":
            return Answer(200, {"Content-Type": "text/html", "Content-Length": str(HUGE_BYTES)}, much)
        case "/endless":
            return Answer(200, {"Content-Type": "text/html"}, much)
        case "/bomb":
            return Answer(200, {"Content-Encoding": "gzip", "Content-Length": str(len(_bomb()))}, iter([_bomb()]))
    return Answer(200, {"Content-Encoding": "gzip", "Content-Length": "5"}, iter([b"<p>no"]))


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(64 << 20), 1)


def _leading_on(path: str, query: str) -> Answer:
    """Make a page that links to the next one."""
    match path.split("/")[1]:
        case "page":
            n = int(path.rsplit("/", 1)[1]) + 1
            return _page(f'<a href="{n}">' * (n < PAGES) + '<a href="/#top">')
        case "calendar":
            return _page(f'<a href="?month={int(query.partition("=")[2]) + 1}">')
        case "session":
            return _page(f'<a href="/session?id={secrets.token_hex(16)}">')
        case "login":
            return _page(f'<a href="/login?next={quote(f"{path}?{query}", safe="")}">')
        case "spiral":
            return _page('<a href="more/">')
        case "latin":
            return _page('<a href="/café">'.encode("latin-1"))
        case "wide":
            return _page('<a href="/naïve">'.encode("utf-16"))
    return _page("")


def _handler(site: JudgingSite) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            arrived_at, sent = time.monotonic(), 0
            answer = site.answer(self.path)
            answered_at = time.monotonic()
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for piece in answer.pieces:
                    self.wfile.write(piece)
                    sent += len(piece)
            except OSError:
                pass  # The crawler has closed the connection.
            agent = self.headers.get("User-Agent", "")
            site.visits.append(Visit(self.path, agent, arrived_at, answered_at, answer.status, sent))

        def log_message(self, *args: object) -> None:
            """Log nothing: the record has it."""

    return Handler
