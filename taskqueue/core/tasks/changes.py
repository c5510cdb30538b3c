"""The changes of one turn: collected while it decides, and returned as a WriteSet at its end.

It also overlays the turn's own changes on what was looked up: ``find`` of a task that left memory in this turn, or that
was never in memory, gives the task as it is now, not as the store still has it. Looking at the store's answer alone is
the classic bug of batching: a ``done`` and a ``new-task`` of one task in one turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.records import KeptAttempt, WriteSet
from taskqueue.core.tasks.task import ATTEMPTS_KEPT, LIVE, Task, size_of


class Changes:
    """The tasks that a turn has changed, and those that it has looked up.

    Attributes:
        beyond: tasks that were looked up, or have left memory in this turn, by project number and taskid. They are as
            they are now, unless the task is in memory as well: then that one counts.
        stale: looked-up records of live tasks that ``clear`` had dropped; these tasks are unknown.
        writes: everything but the moves, which ``take`` adds.
    """

    __slots__ = ("_touched", "beyond", "stale", "writes")

    def __init__(self) -> None:
        self.writes = WriteSet()
        self._touched: list[Task] = []
        self.beyond: dict[tuple[int, str], Task] = {}
        self.stale: dict[tuple[int, str], Task] = {}

    def lay_over(self, tasks: dict[tuple[int, str], Task]) -> None:
        """Start with tasks that were looked up, by project number and taskid; they are changed in place here."""
        self.beyond = tasks

    @property
    def touched(self) -> Sequence[Task]:
        """Tasks that differ from what the store has, so far."""
        return self._touched

    def touch(self, task: Task) -> None:
        """Mark the task as different from what the store has."""
        if not task.touched:
            task.touched = True
            self._touched.append(task)

    def keep_attempt(self, task: Task, slot: int, attempt: AttemptRecord) -> None:
        """Store the attempt in a slot of the task's history, which is a ring."""
        self.writes.attempts.append(KeptAttempt(task.project, task.taskid, slot % ATTEMPTS_KEPT, attempt))

    def left(self, task: Task) -> None:
        """The task has left memory; the rest of this turn still has to find it."""
        if task.spec is None:
            self._take_spec(task)
        self.beyond[task.project, task.taskid] = task

    def outdate(self, bounds: Mapping[int, int]) -> None:
        """Looked-up live tasks are stale up to a seq, given by project number in ``bounds``."""
        stale = [ref for ref, task in self.beyond.items() if task.state in LIVE and task.seq <= bounds.get(ref[0], 0)]
        for ref in stale:
            self.stale[ref] = self.beyond.pop(ref)

    def forget_stale(self, project: int, taskid: str) -> None:
        """Delete what ``clear`` left of a task before another one takes its taskid."""
        task = self.stale.pop((project, taskid), None)
        if task is not None:
            self.writes.forgotten.append(task)

    def drop_live(self, project: int, held: Iterable[Task]) -> None:
        """Drop all live tasks of the project: discard this turn's changes of them, and their attempts."""
        for task in held:
            self.beyond[project, task.taskid] = task
        gone = [(ref, task) for ref, task in self.beyond.items() if ref[0] == project and task.state in LIVE]
        for ref, task in gone:
            del self.beyond[ref]
            if task.unlisted:
                self.writes.forgotten.append(task)
            elif task.kept_state:
                self.stale[ref] = task
        for _, task in gone:
            task.stay_as_kept()
        self._touched = [task for task in self._touched if task.touched]
        refs = {ref for ref, _ in gone}
        attempts = self.writes.attempts
        self.writes.attempts = [kept for kept in attempts if (kept.project, kept.taskid) not in refs]

    def take(self) -> WriteSet:
        """End the turn: return all of its changes, each task once."""
        writes = self.writes
        retired = set(writes.dropped_projects)
        writes.moves = [task.as_move() for task in self._touched if task.project not in retired]
        if retired:
            writes.attempts = [attempt for attempt in writes.attempts if attempt.project not in retired]
        return writes

    def _take_spec(self, task: Task) -> None:
        """Keep the spec of a hollow task that was looked up whole for this turn."""
        known = self.beyond.get((task.project, task.taskid))
        if known is not None and known.spec is not None and known.seq == task.seq:
            task.spec = known.spec
            task.size = size_of(known.spec)
