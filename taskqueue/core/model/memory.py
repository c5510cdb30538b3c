"""Memory used by tasks, over all projects; and hollow tasks, which are in memory without their specs.

Rules of the sums (``MemoryUsage``):
1. ``heads`` is the sum of the sizes noted last of each head; an empty head is not listed.
2. Each head that is not empty may use an equal share of the whole.
3. ``leased`` is the size of all leased tasks, ``leases`` their number, ``deferred`` the size of the updates that wait
   for the ends of leases. Nothing else writes these, nor ``ended``: who changes a lease says so here.

The life of a hollow task (``HollowTasks``):

    hollow ──want──► read in one of the next turns ──► in memory
    in memory ──release_body──► hollow, when the next turn begins and the store certainly has the spec
    hollow, and next in its project ──► awaited: read, and held until the task has had its turn

Which tasks are dropped if memory is short is decided in ``memory_limits``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from taskqueue.core.model.needs import SpecRef
from taskqueue.core.model.task import Task


class MemoryUsage:
    """Sums of bytes.

    Attributes:
        heads: used by all heads.
        leased: used by all leased tasks.
        leases: number of leased tasks.
        deferred: used by deferred updates.
        ended: number of leases that have ended but still occupy room of their fetchers.
    """

    __slots__ = ("_holders", "deferred", "ended", "heads", "leased", "leases")

    def __init__(self) -> None:
        self.heads = 0
        self.leased = 0
        self.leases = 0
        self.deferred = 0
        self.ended = 0
        self._holders: OrderedDict[tuple[int, int], int] = OrderedDict()

    def leases_began(self, count: int, size: int) -> None:
        """So many tasks, of ``size`` bytes together, are leased now."""
        self.leases += count
        self.leased += size

    def lease_ended(self, size: int, deferred: int) -> None:
        """A task of ``size`` bytes is leased no more, and no update of ``deferred`` bytes waits for that."""
        self.leases -= 1
        self.leased -= size
        self.deferred -= deferred

    def leased_changed(self, by: int) -> None:
        """A leased task takes so many bytes more."""
        self.leased += by

    def deferred_changed(self, by: int) -> None:
        """The updates that wait for the ends of leases take so many bytes more."""
        self.deferred += by

    def ended_changed(self, by: int) -> None:
        """So many more leases that have ended occupy room of their fetchers."""
        self.ended += by

    def note(self, project: int, state: int, held: int) -> None:
        """Set the size of a head to ``held`` bytes."""
        self.heads += held - self._holders.pop((project, state), 0)
        if held:
            self._holders[project, state] = held

    def noted(self, project: int, state: int) -> int:
        """The size noted last of a head."""
        return self._holders.get((project, state), 0)

    def share(self, whole: int) -> int:
        """The share of each head that is not empty, of ``whole`` bytes."""
        return whole // max(1, len(self._holders))

    def longest_untouched(self, count: int) -> list[tuple[int, int]]:
        """(project number, state) of at most ``count`` heads that are not empty, the least recently noted first."""
        return list(islice(self._holders, count))


class HollowTasks:
    """Queues of specs to read and bodies to release.

    Attributes:
        to_read: in the order in which they will be read; read-only for others.
        released: tasks whose bodies are released when the next turn begins; read-only for others.
        awaited: first tasks by project number; read-only for others. ``memory_limits`` bounds their number.
    """

    __slots__ = ("awaited", "released", "to_read")

    def __init__(self) -> None:
        self.to_read: dict[SpecRef, Task] = {}
        self.awaited: OrderedDict[int, Task] = OrderedDict()
        self.released: list[Task] = []

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
        self.released.append(task)

    def take_released(self) -> list[Task]:
        """The tasks passed to ``release_body`` since the last call."""
        released, self.released = self.released, []
        return released
