"""Waiters and their time limits."""

from __future__ import annotations

from math import inf

from taskqueue.core.model.session import OwnedSessions, Session
from taskqueue.core.model.waiters import Waiter, Waiters
from taskqueue.protocol.fields import Boot


def waiting(*untils: float) -> Waiters:
    """Make waiters with these time limits, each of its own session."""
    waiters = Waiters()
    for number, until in enumerate(untils):
        waiters.add(Waiter(Session(f"s{number}", Boot(0.0), b"", OwnedSessions("")), number, Boot(until)))
    return waiters


def test_the_first_to_go_is_known_and_leaves_alone() -> None:
    waiters = waiting(30.0, 10.0, 20.0)
    assert waiters.next_at() == 10

    assert [waiter.n for waiter in waiters.take(Boot(10.0))] == [1]
    assert waiters.next_at() == 20


def test_all_leave_when_it_has_happened() -> None:
    waiters = waiting(30.0, 10.0, 20.0)

    assert sorted(waiter.n for waiter in waiters.take()) == [0, 1, 2]
    assert waiters.next_at() == inf
    assert list(waiters.take()) == []


def test_a_newer_request_of_a_session_takes_the_place_of_the_older_one() -> None:
    waiters = Waiters()
    session = Session("s", Boot(0.0), b"", OwnedSessions(""))
    for n, until in enumerate((20.0, 10.0, 30.0)):
        waiters.add(Waiter(session, n, Boot(until)))

    assert list(waiters.take(Boot(20.0))) == []
    assert waiters.next_at() == 30
    assert [waiter.n for waiter in waiters.take(Boot(30.0))] == [2]
