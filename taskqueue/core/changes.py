"""What a turn has changed so far: gathered while it decides, given away once at its end.

It also lays the turn's own changes over what was looked up: ``find`` of a task that left memory in this turn, or that
was never in memory, gives the task as it is now, not as the store still has it. Looking at the store's answer alone is
the classic bug of batching: a ``done`` and a ``new-task`` of one task in one turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskqueue.core.kept import Found, Kept
from taskqueue.core.task import Move, Task


class Changes:
    """The turn's touched tasks, and the tasks it knows that are not in memory.

    Attributes:
        found: what was looked up for this turn.
        kept: everything but the moves, which ``take`` adds.
    """

    __slots__ = ("_beyond", "_touched", "found", "kept")

    def __init__(self) -> None:
        self.found = Found()
        self.kept = Kept()
        self._touched: list[Task] = []
        self._beyond: dict[tuple[int, str], Task] = {}

    def begin(self, found: Found) -> None:
        """Start a turn with what was looked up for it."""
        self.found = found
        self._beyond = found.tasks

    @property
    def touched(self) -> Sequence[Task]:
        """What differs from what the store has, so far."""
        return self._touched

    def touch(self, task: Task) -> None:
        """The task differs from what the store has."""
        if not task.touched:
            task.touched = True
            self._touched.append(task)

    def left(self, task: Task) -> None:
        """The task is no longer in memory; this turn still has to see it."""
        self._beyond[task.project, task.taskid] = task

    def beyond(self, project: int, taskid: str) -> Task | None:
        """A task that is not in memory, as it is now; None if the store doesn't know it."""
        return self._beyond.get((project, taskid))

    def take(self) -> Kept:
        """End the turn: everything that it changed, each task once."""
        kept = self.kept
        gone = set(kept.dropped_projects)
        kept.moves = [_move(task) for task in self._touched if task.project not in gone]
        if gone:
            kept.errors = {ref: error for ref, error in kept.errors.items() if ref.project not in gone}
        self.kept = Kept()
        self._touched = []
        self._beyond = {}
        self.found = Found()
        return kept


def _move(task: Task) -> Move:
    """The task's change since the store last had it; from now on the store is taken to have it as it is."""
    move = (
        task,
        task.kept_state,
        task.kept_key,
        task.kept_seq or task.seq,
        task.spec_changed,
        task.kept_deferred,
    )
    lease = task.lease
    task.kept_state = task.state
    task.kept_key = task.key
    task.kept_seq = 0
    task.kept_deferred = lease is not None and lease.deferred is not None
    task.spec_changed = False
    task.touched = False
    return move
