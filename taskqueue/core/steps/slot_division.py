"""Division of a project into slots, and its changes: ready tasks move to their slots in bounded steps, best first.

    ``slot.by`` changes ──► a new division, whose slots get new numbers      this commit
                            └──► earlier ready tasks are read and moved      step by step, until none is left

Rules:
1. Tasks that are still to be moved are not dispatched. Tasks that arrive meanwhile enter their slots at once.
2. In a divided project the range of number 0 has the tasks that are still to be moved. So a task that becomes ready
   while its slot is unknown goes there: one that a cron entry pushes, one that has waited since the previous division.
3. A new division restarts the gaps of all slots, unless the project is new: its slots don't know earlier dispatches.
4. A step and its moves are one commit, so a restart continues there.

``moves/slots`` begins a division; its steps are here.
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
"""Tasks moved in a turn, at most."""
MOVED_BYTES: Final = 1 << 20
MOVED_AT_ONCE: Final = 8
"""Projects that share the tasks of a turn, at most."""

# ------------------------------------------------------------------------------------------------ moving


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next tasks to move."""
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
        # It may have been divided again, or cleared, in this turn.
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
    """Move the tasks of an entry; return False if there is no entry."""
    if not page.entries:
        return False
    entry, place = page.entries[0], page.divisions[0]
    writes = SlotWrites(project.number, page.ref.division)
    slot = page.slots[entry & NUMBER_MASK]
    rest = None if slot.end else _after(slot)  # its tasks have other keys once they are moved
    if page.ref.order == "old_time":
        writes.old_time[place, entry] = False
        if slot.tasks:
            writes.old[place, entry_of(slot.tasks[0].key)] = True
    elif project.queue.slots is None and not entry & NUMBER_MASK:
        writes.old[place, entry] = False  # tasks without a slot are in their place
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
    """Compute the entry after those of the tasks that were read."""
    return entry_of(slot.tasks[-1].key) + (1 << NUMBER_BITS)


def _move(turn: TurnState, project: Project, tasks: list[Task]) -> bool:
    """Move the tasks to their slots; return False if their names have to be looked up first."""
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
        is_cleared = task.seq <= project.cleared  # in this turn
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
