"""Record of a shim: the calls of a process, in an order in which they happened.

    began ── the call is made ── ended

A running call has only begun; ``ended`` comes before its caller knows. Sent bytes may reach their receiver before the
call has ended.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgpack

from tests.faults.shim import CALLS, Call

_HEAD: Final = struct.Struct("=IBBHiiqqQQQ")

_GREETING_BYTES: Final = 64
_LONG: Final = 2
_COMMAND: Final = 4

Message = dict[str, Any]


class Event(NamedTuple):
    """Moment of a call.

    Attributes:
        name: name of the file; "." for the folder; for a rename the old and the new one, joined by a slash; empty for a
            socket.
        result: return value of the call; when a sync begins, the file's size; for an open 1 if it made the file.
        error: number of errno; 0 for a success.
        offset: offset of a write; for a truncation the new size.
        thread: thread that made the call; it makes one at a time.
        bytes: written bytes, or, at the beginning of a send, the bytes offered to a socket; as far as the shim keeps
            them.
    """

    call: Call
    ended: bool
    name: str
    fd: int
    result: int
    error: int
    offset: int
    inode: int
    thread: int
    seconds: float
    bytes: bytes


def events(record: Path) -> Iterator[Event]:
    """Yield all events so far."""
    raw = record.read_bytes()
    at = 0
    while at + _HEAD.size <= len(raw):
        length, call, ended, name_length, fd, error, result, offset, inode, thread, ns = _HEAD.unpack_from(raw, at)
        name_at = at + _HEAD.size
        name = raw[name_at : name_at + name_length].decode()
        yield Event(
            CALLS[call], bool(ended), name, fd, result, error, offset, inode, thread, ns / 1e9,
            raw[name_at + name_length : at + length],
        )  # fmt: skip
        at += length


def log_writes(calls: Sequence[Event]) -> list[int]:
    """Return the indices of writes to the engine's log."""
    return [at for at, each in enumerate(calls) if _is_write(each) and each.name.endswith(".log")]


def log_syncs(calls: Sequence[Event]) -> list[int]:
    """Return the indices at which syncs of the engine's log began."""
    return [
        at for at, each in enumerate(calls) if each.call == "sync" and each.name.endswith(".log") and not each.ended
    ]


def covered(calls: Sequence[Event]) -> dict[int, int]:
    """Map each write to the end of the first successful sync of its file that began after it, by index.

    Writes that no sync has covered are missing.
    """
    by: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    syncing: dict[int, list[int]] = {}
    for at, each in enumerate(calls):
        if _is_write(each):
            written.setdefault(each.inode, []).append(at)
        elif each.call == "sync" and not each.ended:
            syncing[each.thread] = list(written.get(each.inode, ()))
        elif each.call == "sync" and not each.error:
            for place in syncing.pop(each.thread):
                by.setdefault(place, at)
    return by


def sent(calls: Sequence[Event]) -> Iterator[tuple[int, Message]]:
    """Yield every message that left by a socket, with the index of the call that began to send it.

    The bytes of a connection are a stream of ZMTP (RFC 23): a greeting of 64 bytes, then frames.
    """
    streams: dict[int, list[tuple[int, bytes]]] = {}
    for at, each in enumerate(calls):
        stream = streams.setdefault(each.fd, []) if each.call == "send" else []
        if each.call == "send" and not each.ended:
            stream.append((at, each.bytes))
        elif each.call == "send":
            began_at, offered = stream.pop()
            stream.append((began_at, offered[: max(each.result, 0)]))
    for pieces in streams.values():
        yield from _messages(pieces)


def _is_write(each: Event) -> bool:
    return each.call in ("write", "pwrite") and each.ended and not each.error


def _messages(pieces: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, Message]]:
    stream = b"".join(piece for _, piece in pieces)
    ends = list(accumulate(len(piece) for _, piece in pieces))
    at = _GREETING_BYTES
    while at < len(stream):
        flags, began_at = stream[at], at
        size_bytes = 8 if flags & _LONG else 1
        at += 1 + size_bytes
        length = int.from_bytes(stream[at - size_bytes : at], "big")
        payload = stream[at : at + length]
        at += length
        if not flags & _COMMAND and at <= len(stream):
            yield pieces[bisect_right(ends, began_at)][0], msgpack.unpackb(payload)
