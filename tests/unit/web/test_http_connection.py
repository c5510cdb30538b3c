"""Requests that two programs could read in two ways are refused, for any division of their bytes into pieces."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.server import ServerState

from taskqueue.web.http_connection import (
    CHUNK_LINE_BYTES,
    HEAD_BYTES,
    MAX_AHEAD_BYTES,
    MOST_HEADERS,
    PIECE_BYTES,
    StrictConnection,
    with_patience,
)
from taskqueue.web.options import Patience

HOST = b"Host: localhost\r\n"
GET = b"GET /path?a=b HTTP/1.1\r\n" + HOST
POST = b"POST /path HTTP/1.1\r\n" + HOST
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "a folded Transfer-Encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a header folded by a tab": GET + b"X: a\r\n\tb\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET / HTTP/0.9\r\n" + HOST + b"\r\n",
    "no version": b"GET /\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an absolute address": b"GET http://localhost/ HTTP/1.1\r\n" + HOST + b"\r\n",
    "CONNECT": b"CONNECT evil:443 HTTP/1.1\r\n" + HOST + b"\r\n",
    "no path": b"GET path HTTP/1.1\r\n" + HOST + b"\r\n",
    "all of the server": b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces": b"GET  / HTTP/1.1\r\n" + HOST + b"\r\n",
    "an empty line first": b"\r\n" + GET + b"\r\n",
    "a bare LF in the head": GET + b"X: a\nY: b\r\n\r\n",
    "a bare LF at the end of the head": GET + b"\n",
    "a bare LF everywhere": GET.replace(b"\r\n", b"\n") + b"\n",
    "a bare CR": GET + b"X: a\rY: b\r\n\r\n",
    "NUL": GET + b"X: a\0b\r\n\r\n",
    "a control character": GET + b"X: a\x01b\r\n\r\n",
    "a space before the colon": GET + b"X : a\r\n\r\n",
    "a header without a name": GET + b": a\r\n\r\n",
    "too many headers": GET + b"a:\r\n" * MOST_HEADERS + b"\r\n",
    "a long header": GET + b"X: " + b"a" * HEAD_BYTES + b"\r\n\r\n",
    "a header without an end": GET + b"X: " + b"a" * (HEAD_BYTES + PIECE_BYTES),
    "two different lengths": POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "a length twice": POST + b"Content-Length: 1\r\ncontent-length: 1\r\n\r\na",
    "a list of lengths": POST + b"Content-Length: 1, 1\r\n\r\na",
    "a length with a sign": POST + b"Content-Length: +1\r\n\r\na",
    "a length of 2^72": POST + b"Content-Length: 4722366482869645213696\r\n\r\na",
    "another coding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0") + b"0\r\n\r\n",
    "a chunk of 2^72 bytes": CHUNKED + b"1000000000000000000\r\na",
    "a chunk of 2^72 bytes, begun": CHUNKED + b"1000000000000000000",
    "a size with many zeros": CHUNKED + b"00000000000000001\r\na\r\n0\r\n\r\n",
    "a size with a sign": CHUNKED + b"-1\r\na\r\n0\r\n\r\n",
    "a size with a prefix": CHUNKED + b"0x1\r\na\r\n0\r\n\r\n",
    "a size with a space": CHUNKED + b"1 \r\na\r\n0\r\n\r\n",
    "no size": CHUNKED + b"\r\na\r\n0\r\n\r\n",
    "a bare LF behind a size": CHUNKED + b"1\na\r\n0\r\n\r\n",
    "a bare LF in an extension": CHUNKED + b"1;a\nb\r\na\r\n0\r\n\r\n",
    "a bare CR in an extension": CHUNKED + b"1;a\rb\r\na\r\n0\r\n\r\n",
    "a long extension": CHUNKED + b"1;" + b"a" * CHUNK_LINE_BYTES,
    "a chunk that is too long": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "a bare LF behind a chunk": CHUNKED + b"1\r\na\n0\r\n\r\n",
    "a bare LF behind the last chunk": CHUNKED + b"1\r\na\r\n0\r\n\nGET / HTTP/1.1\r\n\r\n",
    "a trailer": CHUNKED + b"1\r\na\r\n0\r\nX: y\r\n\r\n",
    "a trailer behind a late line end": CHUNKED + b"0\r\n\rX",
    "a bad request behind a good one": GET + b"\r\n" + b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
}

TAKEN = {
    "an address": (GET + b"\r\n", [b""]),
    "HTTP/1.0": (GET.replace(b"1.1", b"1.0") + b"\r\n", [b""]),
    "a body": (POST + b"Content-Length: 3\r\n\r\nabc", [b"abc"]),
    "a body like a request": (
        POST + b"Content-Length: 16\r\n\r\nGET / HTTP/9.9\n\n" + GET + b"\r\n",
        [b"GET / HTTP/9.9\n\n", b""],
    ),
    "chunks": (CHUNKED + b"3\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\n", [b"abc0123456789"]),
    "chunks like line ends": (CHUNKED + b"2\r\n\r\n\r\n2\r\n\n\n\r\n0\r\n\r\n", [b"\r\n\n\n"]),
    "extensions": (CHUNKED + b'1;a=b;c="d e"\r\na\r\n0;x\r\n\r\n', [b"a"]),
    "letters of Latin-1": (GET + b"X: \xe4\xff\r\n\r\n", [b""]),
    "as many headers as may be": (GET + b"a:\r\n" * (MOST_HEADERS - 1) + b"\r\n", [b""]),
    "a long head": (GET + b"X: " + b"a" * 40_000 + b"\r\n\r\n", [b""]),
    "many behind one another": (
        (GET + b"\r\n") * 3 + CHUNKED + b"1\r\na\r\n0\r\n\r\n" + GET + b"\r\n",
        [b"", b"", b"", b"a", b""],
    ),
    "a large body": (POST + b"Content-Length: 100000\r\n\r\n" + b"a" * 100_000, [b"a" * 100_000]),
}


def bodies(pieces: list[bytes]) -> list[bytes]:
    """Return the bodies of the requests in these pieces, after answering each request."""
    it, found = StrictConnection(), list[bytes]()
    for piece in pieces:
        it.receive_data(piece)
        while (event := it.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.Request):
                found.append(b"")
            elif isinstance(event, h11.Data):
                found[-1] += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                it.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
                it.send(h11.EndOfMessage())
                if it.our_state is h11.DONE:
                    it.start_next_cycle()
    return found


def cut(request: bytes, size: int) -> list[bytes]:
    return [request[first:last] for first, last in pairwise([*range(0, len(request), size), len(request)])]


@pytest.mark.parametrize("size", [1 << 20, 7, 1])
@pytest.mark.parametrize("name", REFUSED)
def test_what_can_be_read_in_two_ways_is_refused(name: str, size: int) -> None:
    size = size if len(REFUSED[name]) < 5000 else max(size, 1000)

    with pytest.raises(h11.RemoteProtocolError):
        bodies(cut(REFUSED[name], size))


@pytest.mark.parametrize("size", [1 << 20, 7, 1])
@pytest.mark.parametrize("name", TAKEN)
def test_what_is_clearly_a_request_is_read(name: str, size: int) -> None:
    request, expected = TAKEN[name]
    size = size if len(request) < 5000 else max(size, 1000)

    assert bodies(cut(request, size)) == expected


def test_what_was_not_read_yet_is_counted() -> None:
    it = StrictConnection()
    it.receive_data((GET + b"\r\n") * 1000)
    while it.next_event() is not h11.PAUSED:
        pass

    assert it.ahead_bytes > len(GET) * 1000 - 2 * PIECE_BYTES


# ------------------------------------------------------------------------------------------- answers


class Wire(asyncio.Transport):
    """Transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += b"" if self.is_closed else bytes(data)

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def greet(scope: Any, receive: Any, send: Any) -> None:
    """Application that answers each request."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def answer_to(*pieces: bytes) -> bytes:
    """Return the answer to pieces that arrive before the first request in them has been answered."""

    async def answer() -> bytes:
        protocol = with_patience(Patience())
        config = uvicorn.Config(greet, http=protocol, ws="none", lifespan="off", log_config=None, access_log=False)
        served, wire = protocol(config, ServerState(), {}, asyncio.get_running_loop()), Wire()
        served.connection_made(wire)
        for piece in pieces:
            served.data_received(piece)
        await asyncio.gather(*served.tasks)
        served.connection_lost(None)
        return wire.written

    return asyncio.run(answer())


LAST = {
    "HTTP/1.0": b" / HTTP/1.0\r\n" + HOST + b"\r\n",
    "closing": b" / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n",
}


@pytest.mark.parametrize("behind", [GET + b"\r\n", b"G", b"\0\r\n\r\n"], ids=["a request", "a letter", "no request"])
@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("method", [b"GET", b"HEAD"], ids=bytes.decode)
def test_what_comes_behind_a_last_request_changes_nothing_of_its_answer(
    method: bytes, last: str, behind: bytes
) -> None:
    request = method + LAST[last]
    answer = answer_to(request)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer_to(request, behind) == answer_to(request + behind) == answer


def test_more_behind_a_last_request_than_may_be_ahead_ends_the_connection() -> None:
    request, behind = b"GET" + LAST["closing"], b"a" * MAX_AHEAD_BYTES

    assert answer_to(request, behind).startswith(b"HTTP/1.1 200 ")
    assert answer_to(request, behind, b"a") == b""


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST"], ids=bytes.decode)
def test_a_broken_body_is_refused_whatever_the_method(method: bytes) -> None:
    begun = CHUNKED.replace(b"POST", method)

    for pieces in ((begun + b"no size\r\n",), (begun, b"no size\r\n")):
        answer = answer_to(*pieces)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert (answer.partition(b"\r\n\r\n")[2] == b"") is (method == b"HEAD")
