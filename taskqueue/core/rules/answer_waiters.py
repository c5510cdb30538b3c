"""Telling those who wait: some in each turn, because ten thousand may wait for the same moment."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from taskqueue.core.projects.waiters import Waiters
from taskqueue.core.state import State
from taskqueue.protocol.replies import AnyReply

TOLD_A_TURN: Final = 512
"""Answers to requests that waited, in one turn: about 5 ms, with their way through the socket."""


def answer(state: State, waiters: Waiters, reply: Callable[[int], AnyReply], until: float = inf) -> None:
    """Tell those who wait no longer than ``until`` (boot-clock seconds) how it stands now.

    Args:
        reply: makes the answer to the request of a number.
    """
    state.waits.late.extend((waiter, reply(waiter.n)) for waiter in waiters.take(until))
    _tell(state)


def begin(state: State) -> None:
    """Go on, in a turn that begins, with those whom the turn before did not come to."""
    state.waits.told = 0
    _tell(state)


def _tell(state: State) -> None:
    waits = state.waits
    while waits.late and waits.told < TOLD_A_TURN:
        waiter, reply = waits.late.popleft()
        waits.leave(waiter)
        waits.told += 1
        state.say(waiter.session, reply, kept=True)
