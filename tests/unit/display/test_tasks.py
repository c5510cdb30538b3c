"""Bodies and results for reading."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from msgspec import Raw

from taskqueue.display.tasks import SHOWN_MOST, PackedPage, packed_page


def page(value: Any) -> PackedPage:
    return packed_page(Raw(msgpack.packb(value)))


def test_a_value_is_written_in_lines_as_json_has_it() -> None:
    assert page({"url": "https://ex.org/ä", "n": [1, None]}).text == (
        '{\n  "url": "https://ex.org/ä",\n  "n": [\n    1,\n    null\n  ]\n}'
    )


def test_nil_is_nothing_to_be_read() -> None:
    assert page(None) == PackedPage("", 1)


def test_bytes_in_a_value_are_told_by_their_number_and_the_first_of_them() -> None:
    assert page({"png": b"\x89PNG"}).text == '{\n  "png": "<4 bytes: 89 50 4e 47>"\n}'
    assert page([b"a" * 1024]).text.endswith('61 61 …>"\n]')


def test_a_value_that_is_nothing_but_bytes_is_a_table_of_them() -> None:
    shown = page(b"\x00hello, world, I am")

    assert shown.binary
    assert shown.text.splitlines() == [
        "000000  00 68 65 6c 6c 6f 2c 20 77 6f 72 6c 64 2c 20 49  ·hello, world, I",
        "000010  20 61 6d" + " " * 39 + "   am",
    ]


def test_what_is_shown_of_a_large_value_is_bounded() -> None:
    assert page("x" * 300_000).cut
    assert len(page(list(range(100_000))).text) <= SHOWN_MOST
    assert page(b"x" * (2 << 20)).cut


@pytest.mark.parametrize("packed", [b"\xc1", b"\x91" * 2000 + b"\xc0", b"\x81\x81\x01\x02\x03", b"\xd9\xff", b""])
def test_what_nobody_can_decode_is_shown_as_bytes(packed: bytes) -> None:
    assert packed_page(Raw(packed)).binary


def test_what_is_nested_deep_is_counted_from_some_depth_on() -> None:
    value: Any = ["deep"]
    for _ in range(400):
        value = [value]

    assert '"<1 values>"' in page(value).text


def test_nothing_in_it_is_obeyed_or_turned_round() -> None:
    assert page("a\u202eb\x1b").text == '"a\\u202eb\\u001b"'
    assert page({1: msgpack.ExtType(5, b"\x01")}).text == '{\n  "<1>": "<1 bytes of type 5: 01>"\n}'
