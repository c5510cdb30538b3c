"""Problems with JSON from clients, in words that help."""

from __future__ import annotations

import pytest

from taskqueue.web.api.decoding import decoded
from taskqueue.web.api.problems import Problem


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"a": "\\ud800"}', "body: a text has half of a surrogate pair, such as \\ud800"),
        (b'["\\ude00\\ud83d"]', "body: a text has half of a surrogate pair, such as \\ud800"),
        (b'{"priority": 1e400}', "body: number out of range"),
        (b'{"a": [1e999]}', "[0]: number out of range"),
        (b'{"a": ', "body: input data was truncated"),
        (b"[" * 100_000, "body: nested too deep"),
    ],
    ids=["half", "turned round", "number", "inner number", "cut", "deep"],
)
def test_what_is_wrong_with_a_body_is_said(body: bytes, reason: str) -> None:
    with pytest.raises(Problem) as refused:
        decoded(body)

    assert refused.value.detail == reason
