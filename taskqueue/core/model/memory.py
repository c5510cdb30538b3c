"""Memory of the tasks of all projects; and hollow tasks, which are in memory without their specs.

Rules of the sums (``MemoryUsage``):
1. ``heads`` is the sum of the latest noted sizes of all heads; an empty head is not listed.
2. Heads that are not empty have equal shares of the whole.
3. ``leased`` is the size of all leased tasks, ``leases`` their number, ``deferred`` the size of the updates that wait
   for the ends of leases. Rules that change a lease update these, and ``ended``, by the methods here only.

The life of a hollow task (``HollowTasks``):

    hollow ──want──► read in one of the next turns ──► in memory
    in memory ──release_body──► hollow, when the next turn begins and the store certainly has the spec
    hollow, and next in its project ──► awaited: read, and kept until the task has had its turn

Which tasks are dropped if memory is short is decided in ``memory_limits``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from taskqueue.core.model.needs import SpecRef
from taskqueue.core.model.task import Task


class MemoryUsage:
    """Sums over tasks.

    Attributes:
        heads: bytes of all heads.
        leased: bytes of all leased tasks.
        leases: number of leased tasks.
        deferred: bytes of deferred updates.
        ended: number of ended leases that still occupy places of their fetchers.
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
        """Add ``count`` leased tasks of ``size`` bytes in all."""
        self.leases += count
        self.leased += size

    def lease_ended(self, size: int, deferred: int) -> None:
        """Remove a leased task of ``size`` bytes, and its deferred update of ``deferred`` bytes."""
        self.leases -= 1
        self.leased -= size
        self.deferred -= deferred

    def leased_changed(self, by: int) -> None:
        """Add bytes to the leased tasks."""
        self.leased += by

    def deferred_changed(self, by: int) -> None:
        """Add bytes to the deferred updates."""
        self.deferred += by

    def ended_changed(self, by: int) -> None:
        """Add ended leases that occupy places of their fetchers."""
        self.ended += by

    def note(self, project: int, state: int, held: int) -> None:
        """Set the size of a head to ``held`` bytes."""
        self.heads += held - self._holders.pop((project, state), 0)
        if held:
            self._holders[project, state] = held

    def noted(self, project: int, state: int) -> int:
        """Return the latest noted size of a head."""
        return self._holders.get((project, state), 0)

    def share(self, whole: int) -> int:
        """Return the share, of ``whole`` bytes, of each head that is not empty."""
        return whole // max(1, len(self._holders))

    def longest_untouched(self, count: int) -> list[tuple[int, int]]:
        """Return (project number, state) of up to ``count`` heads that are not empty, least recently noted first."""
        return list(islice(self._holders, count))


class HollowTasks:
    """Queues of specs to read and bodies to release.

    Attributes:
        to_read: specs to read, in order; read-only for others.
        released: tasks whose bodies are released when the next turn begins; read-only for others.
        awaited: first tasks by project number; read-only for others. ``memory_limits`` bounds their number.
    """

    __slots__ = ("awaited", "released", "to_read")

    def __init__(self) -> None:
        self.to_read: dict[SpecRef, Task] = {}
        self.awaited: OrderedDict[int, Task] = OrderedDict()
        self.released: list[Task] = []

    def want(self, task: Task) -> None:
        """Request that the task's spec is read for one of the next turns, if it is hollow."""
        if task.spec is None:
            self.to_read[SpecRef(task.project, task.seq)] = task

    def first(self, count: int) -> list[SpecRef]:
        """Return the next ``count`` specs to read."""
        return list(islice(self.to_read, count))

    def forget(self, ref: SpecRef) -> None:
        """Remove a spec from those to read."""
        del self.to_read[ref]

    def take(self, found: Iterable[SpecRef]) -> Iterator[tuple[SpecRef, Task]]:
        """Remove specs that have been read from the queue; yield them with their tasks."""
        for ref in found:
            yield ref, self.to_read.pop(ref)

    def await_body(self, task: Task) -> None:
        """Await the missing spec of the task that is next in its project."""
        self.want(task)
        self.awaited[task.project] = task

    def stop_awaiting(self, project: int) -> Task:
        """Stop awaiting the project's first task, and return it."""
        return self.awaited.pop(project)

    def release_body(self, task: Task) -> None:
        """Release the task's body when the next turn begins."""
        self.released.append(task)

    def take_released(self) -> list[Task]:
        """Take the tasks passed to ``release_body`` since the last call."""
        released, self.released = self.released, []
        return released
