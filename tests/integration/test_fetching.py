"""``taskqueue.http`` on a hostile site: bytes and time are bounded, and each result is defined."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import Any, Final

import msgspec
import pytest
from msgspec import Raw

from taskqueue import Drop, Retry, Task
from taskqueue.http import AsyncHttp, Http, Page
from taskqueue.protocol.fields import Token
from taskqueue.protocol.values import Assignment

AGENT: Final = "examplebot/1.0 (+https://example.com/bot)"
PATIENCE_SECONDS: Final = 20.0
"""Time limit of fetches that must end for another reason."""
SHORT_SECONDS: Final = 1.0
"""Time limit of fetches that end by it."""

MAX_BYTES: Final = 1 << 20
OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
ONE: Final = b"1\r\nx\r\n"
BOMB: Final = gzip.compress(bytes(16 << 20))

Answer = Iterator[bytes]


def with_length(body: bytes, head: bytes = OK) -> bytes:
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


ANSWERS: Final[dict[str, Callable[[], Answer]]] = {
    "/": lambda: iter([with_length(b'<a href="/next">')]),
    "/kept": lambda: iter([with_length(b"")]),
    "/chunked": lambda: iter([OK + b"Transfer-Encoding: chunked\r\n\r\n", ONE, ONE, b"0\r\n\r\n"]),
    "/gzip": lambda: iter([with_length(gzip.compress(b"hello"), OK + b"Content-Encoding: gzip\r\n")]),
    "/redirect": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 9\r\n\r\n"]),
    "/loop": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n"]),
    "/disk": lambda: iter([b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n"]),
    "/cookie": lambda: iter([with_length(b"", OK + b"Set-Cookie: a=b; Path=/\r\n")]),
    "/busy": lambda: iter([b"HTTP/1.1 429 -\r\nRetry-After: 7\r\nContent-Length: 300000000\r\n\r\n"]),
    "/gone": lambda: iter([b"HTTP/1.1 404 -\r\nTransfer-Encoding: chunked\r\n\r\n"]),
    "/unchanged": lambda: iter([b"HTTP/1.1 304 -\r\nContent-Length: 300000000\r\nContent-Encoding: br\r\n\r\n"]),
    # Too many bytes.
    "/large": lambda: iter([OK + b"Content-Length: 300000000\r\n\r\n"]),
    "/endless": lambda: (piece for head in [OK + b"\r\n"] for piece in (head, *repeat(b"x" * 65536, 5000))),
    "/endless-chunks": lambda: chunks(b"10000\r\n" + b"x" * 65536 + b"\r\n"),
    "/bomb": lambda: iter([with_length(BOMB, OK + b"Content-Encoding: gzip\r\n")]),
    # Broken.
    "/not-gzip": lambda: iter([with_length(b"hello", OK + b"Content-Encoding: gzip\r\n")]),
    "/half-gzip": lambda: iter([with_length(gzip.compress(b"hello" * 99)[:-9], OK + b"Content-Encoding: gzip\r\n")]),
    "/brotli": lambda: iter([with_length(b"\x0b\x02", OK + b"Content-Encoding: br\r\n")]),
    "/short": lambda: iter([OK + b"Content-Length: 99\r\n\r\nx"]),
    "/nonsense": lambda: iter([b"SSH-2.0-OpenSSH_9.2\r\n\r\n"]),
    "/status": lambda: iter([b"HTTP/1.1 000 -\r\nContent-Length: 0\r\n\r\n"]),
    "/nothing": lambda: iter([]),
    "/long-header": lambda: iter([b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20)]),
    "/long-chunk-line": lambda: chunks(b"0" * 65536),
}


def chunks(piece: bytes) -> Answer:
    """Yield an answer in chunks that continues after 300 MB."""
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from repeat(piece, 5000)


TRICKLES: Final = {
    "/slow-nothing": b"",
    "/slow-head": b"HTTP/1.1 200 OK\r\nX: ",
    "/slow-continue": b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + b"HTTP/1.1 100 Continue\r\nX: ",
    "/slow-body": OK + b"Content-Length: 1000000\r\n\r\n",
    "/slow-chunk": OK + b"Transfer-Encoding: chunked\r\n\r\n10000\r\n",
    "/slow-chunk-line": OK + b"Transfer-Encoding: chunked\r\n\r\n1;",
}
"""Beginnings of answers that continue with a byte now and then, for ever; the first is empty."""


class Site:
    """Server that answers as the path says, and closes the connection; after ``/kept`` only when the next request
    arrives.

    Attributes:
        heads: heads of all requests.
        asked: set by a request.
        sent: bytes.
    """

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.heads: list[str] = []
        self.asked = threading.Event()
        self.sent = 0
        self._start(self._accept)

    def close(self) -> None:
        self._closing.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _start(self, run: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=run, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._start(self._serve, self._listening.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_SECONDS)
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (piece := connection.recv(65536)):
                    return
                head += piece
            self.heads.append(head.decode())
            self.asked.set()
            path = head.split()[1].decode()
            if path in TRICKLES:
                self._trickle(connection, TRICKLES[path])
            for piece in ANSWERS.get(path, ANSWERS["/"])():
                connection.sendall(piece)
                self.sent += len(piece)
            if path == "/kept":
                connection.recv(1)
            connection.shutdown(socket.SHUT_WR)

    def _trickle(self, connection: socket.socket, beginning: bytes) -> None:
        connection.sendall(beginning)
        while not self._closing.wait(SHORT_SECONDS / 10):
            connection.sendall(b"x" if beginning else b"")


@pytest.fixture
def site() -> Iterator[Site]:
    it = Site()
    try:
        yield it
    finally:
        it.close()


Fetch = Callable[..., Page]


@pytest.fixture(params=["Http", "AsyncHttp"])
def fetch(request: pytest.FixtureRequest) -> Fetch:
    """Fetch tasks one after the other with the same helper; return the last page."""

    def waits(*tasks: Task, timeout: float = PATIENCE_SECONDS, **options: Any) -> Page:
        with Http(AGENT, timeout=timeout, max_bytes=MAX_BYTES) as http:
            return [http.fetch(task, **options) for task in tasks][-1]

    async def in_loop(tasks: tuple[Task, ...], seconds: float, options: dict[str, Any]) -> Page:
        async with AsyncHttp(AGENT, timeout=seconds, max_bytes=MAX_BYTES) as http:
            return [await http.fetch(task, **options) for task in tasks][-1]

    def runs(*tasks: Task, timeout: float = PATIENCE_SECONDS, **options: Any) -> Page:
        return asyncio.run(in_loop(tasks, timeout, options))

    return waits if request.param == "Http" else runs


def get(kind: type[Http | AsyncHttp], url: str) -> tuple[int, bytes]:
    """Fetch a file of a site."""

    async def in_loop() -> tuple[int, bytes]:
        async with AsyncHttp(AGENT) as http:
            return await http.get(url)

    if kind is AsyncHttp:
        return asyncio.run(in_loop())
    with Http(AGENT) as http:
        return http.get(url)


def task(url: str, **handed: Any) -> Task:
    return Task(Assignment("p", "t", url, Token(1), 60.0, **handed))


# ---------------------------------------------------------------------------------------------- pages


def test_a_page_comes_with_all_that_a_handler_needs(site: Site, fetch: Fetch) -> None:
    it = task(f"{site.url}/#top")

    page = fetch(it)

    assert (page.url, page.status, page.headers["content-type"]) == (f"{site.url}/", 200, "text/html")
    assert (page.body, page.text) == (b'<a href="/next">', '<a href="/next">')
    assert page.links() == [f"{site.url}/next"]
    assert f"user-agent: {AGENT.lower()}\r\n" in site.heads[0].lower()
    assert it.how_fetched is not None
    assert it.how_fetched.status_code == 200


@pytest.mark.parametrize(("path", "body"), [("/chunked", b"xx"), ("/gzip", b"hello")])
def test_a_page_is_put_together_and_unpacked(site: Site, fetch: Fetch, path: str, body: bytes) -> None:
    assert fetch(task(site.url + path)).body == body


def test_a_redirect_is_not_followed(site: Site, fetch: Fetch) -> None:
    page = fetch(task(f"{site.url}/redirect"))

    assert (page.status, page.body, page.links()) == (302, b"", [f"{site.url}/"])
    assert len(site.heads) == 1


def test_a_conditional_request_is_answered_by_an_empty_page(site: Site, fetch: Fetch) -> None:
    it = task(f"{site.url}/unchanged", etag='"v1"')

    page = fetch(it, conditional=True)

    assert (page.status, page.body, page.links()) == (304, b"", [])
    assert 'if-none-match: "v1"' in site.heads[0].lower()
    assert it.how_fetched is not None
    assert it.how_fetched.changed is False


def test_no_cookie_of_one_page_goes_to_the_next(site: Site, fetch: Fetch) -> None:
    fetch(task(f"{site.url}/cookie"), task(f"{site.url}/"))

    assert "cookie" not in site.heads[1].lower()


def test_a_connection_that_was_kept_and_is_closed_is_no_failure(site: Site, fetch: Fetch) -> None:
    page = fetch(task(f"{site.url}/kept"), task(f"{site.url}/"))

    assert page.body == b'<a href="/next">'
    assert len(site.heads) == 2


def test_what_is_no_plain_question_is_not_asked_twice(site: Site, fetch: Fetch) -> None:
    sent = Raw(msgspec.msgpack.encode({"fetch": {"method": "POST", "data": "x=1"}}))

    with pytest.raises(Retry):
        fetch(task(f"{site.url}/kept"), task(f"{site.url}/", body=sent))

    assert len(site.heads) == 1


def test_a_host_that_hangs_up_is_not_asked_twice(site: Site, fetch: Fetch) -> None:
    with pytest.raises(Retry):
        fetch(task(f"{site.url}/nothing"))

    assert len(site.heads) == 1


def test_what_the_site_refuses_is_decided_without_its_body(site: Site, fetch: Fetch) -> None:
    with pytest.raises(Retry) as busy:
        fetch(task(f"{site.url}/busy"))
    with pytest.raises(Drop, match="404 Not Found"):
        fetch(task(f"{site.url}/gone"))

    assert (busy.value.after, busy.value.status_code) == (7.0, 429)


# ---------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("path", ["/large", "/endless", "/endless-chunks", "/bomb"])
def test_a_page_that_is_too_large_is_left(site: Site, fetch: Fetch, path: str) -> None:
    with pytest.raises(Drop, match=r"too large: .* max_bytes is 1,048,576"):
        fetch(task(site.url + path))

    assert site.sent < 32 << 20


@pytest.mark.parametrize("path", TRICKLES)
def test_a_page_that_hangs_or_trickles_ends_with_its_time(site: Site, fetch: Fetch, path: str) -> None:
    it = task(site.url + path)

    with pytest.raises(Retry, match=r"timed out: 1 s for all of it") as error:
        fetch(it, timeout=SHORT_SECONDS)

    assert error.value.after is None
    assert it.how_fetched is not None
    assert it.how_fetched.error_kind == "timeout"


@pytest.mark.parametrize(
    "path",
    ["/not-gzip", "/half-gzip", "/short", "/nonsense", "/status", "/nothing", "/long-header", "/long-chunk-line"],
)
def test_an_answer_that_is_broken_is_retried_by_the_table(site: Site, fetch: Fetch, path: str) -> None:
    with pytest.raises(Retry) as error:
        fetch(task(site.url + path))

    assert error.value.after is None
    assert site.sent < 32 << 20


def test_an_encoding_that_was_not_asked_for_fails_for_good(site: Site, fetch: Fetch) -> None:
    with pytest.raises(Drop, match="its Content-Encoding is br"):
        fetch(task(f"{site.url}/brotli"))


def test_a_host_that_is_not_there_is_retried_and_left_alone(fetch: Fetch) -> None:
    with socket.socket() as refusing:
        refusing.bind(("127.0.0.1", 0))
        it = task(f"http://127.0.0.1:{refusing.getsockname()[1]}/")

        with pytest.raises(Retry):
            fetch(it)

    assert it.how_fetched is not None
    assert it.how_fetched.error_kind == "connection"


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example", "no-such-host.invalid"])
def test_a_host_whose_name_cant_be_is_retried_by_the_table(fetch: Fetch, host: str) -> None:
    with pytest.raises((Retry, Drop)):
        fetch(task(f"http://{host}/"))


# ---------------------------------------------------------------------------------------------- robots.txt, sitemaps


@pytest.mark.parametrize("kind", [Http, AsyncHttp])
def test_redirects_to_files_of_a_site_are_followed_a_few_times_and_never_to_the_disk(
    site: Site, kind: type[Http | AsyncHttp]
) -> None:
    assert get(kind, f"{site.url}/redirect") == (200, b'<a href="/next">')
    assert get(kind, f"{site.url}/disk")[0] == 302
    before = len(site.heads)
    assert get(kind, f"{site.url}/loop") == (302, b"")
    assert len(site.heads) == before + 6


@pytest.mark.parametrize("kind", [Http, AsyncHttp])
def test_of_a_file_without_an_end_the_beginning_is_read(site: Site, kind: type[Http | AsyncHttp]) -> None:
    status, body = get(kind, f"{site.url}/endless")

    assert (status, len(body)) == (200, 50 << 20)


# ---------------------------------------------------------------------------------------------- users


def test_many_threads_share_the_connections_of_one(site: Site) -> None:
    def crawl() -> None:
        pages.append(http.fetch(task(f"{site.url}/")))

    pages: list[Page] = []
    with Http(AGENT) as http:
        threads = [threading.Thread(target=crawl) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(pages) == 20


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Sessions are left open while their loop runs.
def test_one_helper_serves_one_loop_after_the_other(site: Site) -> None:
    async def crawl() -> int:
        return (await http.fetch(task(f"{site.url}/kept"))).status

    async def leave() -> None:
        await http.close()

    http = AsyncHttp(AGENT)

    assert [asyncio.run(crawl()) for _ in range(3)] == [200] * 3
    asyncio.run(leave())
    gc.collect()  # where the warnings are expected


def test_what_waits_refuses_to_hold_up_an_event_loop(site: Site) -> None:
    async def crawl() -> None:
        with Http(AGENT) as http:
            http.fetch(task(f"{site.url}/"))

    with pytest.raises(RuntimeError, match="use AsyncHttp"):
        asyncio.run(crawl())


def test_a_fetch_in_an_event_loop_can_be_cancelled(site: Site) -> None:
    async def crawl() -> None:
        async with AsyncHttp(AGENT) as http:
            fetching = asyncio.create_task(http.fetch(task(f"{site.url}/slow-body")))
            await asyncio.to_thread(site.asked.wait)
            fetching.cancel()
            await fetching

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(crawl())


@pytest.mark.parametrize(("missing", "name"), [("httpx", "AsyncHttp"), ("urllib3", "Http")])
def test_each_helper_needs_only_its_own_library(missing: str, name: str) -> None:
    other = "Http" if name == "AsyncHttp" else "AsyncHttp"
    code = f"import sys; sys.modules[{missing!r}] = None; from taskqueue.http import {other}, Page; "

    subprocess.run([sys.executable, "-c", code], check=True)
    code += f"from taskqueue.http import {name}"
    told = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)

    assert b"ModuleNotFoundError" in told.stderr
    assert missing != "httpx" or b"pip install 'taskqueue-scheduler[http]'" in told.stderr
