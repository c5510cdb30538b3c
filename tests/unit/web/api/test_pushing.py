"""Lines of tasks that arrive in pieces."""

from __future__ import annotations

import pytest

from taskqueue.protocol.values import NewTask
from taskqueue.web.api.pushing import LINE_BYTES, Line, LineSplitter
from taskqueue.web.api.task_objects import Flaw


def lines(*pieces: bytes) -> list[Line]:
    splitter = LineSplitter()
    return [line for piece in pieces for line in splitter.feed(piece)] + list(splitter.end())


def urls(found: list[Line]) -> list[tuple[int, str]]:
    return [(line.number, line.task.url if isinstance(line.task, NewTask) else "") for line in found]


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_lines_are_the_same_whatever_the_pieces(size: int) -> None:
    content = b'\xef\xbb\xbfhttp://a/\r\n\n{"url": "http://b/"}\nhttp://c/'
    pieces = [content[start : start + size] for start in range(0, len(content), size)]

    assert urls(lines(*pieces)) == [(1, "http://a/"), (3, "http://b/"), (4, "http://c/")]


def test_a_line_that_is_too_long_is_rejected_and_the_next_one_is_taken() -> None:
    piece = b"x" * (LINE_BYTES // 2)
    found = lines(piece, piece, b"xx", piece, b"\nhttp://next/\n")

    assert isinstance(found[0].task, Flaw)
    assert (found[0].number, found[0].task.field) == (1, "line")
    assert urls(found[1:]) == [(2, "http://next/")]


def test_a_line_that_nests_too_deep_is_rejected() -> None:
    (found,) = lines(b'{"url": "http://a/", "body": ' + b"[" * 5000 + b"]" * 5000 + b"}")

    assert isinstance(found.task, Flaw)
