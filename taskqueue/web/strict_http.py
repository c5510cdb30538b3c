"""Requests of HTTP/1.1 that can be read in one way only; any other is refused before it is read.

    bytes ──► ahead ──PIECE_BYTES──► h11 ──► events
                                      │ heads, chunk sizes and the end of chunks are checked as they lie there

h11 is lenient in what a proxy in front may have read differently: lines that end in a bare LF, folded lines, other
versions, sizes that no integer of a proxy can hold (RFC 9112, sections 2.2, 2.3, 5.2, 6 and 7.1). A request that
another program reads as two, or as a longer one, is how requests are smuggled past a proxy. There is no I/O here.
"""

from __future__ import annotations

import re
from typing import Final

import h11

HEAD_BYTES: Final = 48 * 1024
"""Longest head: longest target and longest header that the gate takes, so that the gate says which is too long."""

HEADERS: Final = 256
"""Most lines of a head: 4,000 lines of four bytes cost 40 ms, as each is looked up many times."""

PIECE_BYTES: Final = 16 * 1024
"""Bytes that h11 is given at a time, so that what lies there unread is short and can be looked at often."""

CHUNK_LINE_BYTES: Final = 1024
"""Longest line of a chunk's size, extensions included."""

_END: Final = re.compile(rb"\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"[!-~]+ /[!-~]* HTTP/1\.([01])\r\n")
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
"""A line end that is not CRLF, a folded line, a control character."""
_CONTENT_LENGTH: Final = re.compile(rb"\ncontent-length:([^\r]*)", re.IGNORECASE)
_TRANSFER_ENCODING: Final = re.compile(rb"\ntransfer-encoding:", re.IGNORECASE)
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t -~\x80-\xff]*)?")
_LONG_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{16}")


class StrictConnection(h11.Connection):
    """The server's end of a connection."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, HEAD_BYTES)
        self._ahead = bytearray()
        self._awaits_size = False
        self._is_past_last = False

    @property
    def ahead_bytes(self) -> int:
        """Bytes received that lie here unread, but for the last piece."""
        return len(self._ahead)

    def receive_data(self, data: bytes) -> None:
        """Take in bytes; ``next_event`` reads them."""
        self._ahead += data

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """See h11.

        Raises:
            h11.RemoteProtocolError: the peer has not sent a request, or one that can be read in two ways.
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
            # The CRLF that ends the chunk before may lie here still, or a part of it; h11 sees to that.
            line, is_whole, unread = unread.lstrip(b"\r\n").partition(b"\r\n")
            if not is_whole:
                _check_begun_chunk_line(line)
                return
            if (size := _CHUNK_LINE.fullmatch(line)) is None:
                raise h11.RemoteProtocolError("illegal line of a chunk's size")
            self._is_past_last = int(size[1], 16) == 0
        # Trailers are refused: nothing here reads them, and they end where a bare LF is taken for a line end.
        if self._is_past_last and not b"\r\n".startswith(unread[:2]):
            raise h11.RemoteProtocolError("trailers, or an end of chunks that is none")

    def _note(self, event: h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]) -> None:
        if isinstance(event, h11.Request):
            self._awaits_size = any(name == b"transfer-encoding" for name, _ in event.headers)
            self._is_past_last = False
        elif isinstance(event, h11.Data):
            self._awaits_size = event.chunk_end


def _check_head(head: bytes) -> None:
    """Refuse a head, its last empty line included, that can be read in two ways."""
    if (line := _REQUEST_LINE.match(head)) is None:
        raise h11.RemoteProtocolError("not a request line of HTTP/1.0 or 1.1 with a path")
    if _AMBIGUOUS.search(head):
        raise h11.RemoteProtocolError("a folded line, a bare CR or LF, or a control character")
    if len(head) > HEAD_BYTES or head.count(b"\n") > HEADERS + 2:
        raise h11.RemoteProtocolError(f"a head of more than {HEAD_BYTES} bytes or {HEADERS} headers")
    lengths = _CONTENT_LENGTH.findall(head)
    if len(lengths) > 1 or b"," in b"".join(lengths):
        raise h11.RemoteProtocolError("more than one Content-Length")
    if line[1] == b"0" and _TRANSFER_ENCODING.search(head):
        raise h11.RemoteProtocolError("HTTP/1.0 has no Transfer-Encoding")


def _check_begun_chunk_line(line: bytes) -> None:
    if len(line) > CHUNK_LINE_BYTES or _LONG_SIZE.match(line):
        raise h11.RemoteProtocolError("the line of a chunk's size is too long")
