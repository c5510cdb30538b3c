"""Bounds and order of heads: a bound that is off by one, or a heap out of order, would show."""

from __future__ import annotations

import pytest

from taskqueue.core.model.heads import Head
from taskqueue.core.model.task import READY, Task, ready_key

PLENTY = 1 << 40


def ready(seq: int, priority: int = 0, size: int = 100) -> Task:
    return Task(1, f"t{seq}", READY, ready_key(priority, seq), seq, priority, size=size)


def head_of(*tasks: Task) -> Head:
    head = Head()
    for task in tasks:
        head.add(task)
    return head


def drain(head: Head) -> list[int]:
    seqs = []
    while head.first() is not None:
        seqs.append(head.pop().seq)
    return seqs


def test_the_order_is_kept_when_what_was_taken_out_is_swept() -> None:
    tasks = [ready(seq, priority=seq % 7) for seq in range(300, 0, -1)]
    head = head_of(*tasks)
    for task in tasks[:250]:
        head.remove(task)

    left = sorted(tasks[250:], key=lambda task: task.key)
    assert len(head.heap) < 200
    assert drain(head) == [task.seq for task in left]


@pytest.mark.parametrize(
    ("held", "max_tasks", "max_bytes", "kept"),
    [
        (4, 4, PLENTY, 4),
        (5, 4, PLENTY, 2),
        (2, 1, PLENTY, 1),
        (4, 9, 400, 4),
        (4, 9, 399, 1),
        (8, 9, 799, 3),
        (8, 7, 799, 3),
        (8, 7, 800, 4),
        (1, 1, 1, 1),
        (0, 1, 1, 0),
    ],
)
def test_a_trim_keeps_half_of_what_there_is_or_half_of_the_bytes(
    held: int, max_tasks: int, max_bytes: int, kept: int
) -> None:
    head = head_of(*[ready(seq) for seq in range(held)])

    dropped = head.trim(max_tasks, max_bytes)

    assert (len(head), len(dropped), head.bytes) == (kept, held - kept, 100 * kept)
    assert [task.seq for task in dropped] == list(range(kept, held))
    assert drain(head) == list(range(kept))


def test_a_trim_by_bytes_keeps_all_the_small_tasks_before_a_large_one() -> None:
    head = head_of(*[ready(seq) for seq in range(6)], ready(6, size=5000))

    head.trim(max_tasks=9, max_bytes=5000)

    assert drain(head) == [0, 1, 2, 3, 4, 5]


def test_a_trim_by_bytes_of_small_and_large_tasks_keeps_the_first_whatever_its_size() -> None:
    head = head_of(ready(1, size=5000), ready(2), ready(3))

    head.trim(max_tasks=9, max_bytes=1000)

    assert drain(head) == [1]


@pytest.mark.parametrize(
    ("held", "size", "is_low"),
    [(0, 1, True), (2, 1, True), (3, 1, False), (2, 126, False), (2, 125, True), (1, 999, False)],
)
def test_a_head_is_low_at_a_quarter_of_its_bounds(held: int, size: int, is_low: bool) -> None:
    head = Head(floor=ready_key(0, 100))
    for seq in range(held):
        head.add(ready(seq, size=size))

    assert head.is_low(max_tasks=8, max_bytes=1000) == is_low


def test_an_empty_head_is_low_and_a_whole_one_never() -> None:
    assert Head(floor=ready_key(0, 1)).is_low(max_tasks=1, max_bytes=1)
    assert not Head().is_low(max_tasks=1, max_bytes=1)


def test_after_a_trim_by_bytes_a_head_is_low_when_it_is_dry_until_it_is_filled_again() -> None:
    head = head_of(*[ready(seq, size=500) for seq in range(4)])
    head.trim(max_tasks=100, max_bytes=1900)
    assert not head.is_low(max_tasks=100, max_bytes=1900)

    drain(head)
    assert head.is_low(max_tasks=100, max_bytes=1900)
    head.refill([ready(10)], end=False)
    assert head.is_low(max_tasks=100, max_bytes=1900)


def test_after_a_trim_by_number_a_head_is_low_before_it_is_dry() -> None:
    head = head_of(*[ready(seq) for seq in range(20)])

    head.trim(max_tasks=16, max_bytes=PLENTY)
    for _ in range(6):
        head.first()
        head.pop()

    assert len(head) == 4
    assert head.is_low(max_tasks=16, max_bytes=PLENTY)


def test_a_refill_without_anything_leaves_the_floor_or_takes_it_away() -> None:
    floor = ready_key(0, 5)
    head = Head(floor)

    head.refill([], end=False)
    assert head.floor == floor
    head.refill([], end=True)
    assert head.add(ready(9))


def test_a_task_that_follows_the_last_of_a_refill_at_once_is_above_the_floor() -> None:
    head = Head(ready_key(0, 1))

    head.refill([ready(1), ready(2)], end=False)

    assert not head.add(ready(3))
    assert head.add(ready(0))
