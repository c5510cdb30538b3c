"""Slots in a turn: divisions of projects, look-ups of names, reads of tasks, ends of windows.

    push ──name──► number in memory, or looked up; an unknown name is a new slot
    slots that ran low ──► read with their next tasks ──► ready, waiting or parked
    a window ends ──timer──► ready, and the project is offered
    a report ──► its slot adapts its delay, is blocked or backs off: see ``back_off``
    ``slot.by`` changes ──► a new division, whose slots get numbers of their own and a share of the memory

See ``slot_records`` for what a slot is, and ``slot_table`` for where slots wait. Tasks of the division before are moved
in steps, by ``steps/slot_division``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import inf
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from taskqueue.core.model.back_off import back_off, block, is_proper
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot import AHEAD, SECOND
from taskqueue.core.model.slot_names import slot_name
from taskqueue.core.model.slot_pace import SlotPace, max_tasks_of, pace_of
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.slot_records import DivisionRecord, SlotName, SlotPageRef, SlotRecord, SlotRef
from taskqueue.core.model.slot_table import FIRST_TASKS, SlotTable
from taskqueue.core.model.task import READY, SLOT_SHIFT, Task
from taskqueue.core.moves.memory_limits import share
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected
from taskqueue.protocol.fields import UNSAID
from taskqueue.protocol.host_verdicts import Verdict, verdict_of
from taskqueue.protocol.values import Assignment, NewTask, TaskReport

T = TypeVar("T")

START_WITHIN: Final = 1.0
"""Seconds after its time within which a fetcher starts a task of a slot with a pace, or gives it back."""

SLOTS_A_TURN = 256
"""Slots of a project that are read in a turn, for each order and for those that are wanted."""

# ------------------------------------------------------------------------------------------------ names


def name_of(turn: TurnState, project: Project, url: str, named: str | None) -> str:
    """Return the name of a task's slot; empty if the project does not tell its tasks apart."""
    environment = turn.state.environment
    return slot_name(project.settings.slot.by, url, named, environment.domain, environment.ascii_host)


def need_name(turn: TurnState, project: Project, url: str, named: str | None, wanted: Needs) -> None:
    """Look up the slot of a task, if its number is not in memory."""
    slots = project.queue.slots
    if slots is None:
        return
    name = name_of(turn, project, url, named)
    if project.counts_slots:  # also if it is in memory, which it may leave before the tasks are taken in
        wanted.slot_records.append(SlotName(project.number, name, slots.division))
        wanted.slot_names.append(wanted.slot_records[-1])
    elif not slots.number_of(name):
        wanted.slot_names.append(SlotName(project.number, name, slots.division))


def number_for(turn: TurnState, project: Project, url: str, named: str | None) -> int:
    """Return the number of a task's slot, which is created if it was looked up and does not exist.

    0 if the project has no slots, or if the slot was not looked up; then the task waits for ``slot_division``.
    """
    slots = project.queue.slots
    if slots is None:
        return 0
    return find_number(turn, project, slots, name_of(turn, project, url, named))


def find_number(turn: TurnState, project: Project, slots: SlotTable, name: str) -> int:
    """Return the number of the slot of that name; 0 if it was not looked up."""
    number = slots.number_of(name)
    if number:
        return number
    ref = SlotName(project.number, name, slots.division)
    known = turn.found.slot_numbers.get(ref)
    if known is None or known >= slots.division:
        return known or 0
    turn.touch(project)
    record = turn.found.slot_records.get(ref)
    return slots.make(replace(record) if record is not None else SlotRecord(name))


# ------------------------------------------------------------------------------------------------ counts


class _Counted(NamedTuple):
    """Slot that has been looked up, for its tasks to be counted."""

    number: int
    record: SlotRecord


def check_room(turn: TurnState, project: Project, item: NewTask) -> None:
    """Check that a new task may be in its slot.

    Raises:
        Rejected: the slot has had as many as it may. The first time for each slot an event is emitted.
    """
    found = _counted(turn, project, item)
    if found is None:
        return
    record = found.record
    most, taken = max_tasks_of(project.settings, record.name, record.choice), taken_of(project, record)
    if taken < most:
        return
    if not record.refused:
        record.refused = True
        _keep(turn, project, found)
        reason = f'new tasks of slot "{record.name}" are rejected: it has had {taken} of {most:g} (slot.max_tasks)'
        turn.emit("slot-full", project, reason)
    raise Rejected("slot-full", f'slot: "{record.name}" is full: it has had {taken} tasks of {most:g} (slot.max_tasks)')


def count_new(turn: TurnState, project: Project, item: NewTask) -> None:
    """Count a new task in its slot."""
    found = _counted(turn, project, item)
    if found is not None:
        record = found.record
        record.taken, record.taken_from = taken_of(project, record) + 1, taken_from(project)
        record.refused = False
        _keep(turn, project, found)


def taken_of(project: Project, record: SlotRecord) -> int:
    """Return how many tasks have been new in a slot since the division began, or the project was cleared."""
    return record.taken if record.taken_from == taken_from(project) else 0


def taken_from(project: Project) -> int:
    """Return ``DivisionRecord.taken_from``."""
    return 0 if project.division is None else project.division.taken_from


def _counted(turn: TurnState, project: Project, item: NewTask) -> _Counted | None:
    """Return the slot of a new task; None if it does not exist yet, or was not looked up."""
    slots = project.queue.slots
    if slots is None:
        return None
    ref = SlotName(project.number, name_of(turn, project, item.url, item.schedule.slot), slots.division)
    number = slots.number_of(ref.name) or turn.found.slot_numbers.get(ref, 0)
    if number < slots.division:
        return None
    slot = slots.by_number.get(number)
    written = slots.entries.writes.records.get(number)
    record = slot.record if slot is not None else written or turn.found.slot_records.get(ref)
    return None if record is None else _Counted(number, record)


def _keep(turn: TurnState, project: Project, found: _Counted) -> None:
    slots = project.queue.slots
    if slots is not None:
        turn.touch(project)
        slots.keep_record(found.number, found.record)


# ------------------------------------------------------------------------------------------------ reads


def need_reads(state: State, project: Project, wanted: Needs) -> bool:
    """Add the reads of the project's slots for this turn; return False if there are none."""
    slots = project.queue.slots
    if slots is None or not slots.wants_reads:
        return False
    number, most = project.number, share(state) // 2
    places = [(dry.number, dry.head.floor, dry.read_tasks) for dry in _some(slots.dry.values())]
    places += [(each, each << SLOT_SHIFT, FIRST_TASKS) for each in _some(slots.entries.wanted)]
    wanted.slots += [SlotRef(number, *place, most) for place in places]
    page = (SLOTS_A_TURN, FIRST_TASKS, most // SLOTS_A_TURN)
    entries = slots.entries
    if slots.is_low:
        wanted.slot_pages.append(SlotPageRef(number, "best", slots.division, entries.floor, 1 << 128, *page))
    if slots.is_time:
        wanted.slot_pages.append(
            SlotPageRef(number, "time", slots.division, entries.time_floor, slots.time_bound(), *page)
        )
    return True


def absorb(turn: TurnState) -> None:
    """Take in the slots that were read."""
    found = turn.found
    for ref, slot in found.slots.items():
        _queue_of(turn, ref.project).take_slot(ref.number, slot)
    for page in found.slot_pages:
        if page.ref.order == "best" or page.ref.order == "time":
            _queue_of(turn, page.ref.project).take_page(page)


def _queue_of(turn: TurnState, number: int) -> SlotQueue:
    project = turn.state.projects.by_number.get(number)
    if project is None or not isinstance(project.queue.ready, SlotQueue):
        raise Corrupt(f"slots of project number {number} were read, which has no slots")
    turn.state.pending.was_read(number)
    turn.touch(project)
    return project.queue.ready


def _some(items: Iterable[T]) -> list[T]:
    return list(islice(items, SLOTS_A_TURN))


# ------------------------------------------------------------------------------------------------ reports


def need_slot(turn: TurnState, project: Project, task: Task, item: TaskReport, wanted: Needs) -> None:
    """Read the slot of a leased task if a report affects it and it is not in memory, as just after a start."""
    slots = project.queue.slots
    if (
        slots is not None
        and task.slot >= slots.division
        and task.slot not in slots.by_number
        and (item.fetched is not None or item.retry_after is not None)
    ):
        place = (task.slot, task.slot << SLOT_SHIFT, FIRST_TASKS)
        wanted.slots.append(SlotRef(project.number, *place, share(turn.state) // 2))


def apply_report(turn: TurnState, project: Project, task: Task, item: TaskReport) -> Verdict:
    """Apply a report that counts to the task's slot; the task still has the token of its lease.

    A success that arrives after slot and task have left memory is ignored.

    Returns:
        What the host did; always ``answered`` for a task without a slot.
    """
    slots = project.queue.slots
    if slots is None or (item.fetched is None and item.retry_after is None):
        return "answered"
    slot = slots.by_number.get(task.slot)
    if slot is None or not slot.record.name:
        return "answered"
    fetched = item.fetched
    if fetched is not None and fetched.seconds is not None:
        slots.answered(slot, fetched.seconds, is_proper=is_proper(fetched, ok=item.ok))
    verdict = verdict_of(item)
    if verdict != "answered" or item.retry_after is not None:
        slot.follow_clock(turn.state.slot_clock)
        _hold_up(turn, slot.record, task, item, verdict)
        slots.changed(slot)
    return verdict


def _hold_up(turn: TurnState, record: SlotRecord, task: Task, item: TaskReport, verdict: Verdict) -> None:
    now = turn.now.wall
    if verdict != "answered":
        record.errors += 1
    if item.retry_after is not None:
        block(record, now, item.retry_after)
    elif task.lease is not None:
        back_off(record, now, turn.state.lease_number(task), turn.state.next_number())


# ------------------------------------------------------------------------------------------------ time


def next_at(project: Project) -> float:
    """Return when a slot of the project may go on (boot-clock seconds); inf if never, or if none waits."""
    slots = project.queue.slots
    return inf if slots is None else slots.next_at()


def advance(turn: TurnState, project: Project, budget: int) -> int:
    """Move slots whose time has come; return the cost."""
    slots = project.queue.slots
    turn.touch(project)
    return 1 + (0 if slots is None else slots.advance(budget))


def with_pace(project: Project, number: int, assignment: Assignment, wait: float) -> Assignment:
    """Return the assignment of a task in this slot, with the slot's name, to be started in ``wait`` seconds."""
    slots = project.queue.slots
    if slots is None:
        return assignment
    slot = slots.by_number.get(number)
    name = "" if slot is None else slot.record.name
    if slots.is_paced(number):
        return replace(assignment, not_before=wait or UNSAID, start_within=START_WITHIN, slot=name)
    return replace(assignment, slot=name) if name else assignment


def sent_again(turn: TurnState, project: Project, task: Task, assignment: Assignment, timeout: float) -> Assignment:
    """Return the assignment of a leased task that is sent again, with the rest of its wait; its slot counts from now.

    Args:
        assignment: its ``timeout`` is the rest of the lease.
        timeout: timeout of the task, which begins when it may be started.
    """
    slots = project.queue.slots
    if slots is None or not task.slot:
        return assignment
    wait = min(max(0.0, assignment.timeout - timeout), AHEAD / SECOND)
    slots.sent_again(task.slot, wait)
    turn.touch(project)
    again = with_pace(project, task.slot, assignment, wait)
    name = again.slot
    if not name and task.slot >= slots.division:  # after a start the slot is not in memory yet
        name = name_of(turn, project, assignment.url, turn.spec_of(task).schedule.slot)
    return replace(again, timeout=assignment.timeout - wait, slot=name)


def settle(turn: TurnState, project: Project) -> None:
    """Write the changes of the project's slots, and set their timer."""
    slots = project.queue.slots
    if slots is None:
        return
    if slots.take_moving():
        project.move_tasks(is_left=True)
        turn.state.pending.move(project.number)
        turn.more = True  # for a turn that moves them
    writes = slots.take_writes()
    if writes is not None:
        turn.changes.writes.slots.append(writes)
    turn.state.boot_timers.note(("slot", project.number), slots.next_at())


# ------------------------------------------------------------------------------------------------ divisions


SLOTS_LEAST = 8
"""Slots that each project with slots may have in memory at least."""


def divide(turn: TurnState, project: Project) -> None:
    """Divide the project as its settings say, or continue its present division."""
    by, division, slots = project.settings.slot.by, project.division, project.queue.slots
    former = "none" if division is None else division.by
    if former != by:
        _divide(turn, project, division)
    elif slots is not None:
        slots.change_paces()
    elif division is not None and by != "none":
        _reopen(turn, project, division)
    if project.is_moving:
        turn.state.pending.move(project.number)


def forget_project(state: State, project: Project) -> None:
    """Forget the slots of a project that is removed."""
    if project.queue.slots is not None:
        _share_anew(state, project, None)


def _divide(turn: TurnState, project: Project, former: DivisionRecord | None) -> None:
    """Begin another division."""
    queue = project.queue
    next_slot = 1 if former is None else former.next_slot
    next_slot = next_slot if queue.slots is None else queue.slots.next_number
    division = project.begin_division(project.settings.slot.by, next_slot, turn.state.next_number())
    slots = None if division.by == "none" else _table(turn.state, project, division)
    queue.divide(turn.changes, slots)
    if slots is not None and (former is not None or project.totals.new):
        slots.begin()
    if queue.counts[READY]:
        project.move_tasks(is_left=True)
        if slots is not None:
            slots.note_old(0)
    _share_anew(turn.state, project, slots)
    turn.touch(project)


def _reopen(turn: TurnState, project: Project, division: DivisionRecord) -> None:
    """Continue the stored division."""
    queue = project.queue
    low, time_low = queue.ready.low_key(), int.from_bytes(division.time_low, "big")
    slots = _table(turn.state, project, division)
    queue.divide(turn.changes, slots)
    if queue.counts[READY]:
        slots.open(low, time_low)
    else:
        slots.begin()
    _share_anew(turn.state, project, slots)


def _table(state: State, project: Project, division: DivisionRecord) -> SlotTable:
    if division.by == "domain":
        state.environment.domain("example.org")  # the first call takes tens of milliseconds, the others none
    if division.by in ("host", "domain"):
        state.environment.ascii_host("é")  # as above

    def pace(record: SlotRecord) -> SlotPace:
        return pace_of(project.settings, record.name, record.choice, record.auto_delay)

    return SlotTable(project.number, state.slot_clock, pace, division.division, division.next_slot, SLOTS_LEAST)


def _share_anew(state: State, project: Project, slots: SlotTable | None) -> None:
    """Record the slots of a project, or that it has none; share the memory for slots anew."""
    if slots is None:
        state.divided.pop(project.number, None)
    else:
        state.divided[project.number] = slots
    share_memory(state)


def share_memory(state: State) -> None:
    """Give all projects with slots equal shares of the memory for slots."""
    most = max(SLOTS_LEAST, state.config.slots_in_memory // max(1, len(state.divided)))
    for each in state.divided.values():
        each.bound(most)
