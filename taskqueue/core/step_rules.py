"""Rows of all kinds of steps: work of which each turn does a bounded part.

    work begins ──► its kind is registered (``PendingWork.begin``) ──► need, step, turn by turn ──► none left: ended

A turn calls the steps of registered kinds only, in the order of the rows. Work that the clock makes due is registered
when the turn begins.
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
    sorting,
    sweep,
)
from taskqueue.core.turn_state import DueWork, TurnState


class StepRule(NamedTuple):
    """Rule for a kind of step.

    Attributes:
        has_work: function that says whether there is work for one of the next turns.
        need: function that adds the step's look-ups when the turn begins; None if it needs none.
        step: function that takes the step when the turn is decided.
        is_first: True for steps before the requests of the turn, False after them.
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
    "sorting": StepRule(lambda state: bool(state.pending.sorting), sorting.need, sorting.step),
    "retry_count": StepRule(lambda state: bool(state.pending.uncounted), retry_count.need, retry_count.go_on),
}
"""Rules by kind of step. The clock registers ``old_failures`` anew as long as there are some."""


def need(turn: TurnState, wanted: Needs) -> None:
    """Register the work that the clock makes due, and add the look-ups of this turn's steps."""
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
    """Unregister the kinds of steps that have no work left, at the end of a turn."""
    for kind in [kind for kind in state.pending.steps if not STEPS[kind].has_work(state)]:
        state.pending.end(kind)


def unregistered(state: State) -> list[str]:
    """Return problems: kinds of steps that have work but are not registered, between two turns."""
    return [
        f"there is work for steps of {kind}, which is not registered"
        for kind, rule in STEPS.items()
        if kind not in state.pending.steps and rule.has_work(state)
    ]
