"""Bodies of answers: decoded as they come, and never beyond their limit."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.http.body import MEMBERS_MOST, Body, Broken, TooLarge, UnknownCoding

TEXT = b"a page, and a page, and a page" * 100
RAW = zlib.compressobj(wbits=-15)
FORMS = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:999]) + gzip.compress(TEXT[999:]),
    " GZIP ": gzip.compress(TEXT) + b"garbage",
    "deflate": zlib.compress(TEXT),
    "Deflate": RAW.compress(TEXT) + RAW.flush(),
}


def body_of(coding: str, *pieces: bytes, most: int = len(TEXT)) -> Body:
    body = Body({"content-encoding": coding}, most)
    for piece in pieces:
        body.take(piece)
    return body


@pytest.mark.parametrize("coding", FORMS)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_body_is_decoded_however_it_is_cut_into_pieces(coding: str, size: int) -> None:
    sent = FORMS[coding]

    body = body_of(coding, *(sent[start : start + size] for start in range(0, len(sent), size)))

    assert body.end() == TEXT


@pytest.mark.parametrize("coding", FORMS)
def test_a_body_with_a_byte_too_many_is_too_large(coding: str) -> None:
    body = Body({"content-encoding": coding}, len(TEXT) - 1)

    with pytest.raises(TooLarge):
        body.take(FORMS[coding])
    assert body.beginning() == TEXT[:-1]


def test_a_bomb_is_unpacked_no_further_than_its_bound() -> None:
    bomb = gzip.compress(bytes(10 << 20))
    body = Body({"content-encoding": "gzip"}, 1000)

    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            body.take(bomb)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak_bytes < 1 << 20


def test_a_body_that_is_empty_is_right_whatever_its_encoding() -> None:
    assert body_of("gzip").end() == body_of("deflate", b"").end() == b""


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_whose_end_is_missing_is_broken(coding: str) -> None:
    body = body_of(coding, FORMS[coding][:-5])

    with pytest.raises(Broken, match="the end is missing"):
        body.end()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_is_no_such_thing_is_broken(coding: str) -> None:
    with pytest.raises(Broken, match="its Content-Encoding is broken"):
        body_of(coding, b"<html>" + TEXT)


def test_a_body_of_very_many_parts_is_broken() -> None:
    with pytest.raises(Broken, match="more than 1,000 parts"):
        body_of("gzip", gzip.compress(b"") * (MEMBERS_MOST + 1))


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "aes128gcm"])
def test_an_encoding_that_was_not_asked_for_is_told(coding: str) -> None:
    with pytest.raises(UnknownCoding, match=f"its Content-Encoding is {coding}, and gzip, deflate was asked for"):
        Body({"content-encoding": coding}, 1)


@given(st.sampled_from(["gzip", "deflate"]), st.lists(st.binary(max_size=40), max_size=5))
def test_no_bytes_raise_anything_else(coding: str, pieces: list[bytes]) -> None:
    with suppress(Broken, TooLarge):
        body_of(coding, *pieces).end()
