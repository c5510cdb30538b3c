"""Hollow tasks, whose specs are in the store only: which specs to read, and which bodies to release from memory.

hollow ──want──► read in one of the next turns ──► in memory
in memory ──release_body──► hollow, when the next turn begins and the store certainly has the spec
hollow, and next in its project ──► awaited: read, and held until the task has had its turn
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from taskqueue.core.tasks.needs import SpecRef
from taskqueue.core.tasks.task import Task


class HollowTasks:
    """Queues of specs to read and bodies to release.

    Attributes:
        to_read: in the order in which they will be read; read-only for others.
        awaited: first tasks by project number; read-only for others. ``memory_limits`` bounds their number.
    """

    __slots__ = ("_released", "awaited", "to_read")

    def __init__(self) -> None:
        self.to_read: dict[SpecRef, Task] = {}
        self.awaited: OrderedDict[int, Task] = OrderedDict()
        self._released: list[Task] = []

    def want(self, task: Task) -> None:
        """Have the task's spec read for one of the next turns, if it is hollow."""
        if task.spec is None:
            self.to_read[SpecRef(task.project, task.seq)] = task

    def first(self, count: int) -> list[SpecRef]:
        """The next ``count`` specs to read."""
        return list(islice(self.to_read, count))

    def forget(self, ref: SpecRef) -> None:
        """Do not read this spec any more."""
        del self.to_read[ref]

    def take(self, found: Iterable[SpecRef]) -> Iterator[tuple[SpecRef, Task]]:
        """These specs have been read: remove them from the queue."""
        for ref in found:
            yield ref, self.to_read.pop(ref)

    def await_body(self, task: Task) -> None:
        """The task is next in its project, and its spec is missing."""
        self.want(task)
        self.awaited[task.project] = task

    def stop_awaiting(self, project: int) -> Task:
        """Stop awaiting the project's first task, and return it."""
        return self.awaited.pop(project)

    def release_body(self, task: Task) -> None:
        """Release the task's body when the next turn begins."""
        self._released.append(task)

    def take_released(self) -> list[Task]:
        """The tasks passed to ``release_body`` since the last call."""
        released, self._released = self._released, []
        return released
