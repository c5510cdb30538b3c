"""What of a task is a small function of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueue.core.task import ERROR_BYTES, kept_error


@pytest.mark.parametrize("character", ["x", "é", "€", "🕷"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_error_is_kept_as_far_as_whole_characters_fit(character: str, shift: int) -> None:
    error = "-" * shift + character * 2048

    kept = kept_error(error)

    assert error.startswith(kept)
    assert ERROR_BYTES - len(character.encode()) < len(kept.encode()) <= ERROR_BYTES


@given(st.text(max_size=ERROR_BYTES // 4))
def test_an_error_that_fits_is_kept_as_it_is(error: str) -> None:
    assert kept_error(error) == error
