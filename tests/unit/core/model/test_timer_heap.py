"""Timers: which are due, and which are no longer."""

from __future__ import annotations

from math import inf

from taskqueue.core.model.timer_heap import TimerHeap

Key = tuple[str, str | int]
A, B = ("thing", "a"), ("thing", "b")


def agenda(due: dict[Key, float]) -> TimerHeap[Key]:
    return TimerHeap(lambda key: due.get(key, inf))


def test_nothing_is_due_when_nothing_was_noted() -> None:
    assert agenda({}).next_at() == inf
    assert agenda({}).pop_due(1e9) is None


def test_what_is_due_comes_once_and_in_its_order() -> None:
    book = agenda({A: 20, B: 10})
    book.note(A, 20)
    book.note(B, 10)

    assert book.next_at() == 10
    assert book.pop_due(9.9) is None
    assert [book.pop_due(25), book.pop_due(25), book.pop_due(25)] == [B, A, None]


def test_what_has_become_due_later_is_found_out_in_time() -> None:
    due: dict[Key, float] = {A: 10}
    book = agenda(due)
    book.note(A, 10)
    due[A] = 50

    assert book.pop_due(10) is None
    assert book.next_at() == 50
    assert book.pop_due(50) == A


def test_what_is_due_earlier_is_noted_again() -> None:
    due: dict[Key, float] = {A: 10}
    book = agenda(due)
    book.note(A, 10)
    due[A] = 5
    book.note(A, 5)

    assert book.pop_due(5) == A
    assert book.pop_due(100) is None


def test_what_is_no_more_never_comes() -> None:
    due: dict[Key, float] = {A: 10}
    book = agenda(due)
    book.note(A, 10)
    del due[A]

    assert book.pop_due(100) is None
    assert book.next_at() == inf


def test_nothing_is_asked_when_it_is_due_before_its_timer_is() -> None:
    asked: list[Key] = []

    def due_at(key: Key) -> float:
        asked.append(key)
        return 10

    book = TimerHeap(due_at)
    book.note(A, 10)

    assert (book.pop_due(9), asked) == (None, [])
    assert (book.pop_due(10), asked) == (A, [A])
