"""The changes of one turn: collected while it decides, and returned as a WriteSet at its end.

The turn's own changes override what was looked up: ``find`` of a task that left memory in this turn, or
was never in memory, returns its present state, not the stored one. Using the stored state alone is
the classic bug of batching, with a ``done`` and a ``new-task`` of one task in one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Raw

from taskqueue.core.model.edges import Edge, FoundEdge, Mark, Propagation, PropagationKind, TaskRef
from taskqueue.core.model.records import KeptAttempt, WriteSet
from taskqueue.core.model.task import ATTEMPTS_KEPT, LIVE, OVER, PROCESSING, Task, size_of
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.values import Attempt


class Changes:
    """Tasks that a turn has changed, tasks that it has looked up, and its writes.

    Attributes:
        beyond: tasks that were looked up, or have left memory in this turn, by project number and taskid, in their
            present state; if a task is in memory as well, that one counts.
        stale: looked-up records of live tasks that ``clear`` has dropped; these tasks are unknown.
        awaited: unknown tasks that other tasks wait for, if looked up or awaited from this turn on.
        left_overs: True if there are stale or awaited tasks, so that a new task may have remains in the store.
        writes: all writes but the moves, which ``take`` adds.
    """

    __slots__ = ("_next_number", "_touched", "awaited", "beyond", "left_overs", "stale", "writes")

    def __init__(self, next_number: Callable[[], int]) -> None:
        """``next_number`` takes the next of the ever-growing numbers."""
        self._next_number = next_number
        self.writes = WriteSet()
        self._touched: list[Task] = []
        self.beyond: dict[tuple[int, str], Task] = {}
        self.stale: dict[tuple[int, str], Task] = {}
        self.awaited: dict[TaskRef, None] = {}
        self.left_overs = False

    def start_with(self, tasks: dict[tuple[int, str], Task], awaited: dict[TaskRef, None]) -> None:
        """Start with looked-up tasks, by project number and taskid, and awaited ones; both are changed in place."""
        self.beyond = tasks
        self.awaited = awaited
        self.left_overs = bool(awaited)

    @property
    def touched(self) -> Sequence[Task]:
        """Tasks that differ from the store so far."""
        return self._touched

    def touch(self, task: Task) -> None:
        """Mark the task as different from the store."""
        if not task.touched:
            task.touched = True
            self._touched.append(task)

    def keep_attempt(self, task: Task, index: int, attempt: Attempt) -> None:
        """Store the attempt at an index of the task's history, which is a ring."""
        self.writes.attempts.append(KeptAttempt(task.project, task.taskid, index % ATTEMPTS_KEPT, attempt))

    def keep_result(self, task: Task, result: Raw) -> None:
        """Store the result of the task's success in place of the former one; nil deletes it."""
        is_there = result != NIL
        if is_there or task.has_result:
            self.writes.results[task.project, task.taskid] = result
            task.note_result(is_there=is_there)

    def left(self, task: Task) -> None:
        """Record that the task has left memory; the rest of this turn still finds it."""
        if task.spec is None:
            self._take_spec(task)
        self.beyond[task.project, task.taskid] = task

    def outdate(self, bounds: Mapping[int, int]) -> None:
        """Make looked-up live tasks stale up to the seq in ``bounds`` of their project number."""
        stale = [ref for ref, task in self.beyond.items() if task.state in LIVE and task.seq <= bounds.get(ref[0], 0)]
        for ref in stale:
            self.stale[ref] = self.beyond.pop(ref)
            self.left_overs = True

    def forget_stale(self, project: int, taskid: str) -> Task | None:
        """Delete the remains that ``clear`` left of a task, before a new task takes its taskid; return them."""
        task = self.stale.pop((project, taskid), None)
        if task is not None:
            self.writes.forgotten.append(task)
        return task

    # ------------------------------------------------------------------------------------ links

    def propagate(self, kind: PropagationKind, project: int, taskid: str = "") -> None:
        """Begin a propagation, which later turns carry on."""
        number = self._next_number()
        self.writes.propagations[number] = Propagation(number, kind, project, taskid)

    def note_end(self, task: Task, kind: PropagationKind) -> None:
        """Begin to tell the task's children that it has succeeded or failed for good."""
        if task.links is not None and task.links.has_children:
            self.propagate(kind, task.project, task.taskid)

    def forget_links(self, task: Task) -> None:
        """Remove the ties of a task that is forgotten; its children go on waiting for it."""
        links = task.links
        if links is not None and links.has_children:
            self.await_task(TaskRef(task.project, task.taskid))
            self.propagate("forgotten", task.project, task.taskid)
        if links is not None and links.number:
            self.propagate("edges", task.project, task.taskid)

    def touch_links(self, task: Task) -> None:
        """Write the changed links of a task."""
        if task.state not in OVER:
            self.touch(task)
        else:
            self.writes.linked[TaskRef(task.project, task.taskid)] = task

    def await_task(self, ref: TaskRef) -> None:
        """Mark an unknown task as awaited."""
        if ref not in self.awaited:
            self.awaited[ref] = None
            self.left_overs = True
            self.writes.awaited[ref] = True

    def await_no_more(self, ref: TaskRef) -> None:
        """Mark an unknown task as no longer awaited."""
        self.awaited.pop(ref, None)
        self.writes.awaited[ref] = False

    def arrive(self, ref: TaskRef) -> bool:
        """Record that a task has become known; return whether other tasks wait for it."""
        if ref not in self.awaited:
            return False
        del self.awaited[ref]
        self.writes.awaited.pop(ref, None)
        return True

    def mark_of(self, found: FoundEdge) -> Mark | None:
        """Return the present mark of an edge; None if this turn has deleted the edge."""
        return self.writes.edges.get(found.edge, found.mark)

    def make_edge(self, edge: Edge, mark: Mark) -> None:
        """Store an edge that is new, or takes the place of another one."""
        self.writes.edges[edge] = mark
        self.writes.new_edges[edge] = None

    # ------------------------------------------------------------------------------------ the end of the turn

    def drop_live(self, project: int, held: Iterable[Task]) -> None:
        """Drop all live tasks of the project: discard this turn's changes of them, their attempts and their results."""
        for task in held:
            self.beyond[project, task.taskid] = task
        gone = [(ref, task) for ref, task in self.beyond.items() if ref[0] == project and task.state in LIVE]
        for ref, task in gone:
            del self.beyond[ref]
            # A later sweep of the task would not know what this turn has done to its links, nor find a running one that
            # only this turn was to list.
            is_swept = not task.touched or (task.links is None and task.kept_state != PROCESSING)
            if task.kept_state and not task.unlisted and is_swept:
                self.stale[ref] = task
                self.left_overs = True
                continue
            if task.kept_state:
                self.writes.forgotten.append(task)
            self.note_end(task, "failed")
            self.forget_links(task)
        for _, task in gone:
            task.stay_as_kept()
        self._touched = [task for task in self._touched if task.touched]
        refs = {ref for ref, _ in gone}
        attempts = self.writes.attempts
        self.writes.attempts = [kept for kept in attempts if (kept.project, kept.taskid) not in refs]
        # Deletions of older results are not discarded: the sweep of the task does not know of them.
        results = self.writes.results
        self.writes.results = {ref: each for ref, each in results.items() if ref not in refs or each == NIL}

    def take(self) -> WriteSet:
        """End the turn: return all of its changes, each task once."""
        writes = self.writes
        if not writes.dropped_projects:
            writes.moves = [task.as_move() for task in self._touched]
        else:
            retired = set(writes.dropped_projects)
            writes.moves = [task.as_move() for task in self._touched if task.project not in retired]
            writes.linked = {ref: task for ref, task in writes.linked.items() if ref.project not in retired}
            writes.awaited = {ref: waits for ref, waits in writes.awaited.items() if ref.project not in retired}
            writes.attempts = [attempt for attempt in writes.attempts if attempt.project not in retired]
            writes.counters = {number: each for number, each in writes.counters.items() if number not in retired}
            writes.results = {ref: each for ref, each in writes.results.items() if ref[0] not in retired}
        return writes

    def _take_spec(self, task: Task) -> None:
        """Keep the spec of a hollow task that was looked up whole for this turn."""
        known = self.beyond.get((task.project, task.taskid))
        if known is not None and known.spec is not None and known.seq == task.seq:
            task.spec = known.spec
            task.size = size_of(known.spec)
