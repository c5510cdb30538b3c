"""Hollow tasks: which specs are read, released and awaited."""

from __future__ import annotations

from taskqueue.core.model.memory import HollowTasks
from taskqueue.core.model.needs import SpecRef
from taskqueue.core.model.spec import NO_SPEC
from taskqueue.core.model.task import Task


def task(seq: int, project: int = 1) -> Task:
    return Task(project, f"t{seq}", 0, 0, seq)


def test_only_what_lacks_its_spec_is_read() -> None:
    hollow, whole = HollowTasks(), task(1)
    whole.spec = NO_SPEC
    hollow.want(whole)
    hollow.want(task(2))

    assert hollow.first(10) == [SpecRef(1, 2)]


def test_what_was_read_is_wanted_no_more() -> None:
    hollow, second = HollowTasks(), task(2)
    hollow.want(task(1))
    hollow.want(second)

    assert dict(hollow.take([SpecRef(1, 2)])) == {SpecRef(1, 2): second}
    assert hollow.first(10) == [SpecRef(1, 1)]


def test_a_project_awaits_one_task_at_a_time() -> None:
    hollow, later = HollowTasks(), task(2)
    hollow.await_body(task(1))
    hollow.await_body(later)

    assert hollow.stop_awaiting(1) is later
    assert not hollow.awaited


def test_what_is_to_be_let_go_of_is_told_once() -> None:
    hollow, heavy = HollowTasks(), task(1)
    hollow.release_body(heavy)

    assert hollow.take_released() == [heavy]
    assert hollow.take_released() == []
