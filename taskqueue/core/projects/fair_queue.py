"""Who gets the next task: fair shares among projects, by deficit round robin.

(M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round robin", 1995.) Fetchers that want the same
projects share a *ring* of the projects that have work for them:

    fetchers with free slots ──►  ring:  news ─► shop ─► wiki ─┐   each visit may take its deficit, which grows
                                    ▲──────────────────────────┘   by a quantum a round

Which projects have work, and tokens for it, is told by whoever changes it (``offer``); one that has none any more, or
is paused, leaves its ring when it is visited. A ring that nobody with free slots is in costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from taskqueue.core.projects.project import Project
from taskqueue.core.projects.session import Interest, Session

QUANTUM: Final = 4
"""Tasks, times its weight, by which a project's deficit grows when its turn comes: few enough that shares come out even
soon, many enough that a visit's own cost is small. A project that is alone in its ring takes what it can."""


class Ring:
    """The projects that have work for one set of wishes, and the fetchers with these wishes.

    Attributes:
        names: those in ``interest``; None: any project.
        members: ids of the sessions with these wishes, waiting or not.
        deficits: by number of a project that is in the ring.
        served: number of the last visit that gave it something; among rings that get work at once, the least comes
            first.
    """

    __slots__ = ("deficits", "interest", "members", "names", "projects", "served", "waiting")

    def __init__(self, interest: Interest, names: Sequence[str] | None) -> None:
        self.interest = interest
        self.names: tuple[str, ...] | tuple[None] = (None,) if names is None else tuple(dict.fromkeys(names))
        self.members: set[str] = set()
        self.projects: deque[Project] = deque()
        self.deficits: dict[int, float] = {}
        self.waiting: OrderedDict[str, Session] = OrderedDict()
        self.served = 0

    def offer(self, project: Project) -> None:
        """The project has work."""
        if project.number in self.deficits or not (self.interest is None or project.name in self.interest):
            return
        self.deficits[project.number] = 0.0
        self.projects.append(project)

    def visit(self) -> tuple[Project, Session, int]:
        """The next project, the next fetcher, and how many tasks the project may give it now."""
        project, session = self.projects[0], next(iter(self.waiting.values()))
        if len(self.projects) == 1:
            self.deficits[project.number] = max(session.free, 1)
        elif self.deficits[project.number] < 1:
            self.deficits[project.number] += QUANTUM * project.settings.weight
        return project, session, min(int(self.deficits[project.number]), session.free)

    def settle(self, taken: int, *, more: bool) -> None:
        """Account for ``taken`` tasks of the visit; ``more``: the project could give further ones."""
        project = self.projects[0]
        self.deficits[project.number] -= taken
        if not more:
            self.projects.popleft()
            del self.deficits[project.number]
        elif self.deficits[project.number] < 1:
            self.projects.rotate(-1)
        name, session = self.waiting.popitem(last=False)
        if session.free > 0:
            self.waiting[name] = session

    def pass_over(self, session: Session) -> None:
        """Skip the fetcher whose turn it was."""
        del self.waiting[session.id]

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        if self.deficits.pop(project.number, None) is not None:
            self.projects.remove(project)


class FairQueue:
    """All rings, and the ring of each fetcher.

    A ring is *busy* when it has both work and a fetcher waiting for it; busy rings take turns.
    """

    __slots__ = ("_busy", "_naming", "_ring_of", "_rings", "_visits")

    def __init__(self) -> None:
        self._rings: dict[Interest, Ring] = {}
        self._naming: dict[str | None, dict[Interest, Ring]] = {}
        self._busy: OrderedDict[Interest, Ring] = OrderedDict()
        self._ring_of: dict[str, Ring] = {}
        self._visits = 0

    def __len__(self) -> int:
        """Number of fetchers."""
        return len(self._ring_of)

    def offer(self, project: Project) -> bool:
        """The project has work that could be handed out now; True: a fetcher is waiting for it."""
        wanted = False
        for ring in sorted(self._rings_for(project), key=lambda ring: ring.served):
            ring.offer(project)
            self.look(ring)
            wanted = wanted or bool(ring.waiting)
        return wanted

    def remove(self, project: Project) -> None:
        """Remove a deleted project."""
        for ring in self._rings_for(project):
            ring.remove(project)
            self.look(ring)

    def enrol(self, session: Session, names: Sequence[str] | None) -> Ring | None:
        """Put the fetcher into the ring of its wishes; returns the ring if it is new, and still without projects.

        Args:
            names: those in the session's ``interest``, in a deterministic order.
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
        """Remove a fetcher that is gone, or has other wishes."""
        ring = self._ring_of.pop(session.id, None)
        if ring is None:
            return
        ring.members.discard(session.id)
        ring.waiting.pop(session.id, None)
        self.look(ring)
        if not ring.members:
            self._drop(ring)

    def weigh(self, session: Session) -> None:
        """Let the fetcher wait if and only if it has free slots."""
        ring = self._ring_of.get(session.id)
        if ring is None:
            return
        if session.free > 0:
            ring.waiting.setdefault(session.id, session)
        else:
            ring.waiting.pop(session.id, None)
        self.look(ring)

    def look(self, ring: Ring) -> None:
        """Update whether the ring is busy."""
        if ring.projects and ring.waiting:
            self._busy.setdefault(ring.interest, ring)
        else:
            self._busy.pop(ring.interest, None)

    def pass_on(self, ring: Ring) -> None:
        """The ring has got something: others, whose wishes may overlap with its own, come first now."""
        self._visits += 1
        ring.served = self._visits
        if ring.interest in self._busy:
            self._busy.move_to_end(ring.interest)

    def busy_ring(self) -> Ring | None:
        """The ring whose turn it is; None if no ring is busy."""
        return next(iter(self._busy.values()), None)

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
