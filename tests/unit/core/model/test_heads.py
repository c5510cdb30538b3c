"""Head and Processing by themselves, and the due times of a TaskQueue."""

from __future__ import annotations

from math import inf

from taskqueue.core.model.changes import Changes
from taskqueue.core.model.heads import Head, Processing
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.task import NO_FLOOR, PROCESSING, READY, Task, ready_key
from taskqueue.core.model.task_queue import TaskQueue
from taskqueue.protocol.fields import Boot, Token, Wall
from taskqueue.protocol.values import TaskCounts


def ready(seq: int, priority: int = 0, size: int = 100) -> Task:
    return Task(1, f"t{seq}", READY, ready_key(priority, seq), seq, priority, size=size)


def leased(token: int, deadline: float) -> Task:
    return Task(
        1, f"t{token}", PROCESSING, token, token, token=Token(token), lease=Lease("f", 1, Boot(deadline), Boot(0.0))
    )


def drain(queue: Head) -> list[int]:
    seqs = []
    while queue.first() is not None:
        seqs.append(queue.pop().seq)
    return seqs


def test_the_first_is_that_of_the_highest_priority_and_then_the_oldest() -> None:
    queue = Head()
    for task in (ready(3), ready(1), ready(4, priority=9), ready(2, priority=9), ready(5, priority=-1)):
        assert queue.add(task)

    assert drain(queue) == [2, 4, 1, 3, 5]
    assert (len(queue), queue.bytes) == (0, 0)


def test_what_was_taken_out_does_not_come() -> None:
    queue = Head()
    tasks = [ready(seq) for seq in range(10)]
    for task in tasks:
        queue.add(task)

    for task in tasks[::2]:
        queue.remove(task)
        queue.remove(task)
    assert drain(queue) == [1, 3, 5, 7, 9]


def test_what_was_taken_out_and_put_in_again_comes_once() -> None:
    queue = Head()
    task = ready(1)
    for _ in range(5):
        queue.add(task)
        queue.remove(task)
    queue.add(task)

    assert drain(queue) == [1]


def test_tombstones_take_no_more_memory_than_what_is_held() -> None:
    queue = Head()
    keep = ready(0)
    queue.add(keep)
    for seq in range(1, 5000):
        task = ready(seq)
        queue.add(task)
        queue.remove(task)

    assert len(queue.heap) < 100


def test_what_is_above_the_floor_is_not_held() -> None:
    queue = Head(floor=ready_key(0, 5))

    assert [queue.add(ready(seq)) for seq in (4, 5, 6)] == [True, False, False]
    assert drain(queue) == [4]
    assert queue.low_key() == ready_key(0, 5)


def test_trimming_drops_the_upper_half_and_lowers_the_floor_to_it() -> None:
    queue = Head()
    for seq in range(10):
        queue.add(ready(seq))

    assert queue.trim(max_tasks=10, max_bytes=1000) == []
    dropped = queue.trim(max_tasks=9, max_bytes=1000)
    assert [task.seq for task in dropped] == [5, 6, 7, 8, 9]
    assert (queue.floor, queue.bytes) == (ready_key(0, 5), 500)
    assert drain(queue) == [0, 1, 2, 3, 4]


def test_trimming_by_bytes_leaves_one_task_however_large() -> None:
    queue = Head()
    queue.add(ready(1, size=1000))

    assert queue.trim(max_tasks=10, max_bytes=10) == []


def test_a_head_is_low_only_when_there_is_more_in_the_store() -> None:
    queue = Head()
    assert not queue.is_low(max_tasks=8, max_bytes=10_000)

    queue = Head(floor=ready_key(0, 100))
    assert queue.is_low(max_tasks=8, max_bytes=10_000)
    for seq in range(3):
        queue.add(ready(seq))
    assert not queue.is_low(max_tasks=8, max_bytes=10_000)


def test_a_refill_raises_the_floor_above_what_it_brought() -> None:
    queue = Head(floor=ready_key(0, 2))
    queue.add(ready(1))

    queue.refill([ready(2), ready(3)], end=False)
    assert (queue.add(ready(4)), queue.add(ready(3, priority=1))) == (False, True)
    queue.refill([ready(4)], end=True)
    assert queue.floor == NO_FLOOR
    assert drain(queue) == [3, 1, 2, 3, 4]


def delayed(*times: float) -> TaskQueue:
    queue = TaskQueue(TaskCounts(), 0, 0, 0, [0] * 7)
    for seq, at in enumerate(times):
        queue.put_delayed(Changes(lambda: Token(1)), Task(1, f"t{seq}", 0, 0, seq), at)
    return queue


def test_a_queue_knows_when_its_first_delayed_task_is_due() -> None:
    assert delayed().due_at() == inf

    queue = delayed(30.5, 10.25, 20.0)
    assert queue.due_at() == 10.25
    assert queue.first_due(Wall(10.2)) is None
    first = queue.first_due(Wall(10.25))
    assert first is not None
    assert first.seq == 1


def test_a_time_is_rounded_so_that_nothing_is_early() -> None:
    queue = delayed(10.0000001)

    assert queue.first_due(Wall(10.0)) is None
    assert queue.first_due(Wall(10.000001)) is not None


def test_leases_run_out_in_the_order_of_their_deadlines() -> None:
    processing = Processing()
    tasks = {token: leased(token, deadline) for token, deadline in ((1, 50.0), (2, 20.0), (3, 80.0))}
    for task in tasks.values():
        assert task.lease is not None
        processing.add(task, task.lease.deadline)

    assert processing.next_at() == 20.0
    processing.remove(tasks[2])
    assert processing.next_at() == 50.0
    processing.remove(tasks[1])
    processing.remove(tasks[3])
    assert (processing.next_at(), len(processing)) == (inf, 0)


def test_a_lease_that_is_extended_again_and_again_takes_no_more_memory() -> None:
    processing = Processing()
    steady, extended = leased(1, 10.0), leased(2, 20.0)
    for task in (steady, extended):
        processing.add(task, Boot(10.0))

    assert extended.lease is not None
    for deadline in range(100, 5100):
        extended.lease.deadline = Boot(float(deadline))
        processing.look_at(extended, float(deadline))
    assert processing.first() is steady
    assert len(processing.heap) < 200
