"""Events of projects, for the daemon log and the webhook: values without methods.

A turn emits them; the shell logs them and calls the webhook after the turn is committed, and not again
after a crash.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

EventKind = Literal[
    "paused", "resumed", "finished", "error-burst", "growing", "damaged", "slot-full", "slow", "tick-skipped"
]

EVENT_KINDS: tuple[str, ...] = get_args(EventKind)


class Event(Struct, frozen=True, gc=False):
    """Event of a project.

    Attributes:
        kind: paused: automatically, after failures in a row; resumed: automatically, after a success or enough neutral
            checks (see ``pause``); finished: its last live task has ended, recurring ones aside; error-burst: many
            attempts failed within five minutes; growing: a slot seems to get new tasks without end; damaged: the store
            has lost a part of a task, which is set aside or has failed; slot-full: a slot has had as many tasks as it
            may, and a further one was rejected; slow: a task has run for four fifths of its lease, once in
            five minutes; tick-skipped: a cron entry has not submitted its graph at a tick, for another reason
            than at the tick before.
        at: unix seconds.
        reason: one sentence for the operator.
    """

    kind: EventKind
    project: str
    at: float
    reason: str = ""
