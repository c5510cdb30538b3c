"""Dividing a project into slots, or otherwise, or no more: its ready tasks are moved in bounded steps, best ones first.

    ``slot.by`` changes ──► a new division, whose slots get numbers of their own      this commit
                            └──► ready tasks of before: read, named, moved                 step by step, until none is
                                                                                           left

Rules:
1. What isn't moved yet isn't handed out. What arrives meanwhile is in its slot at once.
2. In a divided project the range of number 0 is that of what has still to be moved. So a task that becomes ready while
   nobody knows its slot is put there: one that a cron job pushes, one that has waited since the division before.
3. All windows begin anew with a division, unless the project is new: its slots know nothing of what was handed out
   before.
4. A step and what it has moved are one commit, so a restart goes on where it was.

``moves/slots`` begins a division; here its steps are taken.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot_records import (
    NUMBER_BITS,
    NUMBER_MASK,
    FoundSlot,
    FoundSlotPage,
    SlotName,
    SlotPageRef,
    SlotWrites,
)
from taskqueue.core.model.slot_table import entry_of
from taskqueue.core.model.task import READY, Task
from taskqueue.core.moves.slots import find_number, name_of
from taskqueue.core.turn_state import TurnState

MOVED_TASKS = 256
"""Tasks moved in a turn."""
MOVED_BYTES: Final = 1 << 20
MOVED_AT_ONCE: Final = 8
"""Projects that share the tasks of a turn."""

# ------------------------------------------------------------------------------------------------ moving


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next tasks to be moved."""
    state = turn.state
    some = dict(islice(state.pending.moving.items(), MOVED_AT_ONCE))
    for number, names in some.items():
        division = state.projects.by_number[number].division
        if division is None:
            continue
        limit = max(1, min(MOVED_TASKS, state.config.turn_tasks) // len(some))
        wanted.slot_names += names
        wanted.slot_pages += [
            SlotPageRef(number, "old", division.division, 0, 0, 1, limit, MOVED_BYTES),
            SlotPageRef(number, "old_time", division.division, 0, 0, 1, 1, MOVED_BYTES),
        ]


def step(turn: TurnState) -> None:
    """Move the tasks that were looked up."""
    state = turn.state
    left: dict[int, bool] = {}
    for page in turn.found.slot_pages:
        number = page.ref.project
        project = state.projects.by_number.get(number)
        if (
            page.ref.order == "best"
            or page.ref.order == "time"
            or project is None
            or number not in state.pending.moving
        ):
            continue
        # It may have been divided once more, or cleared, in this very turn.
        if project.division is None or project.division.division != page.ref.division:
            continue
        left[number] = _take(turn, project, page) or left.get(number, False)
    for number, is_left in left.items():
        if not is_left:
            _end(turn, state.projects.by_number[number])
    turn.more |= bool(state.pending.moving)


def _end(turn: TurnState, project: Project) -> None:
    turn.state.pending.was_moved(project.number)
    project.move_tasks(is_left=False)
    turn.touch(project)


def _take(turn: TurnState, project: Project, page: FoundSlotPage) -> bool:
    """Move what an entry leads to; False: there is none."""
    if not page.entries:
        return False
    entry, place = page.entries[0], page.divisions[0]
    writes = SlotWrites(project.number, page.ref.division)
    slot = page.slots[entry & NUMBER_MASK]
    rest = None if slot.end else _after(slot)  # its tasks have other places when they have been moved
    if page.ref.order == "old_time":
        writes.old_time[place, entry] = False
        if slot.tasks:
            writes.old[place, entry_of(slot.tasks[0].key)] = True
    elif project.queue.slots is None and not entry & NUMBER_MASK:
        writes.old[place, entry] = False  # what is in no slot is where it belongs
    elif not _move(turn, project, slot.tasks):
        return True
    else:
        writes.old[place, entry] = False
        if rest is not None:
            writes.old[place, rest] = True
        turn.state.pending.go_on_moving(project.number, [])
    turn.changes.writes.slots.append(writes)
    turn.touch(project)
    return True


def _after(slot: FoundSlot) -> int:
    """The entry after those of the tasks that were read."""
    return entry_of(slot.tasks[-1].key) + (1 << NUMBER_BITS)


def _move(turn: TurnState, project: Project, tasks: list[Task]) -> bool:
    """Move the tasks to their slots; False: their names have to be looked up first."""
    slots = project.queue.slots
    numbers = [0] * len(tasks)
    if slots is not None:
        names = [_name(turn, project, task) for task in tasks]
        numbers = [find_number(turn, project, slots, name) for name in names]
        if not all(numbers):
            refs = [SlotName(project.number, name, slots.division) for name in names]
            turn.state.pending.go_on_moving(project.number, refs)
            return False
    for task, number in zip(tasks, numbers, strict=True):
        current = turn.find(project, task.taskid) or task
        is_cleared = task.seq <= project.cleared  # in this very turn
        if current.state == READY and current.key == task.key and not is_cleared:
            project.queue.withdraw(turn.changes, current)
            current.enter_slot(number)
            project.queue.put_ready(turn.changes, current)
            turn.state.want_held(project, current)
    return True


def _name(turn: TurnState, project: Project, task: Task) -> str:
    current = turn.find(project, task.taskid) or task
    spec = current.spec or turn.spec_of(task)
    return name_of(turn, project, spec.url, spec.schedule.slot)
