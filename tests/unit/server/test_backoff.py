"""How long the daemon waits between attempts to begin again."""

from __future__ import annotations

from taskqueue.server.backoff import Backoff


def test_pauses_double_up_to_five_seconds() -> None:
    backoff = Backoff()

    assert [backoff.next() for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_after_something_has_worked_they_begin_anew() -> None:
    backoff = Backoff()
    backoff.next()
    backoff.next()

    backoff.reset()

    assert backoff.next() == 0.1
