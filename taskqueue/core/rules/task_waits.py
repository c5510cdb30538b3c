"""Waiting for the end of a task.

    task-wait ──► over: answered at once
              └─► not over: waits ──the task is over at the end of a turn──► answered, with the state
                              └── seconds are over ──────────────────────► answered: not over

A task that is over and restarted within one turn was never over. If its project is cleared, reset or deleted, those who
wait are answered at once that it is not over, and learn that it is unknown when they ask again.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.projects.session import Session
from taskqueue.core.projects.waiters import FOR_EVER, Waiter, Waiters
from taskqueue.core.request_rule import RequestRule, asked_by
from taskqueue.core.rules import answer_waiters
from taskqueue.core.tasks.needs import Needs, TaskRef
from taskqueue.core.tasks.task import OVER, STATE_NAMES
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.tasks import TaskWait, TaskWaitReply


def wait(turn: TurnState, session: Session, request: TaskWait) -> TaskWaitReply | None:
    """Answer at once if the task is over or the request has no ``seconds``; else add a waiter.

    Raises:
        Rejected: project or task is unknown, or too many requests wait already.
    """
    state, until = turn.state, turn.now.boot + request.seconds
    project = state.projects.named(request.project)
    task = turn.find(project, request.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{request.taskid}" is unknown in project "{project.name}"')
    if task.state in OVER or not request.seconds:
        return TaskWaitReply(n=request.n, state=STATE_NAMES[task.state] if task.state in OVER else "")
    ref = TaskRef(project.number, task.taskid)
    waiters = state.task_waiters.of(ref) or Waiters()
    state.waits.add(waiters, Waiter(session, request.n, until))
    state.task_waiters.keep(ref, waiters)
    state.boot_timers.note(("task_wait", 0), until)
    return None


def settle(turn: TurnState) -> None:
    """At the end of a turn, answer those who wait for tasks that are over now."""
    for task in turn.changes.touched:
        if task.state in OVER and (waiters := turn.state.task_waiters.take(TaskRef(task.project, task.taskid))):
            _answer(turn, waiters, STATE_NAMES[task.state])


def time_out(turn: TurnState) -> int:
    """Answer those whose time is over; returns how many tasks they waited for."""
    state, count = turn.state, 0
    for waiters in state.task_waiters.take_due(turn.now.boot):
        _answer(turn, waiters, "", turn.now.boot)
        count += 1
    state.boot_timers.note(("task_wait", 0), state.task_waiters.next_at())
    return count


def drop(turn: TurnState, number: int) -> None:
    """Answer those who wait for tasks of a project whose live tasks are dropped."""
    for waiters in turn.state.task_waiters.take_project(number):
        _answer(turn, waiters, "")


def _answer(turn: TurnState, waiters: Waiters, name: str, until: Boot = FOR_EVER) -> None:
    answer_waiters.answer(turn, waiters, lambda n: TaskWaitReply(n=n, state=name), until)


def _need(turn: TurnState, request: TaskWait, wanted: Needs) -> None:
    project = turn.state.projects.by_name.get(request.project)
    if project is not None:
        wanted.tasks.append(TaskRef(project.number, request.taskid))


REQUESTS: Final = (RequestRule(TaskWait, asked_by(wait), _need, keeps=False),)
