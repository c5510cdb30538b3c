"""Pending work of projects: each has its turn, and a deleted project has no work left."""

from __future__ import annotations

from taskqueue.core.model.pending_work import PendingWork


def test_projects_are_swept_in_turns() -> None:
    pending = PendingWork()
    pending.sweep(1, 100)
    pending.sweep(2, 200)

    pending.go_on_sweeping(1)

    assert list(pending.swept.items()) == [(2, 200), (1, 100)]
    pending.was_swept(2)
    assert pending.swept == {1: 100}


def test_a_project_that_is_cleared_again_keeps_its_turn() -> None:
    pending = PendingWork()
    pending.sweep(1, 100)
    pending.sweep(2, 200)

    pending.sweep(1, 300)

    assert list(pending.swept.items()) == [(1, 300), (2, 200)]


def test_what_is_old_goes_in_turns() -> None:
    pending = PendingWork()
    pending.drop_old(1)
    pending.drop_old(2)

    pending.dropped_old(1, more=True)
    pending.dropped_old(2, more=False)

    assert list(pending.old) == [1]


def test_a_project_that_is_gone_has_nothing_left_to_do() -> None:
    pending = PendingWork()
    pending.read_further(1)
    pending.sweep(1, 100)
    pending.drop_old(1)

    pending.forget(1)

    assert (pending.low, pending.swept, pending.old, pending.take_barred()) == ({}, {}, {}, [])
