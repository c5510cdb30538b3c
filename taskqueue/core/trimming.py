"""Keeping what is held in memory within its bounds. Whatever is dropped is in the store.

    memory_bytes ──in equal shares──► each head that holds anything, at most head_bytes
                                        │ over its share: its upper part is dropped
                                        │ its only task is over it: the body is dropped, and read when its turn comes
    all heads over memory_bytes: those that were longest left alone are cut down to their shares, too

Rules:
1. A project in which nothing waits costs nothing here, and a head keeps at least its first task.
2. Bodies of tasks that are handed out are kept while all of these together are small: LEASED_PART. How many there are
   is bounded by ``max_leases``.
3. A body is dropped at the beginning of the next turn, when the store has it for certain.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.project import Project
from taskqueue.core.state import State
from taskqueue.core.task import DELAYED, READY, TASK_BYTES

HEAVY_BYTES: Final = 8 << 10
"""A task above this size is not held with its body while it is processing: what fetchers hold must not fill the
memory of the daemon. Reading it again costs little beside sending it."""

LEASED_PART: Final = 4
"""Tasks that are handed out are held with their bodies up to one in so many of ``memory_bytes``, on top of it."""

DELAYED_AT_ONCE: Final = 128
"""Delayed tasks that are read at once. Their bodies lie strewn, so each costs a look-up: 2,048 of them stopped the loop
for 13 to 24 ms, and others that were due meanwhile were late; 128 take 1.3 to 2 ms (``benchmarks.lateness``)."""

RELIEVED_A_TURN: Final = 256
"""Heads that are looked at in one turn because all together are too large."""


def share(state: State) -> int:
    """Bytes that each head may take now."""
    config = state.config
    return min(config.head_bytes, state.memory.share(config.memory_bytes))


def refill_tasks(state: State, which: int) -> int:
    """Tasks that the head of an order is filled with at once, at most."""
    half = max(1, min(state.config.head_tasks, share(state) // TASK_BYTES) // 2)
    return min(half, DELAYED_AT_ONCE) if which == DELAYED else half


def heavy_bytes(state: State) -> int:
    """A task that takes more is not to be held with its body while it is processing."""
    return HEAVY_BYTES if state.memory.leased <= state.config.memory_bytes // LEASED_PART else TASK_BYTES


def settle(state: State, project: Project) -> None:
    """Cut the project's heads down to their bounds, and count what they hold."""
    for which in (READY, DELAYED):
        _trim(state, project, which)


def relieve(state: State) -> None:
    """If all heads together hold too much, cut down those that were longest left alone."""
    memory, most = state.memory, state.config.memory_bytes
    if memory.heads <= most:
        return
    for number, which in memory.longest_untouched(RELIEVED_A_TURN):
        if memory.heads > most:
            _trim(state, state.numbered[number], which)


def _trim(state: State, project: Project, which: int) -> None:
    most = share(state)
    project.queue.trim(which, state.config.head_tasks, most)
    head = project.queue.head(which)
    state.memory.note(project.number, which, head.bytes)
    if head.bytes > most and (task := head.first()) is not None and task.spec is not None:
        state.heavy.append(task)
