"""MessagePack values one after the other in a file, each as the bytes that it is; lines no longer than they may be.

msgspec decodes one whole value; where in a file a value ends it does not say. msgpack's Unpacker does: it steps over a
value without making anything of it, and goes on where it was when the next piece of the file has come. So memory holds
one piece, READ_BYTES, and the value that is longer than that, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import IO, AnyStr, BinaryIO, Final

from msgpack import BufferFull, OutOfData, Unpacker

READ_BYTES: Final = 1 << 20
LONGEST_BYTES: Final = (1 << 30) + READ_BYTES
"""Longest value: the longest message that a daemon can be set to take, and room for what surrounds its body."""


LONGEST_TIMES: Final = 6
"""Length of a value as JSON to that as MessagePack, at most: a byte of text may be written ``\\u0000``."""


class BrokenStream(ValueError):
    """From here on the file is no MessagePack, it ends within a value, or a value or line is longer than one may be;
    what came before is good."""


def lines(file: IO[AnyStr], longest: int) -> Iterator[AnyStr]:
    """The lines of a file, or of a pipe, with their ends; ``longest`` is what one may take, in bytes or characters.

    Raises:
        BrokenStream: one is longer, and was not read to its end.
    """
    for number in count(1):
        line = file.readline(longest + 1)
        if len(line) > longest:
            raise BrokenStream(f"line {number:,} is longer than {longest:,}")
        if not line:
            return
        yield line


def values(file: BinaryIO, longest: int = LONGEST_BYTES) -> Iterator[bytes]:
    """The values of a file, or of a pipe, in order; ``longest`` is what one may take, in bytes.

    Raises:
        BrokenStream: it can't be read any further.
    """
    unpacker = Unpacker(max_buffer_size=longest)
    pieces: list[bytes] = []
    began = 0
    while piece := file.read(READ_BYTES):
        pieces.append(piece)
        try:
            unpacker.feed(piece)
        except BufferFull:
            raise BrokenStream(f"the value that begins at byte {began:,} is longer than {longest:,} bytes") from None
        if (end := _end(unpacker, began)) is None:
            continue
        held, start = b"".join(pieces), began
        while end is not None:
            yield held[began - start : end - start]
            began = end
            end = _end(unpacker, began)
        pieces = [held[began - start :]]
    if any(pieces):
        raise BrokenStream(f"it ends within the value that begins at byte {began:,}")


def _end(unpacker: Unpacker, began: int) -> int | None:
    """Where the value ends that began at this byte; None: not in what has been read so far."""
    try:
        unpacker.skip()
    except OutOfData:
        return None
    except ValueError as error:
        why = str(error) or "it is nested too deep, or no MessagePack"
        raise BrokenStream(f"the value that begins at byte {began:,} can't be read: {why}") from None
    return int(unpacker.tell())
