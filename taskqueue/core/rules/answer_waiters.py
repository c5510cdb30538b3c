"""Telling those who wait: some in each turn, because ten thousand may wait for the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from taskqueue.core.projects.waiters import FOR_EVER, Waiters
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.replies import AnyReply

TOLD_A_TURN: Final = 512
"""Answers to requests that waited, in one turn: about 5 ms, with their way through the socket."""


def answer(turn: TurnState, waiters: Waiters, reply: Callable[[int], AnyReply], until: Boot = FOR_EVER) -> None:
    """Tell those who wait no longer than ``until`` (boot-clock seconds) how it stands now.

    Args:
        reply: makes the answer to the request of a number.
    """
    turn.state.waits.late.extend((waiter, reply(waiter.n)) for waiter in waiters.take(until))
    _tell(turn)


def begin(turn: TurnState) -> None:
    """Go on, in a turn that begins, with those whom the turn before did not come to."""
    _tell(turn)


def _tell(turn: TurnState) -> None:
    waits = turn.state.waits
    while waits.late and turn.waiters_answered < TOLD_A_TURN:
        waiter, reply = waits.late.popleft()
        waits.leave(waiter)
        turn.waiters_answered += 1
        turn.send(waiter.session, reply, kept=True)
