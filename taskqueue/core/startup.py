"""Building of the state from the loaded store, and changes of the config later.

Small records are loaded: projects, leases, sessions. What grows with the number of tasks is not: heads of the
orders are read when the first turns need them, so the time of a start does not depend on the number of tasks.
"""

from __future__ import annotations

from math import inf

from taskqueue.core import lookups, timers
from taskqueue.core.model import cron_times
from taskqueue.core.model.bucket import Bucket, SharedBucket
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.now import Now
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import Loaded, ProjectRecord
from taskqueue.core.model.task import deferred_bytes
from taskqueue.core.model.windows import Counters
from taskqueue.core.moves import damage, flows, slots, undo_rows
from taskqueue.core.moves.projects import add_project, make_project, note_pause, use_settings
from taskqueue.core.state import NO_PACE, State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Damaged, Rejected, StoreError
from taskqueue.protocol.fields import Boot
from taskqueue.settings.environment import Environment
from taskqueue.settings.settings import CoreConfig, check, merge


def load(loaded: Loaded, config: CoreConfig, environment: Environment, now: Now) -> TurnState:
    """Build the state, and return the first turn on it."""
    state = State(loaded, config, environment, timers.due_at)
    state.last_now = now
    state.slot_clock.set(now)
    turn = TurnState(state, now)
    _load_shared(turn, loaded)
    _load_projects(turn, loaded)
    _load_leases(turn, loaded)
    if loaded.set_aside:
        damage.set_aside(turn, loaded.set_aside)
    state.operations.load(Operation(each, loaded.members.get(each.progress.id, [])) for each in loaded.operations)
    for operation in state.operations.with_rows():
        state.wall_timers.note(("undo", operation.id), undo_rows.kept_until(operation))
    if state.operations.running:
        state.pending.begin("operations")
    if state.propagations.pending:
        state.pending.begin("propagation")
    for flow in state.flows.by_number.values():
        flows.note(state, flow)
        if not flow.record.is_accepted:
            state.wall_timers.note(("stage", flow.number), flow.record.staged_at + flows.STAGE_SECONDS)
    for record in sorted(loaded.sessions, key=lambda record: record.heard_at):
        session = state.session(record.session, now)
        state.give(session, record.owner)
        state.note_saved(session, record.heard_at)
    state.wall_timers.note(("failures", 0), state.failures.old_at)
    state.daemon_minutes.events = state.grand_totals.events()
    return turn


def _load_projects(turn: TurnState, loaded: Loaded) -> None:
    state, now = turn.state, turn.now
    for record in loaded.projects:
        if not loaded.same_boot:
            # The boot clock has started again. How much the crash lost is unknown, so the bucket starts empty.
            record.bucket_at = now.boot
            record.bucket_level = record.bucket_level if loaded.clean else 0.0
        project = _loaded_project(turn, record)
        project.counters = Counters.load(loaded.counters.get(record.number), record.totals, now.wall)
        add_project(turn, project)
        _plan(turn, project)
        lookups.note_low(state, project)
        if not loaded.same_boot:
            turn.touch(project)
    for name in state.config.projects:
        if name not in state.projects.by_name:
            make_project(turn, name)


def _load_shared(turn: TurnState, loaded: Loaded) -> None:
    """Load the shared buckets of the config; after a reboot without a clean stop they start empty.

    That includes buckets without a record: a power cut may have lost the record of their first tokens.
    """
    state, now = turn.state, turn.now
    records = {record.name: record for record in loaded.buckets}
    is_emptied = not loaded.same_boot and not loaded.clean
    for name, pace in sorted(state.config.buckets.items()):
        record = records.get(name)
        if record is None and not is_emptied:
            continue
        at = Boot(min(record.at, now.boot)) if record is not None and loaded.same_boot else now.boot
        level = 0.0 if record is None or is_emptied else record.level
        shared = SharedBucket(name, Bucket(pace.rate, pace.burst, level, at))
        state.shared[name] = shared
        if not loaded.same_boot:
            turn.drawn[name] = shared


def _plan(turn: TurnState, project: Project) -> None:
    """Set the timers of a loaded project; have this turn check it if a crash kept it from being finished."""
    state, now = turn.state, turn.now
    if cron_times.resume(project, state.environment, now):
        turn.touch(project)
    state.plan_cron(project)
    project.cap_wait(now.wall)
    note_pause(state, project)
    if project.armed and not project.queue.unfinished:
        turn.touch(project)
    state.wall_timers.note(("project_hold", project.number), min(project.holds.values(), default=inf))


def _loaded_project(turn: TurnState, record: ProjectRecord) -> Project:
    state = turn.state
    try:
        if record.overrides:  # the config has been checked already
            check(merge({}, record.overrides), state.environment)
        return Project(record, state.layers(record.name), turn.now.boot)
    except Rejected as rejected:
        raise StoreError(f'the store has an invalid setting of project "{record.name}": {rejected.reason}') from None


def _load_leases(turn: TurnState, loaded: Loaded) -> None:
    state, now = turn.state, turn.now
    for task in sorted(loaded.leased, key=state.lease_number):
        lease = task.lease
        project = state.projects.by_number.get(task.project)
        if lease is None or project is None:
            raise Damaged(f"the store has a lease of task {task.taskid!r} that belongs to no project")
        if not loaded.same_boot:
            _restart_clock(lease, now)
            turn.changes.touch(task)
        lease.renew(now.boot, _loaded_deadline(turn, lease))
        session = state.session(lease.session, now)
        session.select_number = max(session.select_number, lease.number)
        session.leases[task.token] = task
        if task.crashes:
            session.suspects[task.token] = task.crashes
        task.restore(lease)
        if lease.deferred is not None:
            state.memory.deferred_changed(deferred_bytes(lease.deferred))
        if lease.check and lease.check == project.pause.record.phase:
            project.pause.out += 1
        project.queue.restore(task, lease)
        state.memory.leases_began(1, task.size)
        state.boot_timers.note(("lease", project.number), lease.slow_at)
        state.boot_timers.note(("silence", session.id), now.boot + state.config.fetcher_timeout)


def _restart_clock(lease: Lease, now: Now) -> None:
    """Move a lease of another boot to this boot's clock: only its length has a meaning here.

    The first turn writes all leases anew, because from then on the store names this boot.
    """
    lease.deadline += now.boot - lease.selected_at
    lease.selected_at = now.boot


def _loaded_deadline(turn: TurnState, lease: Lease) -> Boot:
    """Return the lease's deadline: at most its length from now, at least ``fetcher_timeout``, to hear its fetcher."""
    now = turn.now
    latest = now.boot + (lease.deadline - lease.selected_at)
    return max(min(lease.deadline, latest), now.boot + turn.state.config.fetcher_timeout)


def configure(turn: TurnState, config: CoreConfig) -> None:
    """Apply a new config, and create projects that it names for the first time.

    A project whose settings did not change costs one comparison: of ten thousand, often one has changed.
    """
    state = turn.state
    same_paces = config.buckets == state.config.buckets
    state.config = config
    _configure_shared(turn, config)
    slots.share_memory(state)
    for session in state.sessions.values():
        state.boot_timers.note(("silence", session.id), session.heard_at + config.fetcher_timeout)
        state.boot_timers.note(("forget", session.id), session.heard_at + config.session_timeout)
    for project in state.projects.by_name.values():
        layers = state.layers(project.name)
        if layers != project.layers or not (same_paces or project.shared is None):
            use_settings(turn, project, layers, project.overrides)
    for name in config.projects:
        if name not in state.projects.by_name:
            make_project(turn, name)


def _configure_shared(turn: TurnState, config: CoreConfig) -> None:
    state = turn.state
    for name, shared in state.shared.items():
        pace = config.buckets.get(name, NO_PACE)
        shared.bucket.change(pace.rate, pace.burst, turn.now.boot)
        turn.drawn[name] = shared
        state.boot_timers.note(("shared", name), shared.token_at())
