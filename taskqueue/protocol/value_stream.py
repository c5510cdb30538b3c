"""MessagePack values that follow each other in a file, each as its bytes; and lines of bounded length.

msgspec decodes one whole value and doesn't say where in a file it ends. msgpack's Unpacker does: it skips a value
without decoding it, and continues when the next piece of the file has been read. So memory holds one piece of
READ_BYTES, and a value that is longer than that, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import IO, AnyStr, BinaryIO, Final

from msgpack import BufferFull, OutOfData, Unpacker

READ_BYTES: Final = 1 << 20
LONGEST_BYTES: Final = (1 << 30) + READ_BYTES
"""Longest value: the largest message that a daemon can be set to accept, and room for the fields around its body."""

LONGEST_TIMES: Final = 6
"""Most bytes of JSON per byte of MessagePack: a byte of text may be written as ``\\u0000``."""


class BrokenStream(ValueError):
    """The rest of the file is not MessagePack, ends within a value, or has a value or line that is too long.

    Values and lines before that are good.
    """


def lines(file: IO[AnyStr], longest: int) -> Iterator[AnyStr]:
    """Yield the lines of a file or pipe, with their ends; ``longest`` is the limit of a line, in bytes or characters.

    Raises:
        BrokenStream: a line is longer than ``longest``, and was not read to its end.
    """
    for number in count(1):
        line = file.readline(longest + 1)
        if len(line) > longest:
            raise BrokenStream(f"line {number:,} is longer than {longest:,}")
        if not line:
            return
        yield line


def values(file: BinaryIO, longest: int = LONGEST_BYTES) -> Iterator[bytes]:
    """Yield the values of a file or pipe, in order; ``longest`` is the limit of a value, in bytes.

    Raises:
        BrokenStream: the file can't be read any further.
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
    """Return where the value ends that began at this byte; None if its end has not been read yet."""
    try:
        unpacker.skip()
    except OutOfData:
        return None
    except ValueError as error:
        why = str(error) or "it is nested too deep, or is not MessagePack"
        raise BrokenStream(f"the value that begins at byte {began:,} can't be read: {why}") from None
    return int(unpacker.tell())
