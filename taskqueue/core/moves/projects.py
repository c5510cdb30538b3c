"""Creation, change and removal of projects, as far as they affect more than the project itself.

A change of settings leads to other timers, another bucket, other slots, other cron times; a removal ends flows, waits
and timers, and deletes everything stored. So all rules that create, load or change a project use these functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from taskqueue.core.model import cron_times
from taskqueue.core.model.bucket import Bucket, SharedBucket
from taskqueue.core.model.project import Project, new_record
from taskqueue.core.model.task import DELAYED, NO_FLOOR, READY
from taskqueue.core.moves import answer_waiters, flows, slots, undo_rows
from taskqueue.core.moves.answer_waiters import answer
from taskqueue.core.state import BOOT_OF_PROJECT, NO_PACE, WALL_OF_PROJECT, State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.fields import Setting
from taskqueue.settings.layer_size import MAX_OVERRIDES_MEMORY, check_memory, check_size, memory_bytes
from taskqueue.settings.own_tasks import NO_ENTRIES, CronEntry
from taskqueue.settings.settings import Layer, check, merge

NOTHING_SAID: Final[Layer] = {}


def project_for_push(turn: TurnState, name: str) -> Project:
    """Find the project of that name; with ``auto_create`` an unknown one is created.

    Raises:
        Rejected: it is unknown, there are ``max_projects`` already, or the sender may not create any.
    """
    state = turn.state
    if name not in state.projects.by_name and state.config.auto_create:
        return make_another(turn, name)
    return state.projects.named(name)


def make_another(turn: TurnState, name: str, overrides: Layer = NOTHING_SAID) -> Project:
    """Create a project on request.

    Raises:
        Rejected: see ``check_another``.
    """
    check_another(turn, name)
    return make_project(turn, name, overrides)


def check_another(turn: TurnState, name: str) -> None:
    """Check that another project can be made.

    Raises:
        Rejected: there are ``max_projects`` already, or the sender of the request may not create any.
    """
    state = turn.state
    if not turn.caller.makes_projects:
        raise Rejected("forbidden", f'project: there is no "{name}", and making one takes an admin')
    most, known = state.config.max_projects, len(state.projects.by_name)
    if known >= most:
        hint = "delete some with: taskqueue project delete NAME"
        raise Rejected("full", f"project: there are {known}, and limits.max_projects is {most}; {hint}")


def make_project(turn: TurnState, name: str, overrides: Layer = NOTHING_SAID) -> Project:
    """Create a project, running, with a full bucket, and with these overrides."""
    now = turn.now
    layers = turn.state.layers(name)
    record = new_record(turn.new_project_number(), name, merge(*layers, overrides), now.boot)
    record.overrides = dict(overrides)
    project = Project(record, layers, now.boot)
    add_project(turn, project)
    plan_cron(turn, project, {})
    turn.touch(project)
    return project


def check_settings(state: State, name: str, overrides: Layer, besides: int = 0) -> int:
    """Check that a project could have these overrides; it need not exist.

    Args:
        besides: bytes of memory of other overrides in the same request.

    Returns:
        Bytes of memory that the project's overrides grow by; negative if they shrink.

    Raises:
        Rejected: with the code ``setting``: one of them can't be used, or they are too large; or with the code
            ``full``: the overrides of all projects would take more than MAX_OVERRIDES_MEMORY.
    """
    check_memory(overrides)
    settings = merge(*state.layers(name), overrides)
    project = state.projects.by_name.get(name)
    check(settings, state.environment, project.settings.cron if project else NO_ENTRIES)
    check_size(overrides, state.environment)
    said = memory_bytes(overrides)
    more = said - (project.overrides_bytes if project is not None else 0)
    taken = state.projects.overrides_bytes + besides
    if more > 0 and taken + more > MAX_OVERRIDES_MEMORY:
        raise Rejected(
            "full",
            f"settings: the overrides of all projects take {taken} bytes in memory, "
            f"these would take {said}, and {MAX_OVERRIDES_MEMORY} are allowed; unset some",
        )
    if settings.bucket and settings.bucket not in state.config.buckets:
        raise Rejected("setting", f'bucket: there is no "{settings.bucket}"; it needs a section [buckets.NAME]')
    return more


def in_group(turn: TurnState, group: str) -> list[Project]:
    """Return the projects of a group, in order of their names.

    Raises:
        Rejected: there are none that the sender of the request reaches, or others as well.
    """
    projects, caller = turn.state.projects.in_group(group), turn.caller
    if caller.scope is not None:
        reached = [project for project in projects if caller.scope.has(project.name)]
        if reached and len(reached) < len(projects):
            reason = f'"{group}" has projects outside, and {caller.name} reaches {caller.scope}'
            raise Rejected("forbidden", f'group: {reason}; use a key for "*", or name projects')
        projects = reached
    if not group or not projects:
        raise Rejected("unknown-group", f'group: no project belongs to a group "{group}"')
    return projects


def add_project(turn: TurnState, project: Project) -> None:
    """Register a project."""
    state = turn.state
    state.projects.add(project)
    state.grand_totals.note(project, project.totals.row())
    if project.cleared:
        state.pending.sweep(project.number, project.cleared)
    note_pause(state, project)
    count_delayed(state, project)
    _apply_settings(turn, project)


def note_pause(state: State, project: Project) -> None:
    """Set the timers that continue or end a pause of the project."""
    state.wall_timers.note(("check", project.number), project.check_at())
    state.wall_timers.note(("resume", project.number), project.resumes_at())


def use_settings(turn: TurnState, project: Project, layers: Sequence[Layer], overrides: Mapping[str, Setting]) -> None:
    """Give the project other settings.

    Raises:
        Rejected: they are invalid; nothing has changed.
    """
    state, now = turn.state, turn.now
    before = project.settings.cron
    said_before = project.overrides_bytes
    project.apply(layers, overrides, now.boot)
    state.projects.note_overrides(said_before, project)
    if project.cap_wait(now.wall):
        state.wall_timers.note(("check", project.number), project.check_at())
    _apply_settings(turn, project)
    plan_cron(turn, project, before)
    turn.touch(project)


def plan_cron(turn: TurnState, project: Project, before: Mapping[str, CronEntry]) -> None:
    """Plan the entries of a project; ``before`` are its former entries."""
    state = turn.state
    cron_times.plan(project, state.environment, turn.now, before)
    state.plan_cron(project)


def remove_project(turn: TurnState, project: Project) -> None:
    """Remove a project, delete everything of it from the store, and refuse the requests that wait for its end."""
    state = turn.state
    for task in list(project.queue.processing.leased.values()):
        turn.revoke(task)
    flows.forget_all(turn, project)
    state.projects.remove(project)
    turn.dirty.pop(project.number, None)
    state.pending.forget(project.number)
    state.cron_timers.drop(project.number)
    for of_boot in BOOT_OF_PROJECT:
        state.boot_timers.drop((of_boot, project.number))
    for of_wall in WALL_OF_PROJECT:
        state.wall_timers.drop((of_wall, project.number))
    state.fair_queue.remove(project)
    state.grand_totals.remove(project)
    if state.watch_log is not None:
        state.watch_log.remove(project)
    state.history.remove(project.number, project.totals.row())
    for which in (READY, DELAYED):
        state.memory.note(project.number, which, 0)
    leave_shared(project)
    slots.forget_project(state, project)
    turn.changes.writes.dropped_projects.append(project.number)
    undo_rows.forget_project(turn, project.number)
    if project.linked:
        turn.changes.propagate("retired", project.number)
    reason = f'project: "{project.name}" has been deleted'
    for waiters in (project.waiters, project.early_waiters):
        answer(turn, waiters, lambda waiter: ErrorReply(n=waiter.n, code="unknown-project", reason=reason))
    answer_waiters.answer_dropped_tasks(turn, project.number)


def leave_shared(project: Project) -> None:
    """Remove the project from its shared bucket."""
    if project.shared is not None:
        project.shared.forget(project.number)
        project.shared = None
        project.virtual = 0.0


def _apply_settings(turn: TurnState, project: Project) -> None:
    """Apply the effects of the project's settings outside of it."""
    state = turn.state
    settings = project.settings
    slots.divide(turn, project)
    _sort(turn, project)
    state.wall_timers.note(("retention", project.number), project.old_at())
    project.hours = state.environment.hours(settings.active, turn.now.wall)
    project.fetch = state.environment.pack(settings.fetch) if settings.fetch else None
    if project.shared is not None and project.shared.name != settings.bucket:
        leave_shared(project)
    if settings.bucket and project.shared is None:
        project.shared = state.shared.get(settings.bucket) or _make_shared(turn, settings.bucket)


def _sort(turn: TurnState, project: Project) -> None:
    """Let the project go by the order that its settings say, and begin or continue to sort its ready tasks."""
    queue, newest = project.queue, project.settings.order == "newest"
    if newest != queue.newest:
        queue.sort_by(newest=newest)
        project.sort(is_left=queue.counts[READY] > 0)
        turn.touch(project)
    if project.is_sorting:
        turn.state.pending.sort(project.number)


def _make_shared(turn: TurnState, name: str) -> SharedBucket:
    """Make a full shared bucket; one that the config does not have (any more) has a rate of 0."""
    state = turn.state
    pace = state.config.buckets.get(name, NO_PACE)
    shared = SharedBucket(name, Bucket(pace.rate, pace.burst, pace.burst, turn.now.boot))
    state.shared[name] = turn.drawn[name] = shared
    return shared


def count_delayed(state: State, project: Project) -> None:
    """Begin to count a project's delayed tasks, unless they are counted."""
    if project.queue.counted_to < NO_FLOOR:
        state.pending.count(project.number)
