"""Keys by which changes may be repeated."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from starlette.requests import Request

from taskqueue.errors import RequestRejected
from taskqueue.protocol.operations import OperationCancel
from taskqueue.web.access.visitors import Visitor
from taskqueue.web.api.problems import Problem
from taskqueue.web.api.repeats import FIRST_NUMBER, HEADER, KEYS_MOST, Known, Repeats

ANNA, BEN = Visitor("anna", "admin", "anna via web@a"), Visitor("ben", "admin", "ben via web@a")


def sent(key: str, visitor: Visitor = ANNA, method: str = "POST") -> Request:
    headers = [(HEADER.lower().encode(), key.encode("latin-1"))]
    return Request({"type": "http", "method": method, "headers": headers, "state": {"visitor": visitor}})


def known(repeats: Repeats, request: Request, operation: int = 1) -> Known:
    with repeats.known_as(request, OperationCancel(id=operation)) as found:
        assert found is not None
        return found


def test_the_same_with_the_same_key_is_known_as_the_same_by_every_process() -> None:
    assert known(Repeats(), sent("k")) == known(Repeats(), sent("k"))


def test_keys_of_two_visitors_are_two_and_something_else_has_another_number() -> None:
    repeats = Repeats()
    session, number = known(repeats, sent("k"))

    assert known(repeats, sent("k", BEN))[0] != session
    assert known(repeats, sent("k"), 2)[0] == session
    assert known(repeats, sent("k"), 2)[1] != number
    assert number >= FIRST_NUMBER


def test_who_only_looks_needs_no_key() -> None:
    with Repeats().known_as(sent("k", method="GET"), OperationCancel(id=1)) as found:
        assert found is None


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x00b"])
def test_a_key_that_can_be_none_is_refused(key: str) -> None:
    with pytest.raises(Problem) as caught:
        known(Repeats(), sent(key))

    assert (caught.value.status, caught.value.field) == (400, HEADER)


def test_a_key_that_is_being_used_is_refused() -> None:
    repeats, asked = Repeats(), OperationCancel(id=1)
    with repeats.known_as(sent("k"), asked), pytest.raises(Problem) as caught:
        known(repeats, sent("k"))

    assert caught.value.status == 409


def test_the_daemons_refusal_of_a_number_means_that_the_key_was_used_for_something_else() -> None:
    asked = OperationCancel(id=1)
    with pytest.raises(Problem) as caught, Repeats().known_as(sent("k"), asked):
        raise RequestRejected("too-old", "n: 5 is too old")

    assert (caught.value.status, caught.value.code) == (422, "key-reused")


def test_a_flood_of_keys_is_refused_before_it_drives_out_the_sessions_of_others() -> None:
    repeats = Repeats()
    for number in range(KEYS_MOST):
        known(repeats, sent(str(number)))
    with ExitStack() as stack, pytest.raises(Problem) as caught:
        stack.enter_context(repeats.known_as(sent("more"), OperationCancel(id=1)))

    assert caught.value.status == 429
    assert 0 < int(caught.value.headers["Retry-After"]) <= 3601
    assert known(repeats, sent("7"))
