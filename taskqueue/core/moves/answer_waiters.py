"""Answers to waiting requests, some per turn, because ten thousand may wait for the same moment.

Requests that wait for the end of a task:

    task-wait ──► finished: answered at once
              └─► unfinished: waits ──finished at the end of a turn──► answered with its state
                                └── time limit ──────────────────► answered: unfinished

A task that finishes and restarts within one turn has not finished. If its project is cleared, reset or deleted, waiting
requests are answered at once as unfinished, and their repeats learn that the task is unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.task import OVER, STATE_NAMES
from taskqueue.core.model.waiters import FOR_EVER, Waiter, Waiters
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.tasks import TaskWaitReply

ANSWERED_A_TURN: Final = 512
"""Waiting requests answered in one turn, at most: about 5 ms, including the socket."""


def answer(turn: TurnState, waiters: Waiters, reply: Callable[[Waiter], AnyReply], until: Boot = FOR_EVER) -> None:
    """Answer the waiters whose limit is at most ``until`` (boot-clock seconds).

    Args:
        reply: function that makes the reply to a waiter.
    """
    turn.state.waits.late.extend((waiter, reply(waiter)) for waiter in waiters.take(until))
    _tell(turn)


def begin(turn: TurnState) -> None:
    """Answer waiters that the previous turn had no time for, at the beginning of a turn."""
    _tell(turn)


def _tell(turn: TurnState) -> None:
    waits = turn.state.waits
    while waits.late and turn.waiters_answered < ANSWERED_A_TURN:
        waiter, reply = waits.late.popleft()
        waits.leave(waiter)
        turn.waiters_answered += 1
        turn.send(waiter.session, waiter.refusal or reply, after_sync=True)


# ------------------------------------------------------------------------------------------------ waits for tasks


def answer_ended_tasks(turn: TurnState) -> None:
    """Answer the waiters for tasks that are finished at the end of a turn."""
    for task in turn.changes.touched:
        if task.state in OVER and (waiters := turn.state.task_waiters.take(TaskRef(task.project, task.taskid))):
            _answer_task_waits(turn, waiters, STATE_NAMES[task.state])


def answer_late(turn: TurnState) -> int:
    """Answer the waiters whose time limit has passed; return how many tasks they waited for."""
    state, count = turn.state, 0
    for waiters in state.task_waiters.take_due(turn.now.boot):
        _answer_task_waits(turn, waiters, "", turn.now.boot)
        count += 1
    state.boot_timers.note(("task_wait", 0), state.task_waiters.next_at())
    return count


def answer_dropped_tasks(turn: TurnState, number: int) -> None:
    """Answer the waiters for tasks of a project whose live tasks are dropped."""
    for waiters in turn.state.task_waiters.take_project(number):
        _answer_task_waits(turn, waiters, "")


def _answer_task_waits(turn: TurnState, waiters: Waiters, name: str, until: Boot = FOR_EVER) -> None:
    answer(turn, waiters, lambda waiter: TaskWaitReply(n=waiter.n, state=name), until)
