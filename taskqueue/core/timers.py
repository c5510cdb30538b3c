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
from taskqueue.core.tasks.task import PROCESSING
from taskqueue.core.turn_state import TurnState

FORGET_LATER_SECONDS: Final = 1.0
"""When a session is forgotten from which some tasks are still to be taken."""

SAVE_COST: Final = 16
"""Of the windows of one project: 0.14 ms, as long as 16 tasks take that are promoted."""


def keep_appointments(turn: TurnState) -> None:
    """Do what is due, up to ``turn_tasks`` tasks; the rest waits for the next turn."""
    state, now = turn.state, turn.now
    fetchers.go_on_silent(turn)
    budget = state.config.turn_tasks
    while budget > 0 and (key := state.boot.pop_due(now.boot)) is not None:
        budget -= _keep_boot(turn, key, budget)
    while budget > 0 and (key := state.wall.pop_due(now.wall)) is not None:
        budget -= _keep_wall(turn, key, budget)
    turn.more = budget <= 0
    _forget_beyond_limit(turn)


def _keep_boot(turn: TurnState, key: tuple[str, str | int], budget: int) -> int:
    """Keep one appointment of the boot clock; return its cost."""
    state, now = turn.state, turn.now
    kind, name = key
    if kind == "lease":
        return _expire(turn, state.projects.by_number[int(name)], budget)
    if kind == "bucket":
        offer(turn, state.projects.by_number[int(name)])
        return 1
    if kind == "wait":
        project = state.projects.by_number[int(name)]
        completion.answer(turn, project, now.boot)
        state.boot.note(key, project.waiters.next_at())
        return 1
    if kind == "counters":
        statistics.save(turn, state.projects.by_number[int(name)])
        return SAVE_COST
    if kind == "watch":
        operation = state.operations.by_id[int(name)]
        operations.answer(turn, operation, now.boot)
        state.boot.note(key, operation.waiters.next_at())
        return 1
    if kind == "shared":
        return 1
    session = state.sessions[str(name)]
    if kind == "rest":
        session.rested()
        turn.freed[session.id] = session
        return 1
    cost = 1 + len(session.leases)
    fetchers.fall_silent(turn, session)
    if kind == "forget" and session.leases:
        state.boot.note(key, now.boot + FORGET_LATER_SECONDS)
    elif kind == "forget":
        turn.forget_session(session)
    return cost


def _keep_wall(turn: TurnState, key: tuple[str, str | int], budget: int) -> int:
    """Keep one appointment of the wall clock; return its cost."""
    state = turn.state
    kind, number = key
    if kind == "failures":
        return 1  # they were looked up for this turn
    project = state.projects.by_number[int(number)]
    if kind == "due":
        return _promote(turn, project, budget)
    if kind == "old":
        state.pending.drop_old(project.number)
        return 1
    if kind == "check":
        project.begin_checks()
    turn.touch(project)
    return 1


def _forget_beyond_limit(turn: TurnState) -> None:
    """Above ``max_sessions``, forget those that were silent for longest and hold nothing.

    One that was heard in this very turn stays: the turn keeps its outcome.
    """
    state = turn.state
    excess = len(state.sessions) - state.config.max_sessions
    if excess <= 0:
        return
    idle = (
        one for one in state.sessions.values() if not one.leases and not one.capacity and one.heard_at < turn.now.boot
    )
    for session in list(islice(idle, excess)):
        turn.forget_session(session)


def _expire(turn: TurnState, project: Project, budget: int) -> int:
    """End the leases of a project that have run out; return how many."""
    turn.touch(project)
    ended = 0
    while ended < budget and (task := project.queue.processing.first()) is not None:
        if task.state != PROCESSING or task.lease is None or task.lease.deadline > turn.now.boot:
            break
        if task.spec is None:
            _want_expired(turn, project)
            break
        lease_end.expire(turn, project, task)
        ended += 1
    return ended


def _want_expired(turn: TurnState, project: Project) -> None:
    """What a lease's end leads to is in its spec: have it read for all that have run out, not for one a turn."""
    for task in project.queue.processing.leased.values():
        if task.lease is not None and task.lease.deadline <= turn.now.boot:
            turn.state.hollow.want(task)


def _promote(turn: TurnState, project: Project, budget: int) -> int:
    """Make the tasks of a project ready that are due; return how many."""
    turn.touch(project)
    promoted = 0
    while promoted < budget and (task := project.queue.first_due(turn.now.wall)) is not None:
        project.queue.put_ready(turn.changes, task)
        promoted += 1
    return promoted
