"""Slots for people: what a slot looks like, in memory or as the store has it, and how a project is divided."""

from __future__ import annotations

from collections import Counter
from math import inf

from taskqueue.core.projects.project import Project
from taskqueue.core.rules.slots import taken_of
from taskqueue.core.tasks.slots.slot import SECOND, Slot
from taskqueue.core.tasks.slots.slot_pace import SlotPace, max_tasks_of, pace_of
from taskqueue.core.tasks.slots.slot_records import SlotRecord
from taskqueue.core.tasks.slots.slot_table import SlotTable
from taskqueue.core.tasks.task import NO_FLOOR
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.slots import DivisionView, SlotView


def slots_of(project: Project) -> SlotTable:
    """The slots of a project.

    Raises:
        Rejected: it is not divided.
    """
    slots = project.queue.slots
    if slots is None:
        reason = f'project: "{project.name}" is not divided into slots; its setting slot says whether it is'
        raise Rejected("state", reason)
    return slots


def view_of(turn: TurnState, project: Project, slot: Slot) -> SlotView:
    """A slot in memory."""
    view = _view(project, slot.record, slot.number, slot.pace, turn.now.wall)
    view.place = slot.place
    view.processing = slot.leases
    view.ready, view.more = len(slot.head), slot.head.is_partial
    view.until = max(view.until, _time_of(turn, slot.goes_at()))
    return view


def stored_view(turn: TurnState, project: Project, number: int, record: SlotRecord) -> SlotView:
    """A slot that is in the store only."""
    view = _view(project, record, number, stored_pace(project, record), turn.now.wall)
    slots = project.queue.slots
    view.processing = 0 if slots is None else slots.leases.get(number, 0)
    return view


def stored_pace(project: Project, record: SlotRecord) -> SlotPace:
    """The pace of a slot that is in the store only."""
    return pace_of(project.settings, record.name, record.choice, record.auto_delay)


def division_view(project: Project) -> DivisionView | None:
    """How a project is divided; None: it never was. Looks at all of its slots in memory."""
    division, slots = project.division, project.queue.slots
    if division is None:
        return None
    view = DivisionView(division.by, moving=division.is_moving)
    if slots is not None:
        places = Counter(slot.place for slot in slots.by_number.values())
        view.ready, view.waiting, view.parked = places["ready"], places["waiting"], places["parked"]
        view.stored = slots.entries.floor != NO_FLOOR or slots.entries.time_floor != NO_FLOOR
    return view


def _view(project: Project, record: SlotRecord, number: int, pace: SlotPace, now: Wall) -> SlotView:
    most = max_tasks_of(project.settings, record.name, record.choice)
    return SlotView(
        name=record.name,
        place="stored",
        number=number,
        delay=pace.interval,
        burst=1.0 + (pace.tolerance / pace.interval if pace.interval else 0.0),
        max_processing=pace.most,
        auto=pace.is_auto,
        until=_later(max(record.next_at, record.blocked_until, record.backoff_until), now),
        blocked_until=_later(record.blocked_until, now),
        backoff=record.level,
        backoff_until=_later(record.backoff_until, now),
        errors=record.errors,
        taken=taken_of(project, record),
        max_tasks=None if most == inf else most,
    )


def _later(at: float, now: Wall) -> float:
    return at if at > now else 0.0


def _time_of(turn: TurnState, ticks: int) -> float:
    """A time of the boot clock in unix seconds, or 0 if it is over."""
    clock = turn.state.slot_clock
    return turn.now.wall + (ticks - clock.now) / SECOND if ticks > clock.now else 0.0
