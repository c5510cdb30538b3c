"""Names in paths: each is read as it was written, and none is resolved as a dot segment."""

from __future__ import annotations

from urllib.parse import unquote, urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.web.addresses import name_of, segment

BASE = "http://host/a/b/"


@given(st.one_of(st.text(alphabet="~.%/", min_size=1), st.text(st.characters(codec="utf-8"), min_size=1)))
def test_a_name_is_read_as_it_was_written_and_is_no_step(name: str) -> None:
    written = segment(name)

    assert name_of(unquote(written)) == name
    assert urljoin(BASE, f"./{written}") == BASE + written


@pytest.mark.parametrize(
    ("name", "written"),
    [(".", "~."), ("..", "~.."), ("~..", "~~.."), ("~x", "~x"), ("...", "..."), ("a/b", "a%2Fb"), ("%2e", "%252e")],
)
def test_names_of_dots_have_a_tilde_before_them(name: str, written: str) -> None:
    assert segment(name) == written
