"""Answers waiting requests, some per turn, because ten thousand may wait for the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from taskqueue.core.projects.waiters import FOR_EVER, Waiters
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.fields import Boot
from taskqueue.protocol.messages import AnyReply

ANSWERED_A_TURN: Final = 512
"""Waiting requests answered in one turn: about 5 ms, including the socket."""


def answer(turn: TurnState, waiters: Waiters, reply: Callable[[int], AnyReply], until: Boot = FOR_EVER) -> None:
    """Answer the waiters whose limit is at most ``until`` (boot-clock seconds).

    Args:
        reply: makes the reply to the request of a number.
    """
    turn.state.waits.late.extend((waiter, reply(waiter.n)) for waiter in waiters.take(until))
    _tell(turn)


def begin(turn: TurnState) -> None:
    """At the beginning of a turn, answer waiters that the previous turn had no time for."""
    _tell(turn)


def _tell(turn: TurnState) -> None:
    waits = turn.state.waits
    while waits.late and turn.waiters_answered < ANSWERED_A_TURN:
        waiter, reply = waits.late.popleft()
        waits.leave(waiter)
        turn.waiters_answered += 1
        turn.send(waiter.session, reply, after_sync=True)
