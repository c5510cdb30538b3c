"""Making a state from what the store tells at start, and from a new config later on.

Everything small is loaded: projects, leases, sessions. What grows with the number of tasks is not: the heads of the
orders are read when the first turns ask for them, so that a start takes the same time however many tasks there are.
"""

from __future__ import annotations

from taskqueue.core import lookups
from taskqueue.core.kept import Loaded, ProjectRecord
from taskqueue.core.messages import Now
from taskqueue.core.project import Project
from taskqueue.core.settings import CoreConfig
from taskqueue.core.state import State
from taskqueue.core.task import Lease
from taskqueue.errors import Corrupt, Rejected, StoreError


def load(loaded: Loaded, config: CoreConfig, now: Now) -> State:
    """The state of a scheduler that starts now."""
    state = State(loaded, config)
    _load_projects(state, loaded, now)
    _load_leases(state, loaded, now)
    for record in sorted(loaded.sessions, key=lambda record: record.heard_at):
        state.session(record.session, now).saved_at = record.heard_at
    state.more = True
    return state


def _load_projects(state: State, loaded: Loaded, now: Now) -> None:
    for record in loaded.projects:
        if not loaded.same_boot:
            # The boot clock has started again. What a crash left is unknown, so the pace starts from nothing.
            record.bucket_at = now.boot
            record.bucket_level = record.bucket_level if loaded.clean else 0.0
        project = _loaded_project(state, record, now)
        state.add_project(project)
        lookups.note_low(state, project)
        if not loaded.same_boot:
            state.touch(project)
    for name in state.config.projects:
        if name not in state.projects:
            state.make_project(name, now)


def _loaded_project(state: State, record: ProjectRecord, now: Now) -> Project:
    try:
        return Project(record, state.changes, state.layers(record.name), now.boot)
    except Rejected as rejected:
        raise StoreError(
            f'the store has a setting of project "{record.name}" that can\'t be: {rejected.reason}'
        ) from None


def _load_leases(state: State, loaded: Loaded, now: Now) -> None:
    for task in loaded.leased:
        lease = task.lease
        project = state.numbered.get(task.project)
        if lease is None or project is None:
            raise Corrupt(f"the store has a lease of task {task.taskid!r} that belongs to nothing")
        if not loaded.same_boot:
            _restart_clock(lease, now)
            state.changes.touch(task)
        lease.deadline = _loaded_deadline(state, lease, now)
        session = state.session(lease.session, now)
        session.number = max(session.number, lease.number)
        session.leases[task.token] = task
        task.kept_deferred = lease.deferred is not None
        project.queue.restore(task, lease)
        state.boot.note(("lease", project.number), lease.deadline)
        state.boot.note(("silence", session.id), now.boot + state.config.fetcher_timeout)


def _restart_clock(lease: Lease, now: Now) -> None:
    """Times of another boot mean nothing on this boot's clock; only how long the lease is does. They are all written
    anew by the first turn, because from then on the store names this boot."""
    lease.deadline += now.boot - lease.selected_at
    lease.selected_at = now.boot


def _loaded_deadline(state: State, lease: Lease, now: Now) -> float:
    """Not later than the lease is long; and its fetcher gets time to be heard."""
    latest = now.boot + (lease.deadline - lease.selected_at)
    return max(min(lease.deadline, latest), now.boot + state.config.fetcher_timeout)


def configure(state: State, config: CoreConfig, now: Now) -> None:
    """Use a new config from now on; projects that it names for the first time are made."""
    state.config = config
    for session in state.sessions.values():
        state.boot.note(("silence", session.id), session.heard_at + config.fetcher_timeout)
        state.boot.note(("forget", session.id), session.heard_at + config.session_timeout)
    for project in state.projects.values():
        project.apply(state.layers(project.name), project.overrides, now.boot)
        state.touch(project)
    for name in config.projects:
        if name not in state.projects:
            state.make_project(name, now)
