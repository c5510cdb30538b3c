"""Lists of a project's slots: the first ones in the order of the request.

    in memory    at once: all slots that may dispatch next, and those with processing tasks
    all          a page a turn, until all are scanned; then the first ones are looked up, some a turn

Rules:
1. A turn scans one page, for one request; requests take turns.
2. A repeat of a request in progress changes nothing.
3. All ready tasks are counted if slots are sorted by their number; else up to COUNTED_MOST.
4. If the project is deleted or divided otherwise meanwhile, the reply is an error; so it is if the session is cut off,
   as its sender may do less by now.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nsmallest
from typing import Final

from msgspec.structs import replace

from taskqueue.core.model.needs import FoundLook, Needs, SlotLook, SlotQuestion, SlotRecordsRef, SlotTallyRef
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.slot_pace import SlotPace
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.core.model.slot_scan import Rank, SlotScan
from taskqueue.core.model.task import SLOT_SHIFT
from taskqueue.core.model.waiters import refusal_of
from taskqueue.core.request_rule import SLOW_MS, RequestRule, asked_by
from taskqueue.core.requests.pages import that_fit
from taskqueue.core.requests.slots import slots_of, stored_pace, stored_view, view_of
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.base import ErrorReply
from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.slots import Slot, SlotList, SlotListReply

SCANS_MOST: Final = 64
"""Requests in progress, at most."""

PAGE_TASKS = 2048
"""Ready tasks counted in a turn, at most."""
PAGE_SLOTS: Final = 512
"""Slots compared in a turn, at most."""
LOOKS_A_TURN: Final = 16
"""Slots looked up in a turn, at most."""
COUNTED_MOST: Final = 256
"""Ready tasks of a slot that are counted when it is looked up, at most."""


def begin(turn: TurnState, session: Session, request: SlotList) -> SlotListReply | None:
    """List the slots in memory, or begin to scan all slots; then the reply follows in a later turn.

    Raises:
        Rejected: the project is unknown or not divided, or too many requests are in progress.
    """
    state = turn.state
    project = state.projects.named(request.project)
    slots = slots_of(project)
    if not request.all:
        first = nsmallest(
            request.limit,
            slots.by_number.values(),
            lambda slot: _rank(request.by, len(slot.head), slot.record, slot.pace, slot.number),
        )
        views = [view_of(turn, project, slot) for slot in first]
        return _reply(turn, request.n, project, len(slots.by_number), views)
    at = session.id, request.n
    if at in state.slot_scans:
        return None
    if len(state.slot_scans) >= SCANS_MOST:
        raise Rejected("full", f"slots are being listed for {SCANS_MOST} other requests already; ask again")
    start = slots.division << SLOT_SHIFT if request.by == "backlog" else slots.division
    scan = SlotScan(session, request.n, project.number, slots.division, request.by, request.limit, session.cuts, start)
    state.slot_scans[at] = scan
    state.pending.begin("slot_list")
    return None


def need(turn: TurnState, wanted: Needs) -> None:
    """Look up the next page of the request whose turn it is."""
    turn.due.scanned = next(iter(turn.state.slot_scans.values()), None)
    if turn.due.scanned is not None:
        wanted.slot_questions += _questions(turn.due.scanned)


def step(turn: TurnState) -> None:
    """Process the page that was looked up, and reply after the last one."""
    state, scan = turn.state, turn.due.scanned
    if scan is not None:
        at = scan.session.id, scan.n
        project = state.projects.by_number.get(scan.project)
        slots = None if project is None else project.queue.slots
        state.slot_scans.move_to_end(at)
        if refusal := refusal_of(scan.session, scan.n, scan.cuts):
            del state.slot_scans[at]
            turn.send(scan.session, refusal, after_sync=False)
        elif project is None or slots is None or slots.division != scan.division:
            del state.slot_scans[at]
            reason = "project: it was deleted or divided otherwise meanwhile; ask again"
            turn.send(scan.session, ErrorReply(n=scan.n, code="state", reason=reason), after_sync=False)
        else:
            _go_on(turn, project, scan)
            if scan.start is None and not scan.left:
                del state.slot_scans[at]
                turn.send(scan.session, _reply(turn, scan.n, project, scan.count, scan.views), after_sync=False)
    turn.more |= bool(state.slot_scans)


def _questions(scan: SlotScan) -> list[SlotQuestion]:
    """List the next lookups."""
    if scan.start is None:
        counted = 0 if scan.by == "backlog" else COUNTED_MOST
        return [SlotLook(scan.project, number, "", "", counted, 0) for _, _, number in scan.left[:LOOKS_A_TURN]]
    if scan.by == "backlog":
        return [SlotTallyRef(scan.project, scan.start, PAGE_TASKS)]
    return [SlotRecordsRef(scan.project, scan.start, PAGE_SLOTS)]


def _go_on(turn: TurnState, project: Project, scan: SlotScan) -> None:
    """Process the answers to the lookups."""
    answers = turn.found.slot_answers
    for each in _questions(scan):
        if isinstance(each, SlotTallyRef):
            tally = answers.tallies[each]
            scan.tally(tally.counts, end=tally.next is None)
            scan.start = tally.next
        elif isinstance(each, SlotRecordsRef):
            found = answers.records[each]
            scan.add(
                _rank(scan.by, 0, record, stored_pace(project, record), number)
                for number, record in found.records.items()
            )
            scan.start = found.next
        else:
            _show(turn, project, scan, scan.left.pop(0), answers.looks[each])
            continue
        if scan.start is None:
            scan.finish()


def _show(turn: TurnState, project: Project, scan: SlotScan, rank: Rank, look: FoundLook) -> None:
    slot = slots_of(project).by_number.get(look.number)
    if slot is not None:
        view = view_of(turn, project, slot)
    elif look.record is not None:
        view = stored_view(turn, project, look.number, look.record)
    else:
        return
    ready, more = (-int(rank[0]), False) if scan.by == "backlog" else (look.ready, look.more)
    scan.views.append(replace(view, ready=ready, more=more))


_NUMBERS: Final[dict[SlotSort, Callable[[int, SlotRecord, SlotPace], float]]] = {
    "backlog": lambda ready, record, pace: -ready,
    "errors": lambda ready, record, pace: -record.errors,
    "delay": lambda ready, record, pace: -pace.interval,
    "name": lambda ready, record, pace: 0,
}


def _rank(by: SlotSort, ready: int, record: SlotRecord, pace: SlotPace, number: int) -> Rank:
    return _NUMBERS[by](ready, record, pace), record.name, number


def _reply(turn: TurnState, n: int, project: Project, count: int, views: list[Slot]) -> SlotListReply:
    state = turn.state
    shown = that_fit(state, views, room=state.config.max_message // 2)
    return SlotListReply(n=n, by=project.settings.slot.by, count=count, slots=shown)


# Slow because finding the first of 100,000 slots in memory takes 60 ms.
REQUESTS: Final = (RequestRule(SlotList, asked_by(begin), keeps=False, slow_ms=SLOW_MS),)
