"""Who gets the next task: fair shares among projects, by deficit round robin.

(M. Shreedhar and G. Varghese, "Efficient fair queueing using deficit round robin", 1995.) Fetchers that want the same
projects share a *ring* of the projects that have work for them:

    fetchers with free slots ──►  ring:  news ─► shop ─► wiki ─┐   each visit may take its deficit, which grows
                                    ▲──────────────────────────┘   by a quantum a round

A project without work, or without tokens, is in no ring and costs nothing; one that nobody with free slots wants is
never visited. Which projects have work is told by whoever changes it (``offer``).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

from taskqueue.core.project import Project
from taskqueue.core.sessions import Interest, Session

QUANTUM: Final = 16
"""Tasks by which a project's deficit grows when its turn comes: many enough that a visit's own cost is small."""


class Ring:
    """The projects that have work for one set of wishes, and the fetchers that have them.

    Attributes:
        members: ids of the sessions with these wishes, waiting or not.
        deficits: by number of a project that is in the ring.
    """

    __slots__ = ("deficits", "interest", "members", "projects", "waiting")

    def __init__(self, interest: Interest) -> None:
        self.interest = interest
        self.members: set[str] = set()
        self.projects: deque[Project] = deque()
        self.deficits: dict[int, int] = {}
        self.waiting: OrderedDict[str, Session] = OrderedDict()

    def offer(self, project: Project) -> None:
        """The project has work."""
        if project.number in self.deficits or not (self.interest is None or project.name in self.interest):
            return
        self.deficits[project.number] = 0
        self.projects.append(project)

    def visit(self) -> tuple[Project, Session, int]:
        """The next project, the next fetcher, and how many tasks the one may give the other now."""
        project, session = self.projects[0], next(iter(self.waiting.values()))
        if self.deficits[project.number] <= 0:
            self.deficits[project.number] += QUANTUM
        return project, session, min(self.deficits[project.number], session.free)

    def settle(self, taken: int, *, more: bool) -> None:
        """The visit took so many tasks; ``more``: the project could give further ones."""
        project = self.projects[0]
        self.deficits[project.number] -= taken
        if not more:
            self.projects.popleft()
            del self.deficits[project.number]
        elif self.deficits[project.number] <= 0:
            self.projects.rotate(-1)
        name, session = self.waiting.popitem(last=False)
        if session.free > 0:
            self.waiting[name] = session

    def remove(self, project: Project) -> None:
        """The project is no more."""
        if self.deficits.pop(project.number, None) is not None:
            self.projects.remove(project)


class Shares:
    """All rings, and to which one each fetcher belongs."""

    __slots__ = ("_ring_of", "_rings")

    def __init__(self) -> None:
        self._rings: dict[Interest, Ring] = {}
        self._ring_of: dict[str, Ring] = {}

    def offer(self, project: Project) -> None:
        """The project has work that could be handed out now."""
        for ring in self._rings.values():
            ring.offer(project)

    def remove(self, project: Project) -> None:
        """The project is no more."""
        for ring in self._rings.values():
            ring.remove(project)

    def enrol(self, session: Session) -> bool:
        """Put the fetcher where its present wishes belong; True if that is a new ring, which knows no project."""
        ring = self._ring_of.get(session.id)
        if ring is not None and ring.interest == session.interest:
            return False
        self.dismiss(session)
        made = session.interest not in self._rings
        ring = self._rings.setdefault(session.interest, Ring(session.interest))
        ring.members.add(session.id)
        self._ring_of[session.id] = ring
        return made

    def dismiss(self, session: Session) -> None:
        """The fetcher is gone, or has other wishes."""
        ring = self._ring_of.pop(session.id, None)
        if ring is None:
            return
        ring.members.discard(session.id)
        ring.waiting.pop(session.id, None)
        if not ring.members:
            del self._rings[ring.interest]

    def weigh(self, session: Session) -> None:
        """Let the fetcher wait if and only if it has free slots."""
        ring = self._ring_of.get(session.id)
        if ring is None:
            return
        if session.free > 0:
            ring.waiting.setdefault(session.id, session)
        else:
            ring.waiting.pop(session.id, None)

    def pass_on(self, ring: Ring) -> None:
        """The ring has got something: others, whose wishes may overlap with its own, come first now."""
        self._rings[ring.interest] = self._rings.pop(ring.interest)

    def busy_ring(self) -> Ring | None:
        """The first ring that has both work and somebody waiting for it."""
        return next((ring for ring in self._rings.values() if ring.projects and ring.waiting), None)
