"""Read and write RocksDB's log format, which write-ahead logs and the MANIFEST use; every checksum is verified.

    file     blocks of 32 KiB
    block    records, and less than 7 bytes of zeros at its end
    record   checksum (CRC-32C, masked) 4, length 2, type 1, data; a record never crosses the end of a block, so longer
             data comes in parts: first, middle …, last

Source: https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format. RocksDB itself stops at the first
unreadable record and does not say whether anything follows. What follows distinguishes damage from the torn tail that a
crash leaves, so reading continues at the next block.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import google_crc32c

BLOCK: Final = 32 << 10
BLOCKS_READ: Final = 32
"""Blocks per read."""

HEADER: Final = struct.Struct("<IHB")
_HEADER_BYTES: Final = HEADER.size
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
"""Types of records; other types, which describe the file, are skipped."""

_NONE, _ZEROS = -1, -2
_MASK_DELTA: Final = 0xA282EAD8

Part = tuple[int, int, bytes]
"""Offset, type and data of a part of a record.

Type _NONE means unreadable, with the reason in UTF-8 as data; type _ZEROS means that the rest of its block is zeros.
"""


class Record(NamedTuple):
    """Readable record.

    Attributes:
        at, end: offsets of the start of its first part and of the end of its last one.
        data: data of all parts, joined.
    """

    at: int
    end: int
    data: bytes


class Unreadable(NamedTuple):
    """Place where a record can't be read.

    Attributes:
        at: offset in bytes.
        reason: text for the operator.
    """

    at: int
    reason: str

    @property
    def is_torn(self) -> bool:
        """Whether the record is merely cut off."""
        return self.reason in (_NO_END, _LONG, _PART)


_NO_END: Final = "a record without its end"
_LONG: Final = "a record that goes on behind the end of its block"
_PART: Final = "a part of a record"


def records_of(file: BinaryIO) -> Iterator[Record | Unreadable]:
    """Yield all records from the start of the file; zeros up to the end of the file are neither a record nor a flaw."""
    parts: list[bytes] = []
    began, lost = 0, False
    for at, kind, data in _parts(file):
        if kind in (FULL, FIRST) and parts:
            yield Unreadable(began, _NO_END)
        lost = lost and kind not in (FULL, FIRST)
        if kind == FULL:
            parts = []
            yield Record(at, at + _HEADER_BYTES + len(data), data)
        elif kind == FIRST:
            parts, began = [data], at
        elif kind == _NONE:
            parts, lost = [], True
            yield Unreadable(at, data.decode())
        elif not parts:
            # The rest of a record that was just reported is not another flaw.
            if not lost:
                yield Unreadable(at, "a record without its beginning")
        elif kind == MIDDLE:
            parts.append(data)
        else:
            yield Record(began, at + _HEADER_BYTES + len(data), b"".join([*parts, data]))
            parts = []
    if parts:
        yield Unreadable(began, _NO_END)


def record_bytes(data: bytes, at: int) -> bytes:
    """Encode data as records to be appended at offset ``at``."""
    written = bytearray()
    left = memoryview(data)  # slices of bytes would be copied for each part
    kind = FULL
    while True:
        room = BLOCK - (at + len(written)) % BLOCK - _HEADER_BYTES
        if room < 0:
            written += bytes(room + _HEADER_BYTES)
            continue
        part, left = left[:room], left[room:]
        whole, more = (FULL, FIRST) if kind == FULL else (LAST, MIDDLE)
        kind = more if left else whole
        written += HEADER.pack(_masked(google_crc32c.value(bytes([kind]) + part)), len(part), kind) + part
        if not left:
            return bytes(written)


def _parts(file: BinaryIO) -> Iterator[Part]:
    """Yield all parts of records; zeros are reported only if something follows them."""
    start = 0
    zeros: Part | None = None
    while chunk := file.read(BLOCK * BLOCKS_READ):
        for block_at in range(0, len(chunk), BLOCK):
            for part in _parts_of(chunk[block_at : block_at + BLOCK], start + block_at):
                if part[1] == _ZEROS:
                    zeros = zeros or (part[0], _NONE, b"zeros where a record should be")
                    continue
                if zeros is not None:
                    yield zeros
                    zeros = None
                yield part
        start += len(chunk)


def _parts_of(block: bytes, start: int) -> list[Part]:
    """Parse the parts in one block, up to the first unreadable one, behind which the next start is unknown."""
    parts: list[Part] = []
    at, size = 0, len(block)
    unpack, crc32c = HEADER.unpack_from, google_crc32c.value
    while at + _HEADER_BYTES <= size:
        checksum, length, kind = unpack(block, at)
        end = at + _HEADER_BYTES + length
        if not kind and not length and not any(block[at:]):
            return [*parts, (start + at, _ZEROS, b"")]
        if end > size:
            return [*parts, (start + at, _NONE, _LONG.encode())]
        # The checksum covers the type, too.
        crc = crc32c(block[at + _HEADER_BYTES - 1 : end])
        if ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF != checksum:
            return [*parts, (start + at, _NONE, b"a record whose checksum does not match")]
        if FULL <= kind <= LAST:
            parts.append((start + at, kind, block[at + _HEADER_BYTES : end]))
        at = end
    if at < size < BLOCK and any(block[at:]):
        parts.append((start + at, _NONE, _PART.encode()))
    return parts


def _masked(crc: int) -> int:
    """Mask a checksum for storage: a plain CRC of data that contains CRCs would be weak."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF
