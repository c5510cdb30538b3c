"""Keeping appointments: leases that have run out, silent fetchers, sessions to forget, tokens, tasks that are due.

The work of a turn is bounded: of a million tasks that are due in one second each turn promotes ``turn_tasks``.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.admin import operations
from taskqueue.core.projects.project import Project
from taskqueue.core.rules import completion, fetchers, lease_end, statistics
from taskqueue.core.rules.eligibility import offer
from taskqueue.core.state import State
from taskqueue.core.tasks.task import PROCESSING
from taskqueue.protocol.fields import Now

FORGET_LATER_SECONDS: Final = 1.0
"""When a session is forgotten from which some tasks are still to be taken."""

SAVE_COST: Final = 16
"""Of the windows of one project: 0.14 ms, as long as 16 tasks take that are promoted."""


def keep_appointments(state: State, now: Now) -> None:
    """Do what is due, up to ``turn_tasks`` tasks; the rest waits for the next turn."""
    fetchers.go_on_silent(state, now)
    budget = state.config.turn_tasks
    while budget > 0 and (key := state.boot.pop_due(now.boot)) is not None:
        budget -= _keep_boot(state, key, budget, now)
    while budget > 0 and (key := state.wall.pop_due(now.wall)) is not None:
        budget -= _keep_wall(state, key, budget, now)
    state.more = budget <= 0
    _forget_beyond_limit(state, now)


def _keep_boot(state: State, key: tuple[str, str | int], budget: int, now: Now) -> int:
    """Keep one appointment of the boot clock; return its cost."""
    kind, name = key
    if kind == "lease":
        return _expire(state, state.numbered[int(name)], budget, now)
    if kind == "bucket":
        offer(state, state.numbered[int(name)], now)
        return 1
    if kind == "wait":
        project = state.numbered[int(name)]
        completion.answer(state, project, now, now.boot)
        state.boot.note(key, project.waiters.next_at())
        return 1
    if kind == "counters":
        statistics.save(state, state.numbered[int(name)])
        return SAVE_COST
    if kind == "watch":
        operation = state.operations[int(name)]
        operations.answer(state, operation, now.boot)
        state.boot.note(key, operation.waiters.next_at())
        return 1
    if kind == "shared":
        return 1
    session = state.sessions[str(name)]
    if kind == "rest":
        session.rested()
        state.freed[session.id] = session
        return 1
    cost = 1 + len(session.leases)
    fetchers.fall_silent(state, now, session)
    if kind == "forget" and session.leases:
        state.boot.note(key, now.boot + FORGET_LATER_SECONDS)
    elif kind == "forget":
        state.forget_session(session)
    return cost


def _keep_wall(state: State, key: tuple[str, str | int], budget: int, now: Now) -> int:
    """Keep one appointment of the wall clock; return its cost."""
    kind, number = key
    if kind == "failures":
        return 1  # they were looked up for this turn
    project = state.numbered[int(number)]
    if kind == "due":
        return _promote(state, project, budget, now)
    if kind == "old":
        state.old[project.number] = None
        return 1
    if kind == "check":
        project.begin_checks()
    state.touch(project)
    return 1


def _forget_beyond_limit(state: State, now: Now) -> None:
    """Above ``max_sessions``, forget those that were silent for longest and hold nothing.

    One that was heard in this very turn stays: the turn keeps its outcome.
    """
    excess = len(state.sessions) - state.config.max_sessions
    if excess <= 0:
        return
    idle = (one for one in state.sessions.values() if not one.leases and not one.capacity and one.heard_at < now.boot)
    for session in list(islice(idle, excess)):
        state.forget_session(session)


def _expire(state: State, project: Project, budget: int, now: Now) -> int:
    """End the leases of a project that have run out; return how many."""
    state.touch(project)
    ended = 0
    while ended < budget and (task := project.queue.processing.first()) is not None:
        if task.state != PROCESSING or task.lease is None or task.lease.deadline > now.boot:
            break
        if task.spec is None:
            _want_expired(state, project, now)
            break
        lease_end.expire(state, now, project, task)
        ended += 1
    return ended


def _want_expired(state: State, project: Project, now: Now) -> None:
    """What a lease's end leads to is in its spec: have it read for all that have run out, not for one a turn."""
    for task in project.queue.processing.leased.values():
        if task.lease is not None and task.lease.deadline <= now.boot:
            state.want(task)


def _promote(state: State, project: Project, budget: int, now: Now) -> int:
    """Make the tasks of a project ready that are due; return how many."""
    state.touch(project)
    promoted = 0
    while promoted < budget and (task := project.queue.first_due(now.wall)) is not None:
        project.queue.put_ready(task)
        promoted += 1
    return promoted
