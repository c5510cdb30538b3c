"""Sentences for ``why`` about slots that dispatch nothing. Asking changes nothing."""

from __future__ import annotations

from math import inf
from typing import Final

from taskqueue.core.model.needs import Needs, SlotLook
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot import SECOND, Slot
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import NO_FLOOR, SLOT_SHIFT, Task
from taskqueue.core.moves.slots import taken_of
from taskqueue.core.turn_state import TurnState
from taskqueue.texts.units import duration_text

MOVING: Final = "has only tasks that are still being moved to their slots"


def need(project: Project, taskid: str, wanted: Needs) -> None:
    """Look up the slot of a task, which may be in the store only."""
    if project.queue.slots is not None:
        wanted.slot_questions.append(_look(project, taskid))


# ------------------------------------------------------------------------------------------------ a project


def of_project(turn: TurnState, project: Project) -> str:
    """Explain why no slot of the project may dispatch; empty if one may, or if slots are being read."""
    slots = project.queue.slots
    if slots is None or slots.wants_reads:
        return ""
    ready, waiting, full = _counted(slots)
    if ready:
        return ""
    if waiting:
        first = min(waiting, key=lambda slot: slot.mark)
        others = [f"{_slots(len(waiting))} wait" if len(waiting) > 1 else "", f"{full} full" if full else ""]
        rest = ", ".join(filter(None, others))
        return f"has no slot that may dispatch now; next: {_of_slot(turn, first)}{f' ({rest})' if rest else ''}"
    if full:
        return f"has only full slots: {_slots(full)} at max_processing"
    if slots.entries.time_floor != NO_FLOOR:
        wait = slots.next_at() - turn.now.boot
        return f"has no slot that may dispatch now; the first slots in the store may {_in(wait)}"
    return MOVING if project.is_moving else ""


def is_paced(turn: TurnState, project: Project) -> bool:
    """Whether the slot that may dispatch next waits only for its own pace."""
    slots = project.queue.slots
    if slots is None or slots.wants_reads:
        return False
    ready, waiting, _ = _counted(slots)
    if ready or not waiting:
        return False
    record = min(waiting, key=lambda slot: slot.mark).record
    return max(record.blocked_until, record.backoff_until) <= turn.now.wall


def summary(turn: TurnState, project: Project) -> str:
    """Count the slots in memory, as the end of a sentence; empty if the project has none."""
    slots = project.queue.slots
    if slots is None:
        return ""
    ready, waiting, full = _counted(slots)
    first = min(waiting, key=lambda slot: slot.mark, default=None)
    rejecting = _rejecting(project, slots)
    parts = [
        f"{_slots(ready)} ready" if ready else "no slot ready",
        f"{len(waiting)} waiting (next: {_of_slot(turn, first)})" if first is not None else "",
        f"{full} full" if full else "",
        f"{_slots(rejecting)} without room for new tasks (slot.max_tasks)" if rejecting else "",
    ]
    return f"; {', '.join(filter(None, parts))}"


def rejected(project: Project) -> str:
    """Name the limit of its slot as a possible reason why a task is unknown, as a part of a sentence."""
    return ", or was rejected because its slot had reached slot.max_tasks" if project.counts_slots else ""


def _rejecting(project: Project, slots: SlotTable) -> int:
    if not project.counts_slots:
        return 0
    return sum(slot.record.refused and taken_of(project, slot.record) > 0 for slot in slots.by_number.values())


def _counted(slots: SlotTable) -> tuple[int, list[Slot], int]:
    """Sort slots in memory: the number that may dispatch, those with tasks that wait, the number that are full."""
    ready = full = 0
    waiting: list[Slot] = []
    for slot in slots.by_number.values():
        if slot.place == "ready":
            ready += 1
        elif slot.has_more and slot.place == "waiting":
            waiting.append(slot)
        elif slot.has_more and slot.is_full:
            full += 1
    return ready, waiting, full


# ------------------------------------------------------------------------------------------------ a task


def of_task(turn: TurnState, project: Project, task: Task) -> str:
    """Explain why the slot of a ready task dispatches nothing; empty if it may, or if the task has no slot."""
    slots = project.queue.slots
    number = task.key >> SLOT_SHIFT
    if slots is None or number < slots.division:
        return "it is still being moved to its slot" if project.is_moving and (number or slots is not None) else ""
    slot = slots.by_number.get(number)
    if slot is None:
        look = turn.found.slot_answers.looks.get(_look(project, task.taskid))
        if look is None or look.record is None or look.number != number:
            return ""
        wait = max(look.record.next_at, look.record.blocked_until, look.record.backoff_until) - turn.now.wall
        return f"its slot {_waits(turn, look.record, wait)}" if wait > 0 else ""
    if slot.is_full:
        return f'its slot "{slot.record.name}" is full: {_tasks(slot.leases)} processing, its max_processing'
    if slot.place != "waiting":
        return ""
    ready = _counted(slots)[0]
    return f"its slot {_of_slot(turn, slot)}{before(project, task)}; {_slots(ready)} ready"


def before(project: Project, task: Task) -> str:
    """Count the tasks of its slot before this one, as a part of a sentence; empty if none, or without a slot."""
    slots = project.queue.slots
    slot = None if slots is None else slots.by_number.get(task.key >> SLOT_SHIFT)
    if slot is None:
        return ""
    count = sum(1 for key in slot.head.entries if key < task.key)
    least = "" if task.key in slot.head.entries else "at least "
    return f", with {least}{_tasks(count)} before this one" if count else ""


# ------------------------------------------------------------------------------------------------ words


def _look(project: Project, taskid: str) -> SlotLook:
    return SlotLook(project.number, 0, "", taskid, 0, 0)


def _of_slot(turn: TurnState, slot: Slot) -> str:
    return _waits(turn, slot.record, (slot.looks_at() - turn.state.slot_clock.now) / SECOND)


def _waits(turn: TurnState, record: SlotRecord, seconds: float) -> str:
    now = turn.now.wall
    if record.blocked_until == inf:
        return f'"{record.name}" is blocked until an operator unblocks it'
    if record.blocked_until > now:
        return f'"{record.name}" is blocked; it may dispatch {_in(seconds)}'
    if record.backoff_until > now:
        return f'"{record.name}" backs off because its host refused or was unreachable; it may dispatch {_in(seconds)}'
    return f'"{record.name}" may dispatch {_in(seconds)}'


def _in(seconds: float) -> str:
    return f"in {duration_text(seconds)}" if seconds > 0 else "now"


def _slots(count: int) -> str:
    return f"{count} slot{'' if count == 1 else 's'}"


def _tasks(count: int) -> str:
    return f"{count} task{'' if count == 1 else 's'}"
