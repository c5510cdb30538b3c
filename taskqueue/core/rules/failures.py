"""All attempts that failed, ran out of time or crashed, whatever became of their tasks: kept by time, and dropped when
there are too many or they are too old.

    attempt fails ──note──► put with the turn          page of the first ones ──step──► those that are old are dropped

Who asks for them is answered in ``failure_counts``.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.tasks.attempt import AttemptRecord, kind_of
from taskqueue.core.tasks.failure import Failure, FailuresRef, FoundFailures, KeptFailure
from taskqueue.core.tasks.needs import Needs
from taskqueue.core.tasks.task import NO_FLOOR, Task
from taskqueue.core.turn_state import TurnState
from taskqueue.hosts import host_of

OLD_FAILURES: Final = 1024
"""Failures examined per turn, and dropped if they are old: 2 ms."""

_END: Final = NO_FLOOR - 1


def note(turn: TurnState, task: Task, attempt: AttemptRecord) -> None:
    """Store a failed attempt in the history of its task, and in the order of failures."""
    state = turn.state
    turn.note_attempt(task, attempt)
    host = host_of(turn.spec_of(task).url, state.environment.ascii_host)
    failure = Failure(task.project, task.taskid, host, attempt.fetcher, kind_of(attempt))
    turn.changes.writes.failures.append(KeptFailure(state.failures.add(attempt.at), failure))
    state.wall_timers.note(("failures", 0), state.failures.old_at)


def need(turn: TurnState, wanted: Needs) -> None:
    """Some of the first failures are old: look them up."""
    turn.due.old_failures = FailuresRef(turn.state.failures.low, _END, OLD_FAILURES)
    wanted.failures.append(turn.due.old_failures)


def step(turn: TurnState) -> None:
    """Drop old failures that were looked up."""
    wanted = turn.due.old_failures
    if wanted is not None:
        _drop_old(turn, turn.found.failures[wanted])


def _drop_old(turn: TurnState, page: FoundFailures) -> None:
    state, now = turn.state, turn.now
    log, kept = state.failures, turn.changes.writes
    old = log.old_of(page.failures, now.wall)
    following = page.failures[old].key if old < len(page.failures) else page.next
    if old:
        kept.failures_from = page.failures[old - 1].key + 1
    # What has failed in this very turn is not on the page, and may be before it: drops come before puts.
    log.begin_with(min([key for key in (following, *(new.key for new in kept.failures)) if key], default=0))
    state.wall_timers.note(("failures", 0), log.old_at)
    turn.more |= log.is_over(now.wall)
