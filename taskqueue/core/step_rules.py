"""All kinds of steps: work that is done a bounded part a turn, one row each.

    work begins ──► the kind is registered (``PendingWork.begin``) ──► need, step, turn by turn ──► nothing left: ended

A turn calls the steps of registered kinds only, in the order of the rows. What the clock makes due is registered when
the turn begins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from taskqueue.core.model.needs import Needs
from taskqueue.core.model.pending_work import StepKind
from taskqueue.core.moves import cycles
from taskqueue.core.state import State
from taskqueue.core.steps import (
    cron,
    failures,
    flows,
    history,
    operations,
    propagation,
    retention,
    retry_count,
    slot_division,
    slot_list,
    sweep,
)
from taskqueue.core.turn_state import DueWork, TurnState


class StepRule(NamedTuple):
    """A kind of steps.

    Attributes:
        has_work: whether there is something to do in one of the next turns.
        need: looks up what the step needs, when the turn begins; None: nothing has to be looked up.
        step: takes it, when the turn is decided.
        is_first: before the requests of the turn, not after them.
    """

    has_work: Callable[[State], bool]
    need: Callable[[TurnState, Needs], None] | None
    step: Callable[[TurnState], None]
    is_first: bool = False


STEPS: Final[Mapping[StepKind, StepRule]] = {
    "cycles": StepRule(lambda state: state.waiting_pushes.pending, cycles.need, cycles.step, is_first=True),
    "cron": StepRule(lambda state: len(state.cron_timers) > 0, cron.need, cron.tick, is_first=True),
    "propagation": StepRule(lambda state: state.propagations.pending, propagation.need, propagation.step),
    "operations": StepRule(lambda state: bool(state.operations.running), operations.need, operations.step),
    "flows": StepRule(lambda state: bool(state.flows.active), flows.need, flows.step),
    "slot_division": StepRule(lambda state: bool(state.pending.moving), slot_division.need, slot_division.step),
    "sweep": StepRule(lambda state: bool(state.pending.swept), sweep.need, sweep.step),
    "retention": StepRule(lambda state: bool(state.pending.old), retention.need, retention.step),
    "history": StepRule(history.has_work, None, history.step),
    "old_failures": StepRule(lambda state: False, failures.need_old, failures.step_old),
    "failures": StepRule(lambda state: bool(state.failure_counts), failures.need, failures.step),
    "slot_list": StepRule(lambda state: bool(state.slot_scans), slot_list.need, slot_list.step),
    "retry_count": StepRule(lambda state: bool(state.pending.uncounted), retry_count.need, retry_count.go_on),
}
"""By kind. ``old_failures`` are registered anew by the clock as long as there are some."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Register what the clock makes due, and look up what the steps of this turn need."""
    state, wall = turn.state, turn.now.wall
    if wall >= state.failures.over_at:
        state.pending.begin("old_failures")
    if wall >= state.history.due_at:
        state.pending.begin("history")
    if state.pending.steps:
        turn.due = DueWork()
        for kind, rule in STEPS.items():
            if rule.need is not None and kind in state.pending.steps:
                rule.need(turn, wanted)


def take(turn: TurnState, *, is_first: bool) -> None:
    """Take the steps that come before the requests of the turn, or those after them."""
    steps = turn.state.pending.steps
    for kind, rule in STEPS.items():
        if rule.is_first == is_first and kind in steps:
            rule.step(turn)


def end(state: State) -> None:
    """At the end of the turn: the kinds that have nothing left to do are registered no longer."""
    for kind in [kind for kind in state.pending.steps if not STEPS[kind].has_work(state)]:
        state.pending.end(kind)


def unregistered(state: State) -> list[str]:
    """Kinds that have work and are not registered, between two turns: a bug."""
    return [
        f"there is work for steps of {kind}, which is not registered"
        for kind, rule in STEPS.items()
        if kind not in state.pending.steps and rule.has_work(state)
    ]
