"""MessagePack values one after the other in a file: each as its bytes, however the reads divide them."""

from __future__ import annotations

import io
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.protocol.value_stream import READ_BYTES, BrokenStream, values

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=40) | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


class Dripping(io.BytesIO):
    """Pipe that gives some bytes at a time, however many are asked for."""

    def __init__(self, content: bytes, step: int) -> None:
        super().__init__(content)
        self._step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._step)


@given(st.lists(ANYTHING, max_size=6), st.integers(1, 50))
def test_each_value_comes_as_its_bytes_whatever_the_pieces(said: list[Any], step: int) -> None:
    packed = [msgpack.packb(value) for value in said]

    assert list(values(Dripping(b"".join(packed), step))) == packed


def test_values_in_longer_forms_than_they_need_stay_as_they_are() -> None:
    odd = [b"\xcd\x00\x01", b"\xd9\x01a", b"\xca\x41\x20\x00\x00", b"\xd4\x05x", b"\x82\xa1a\x01\xa1a\x02", b"\xa1\xff"]

    assert list(values(io.BytesIO(b"".join(odd)))) == odd


def test_a_value_may_be_longer_than_a_piece() -> None:
    long = msgpack.packb(b"x" * (3 * READ_BYTES))

    assert list(values(io.BytesIO(long + b"\x01" + long))) == [long, b"\x01", long]


def test_nothing_is_no_value() -> None:
    assert list(values(io.BytesIO(b""))) == []


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (b"\x92\x01", "it ends within the value that begins at byte 2"),
        (b"\xdb\xff\xff\xff\xff", "it ends within the value that begins at byte 2"),
        (b"\xc1", "the value that begins at byte 2 can't be read"),
        (b"\x91" * 2000, "the value that begins at byte 2 can't be read: it is nested too deep"),
    ],
)
def test_what_comes_before_the_end_of_sense_is_good(end: bytes, reason: str) -> None:
    found: list[bytes] = []

    with pytest.raises(BrokenStream) as caught:
        found.extend(values(io.BytesIO(b"\x01\x02" + end)))

    assert str(caught.value).startswith(reason)


def test_a_value_that_says_it_is_endless_does_not_fill_the_memory() -> None:
    endless = b"\xdb\xff\xff\xff\xff" + bytes(8 * READ_BYTES)

    with pytest.raises(BrokenStream, match="longer than"):
        list(values(io.BytesIO(endless), longest=2 * READ_BYTES))


def test_memory_holds_a_piece_and_not_the_file() -> None:
    class Long(io.RawIOBase):
        """File forty times as long as one read."""

        left = 40

        def readable(self) -> bool:
            return True

        def readinto(self, space: Any) -> int:
            self.left -= 1
            content = task * (len(space) // len(task)) if self.left >= 0 else b""
            space[: len(content)] = content
            return len(content)

    task = msgpack.packb({"url": "http://site/", "body": {"page": "x" * 400}})
    tracemalloc.start()

    count = sum(len(value) == len(task) for value in values(io.BufferedReader(Long())))

    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count > 20_000
    assert most < 8 * READ_BYTES
