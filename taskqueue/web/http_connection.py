"""HTTP/1.1 for peers that are slow, many, hostile, or neither speak nor read: the cost of each has a limit.

    connected ──head──► body ──► response ──► (again)
        │ head_seconds    │ idle_seconds  │ unread_seconds
        └───── cut ───────┴───────────────┘

Each connection is checked every few seconds. One too many takes the room of an idle one, or is refused before a byte of
it is read (``access.crowd``). Bytes that are not clearly one request are refused:

    bytes ──► ahead ──PIECE_BYTES──► h11 ──► events
                                      │ heads, chunk sizes and the end of chunks are checked in h11's buffer

h11 accepts what a proxy in front may have read differently: lines that end in a bare LF, folded lines, other versions,
sizes beyond a proxy's integers (RFC 9112, sections 2.2, 2.3, 5.2, 6 and 7.1). Attackers smuggle requests past a proxy
by making two programs read the same bytes as different requests. ``StrictConnection``, which refuses them, has no I/O.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from taskqueue.web.access.arrival import Network
from taskqueue.web.access.crowd import KNOWN, Crowd
from taskqueue.web.options import Patience

MAX_AHEAD_BYTES: Final = 512 * 1024
"""Bytes that a peer may send ahead of the request that is being answered: a few reads of a socket."""

FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n"
    b"X-Content-Type-Options: nosniff\r\n\r\n"
)


class PatientProtocol(H11Protocol):
    """Protocol of uvicorn, with limits."""

    patience = Patience()
    crowd = Crowd(patience)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or answer that there are too many connections."""
        super().connection_made(transport)
        self.conn = self._strict = StrictConnection()
        self.app_state = {**self.app_state, KNOWN: self._note_known}
        self._waited_since: float | None = self.loop.time()
        self._read_at = self.loop.time()
        self._unread_since: float | None = None
        self._is_ending = False
        self._looking = self.loop.call_later(self.patience.look_seconds, self._look)
        if not self.crowd.enter(self, self.client[0] if self.client else "", self.loop.time()):
            self._say_full()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._looking.cancel()
        self.crowd.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read bytes, and note whether they begin a request."""
        self._read_at = self.loop.time()
        if self.transport.is_closing():
            return
        if self._waited_since is None and self._is_between_requests():
            self._waited_since = self._read_at
        if self.conn.their_state is h11.MUST_CLOSE:
            # Never read: h11 takes bytes behind a last request for an error, and uvicorn would refuse that request.
            self._strict.receive_data(data)
        else:
            super().data_received(data)
        if not self._is_between_requests():
            self._waited_since = None
        # uvicorn reads on after each response, whatever is queued: unanswered requests would pile up.
        if self._strict.ahead_bytes > MAX_AHEAD_BYTES:
            self._cut()

    def pause_writing(self) -> None:
        """Note that the peer does not read."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the peer has read."""
        self._unread_since = None
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.crowd.rest(self, self.loop.time())
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not a request; end the connection if another response has begun."""
        if self.cycle is not None:
            # The application may be about to answer the earlier request, and must not do so into this response.
            self.cycle.disconnected = True
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            is_head = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
            super().send_400_response("" if is_head else msg)
        else:
            self._cut()

    def give_way(self) -> None:
        """End, to make room for another connection; nothing of a known visitor is lost."""
        if self._is_between_requests() and not self.transport.get_write_buffer_size():
            self._say_full()
        else:
            self._cut()

    def _note_known(self) -> None:
        self.crowd.serve(self)

    def _say_full(self) -> None:
        self.transport.write(FULL)
        self.transport.close()

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        now = self.loop.time()
        if self._is_ending:  # the peer has not read the rest since the last check
            self._cut()
            return
        self._is_ending = self.transport.is_closing()
        if self._is_over(self._waited_since, self.patience.head_seconds, now) or self._is_over(
            self._unread_since, self.patience.unread_seconds, now
        ):
            self._cut()
            return
        awaits_body = not self._is_between_requests() and self.cycle.more_body and not self.flow.read_paused
        if awaits_body and now - self._read_at > self.patience.idle_seconds:
            self._cut()
            return
        self._looking = self.loop.call_later(self.patience.look_seconds, self._look)

    def _cut(self) -> None:
        """End at once; the kernel drops what was not read."""
        peer = self.transport.get_extra_info("socket")
        if peer is not None and peer.fileno() >= 0:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    @staticmethod
    def _is_over(since: float | None, seconds: float, now: float) -> bool:
        return since is not None and now - since > seconds


def with_patience(patience: Patience, proxies: tuple[Network, ...] = ()) -> type[PatientProtocol]:
    """Make the protocol with these limits, for one process; a proxy may have all connections."""
    return type("PatientProtocol", (PatientProtocol,), {"patience": patience, "crowd": Crowd(patience, proxies)})


# ------------------------------------------------------------------------------------------- bytes that are one request

HEAD_BYTES: Final = 48 * 1024
"""Longest head: longest target and longest header that the gate accepts, so that the gate reports which is too long."""

MOST_HEADERS: Final = 256
"""Lines of a head, at most: 4,000 lines of four bytes cost 40 ms, as each is looked up many times."""

PIECE_BYTES: Final = 16 * 1024
"""Bytes given to h11 at a time, so that its unread buffer is short and can be checked often."""

CHUNK_LINE_BYTES: Final = 1024
"""Longest line of a chunk's size, with extensions."""

_END: Final = re.compile(rb"\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"[!-~]+ /[!-~]* HTTP/1\.([01])\r\n")
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""Match a line end that is not CRLF, a folded line, or a control character."""
_CONTENT_LENGTH: Final = re.compile(rb"\ncontent-length:([^\r]*)", re.IGNORECASE)
_TRANSFER_ENCODING: Final = re.compile(rb"\ntransfer-encoding:", re.IGNORECASE)
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?")
_LONG_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{16}")


class StrictConnection(h11.Connection):
    """Server side of a connection, which refuses ambiguous requests."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._ahead = bytearray()
        self._awaits_size = False
        self._is_past_last = False

    @property
    def ahead_bytes(self) -> int:
        """Bytes received and not read yet, without the last piece."""
        return len(self._ahead)

    def receive_data(self, data: bytes) -> None:
        """Buffer bytes; ``next_event`` reads them."""
        self._ahead += data

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """Return the next event; see h11.

        Raises:
            h11.RemoteProtocolError: the bytes are not a request, or can be read in two ways.
        """
        while True:
            self._check()
            event = super().next_event()
            if event is not h11.NEED_DATA or not self._ahead:
                self._note(event)
                return event
            super().receive_data(bytes(self._ahead[:PIECE_BYTES]))
            del self._ahead[:PIECE_BYTES]

    def _check(self) -> None:
        if self.their_state is h11.IDLE:
            head = self.trailing_data[0]
            if end := _END.search(head):
                _check_head(head[: end.end()])
        elif self.their_state is h11.SEND_BODY and self._awaits_size:
            self._check_chunk(self.trailing_data[0])

    def _check_chunk(self, unread: bytes) -> None:
        line = unread
        if not self._is_past_last:
            # The CRLF that ends the previous chunk may still be here, or a part of it; h11 skips it.
            line, is_whole, unread = unread.lstrip(b"\r\n").partition(b"\r\n")
            if not is_whole:
                _check_begun_chunk_line(line)
                return
            if (size := _CHUNK_LINE.fullmatch(line)) is None:
                raise h11.RemoteProtocolError("illegal line of a chunk's size")
            self._is_past_last = int(size[1], 16) == 0
        # Trailers are refused: they are not used here, and end at a line end that may be a bare LF.
        if self._is_past_last and not b"\r\n".startswith(unread[:2]):
            raise h11.RemoteProtocolError("trailers, or an invalid end of chunks")

    def _note(self, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> None:
        if isinstance(event, h11.Request):
            self._awaits_size = any(name == b"transfer-encoding" for name, _ in event.headers)
            self._is_past_last = False
        elif isinstance(event, h11.Data):
            self._awaits_size = event.chunk_end


def _check_head(head: bytes) -> None:
    """Refuse a head, with its final empty line, that can be read in two ways."""
    if (line := _REQUEST_LINE.match(head)) is None:
        raise h11.RemoteProtocolError("not a request line of HTTP/1.0 or 1.1 with a path")
    if _AMBIGUOUS.search(head):
        raise h11.RemoteProtocolError("a folded line, a bare CR or LF, or a control character")
    if len(head) > HEAD_BYTES or head.count(b"\n") > MOST_HEADERS + 2:
        raise h11.RemoteProtocolError(f"a head of more than {HEAD_BYTES} bytes or {MOST_HEADERS} headers")
    lengths = _CONTENT_LENGTH.findall(head)
    if len(lengths) > 1 or b"," in b"".join(lengths):
        raise h11.RemoteProtocolError("more than one Content-Length")
    if line[1] == b"0" and _TRANSFER_ENCODING.search(head):
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")


def _check_begun_chunk_line(line: bytes) -> None:
    if len(line) > CHUNK_LINE_BYTES or _LONG_SIZE.match(line):
        raise h11.RemoteProtocolError("the line of a chunk's size is too long")
