"""Everything that the scheduler knows, and the few moves that all its rules share.

The rules live in the modules beside this one (``intake``, ``endings``, ``fetchers``, ``handout``, ``admin``), each a
set of functions over this state; what must never come in here is a rule that only one of them needs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice
from math import inf
from typing import Final

from taskqueue.core.agenda import Agenda
from taskqueue.core.changes import Changes
from taskqueue.core.kept import Loaded, SessionRecord, SpecRef
from taskqueue.core.messages import Now, Token
from taskqueue.core.project import Project, new_record
from taskqueue.core.replies import AnySaid, Said
from taskqueue.core.sessions import Session
from taskqueue.core.settings import CoreConfig, Layer, merge
from taskqueue.core.shares import Shares
from taskqueue.core.task import PROCESSING, TASK_BYTES, Spec, Task, size_of
from taskqueue.errors import Corrupt, Rejected

EPOCH_SHIFT: Final = 44
"""number = epoch (19 bits) | n (44 bits): positive as a signed 64-bit number."""

BootKey = tuple[str, str | int]
"""("lease" | "bucket", project number) or ("silence" | "forget", session)."""
WallKey = tuple[str, str | int]
"""("due", project number)."""


class State:
    """The scheduler's state.

    Attributes:
        projects, numbered: by name, and by number.
        sessions: by id, the one that was silent for longest first.
        dirty: projects that this turn touched, by number.
        low: numbers of projects that have an order to be read further.
        wanted: hollow tasks whose specs must be read, some in each turn.
        asked: those of them that are being looked up for this turn.
        heavy: tasks handed out in this turn whose bodies are too large to be held until they are done.
        freed: sessions that may have got free slots in this turn.
        said: what this turn says.
        more: this turn left work undone because it was long enough.
    """

    def __init__(self, loaded: Loaded, config: CoreConfig) -> None:
        self.config = config
        self.epoch = loaded.epoch
        self.changes = Changes()
        self.shares = Shares()
        self.projects: dict[str, Project] = {}
        self.numbered: dict[int, Project] = {}
        self.next_project = loaded.next_project
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.boot: Agenda[BootKey] = Agenda(self._boot_due_at)
        self.wall: Agenda[WallKey] = Agenda(self._wall_due_at)
        self.dirty: dict[int, Project] = {}
        self.low: dict[int, None] = {}
        self.wanted: dict[SpecRef, Task] = {}
        self.asked: dict[SpecRef, Task] = {}
        self.heavy: list[Task] = []
        self.freed: dict[str, Session] = {}
        self.said: list[Said] = []
        self.more = False
        self._n = loaded.epoch << EPOCH_SHIFT

    # ------------------------------------------------------------------------------------ numbers, projects

    def number(self) -> int:
        """The next number: a seq, or a token. Grows, across restarts too."""
        self._n += 1
        return self._n

    def token(self) -> Token:
        """The next number, as a lease's token."""
        return Token(self.number())

    def layers(self, name: str) -> tuple[Layer, ...]:
        """What the config says of a project."""
        return self.config.defaults, self.config.projects.get(name, {})

    def project(self, name: str) -> Project:
        """The project of that name.

        Raises:
            Rejected: it is unknown.
        """
        project = self.projects.get(name)
        if project is None:
            hint = f"make it with: taskqueue project start {name}"
            raise Rejected("unknown-project", f'project: "{name}" is unknown; {hint}')
        return project

    def project_for_push(self, name: str, now: Now) -> Project:
        """The project of that name; with ``auto_create`` an unknown one is made.

        Raises:
            Rejected: it is unknown.
        """
        if name not in self.projects and self.config.auto_create:
            return self.make_project(name, now)
        return self.project(name)

    def make_project(self, name: str, now: Now) -> Project:
        """Make a project, running, with a full bucket."""
        layers = self.layers(name)
        record = new_record(self.next_project, name, merge(*layers), now.boot)
        self.next_project += 1
        self.changes.kept.next_project = self.next_project
        project = Project(record, self.changes, layers, now.boot)
        self.add_project(project)
        self.touch(project)
        return project

    def add_project(self, project: Project) -> None:
        """Know a project."""
        self.projects[project.name] = project
        self.numbered[project.number] = project

    def check_settings(self, name: str, overrides: Layer) -> None:
        """See that a project could have these overrides.

        Raises:
            Rejected: with the code ``setting``.
        """
        merge(*self.layers(name), overrides)

    def remove_project(self, project: Project) -> None:
        """Know a project no more, and have the store forget everything of it."""
        del self.projects[project.name]
        del self.numbered[project.number]
        self.dirty.pop(project.number, None)
        self.low.pop(project.number, None)
        self.shares.remove(project)
        self.changes.kept.dropped_projects.append(project.number)

    def touch(self, project: Project) -> None:
        """This turn changes something of the project or of its tasks."""
        self.dirty[project.number] = project

    def may_give(self, project: Project, now: Now) -> bool:
        """The project could give a task away at once; if not, what it lacks is asked for."""
        first = project.queue.ready.first()
        if first is None or project.state != "running":
            return False
        if first.spec is None:
            self.want(first)
            return False
        if not project.bucket.available(now.boot):
            self.boot.note(("bucket", project.number), project.bucket.token_at())
            return False
        return True

    def offer(self, project: Project, now: Now) -> None:
        """Let fetchers have the project's tasks, if it could give one."""
        if self.may_give(project, now):
            self.shares.offer(project)

    # ------------------------------------------------------------------------------------ sessions

    def session(self, name: str, now: Now) -> Session:
        """The session of that id, heard now; an unknown one is made."""
        session = self.sessions.get(name)
        if session is None:
            session = self.sessions[name] = Session(name, now.boot)
            self.boot.note(("forget", name), now.boot + self.config.session_timeout)
        self.sessions.move_to_end(name)
        session.heard_at = now.boot
        return session

    def save_session(self, session: Session, now: Now) -> None:
        """Let the store know about when the session was last heard: once a minute is exact enough."""
        if not session.saved_at <= now.wall < session.saved_at + 60:
            session.saved_at = now.wall
            self.changes.kept.sessions.append(SessionRecord(session.id, now.wall))

    def forget_session(self, session: Session) -> None:
        """Forget a session that holds nothing, with its kept outcomes."""
        self.shares.dismiss(session)
        del self.sessions[session.id]
        self.freed.pop(session.id, None)
        self.changes.kept.dropped_sessions.append(session.id)

    def say(self, session: Session, message: AnySaid, *, kept: bool) -> None:
        """Send the session a message; ``kept``: not before what the turn keeps is on disk."""
        self.said.append(Said(session.peer, message, kept))

    # ------------------------------------------------------------------------------------ tasks

    def spec_of(self, task: Task) -> Spec:
        """The task's spec, which is here because ``needs`` asked for it."""
        if task.spec is None:
            raise Corrupt(f"the spec of task {task.taskid!r} (seq {task.seq}) was not looked up")
        return task.spec

    def want(self, task: Task) -> None:
        """Have the task's spec read for one of the next turns, if it is hollow."""
        if task.spec is None:
            self.wanted[SpecRef(task.project, task.seq)] = task

    def ask(self, task: Task) -> None:
        """Have the task's spec read for this very turn, if it is hollow."""
        if task.spec is None:
            self.asked[SpecRef(task.project, task.seq)] = task

    def ask_wanted(self, limit: int) -> None:
        """Have some of what is wanted read for this very turn."""
        for ref in list(islice(self.wanted, limit)):
            task = self.wanted.pop(ref)
            if self._is_hollow(ref, task):
                self.asked[ref] = task

    def fill(self, specs: Mapping[SpecRef, Spec]) -> None:
        """Take in the specs that were asked for."""
        for ref, task in self.asked.items():
            if not self._is_hollow(ref, task):
                continue
            project = self.numbered[ref.project]
            if ref not in specs:
                raise Corrupt(f"project {project.name!r}: the store has no spec of task {task.taskid!r}")
            task.spec = specs[ref]
            order = project.queue.ready if task.key in project.queue.ready.entries else project.queue.delayed
            order.resize(task, size_of(task.spec))
            self.touch(project)
        self.asked.clear()

    def shed(self) -> None:
        """Let go of large bodies that have been handed out; if they are needed again, they are in the store."""
        for task in self.heavy:
            if task.state == PROCESSING and not task.spec_changed:
                task.spec = None
                task.size = TASK_BYTES
        self.heavy.clear()

    def _is_hollow(self, ref: SpecRef, task: Task) -> bool:
        """The task is still held, is still what the ref says, and still lacks its spec."""
        project = self.numbered.get(ref.project)
        if project is None or task.spec is not None or task.seq != ref.seq:
            return False
        return project.queue.tasks.get(task.taskid) is task

    def unlease(self, task: Task) -> None:
        """Take the task's lease from its fetcher; where the task goes then is for the caller to say."""
        if task.lease is None:
            raise Corrupt(f"task {task.taskid!r} has no lease to end")
        session = self.sessions[task.lease.session]
        del session.leases[task.token]
        self.freed[session.id] = session

    # ------------------------------------------------------------------------------------ when things are due

    def _boot_due_at(self, key: BootKey) -> float:
        kind, name = key
        if kind == "lease" or kind == "bucket":
            project = self.numbered.get(int(name))
            if project is None:
                return inf
            return project.queue.processing.next_at() if kind == "lease" else _token_at(project)
        session = self.sessions.get(str(name))
        if session is None:
            return inf
        if kind == "silence":
            return session.heard_at + self.config.fetcher_timeout if session.capacity or session.leases else inf
        return session.heard_at + max(self.config.session_timeout, self.config.fetcher_timeout)

    def _wall_due_at(self, key: WallKey) -> float:
        project = self.numbered.get(int(key[1]))
        return inf if project is None else project.queue.delayed.next_at()


def _token_at(project: Project) -> float:
    """When a project that has work will have a token; inf if it hands out nothing anyway."""
    if project.state != "running" or not len(project.queue.ready):
        return inf
    return project.bucket.token_at()
