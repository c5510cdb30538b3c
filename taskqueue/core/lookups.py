"""Look-ups of a turn: its needs before it decides, and the results taken in.

    requests ──► taskids not in memory ─┐
    heads that ran low ─────────────────┼──► Needs ──► (store) ──► Found ──► heads, hollow tasks, sessions
    hollow tasks that are needed ───────┘

Tasks in memory are not looked up. Processing tasks are always in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from taskqueue.core import step_rules
from taskqueue.core.model.needs import Needs, OrderRef, SpecRef
from taskqueue.core.model.pending_work import REFILLS_A_TURN
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.task import DELAYED, READY
from taskqueue.core.moves import clock_step, damage, memory_limits, slots
from taskqueue.core.request_rules import RULES
from taskqueue.core.state import State
from taskqueue.core.steps import completion, retry_count
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.projects import GroupDo, ProjectDo

CLEARING: Final = (ProjectDo, GroupDo)
"""Types of requests that may clear a project; joined here once, since joining them for each request took 0.2 µs."""

SPECS_A_TURN: Final = 256
"""Hollow tasks filled per turn, besides those that its requests name."""


def begin(turn: TurnState, incoming: Sequence[Incoming]) -> Needs:
    """Take up the work that is due, and return the needs of that work, of these requests and of the heads."""
    state = turn.state
    if state.hollow.released:
        state.release_bodies()
    state.slot_clock.set(turn.now)
    for each in incoming:
        turn.clears = turn.clears or _clears(each)
    wanted = Needs()
    clock_step.follow(turn)
    step_rules.need(turn, wanted)
    if state.pending.finishing:
        completion.need(state, wanted)
    for each in incoming:
        _need_for(turn, each, wanted)
    if state.pending.low:
        _need_low(state, wanted)
    if turn.asked:
        wanted.specs = list(turn.asked)
    if state.hollow.to_read:
        wanted.later = _wanted(turn)
    if wanted.whole:
        wanted.whole = list(dict.fromkeys(wanted.whole))
    if wanted.sessions:
        wanted.sessions = list(dict.fromkeys(wanted.sessions))
    return wanted


def absorb(turn: TurnState) -> None:
    """Take in what was looked up, before the turn decides anything."""
    state, found = turn.state, turn.found
    if turn.due.uncounted is not None:
        retry_count.step(turn, turn.due.uncounted)
    for order in found.orders:
        if order.ref.to_sort:
            continue
        project = state.projects.by_number.get(order.ref.project)
        if project is None:
            raise Corrupt(f"an order of project number {order.ref.project} was read, which is not known")
        state.pending.was_read(project.number)
        project.queue.refill(order.ref.state, order.tasks, order.following)
        note_due(state, project)
        turn.touch(project)
    if found.slots or found.slot_pages:
        slots.absorb(turn)
    if state.pending.swept:
        turn.changes.outdate(state.pending.swept)
    if found.later:
        turn.asked.update(state.hollow.take(found.later))
    if turn.asked:
        damage.lose(turn, turn.fill(found.specs))
    if found.set_aside:
        damage.set_aside(turn, found.set_aside)


def _wanted(turn: TurnState) -> list[SpecRef]:
    """Return the next hollow tasks to read; drop from the queue those that are filled already."""
    state = turn.state
    wanted = state.hollow.to_read
    coming = state.hollow.first(SPECS_A_TURN)
    for ref in coming:
        if ref in turn.asked or not state.is_hollow(ref, wanted[ref]):
            state.hollow.forget(ref)
    return [ref for ref in coming if ref in wanted]


def note_due(state: State, project: Project) -> None:
    """Set the timer of the project's delayed tasks in memory, unless some are already known to be due."""
    if project.number not in state.pending.overdue:
        state.wall_timers.note(("due", project.number), project.queue.due_at())


def note_low(state: State, project: Project) -> None:
    """Request further reads for the next turn if the project has few tasks in memory and more in the store."""
    divided = project.queue.slots
    if _low_orders(state, project) or (divided is not None and divided.wants_reads):
        state.pending.read_further(project.number)


def _need_low(state: State, wanted: Needs) -> None:
    """Add the next entries of low orders to the needs; drop projects from the list whose heads are filled by now."""
    for number in list(state.pending.low):
        if len(wanted.orders) + len(wanted.slot_pages) >= REFILLS_A_TURN:
            break
        project = state.projects.by_number[number]
        orders = _low_orders(state, project)
        wanted.orders += orders
        if not slots.need_reads(state, project, wanted) and not orders:
            state.pending.was_read(number)


def _low_orders(state: State, project: Project) -> list[OrderRef]:
    queue, config = project.queue, state.config
    ready, delayed = queue.ready, queue.delayed
    if not delayed.is_partial and (isinstance(ready, SlotQueue) or not ready.is_partial):
        return []
    heads = [(DELAYED, delayed)] if isinstance(ready, SlotQueue) else [(READY, ready), (DELAYED, delayed)]
    most = memory_limits.share(state)
    return [
        OrderRef(project.number, which, head.floor, memory_limits.refill_tasks(state, which), most // 2)
        for which, head in heads
        if head.is_low(config.head_tasks, most)
    ]


def _need_for(turn: TurnState, incoming: Incoming, wanted: Needs) -> None:
    state = turn.state
    request = incoming.request
    session = state.sessions.get(request.session)
    # An unknown session has nothing in the store: stored sessions are all loaded, and forgotten in both places at once.
    if session is not None and (session.kept_requests is None or session.has_done(request.n)):
        wanted.sessions.append(request.session)
    need = RULES[type(request)].need
    if need is not None:
        need(turn, request, wanted)


def _clears(incoming: Incoming) -> bool:
    return isinstance(incoming.request, CLEARING) and incoming.request.action == "clear"
