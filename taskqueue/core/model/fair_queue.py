"""Choice of the next dispatch: the best waiting fetcher, and projects in fair shares, by deficit round robin.

(M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round robin", 1995.) Fetchers that want the same
projects share a *ring* of the projects that have work for them:

    fetchers with free places ──►  ring:  news ─► shop ─► wiki ─┐   a visit may take the deficit, which grows
                                    ▲──────────────────────────┘   by a quantum a round

Rules that give a project work, or tokens for it, call ``offer``. A project that has none left, or
is paused, leaves its ring when it is visited. A ring without free places costs nothing.

Of the rings with work, the first is the one whose best waiting fetcher has the highest priority, and it serves that
fetcher. Equal rings take turns, and so do equal fetchers. So each task goes to the best fetcher that could take it:

1. Each fetcher that could take a task of a project is in a ring with that project; a better one would be served first.
   A project that can't give a task leaves the rings one by one, as it is visited there, and is in no ring that is made
   meanwhile. So it has *parted*: if it can give tasks again, it is offered to all anew before it gives any.
2. Whether a fetcher may have a task shows when it is offered. A project whose next tasks all fetchers in front *refuse*
   waits until they have taken all other tasks, or are full; then it is offered to those behind them.

Fetchers, and rings, wait in a ``WaitingLine``: the highest priority first, and first come, first served among equals.

    front     5:  C ─► E            served in turn
    behind    1:  D
              0:  A ─► B            the highest comes to the front when the front is empty

While all have one priority there is only the front, and the line costs as much as an ordered map. With ``m``
priorities, entering or leaving takes O(log m); a priority without members stays in the heap until it comes up, or
until half of the heap is dead.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Interest, Session

SWEEP_AT_LEAST: Final = 64
"""Dead entries below which a sweep does not pay."""

K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


class WaitingLine(Generic[K, W]):
    """Line of waiting members, by key. To change its priority a member leaves and enters again.

    Attributes:
        front: members of the highest priority, in order; empty if none waits. Read-only for others.
        priority: priority of the front.
    """

    __slots__ = ("_aside", "_behind", "_heap", "front", "priority")

    def __init__(self) -> None:
        self.front: OrderedDict[K, W] = OrderedDict()
        self.priority = 0
        self._behind: dict[int, OrderedDict[K, W]] = {}
        self._heap: list[int] = []
        self._aside: list[tuple[int, OrderedDict[K, W]]] = []

    @property
    def has_others(self) -> bool:
        """True if members wait behind the front."""
        return bool(self._behind)

    @property
    def is_skipped(self) -> bool:
        """True if members have been skipped, and not restored since."""
        return bool(self._aside)

    def enter(self, key: K, who: W, priority: int) -> None:
        """Add a member behind all others of its priority; a member already waiting with it keeps its place."""
        if priority != self.priority:
            if not self.front:
                self.priority = priority
            elif priority > self.priority:
                self._come_before(OrderedDict(), priority)
            else:
                self._line_behind(priority).setdefault(key, who)
                return
        self.front.setdefault(key, who)

    def leave(self, key: K, priority: int) -> None:
        """Remove a member of this priority, if it waits."""
        line = self.front if priority == self.priority else self._behind.get(priority)
        if line is not None and line.pop(key, None) is not None and not line:
            self._left_empty(priority)

    def go_last(self, key: K, priority: int) -> None:
        """Move a member behind all others of its priority."""
        (self.front if priority == self.priority else self._behind[priority]).move_to_end(key)

    def serve(self, *, again: bool) -> None:
        """Remove the first member; with ``again`` it waits behind all others of its priority."""
        key, who = self.front.popitem(last=False)
        if again:
            self.front[key] = who
        elif not self.front:
            self._advance()

    def skip(self) -> None:
        """Skip the front until ``restore``; meanwhile only members of the new front may enter or leave."""
        self._aside.append((self.priority, self.front))
        self._advance()

    def restore(self) -> None:
        """Restore skipped members to their places."""
        while self._aside:
            priority, line = self._aside.pop()
            self._come_before(line, priority)

    def _line_behind(self, priority: int) -> OrderedDict[K, W]:
        line = self._behind.get(priority)
        return line if line is not None else self._begin(priority, OrderedDict())

    def _come_before(self, line: OrderedDict[K, W], priority: int) -> None:
        if self.front:
            self._begin(self.priority, self.front)
        self.front, self.priority = line, priority

    def _begin(self, priority: int, line: OrderedDict[K, W]) -> OrderedDict[K, W]:
        self._behind[priority] = line
        heappush(self._heap, -priority)
        if len(self._heap) > 2 * len(self._behind) + SWEEP_AT_LEAST:
            self._heap = [-priority for priority in self._behind]
            heapify(self._heap)
        return line

    def _left_empty(self, priority: int) -> None:
        if priority == self.priority:
            self._advance()
        else:
            del self._behind[priority]

    def _advance(self) -> None:
        """Bring the best members behind to the front."""
        while self._heap:
            priority = -heappop(self._heap)
            if (line := self._behind.pop(priority, None)) is not None:
                self.front, self.priority = line, priority
                return
        self.front = OrderedDict()


QUANTUM: Final = 4
"""Tasks, times the weight, by which a project's deficit grows when its turn comes.

Small enough that shares even out soon, large enough that a visit's own cost is small. A project that is alone in its
ring takes all it can.
"""


class Ring:
    """Projects that have work for one set of wishes, and the fetchers with these wishes.

    Attributes:
        names: project names in ``interest``; None for any project.
        members: ids of the sessions with these wishes, waiting or not.
        deficits: deficits of the projects in the ring, by number.
        waiting: sessions with free places, by id.
        refused: projects whose next tasks may not go to the waiting fetchers of priority ``refused_by``.
        served: number of the last visit that gave it tasks; of rings that get work at once, the least comes first.
        busy_as: its priority among the busy rings; None if it is not busy.
    """

    __slots__ = (
        "busy_as", "deficits", "interest", "members", "names", "projects", "refused", "refused_by", "served", "waiting",
    )  # fmt: skip

    def __init__(self, interest: Interest, names: Sequence[str] | None) -> None:
        self.interest = interest
        self.names: tuple[str, ...] | tuple[None] = (None,) if names is None else tuple(dict.fromkeys(names))
        self.members: set[str] = set()
        self.projects: deque[Project] = deque()
        self.deficits: dict[int, float] = {}
        self.waiting: WaitingLine[str, Session] = WaitingLine()
        self.refused: list[Project] = []
        self.refused_by = 0
        self.served = 0
        self.busy_as: int | None = None

    def offer(self, project: Project) -> None:
        """Add a project that has work, if these wishes include it."""
        if project.number in self.deficits or not (self.interest is None or project.name in self.interest):
            return
        if self.waiting.is_skipped:
            self.restore()  # skipped fetchers may take tasks of this project
        self._join(project)

    def visit(self) -> tuple[Project, Session, int]:
        """Return the next project, the next fetcher, and how many tasks the project may give it now."""
        project, session = self.projects[0], next(iter(self.waiting.front.values()))
        if len(self.projects) == 1:
            self.deficits[project.number] = max(session.free, 1)
        elif self.deficits[project.number] < 1:
            self.deficits[project.number] += QUANTUM * project.settings.weight
        return project, session, min(int(self.deficits[project.number]), session.free)

    def settle(self, session: Session, taken: int, *, more: bool) -> None:
        """Account for ``taken`` tasks of a visit; ``more`` if the project could give further ones."""
        project = self.projects[0]
        self.deficits[project.number] -= taken
        if not more:
            self.projects.popleft()
            del self.deficits[project.number]
        elif self.deficits[project.number] < 1:
            self.projects.rotate(-1)
        self.waiting.serve(again=session.free > 0)

    def pass_over(self, session: Session) -> None:
        """Remove the fetcher at the front from the waiting ones."""
        self.waiting.leave(session.id, session.priority)

    def refuse(self, project: Project) -> bool:
        """Record that no fetcher in front may have the project's next tasks; False if none waits behind them."""
        if not self.waiting.has_others:
            return False
        self.refused.append(project)
        self.refused_by = self.waiting.priority
        return True

    def go_on_refused(self) -> None:
        """Offer refused projects to the fetchers behind, if those in front are full or have nothing else to take."""
        if not self.projects and self.waiting.priority == self.refused_by:
            self.waiting.skip()
        if self.waiting.priority != self.refused_by:
            self._take_back()

    def restore(self) -> None:
        """Restore skipped fetchers and refused projects."""
        self.waiting.restore()
        self._take_back()

    def _take_back(self) -> None:
        refused, self.refused = self.refused, []
        for project in refused:
            self._join(project)

    def _join(self, project: Project) -> None:
        if project.number not in self.deficits:
            self.deficits[project.number] = 0.0
            self.projects.append(project)

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        if self.deficits.pop(project.number, None) is not None:
            self.projects.remove(project)


class FairQueue:
    """All rings, and the ring of each fetcher.

    A ring is *busy* if it has work and a waiting fetcher; it waits for its turn with the priority of that fetcher.
    """

    __slots__ = ("_busy", "_naming", "_parted", "_ring_of", "_rings", "_visits")

    def __init__(self) -> None:
        self._rings: dict[Interest, Ring] = {}
        self._naming: dict[str | None, dict[Interest, Ring]] = {}
        self._busy: WaitingLine[Interest, Ring] = WaitingLine()
        self._ring_of: dict[str, Ring] = {}
        self._parted: set[int] = set()
        self._visits = 0

    def __len__(self) -> int:
        """Return the number of fetchers."""
        return len(self._ring_of)

    def offer(self, project: Project) -> bool:
        """Add a project with work that could be dispatched now to its rings; return whether a fetcher waits for it."""
        self._parted.discard(project.number)
        wanted = False
        for ring in sorted(self._rings_for(project), key=lambda ring: ring.served):
            ring.offer(project)
            self.look(ring)
            wanted = wanted or bool(ring.waiting.front)
        return wanted

    def part(self, project: Project) -> None:
        """Record that the project can't give a task now, and that a ring of its fetchers is without it."""
        self._parted.add(project.number)

    def has_parted(self, project: Project) -> bool:
        """Return whether a ring may be without the project, because it could not give a task."""
        return project.number in self._parted

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        self._parted.discard(project.number)
        for ring in self._rings_for(project):
            ring.remove(project)
            self.look(ring)

    def enrol(self, session: Session, names: Sequence[str] | None) -> Ring | None:
        """Put the fetcher into the ring of its wishes; return the ring if it is new and still without projects.

        Args:
            names: project names in the session's ``interest``, in a deterministic order.
        """
        ring = self._ring_of.get(session.id)
        if ring is not None and ring.interest == session.interest:
            return None
        self.dismiss(session)
        made = self._make(session.interest, names) if session.interest not in self._rings else None
        ring = self._rings[session.interest]
        ring.members.add(session.id)
        self._ring_of[session.id] = ring
        return made

    def dismiss(self, session: Session) -> None:
        """Remove a fetcher that is gone, or has changed its wishes."""
        ring = self._ring_of.pop(session.id, None)
        if ring is None:
            return
        ring.members.discard(session.id)
        ring.waiting.leave(session.id, session.priority)
        self.look(ring)
        if not ring.members:
            self._drop(ring)

    def weigh(self, session: Session) -> None:
        """Make the fetcher wait if and only if it has free places."""
        ring = self._ring_of.get(session.id)
        if ring is None:
            return
        if session.free > 0:
            ring.waiting.enter(session.id, session, session.priority)
        else:
            ring.waiting.leave(session.id, session.priority)
        self.look(ring)

    def prioritise(self, session: Session, priority: int) -> None:
        """Set the fetcher's priority; if it has changed, the fetcher waits again when it is weighed."""
        if priority == session.priority:
            return
        ring = self._ring_of.get(session.id)
        if ring is not None:
            ring.waiting.leave(session.id, session.priority)
            self.look(ring)
        session.priority = priority

    def look(self, ring: Ring) -> None:
        """Update whether the ring is busy, and with which priority."""
        if ring.refused:
            ring.go_on_refused()
        priority = ring.waiting.priority if ring.projects and ring.waiting.front else None
        if priority == ring.busy_as:
            return
        if ring.busy_as is not None:
            self._busy.leave(ring.interest, ring.busy_as)
        if priority is not None:
            self._busy.enter(ring.interest, ring, priority)
        ring.busy_as = priority

    def restore(self, ring: Ring) -> None:
        """Restore the skipped fetchers of the ring, at the end of a dispatch."""
        ring.restore()
        self.look(ring)

    def pass_on(self, ring: Ring) -> None:
        """Move the ring, which has got tasks, behind others, whose wishes may overlap with its own."""
        self._visits += 1
        ring.served = self._visits
        if ring.busy_as is not None:
            self._busy.go_last(ring.interest, ring.busy_as)

    def busy_ring(self) -> Ring | None:
        """Return the ring to be served next; None if no ring is busy."""
        return next(iter(self._busy.front.values()), None)

    def _rings_for(self, project: Project) -> list[Ring]:
        named = self._naming.get(project.name, {})
        anybody = self._naming.get(None, {})
        return [*named.values(), *anybody.values()]

    def _make(self, interest: Interest, names: Sequence[str] | None) -> Ring:
        ring = self._rings[interest] = Ring(interest, names)
        for name in ring.names:
            self._naming.setdefault(name, {})[interest] = ring
        return ring

    def _drop(self, ring: Ring) -> None:
        del self._rings[ring.interest]
        for name in ring.names:
            del self._naming[name][ring.interest]
            if not self._naming[name]:
                del self._naming[name]
