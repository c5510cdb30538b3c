"""Body of an answer, received in pieces, decoded and bounded as they come.

    piece ──► identity | gzip | deflate ──► never more than ``most`` bytes in memory

The libraries' own decoders are not used: some versions of them unpack a piece as a whole, and 64 KiB may be 64 MiB.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Final, Protocol

CODINGS: Final = "gzip, deflate"
"""Value of Accept-Encoding."""

GZIP_BITS: Final = 31
ZLIB_BITS: Final = 15
RAW_BITS: Final = -15
"""Window bits of zlib, for each format. Servers send both of the latter as deflate."""

GZIP: Final = b"\x1f\x8b"

MEMBERS_MOST: Final = 1_000
"""Members of a gzip stream; there is usually one, and an empty one takes 20 bytes."""


class TooLarge(Exception):
    """The body has more bytes than are read."""


class UnknownCoding(Exception):
    """The body has a Content-Encoding that was not asked for."""


class Broken(Exception):
    """The body is not in its declared Content-Encoding."""


class Decoder(Protocol):
    """Inverse of a Content-Encoding."""

    def decoded(self, piece: bytes, room: int) -> bytes:
        """Decode a piece; of a result longer than ``room``, return at least ``room`` + 1 bytes."""

    def end(self) -> None:
        """End the input; raises ``Broken`` if something is missing."""


class Body:
    """Body of one answer.

    Args:
        headers: headers of the answer, their names in lower case.
        most: most decoded bytes that it may have.

    Raises:
        UnknownCoding: it can't be decoded.
    """

    def __init__(self, headers: Mapping[str, str], most: int) -> None:
        self._most = most
        self._decoder = _decoder(headers.get("content-encoding", ""))
        self._taken = bytearray()

    def take(self, piece: bytes) -> None:
        """Receive the next piece, as it came.

        Raises:
            TooLarge, Broken: nothing more is to be read.
        """
        room = self._most - len(self._taken)
        decoded = self._decoder.decoded(piece, room)
        self._taken += decoded[:room]
        if len(decoded) > room:
            raise TooLarge("more bytes than may be")

    def end(self) -> bytes:
        """Return the whole body.

        Raises:
            Broken: something is missing.
        """
        self._decoder.end()
        return self.beginning()

    def beginning(self) -> bytes:
        """Return the body so far."""
        return bytes(self._taken)


def _decoder(coding: str) -> Decoder:
    match coding.strip().lower():
        case "" | "identity":
            return _Identity()
        case "gzip" | "x-gzip":
            return _Inflate(GZIP_BITS)
        case "deflate":
            return _Inflate(ZLIB_BITS)
    raise UnknownCoding(f"its Content-Encoding is {coding:.40}, and {CODINGS} was asked for")


class _Identity:
    def decoded(self, piece: bytes, room: int) -> bytes:
        return piece

    def end(self) -> None:
        pass


class _Inflate:
    """gzip, of one member or several, or deflate. Bytes after the end are ignored, as browsers do."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._stream = zlib.decompressobj(bits)
        self._members = 1
        self._began = False
        self._head = b""  # half of the two bytes with which the next member may begin

    def decoded(self, piece: bytes, room: int) -> bytes:
        if piece and not self._began:
            self._begin(piece)
        found, rest, self._head = b"", self._head + piece, b""
        try:
            while rest and len(found) <= room and self._goes_on(rest):
                found += self._stream.decompress(rest, room + 1 - len(found))
                rest = self._stream.unused_data
        except zlib.error as error:
            raise Broken(f"its Content-Encoding is broken: {error}") from None
        return found

    def end(self) -> None:
        if self._began and not self._stream.eof:
            raise Broken("its Content-Encoding is broken: the end is missing")

    def _begin(self, piece: bytes) -> None:
        """Find out by the first byte of a deflate whether it has zlib's head (RFC 1950, section 2.2)."""
        self._began = True
        if self._bits == ZLIB_BITS and piece[0] & 0x0F != zlib.DEFLATED:
            self._stream = zlib.decompressobj(RAW_BITS)

    def _goes_on(self, rest: bytes) -> bool:
        """Return True if ``rest`` belongs to the body; at the beginning of a member, start a new stream."""
        if not self._stream.eof:
            return True
        if self._bits == GZIP_BITS and rest == GZIP[:1]:
            self._head = rest
        if self._bits != GZIP_BITS or not rest.startswith(GZIP):
            return False
        self._members += 1
        if self._members > MEMBERS_MOST:
            raise Broken(f"its Content-Encoding is broken: more than {MEMBERS_MOST:,} parts")
        self._stream = zlib.decompressobj(self._bits)
        return True
