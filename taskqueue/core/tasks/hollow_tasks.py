"""Tasks whose specs are in the store only, or will be: which are to be read, and which bodies are to be let go of.

hollow ──want──► read in one of the next turns ──► held
held ──let_go──► hollow, when the next turn begins and the store has the spec for certain
hollow, and next in its project ──► awaited: read, and held until the task has had its turn
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from taskqueue.core.tasks.needs import SpecRef
from taskqueue.core.tasks.task import Task


class HollowTasks:
    """See the module.

    Attributes:
        to_read: in the order in which they will be read; for reading.
        awaited: by project number, its first task; for reading. ``memory_limits`` says how many there may be.
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
        """Those that come next."""
        return list(islice(self.to_read, count))

    def forget(self, ref: SpecRef) -> None:
        """It is wanted no more."""
        del self.to_read[ref]

    def take(self, found: Iterable[SpecRef]) -> Iterator[tuple[SpecRef, Task]]:
        """They have been read: want them no more."""
        return ((ref, self.to_read.pop(ref)) for ref in found)

    def await_body(self, task: Task) -> None:
        """The task is the next of its project, and lacks its spec."""
        self.want(task)
        self.awaited[task.project] = task

    def stop_awaiting(self, project: int) -> Task:
        """Its first task is awaited no more, and returned."""
        return self.awaited.pop(project)

    def release_body(self, task: Task) -> None:
        """The task's body is not to be held from the next turn on."""
        self._released.append(task)

    def take_released(self) -> list[Task]:
        """The tasks of which ``let_go`` was said since they were last taken."""
        released, self._released = self._released, []
        return released
