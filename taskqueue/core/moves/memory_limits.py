"""Bounds of the tasks in memory; dropped ones stay in the store.

    queue_bytes ──in equal shares──► each head that is not empty, at most head_bytes
                                        │ over its share: its upper part is dropped
                                        │ its only task exceeds it: the body is dropped, and read when its turn comes
    all heads over queue_bytes: the least recently changed ones are cut down to their shares, too

Rules:
1. A project without waiting tasks costs nothing here, and a head keeps at least its first task.
2. Bodies of leased tasks are kept while all of them together are small: LEASED_PART. Their number
   is bounded by ``max_leases``.
3. A body is dropped at the beginning of the next turn, when the store certainly has it.
4. A body that was missing at the dispatch of its task is *awaited*: it is read, and kept until the task has its turn;
   otherwise a project with large bodies would starve beside others. All of these take AWAITED_PART at most.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.project import Project
from taskqueue.core.model.task import DELAYED, READY, TASK_BYTES, Task
from taskqueue.core.state import State

HEAVY_BYTES: Final = 8 << 10
"""Bytes of a task above which its body is not kept while it is processing.

The tasks of fetchers must not fill the daemon's memory, and reading a body again costs little beside sending it.
"""

LEASED_PART: Final = 4
"""Divisor of ``queue_bytes`` that gives the bytes of all processing tasks, on top of it."""

AT_ONCE: Final[dict[int, int]] = {READY: 2048, DELAYED: 128}
"""Tasks of an order that are read at once, by state.

Bodies of delayed tasks are scattered, so each costs a look-up: 2,048 of them stopped the loop for 13 to 24 ms, which
made other due tasks late; 128 take 1.3 to 2 ms.
"""

AWAITED_PART: Final = 4
"""Divisor of ``queue_bytes`` that gives the bytes of all awaited bodies, on top of it."""

SLOT_HEADS: Final = 4
"""Bytes that all slots of a project may take, in heads."""

RELIEVED_A_TURN: Final = 256
"""Heads examined in one turn because all together are too large."""


def share(state: State) -> int:
    """Return the bytes that each head may take now."""
    config = state.config
    return min(config.head_bytes, state.memory.share(config.queue_bytes))


def _slots_share(state: State) -> int:
    """Return the bytes that the ready tasks of a project with slots may take: it has a head for each slot."""
    config = state.config
    return min(SLOT_HEADS * config.head_bytes, state.memory.share(config.queue_bytes))


def refill_tasks(state: State, which: int) -> int:
    """Return how many tasks refill a head at once, at most."""
    half = min(state.config.head_tasks, share(state) // TASK_BYTES) // 2
    return max(1, min(half, AT_ONCE[which]))


def heavy_bytes(state: State) -> int:
    """Return the bytes of a processing task above which its body is not kept."""
    return HEAVY_BYTES if state.memory.leased <= state.config.queue_bytes // LEASED_PART else TASK_BYTES


def await_body(state: State, project: Project) -> bool:
    """Request the body of the project's next task; return False if there is no task, or its body is in memory."""
    first = project.queue.ready.first()
    if first is None or first.spec is not None:
        return False
    state.hollow.await_body(first)
    return True


def settle(state: State, project: Project) -> None:
    """Trim the project's heads to their bounds, and record their sizes."""
    for which in (READY, DELAYED):
        _trim(state, project, which)


def relieve(state: State) -> list[Project]:
    """Trim the least recently changed heads, if all together are too large; return projects that lost slots."""
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
    """Give up awaited bodies that are no longer next, or beyond the bound, the oldest first."""
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
