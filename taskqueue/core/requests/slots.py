"""Requests that show and set one slot; and views of slots, also for lists.

    numbers of a pace ──► set by an operator, by a pattern, by the project: see ``slot_pace``

An operator's settings of a slot are kept in its record, which is made if there is none, so that a host that is known to
be slow can be set before its first task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from typing import Final

from msgspec.structs import asdict, replace

from taskqueue.core.model.back_off import forgive
from taskqueue.core.model.needs import FoundLook, Needs, SlotLook
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot import SECOND, Slot
from taskqueue.core.model.slot_names import given_name
from taskqueue.core.model.slot_pace import SlotPace, fitting_choice, fitting_pattern, max_tasks_of, pace_of
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.core.model.slot_table import SlotTable
from taskqueue.core.model.task import NO_FLOOR, Task
from taskqueue.core.moves import change_log
from taskqueue.core.moves.slots import taken_of
from taskqueue.core.request_rule import Halves, RequestRule, in_halves
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.hosts.url_hosts import host_of
from taskqueue.protocol.fields import MAX_EPOCH_SECONDS, Setting, Wall
from taskqueue.protocol.slots import Slot as SlotView
from taskqueue.protocol.slots import SlotDivision, SlotReply, SlotSet, SlotShow
from taskqueue.protocol.tasks import TaskRow
from taskqueue.settings.change_text import pairs, values
from taskqueue.settings.settings import Settings
from taskqueue.settings.slots import PLAIN_CHOICE, WHOLES, SlotChoice

TASKS_SHOWN: Final = 5
"""Next tasks of a slot that are shown, at most."""
CHOSEN: Final = SlotChoice.__struct_fields__
SAYABLE: Final = (*CHOSEN, "block_until")
"""Settings of a slot: its choice, and its block."""

COUNTED_MOST: Final = 2048
"""Ready tasks of a slot that are counted, at most."""


def show(turn: TurnState, request: SlotShow, wanted: Needs) -> Halves:
    """Answer with everything that is known of a slot.

    Raises:
        Rejected: the project is unknown or not divided, or it has no such slot.
    """
    project = turn.state.projects.named(request.project)
    slots = slots_of(project)
    name = _name(turn, project, request.slot)
    wanted.slot_questions.append(_look(project, name))
    yield
    look = turn.found.slot_answers.looks.get(_look(project, name))
    slot = slots.by_name.get(name)
    if slot is not None:
        view, record = view_of(turn, project, slot), slot.record
    elif look is not None and look.record is not None and look.number >= slots.division:
        view, record = stored_view(turn, project, look.number, look.record), look.record
    else:
        reason = f'slot: project "{project.name}" has never had a task in slot "{request.slot}"'
        raise Rejected("unknown-slot", reason)
    return _reply(project, request.n, view, record, look)


def _reply(project: Project, n: int, view: SlotView, record: SlotRecord, look: FoundLook | None) -> SlotReply:
    tasks: list[Task] = []
    if look is not None and look.number == view.number:
        view, tasks = replace(view, ready=look.ready, more=look.more), look.tasks
    chosen = {name: value for name, value in asdict(record.choice).items() if value is not None}
    return SlotReply(
        n=n,
        slot=view,
        chosen=chosen,
        sources=sources_of(project.settings, record.name, record.choice),
        tasks=[_row(task) for task in tasks],
    )


def _row(task: Task) -> TaskRow:
    url = task.spec.url if task.spec is not None else ""
    return TaskRow(task.taskid, url, task.priority, retried=task.retried, lastcrawltime=task.lastcrawltime)


def _look(project: Project, name: str) -> SlotLook:
    return SlotLook(project.number, 0, name, "", COUNTED_MOST, TASKS_SHOWN)


# ------------------------------------------------------------------------------------------------ set by operators


def set_slot(turn: TurnState, request: SlotSet, wanted: Needs) -> Halves:
    """Change an operator's settings of one slot.

    Raises:
        Rejected: the project is unknown or not divided, the request has no setting, two settings contradict each other,
            or no task can be in a slot of this name. Nothing has changed.
    """
    state = turn.state
    project = state.projects.named(request.project)
    slots = slots_of(project)
    named = _named(request)
    name = _name(turn, project, request.slot)
    wanted.slot_questions.append(_look(project, name))
    by = yield
    look = turn.found.slot_answers.looks.get(_look(project, name))
    number, record = _record(turn, project, slots, name, look)
    slot = slots.by_number.get(number)
    if slot is not None:
        slot.follow_clock(state.slot_clock)
    before = _pace_texts(turn, project, name, record)
    record.choice = _chosen(record.choice, request)
    if record.choice.max_tasks is not None and project.division is not None:
        project.division.is_counting = True
        project.note_limits()
    if "block_until" in request.unset:
        forgive(record)
    elif request.block_until is not None:
        record.blocked_until = request.block_until
    if slot is not None:
        slots.repace(slot)
        view = view_of(turn, project, slot)
    else:
        slots.repace_stored(number, record, stored_pace(project, record))
        view = stored_view(turn, project, number, record)
    turn.touch(project)
    detail = pairs([before], _pace_texts(turn, project, name, record), named)
    change_log.note(turn, by, "slot set", project=project.name, detail=f"{name} {detail}")
    return _reply(project, request.n, view, record, look)


def _named(request: SlotSet) -> list[str]:
    """List the names that the request sets or unsets.

    Raises:
        Rejected: there are none, or the request is invalid.
    """
    said = {name: getattr(request, name) for name in SAYABLE if getattr(request, name) is not None}
    if not said and not request.unset:
        raise Rejected("setting", f"slot: set or unset at least one of {', '.join(SAYABLE)}")
    if both := [name for name in request.unset if name in said]:
        raise Rejected("setting", f"{both[0]}: can't be set and unset at once")
    if request.delay is not None and request.rate is not None:
        raise Rejected("setting", "slot: set delay or rate, not both")
    if request.block_until is not None and MAX_EPOCH_SECONDS < request.block_until < inf:
        raise Rejected("setting", "block_until: expected unix seconds of at most 1e11, or inf, not milliseconds")
    for name in WHOLES:
        most = said.get(name)
        if most is not None and most != inf and most % 1:
            raise Rejected("setting", f"{name}: expected a whole number of at least 1 or inf, not {most:g}")
    return [*said, *request.unset]


def _pace_texts(turn: TurnState, project: Project, name: str, record: SlotRecord) -> dict[str, str]:
    """Write the numbers in force for a slot, from any source, as texts for the log."""
    blocked = record.blocked_until if record.blocked_until > turn.now.wall else None
    pace = pace_in_force(project.settings, name, record.choice) | {"block_until": blocked}
    return values(pace, pace)


def _record(
    turn: TurnState, project: Project, slots: SlotTable, name: str, look: FoundLook | None
) -> tuple[int, SlotRecord]:
    """Find or make the slot of that name; return its number and record.

    Raises:
        Rejected: no task can be in a slot of this name.
    """
    number = slots.number_of(name) or (look.number if look is not None else 0)
    slot = slots.by_number.get(number)
    if slot is not None:
        return number, slot.record
    written = slots.entries.writes.records.get(number)
    if written is not None:
        return number, written
    known = look.record if look is not None else None
    if known is None:
        _check_name(turn, project, name)
        known = SlotRecord(name)
    if number < slots.division:
        number = slots.make(replace(known))
        return number, slots.entries.writes.records[number]
    return number, known


def _name(turn: TurnState, project: Project, called: str) -> str:
    """Turn an operator's spelling into the name of the slot."""
    return given_name(project.settings.slot.by, called, turn.state.environment.ascii_host)


def _check_name(turn: TurnState, project: Project, name: str) -> None:
    """Refuse a name for a new slot if it looks like a host but is not spelt as slots are."""
    by, environment = project.settings.slot.by, turn.state.environment
    host = host_of(name, environment.ascii_host) or host_of(f"http://{name}", environment.ascii_host)
    if by == "domain" and host:
        host = environment.domain(host)
    if by != "named" and host and host != name:
        raise Rejected("setting", f'slot: URLs of "{name}" belong to the slot "{host}"; set that one')


def _chosen(choice: SlotChoice, request: SlotSet) -> SlotChoice:
    said = {name: getattr(request, name) for name in CHOSEN if getattr(request, name) is not None}
    said |= {name: None for name in request.unset if name in CHOSEN}
    if request.delay is not None:
        said["rate"] = None
    elif request.rate is not None:
        said["delay"] = None
    return replace(choice, **said)


# ------------------------------------------------------------------------------------------------ views


def slots_of(project: Project) -> SlotTable:
    """Return the slots of a project.

    Raises:
        Rejected: the project is not divided.
    """
    slots = project.queue.slots
    if slots is None:
        reason = f'project: "{project.name}" is not divided into slots; its setting slot.by divides it'
        raise Rejected("state", reason)
    return slots


def view_of(turn: TurnState, project: Project, slot: Slot) -> SlotView:
    """Make the view of a slot in memory."""
    view = _view(project, slot.record, slot.number, slot.pace, turn.now.wall)
    until = max(view.until, _time_of(turn, slot.goes_at()))
    ready, more = len(slot.head), slot.head.is_partial
    return replace(view, place=slot.place, processing=slot.leases, ready=ready, more=more, until=until)


def stored_view(turn: TurnState, project: Project, number: int, record: SlotRecord) -> SlotView:
    """Make the view of a slot that is in the store only."""
    view = _view(project, record, number, stored_pace(project, record), turn.now.wall)
    slots = project.queue.slots
    return view if slots is None else replace(view, processing=slots.leases.get(number, 0))


def stored_pace(project: Project, record: SlotRecord) -> SlotPace:
    """Compute the pace of a slot that is in the store only."""
    return pace_of(project.settings, record.name, record.choice, record.auto_delay)


def division_view(project: Project) -> SlotDivision | None:
    """Make the view of a project's division, or None if it was never divided; scans all of its slots in memory."""
    division, slots = project.division, project.queue.slots
    if division is None:
        return None
    view = SlotDivision(division.by, moving=division.is_moving)
    if slots is None:
        return view
    places = Counter(slot.place for slot in slots.by_number.values())
    stored = slots.entries.floor != NO_FLOOR or slots.entries.time_floor != NO_FLOOR
    return replace(view, ready=places["ready"], waiting=places["waiting"], parked=places["parked"], stored=stored)


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
    """Convert ticks of the boot clock to unix seconds; 0 if they have passed."""
    clock = turn.state.slot_clock
    return turn.now.wall + (ticks - clock.now) / SECOND if ticks > clock.now else 0.0


# ------------------------------------------------------------------------------------------------ sources of numbers


def sources_of(settings: Settings, name: str, chosen: SlotChoice) -> dict[str, str]:
    """Map each number of a slot to its source: ``person``, a pattern, or ``project``; empty without a name.

    Args:
        chosen: the operator's settings of this slot.
    """
    if not name:
        return {}
    patterns = settings.slot.patterns
    pattern = fitting_pattern(patterns, name)
    fitting = patterns.get(pattern, PLAIN_CHOICE)

    def source(says: Callable[[SlotChoice], bool]) -> str:
        return "person" if says(chosen) else pattern if says(fitting) else "project"

    return {
        "delay": source(lambda choice: choice.delay is not None or choice.rate is not None),
        "burst": source(lambda choice: choice.burst is not None),
        "max_processing": source(lambda choice: choice.max_processing is not None),
        "max_tasks": source(lambda choice: choice.max_tasks is not None),
    }


def pace_in_force(settings: Settings, name: str, chosen: SlotChoice) -> dict[str, Setting]:
    """Collect the numbers in force for the slot of that name, from any source; of delay and rate, the one that counts.

    Args:
        chosen: the operator's settings of this slot.
    """
    slot = settings.slot
    rate = slot.rate if slot.rate != inf else None
    own = SlotChoice(slot.delay, rate, slot.burst, slot.max_processing, slot.max_tasks)
    said = (chosen, fitting_choice(slot.patterns, name), own)
    delay, rate = next((each.delay, each.rate) for each in said if each.delay is not None or each.rate is not None)
    whole = {
        field: next((value for each in said if (value := getattr(each, field)) is not None), None)
        for field in ("burst", "max_processing", "max_tasks")
    }
    return {"delay": delay if rate is None else None, "rate": rate, **whole}


REQUESTS: Final = (
    RequestRule(SlotShow, *in_halves(show), keeps=False),
    RequestRule(SlotSet, *in_halves(set_slot), grows=True, slow_ms=2.0),
)
