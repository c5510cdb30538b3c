"""Keeping what is held in memory within its bounds. Whatever is dropped is in the store.

    queue_bytes ──in equal shares──► each head that holds anything, at most head_bytes
                                        │ over its share: its upper part is dropped
                                        │ its only task is over it: the body is dropped, and read when its turn comes
    all heads over queue_bytes: those that were longest left alone are cut down to their shares, too

Rules:
1. A project in which nothing waits costs nothing here, and a head keeps at least its first task.
2. Bodies of tasks that are handed out are kept while all of these together are small: LEASED_PART. How many there are
   is bounded by ``max_leases``.
3. A body is dropped at the beginning of the next turn, when the store has it for certain.
4. A body that was missing when its task was to go out is *awaited*: it is read, and held until the task has its turn,
   or a project with large bodies would never have one beside others. All of these take AWAITED_PART at most.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.project import Project
from taskqueue.core.model.task import DELAYED, READY, TASK_BYTES, Task
from taskqueue.core.state import State

HEAVY_BYTES: Final = 8 << 10
"""A larger task is not held with its body while it is processing: the tasks of fetchers must not fill the
daemon's memory. Reading it again costs little beside sending it.
"""

LEASED_PART: Final = 4
"""Bodies of processing tasks may take one part in so many of ``queue_bytes``, on top of it."""

AT_ONCE: Final[dict[int, int]] = {READY: 2048, DELAYED: 128}
"""Tasks read at once of an order. Bodies of delayed tasks are scattered, so each costs a look-up: 2,048 of them
stopped the loop for 13 to 24 ms, and others that were due meanwhile were late; 128 take 1.3 to 2 ms.
"""

AWAITED_PART: Final = 4
"""Awaited bodies may take one part in so many of ``queue_bytes``, on top of it."""

SLOT_HEADS: Final = 4
"""Heads that all slots of a project may take, in bytes."""

RELIEVED_A_TURN: Final = 256
"""Heads examined in one turn because all together are too large."""


def share(state: State) -> int:
    """Bytes that each head may take now."""
    config = state.config
    return min(config.head_bytes, state.memory.share(config.queue_bytes))


def _slots_share(state: State) -> int:
    """Bytes that the ready tasks of a divided project may take: it has as many heads as slots."""
    config = state.config
    return min(SLOT_HEADS * config.head_bytes, state.memory.share(config.queue_bytes))


def refill_tasks(state: State, which: int) -> int:
    """Tasks with which a head is refilled at once, at most."""
    half = min(state.config.head_tasks, share(state) // TASK_BYTES) // 2
    return max(1, min(half, AT_ONCE[which]))


def heavy_bytes(state: State) -> int:
    """Size in bytes above which a processing task is not held with its body."""
    return HEAVY_BYTES if state.memory.leased <= state.config.queue_bytes // LEASED_PART else TASK_BYTES


def await_body(state: State, project: Project) -> bool:
    """Have the body of the project's next task read; False: there is no task, or its body is in memory."""
    first = project.queue.ready.first()
    if first is None or first.spec is not None:
        return False
    state.hollow.await_body(first)
    return True


def settle(state: State, project: Project) -> None:
    """Trim the project's heads to their bounds, and note their sizes."""
    for which in (READY, DELAYED):
        _trim(state, project, which)


def relieve(state: State) -> list[Project]:
    """If all heads together are too large, trim the least recently noted ones; returns projects that lost slots."""
    if state.hollow.awaited:
        _give_up_awaited(state)
    memory, most = state.memory, state.config.queue_bytes
    lost: dict[int, Project] = {}
    if memory.heads <= most:
        return []
    for number, which in memory.longest_untouched(RELIEVED_A_TURN):
        if memory.heads > most:
            project = state.projects.by_number[number]
            _trim(state, project, which)
            if which == READY and project.queue.slots is not None:
                lost[number] = project
    return list(lost.values())


def _give_up_awaited(state: State) -> None:
    """Await only what there is room for and what is still next; the oldest is given up first."""
    awaited = state.hollow.awaited
    for number, task in list(awaited.items()):
        project = state.projects.by_number.get(number)
        if project is None or project.queue.ready.first() is not task:
            state.hollow.stop_awaiting(number)
    over = sum(task.size for task in awaited.values()) - state.config.queue_bytes // AWAITED_PART
    while over > 0 and len(awaited) > 1:
        task = state.hollow.stop_awaiting(next(iter(awaited)))
        over -= task.size
        state.hollow.release_body(task)


def _trim(state: State, project: Project, which: int) -> None:
    head = project.queue.head(which)
    if head.bytes:
        most = share(state) if which == DELAYED or project.queue.slots is None else _slots_share(state)
        project.queue.trim(which, state.config.head_tasks, most)
        if head.bytes > most:
            _release_first(state, project, head.first())
    state.memory.note(project.number, which, head.bytes)


def _release_first(state: State, project: Project, first: Task | None) -> None:
    """Release the body of a head's only task, unless it is awaited."""
    if first is not None and first.spec and state.hollow.awaited.get(project.number) is not first:
        state.hollow.release_body(first)
