"""Records of RocksDB's log format, read strictly."""

from __future__ import annotations

from io import BytesIO

import pytest

from taskqueue.store.files.log_records import BLOCK, Record, Unreadable, record_bytes, records_of

HEADER_BYTES = 7


def written(*datas: bytes) -> bytes:
    content = b""
    for data in datas:
        content += record_bytes(data, len(content))
    return content


def read(content: bytes) -> list[bytes | str]:
    """Return the data of the records, or the reasons why they can't be read."""
    found = records_of(BytesIO(content))
    return [part.data if isinstance(part, Record) else part.reason for part in found]


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("length", [0, 1, BLOCK - 14, BLOCK - 13, BLOCK - 8, BLOCK - 7, BLOCK, 5 * BLOCK])
def test_records_of_every_length_are_read_as_they_were_written(length: int) -> None:
    datas = [b"a", b"b" * length, b"c"]

    assert read(written(*datas)) == datas


def test_a_record_says_where_it_begins_and_ends() -> None:
    first, second = records_of(BytesIO(written(b"one", b"three")))

    assert isinstance(first, Record)
    assert isinstance(second, Record)
    assert (first.at, first.end, second.at, second.end) == (0, 10, 10, 22)


def test_a_flipped_bit_is_told_where_it_is_and_reading_goes_on_in_the_next_block() -> None:
    block = b"a" * (BLOCK - HEADER_BYTES)
    content = written(block, block, b"c")

    found = list(records_of(BytesIO(flipped(content, BLOCK + 100))))

    assert [type(part) for part in found] == [Record, Unreadable, Record]
    assert found[1] == (BLOCK, "a record whose checksum does not match")


def test_what_is_left_of_a_record_is_no_second_flaw() -> None:
    content = written(b"a" * 3 * BLOCK, b"b")

    assert read(flipped(content, 50)) == ["a record whose checksum does not match", b"b"]


@pytest.mark.parametrize("kept", [1, HEADER_BYTES, HEADER_BYTES + 2, BLOCK, BLOCK + HEADER_BYTES + 1])
def test_a_record_that_was_cut_off_is_told(kept: int) -> None:
    content = written(b"whole", b"x" * 2 * BLOCK)

    found = read(content[: 12 + kept])

    assert found[0] == b"whole"
    assert len(found) == 2
    assert isinstance(found[1], str)


def test_zeros_at_the_end_are_no_flaw() -> None:
    assert read(written(b"a") + bytes(3 * BLOCK)) == [b"a"]


def test_zeros_before_a_record_are_a_flaw() -> None:
    content = written(b"a")
    content += bytes(BLOCK - len(content)) + written(b"b")

    assert read(content) == [b"a", "zeros where a record should be", b"b"]


def test_garbage_is_told_once_a_block() -> None:
    garbage = bytes(range(1, 200)) * 400

    assert len(read(written(b"a") + garbage)) == 1 + -(-len(written(b"a") + garbage) // BLOCK)
