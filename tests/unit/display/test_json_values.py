"""Messages as plain values for JSON."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pytest
from msgspec import Raw

from taskqueue.display.json_values import DEPTH_MOST, as_plain
from taskqueue.protocol.packed_json import as_msgpack


@pytest.mark.parametrize("depth", [DEPTH_MOST + 1, 400, 770])
@pytest.mark.parametrize("opener", [b"\x91", b"\x81\xa1a"])
def test_a_body_nested_so_deep_that_programs_could_not_walk_through_it_stands_as_it_was_packed(
    depth: int, opener: bytes
) -> None:
    packed = opener * depth + b"\x01"

    shown = as_plain(Raw(packed))

    assert bytes(as_msgpack(Raw(json.dumps(shown, indent=2).encode()))) == packed
    assert list(as_plain(shown)) == ["$msgpack"]


def test_a_body_that_is_nested_less_is_shown_whole() -> None:
    body: Any = "deep"
    for _ in range(DEPTH_MOST // 2):
        body = {"a": [body]}

    assert as_plain(Raw(msgpack.packb(body))) == body
