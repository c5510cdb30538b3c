"""Check of the daemon's invariants: after every step in tests and simulation, on demand in production.

Each function checks one thing and yields each problem as a phrase; nothing here changes state. The orders of waiting
tasks, with slots and without, come last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from taskqueue.core.model.bucket import SLACK
from taskqueue.core.model.heads import Head
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.slot import Slot, SlotClock
from taskqueue.core.model.slot_queue import SlotQueue
from taskqueue.core.model.slot_records import NUMBER_BITS
from taskqueue.core.model.slot_table import SlotTable, entry_of
from taskqueue.core.model.task import (
    DELAYED,
    NO_FLOOR,
    PROCESSING,
    READY,
    SEQ_MASK,
    SLOT_SHIFT,
    STATE_NAMES,
    Task,
    deferred_bytes,
    is_retry,
    ready_key,
)
from taskqueue.core.request_rule import SLOW_MS, RequestRule, asked
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.daemon import Verify, VerifyReply

PROBLEMS_SHOWN: Final = 100
"""Problems in one verify reply, at most: one broken invariant may show in every task."""


def check(turn: TurnState) -> list[str]:
    """List all problems, in a turn or between turns; empty if there are none."""
    state = turn.state
    problems: list[str] = []
    if state.projects.names != sorted(state.projects.by_name):
        problems.append("the names of the projects are not in order")
    for project in state.projects.by_name.values():
        problems += [f"project {project.name}: {problem}" for problem in _check_project(turn, project)]
    for session in state.sessions.values():
        problems += [f"session {session.label}: {problem}" for problem in _check_session(state, session)]
    problems += _check_places(state)
    problems += [*_check_memory(state), *_check_wishes(state), *_check_said(state)]
    return [*problems, *_check_connections(state), *_check_owners(state)]


def _check_memory(state: State) -> Iterator[str]:
    projects = state.projects.by_name.values()
    leased = [task.size for project in projects for task in project.queue.processing.leased.values()]
    if (state.memory.leases, state.memory.leased) != (len(leased), sum(leased)):
        counted = f"{state.memory.leases} of {state.memory.leased} bytes"
        yield f"{len(leased)} tasks of {sum(leased)} bytes are leased, {counted} are counted"
    leases = [task.lease for project in projects for task in project.queue.processing.leased.values()]
    deferred = sum(deferred_bytes(lease.deferred) for lease in leases if lease and lease.deferred)
    if state.memory.deferred != deferred:
        yield f"deferred updates take {deferred} bytes, {state.memory.deferred} are counted"
    if state.memory.ended != (ended := sum(len(session.ended) for session in state.sessions.values())):
        yield f"{ended} ended leases still take a place, {state.memory.ended} are counted"


def _check_places(state: State) -> Iterator[str]:
    """Check that free, running and hung places of each fetcher, counted separately, add up to its capacity."""
    leased = [task for project in state.projects.by_name.values() for task in project.queue.processing.leased.values()]
    running = Counter(
        task.lease.session
        for task in leased
        if task.lease and (of := state.sessions.get(task.lease.session)) and task.token not in of.passed
    )
    for session in state.sessions.values():
        hung = len(session.ended.keys() - session.leases.keys()) + session.capacity - session.usable
        if session.room + running[session.id] + hung != session.capacity:
            counted = f"{session.room} free, {running[session.id]} running and {hung} hung places"
            yield f"session {session.label}: {counted} are not the {session.capacity} that it has"
        if session.free not in (0, session.room):
            yield f"session {session.label}: {session.room} places are free, but it may get {session.free} tasks"


def _check_said(state: State) -> Iterator[str]:
    said = sum(project.overrides_bytes for project in state.projects.by_name.values())
    if state.projects.overrides_bytes != said:
        yield f"overrides of projects take {said} bytes, {state.projects.overrides_bytes} are counted"


def _check_wishes(state: State) -> Iterator[str]:
    stated = dict.fromkeys(session.interest for session in state.sessions.values() if session.interest)
    if state.wishes.names != (names := sum(map(len, stated))):
        yield f"fetchers name {names} projects, {state.wishes.names} are counted"


def _check_owners(state: State) -> Iterator[str]:
    for session in state.sessions.values():
        if state.owners.get(session.owner) is not session.siblings or session.id not in session.siblings.all:
            yield f"session {session.label} is unknown to its owner"
    if len(state.sessions) != (owned := sum(len(each.all) for each in state.owners.values())):
        yield f"owners have {owned} sessions, of {len(state.sessions)}"


def _check_connections(state: State) -> Iterator[str]:
    for session in state.sessions.values():
        if session.peer and not state.connections.has(session):
            yield f"session {session.label} is unknown at its connection"
    held = sum(map(state.connections.held, dict.fromkeys(session.peer for session in state.sessions.values())))
    if held != (counted := sum(len(session.leases) for session in state.sessions.values() if session.peer)):
        yield f"connections count {held} leases, their sessions {counted}"


def _check_project(turn: TurnState, project: Project) -> Iterator[str]:
    state, queue = turn.state, project.queue
    if state.projects.by_number.get(project.number) is not project:
        yield "is unknown by its number"
    if project.bucket.level > project.bucket.burst + SLACK:
        yield f"bucket has {project.bucket.level:g} tokens, burst is {project.bucket.burst}"
    changed = {id(task) for task in turn.changes.touched}
    # Changes of this turn are counted at its end.
    for which in () if project.number in turn.dirty else (READY, DELAYED):
        if (held := queue.head(which).bytes) != (counted := state.memory.noted(project.number, which)):
            yield f"its head of {STATE_NAMES[which]} tasks has {held} bytes, {counted} are counted"
    if isinstance(queue.ready, Head):
        # Tasks that are still to be moved out of slots are in the store only.
        yield from check_order("ready", queue.ready, len(queue.ready) if project.is_moving else queue.counts[READY])
    else:
        yield from check_slots(project, queue.ready, state.slot_clock)
    yield from check_order("delayed", queue.delayed, queue.counts[DELAYED])
    if len(queue.processing) != queue.counts[PROCESSING]:
        yield f"{len(queue.processing)} tasks are leased, {queue.counts[PROCESSING]} are counted"
    if min(queue.counts) < 0:
        yield f"a count is negative: {queue.counts}"
    places = len(queue.ready) + len(queue.delayed) + len(queue.processing)
    if places != len(queue.tasks):
        yield f"{len(queue.tasks)} tasks are in memory in {places} places"
    yield from _check_sums(project)
    for task in queue.tasks.values():
        yield from _check_task(state, project, task, id(task) in changed)


def _check_sums(project: Project) -> Iterator[str]:
    queue, pause = project.queue, project.pause
    if not 0 <= queue.unfinished <= queue.live:
        yield f"{queue.unfinished} of {queue.live} live tasks count as unfinished"
    unfinished = sum(not task.apart for task in queue.tasks.values())
    if queue.unfinished < unfinished or (len(queue.tasks) == queue.live and queue.unfinished != unfinished):
        yield f"{queue.unfinished} tasks are counted as unfinished, {unfinished} are in memory"
    waiting = sum(map(is_retry, queue.tasks.values()))
    is_whole = len(queue.delayed) == queue.counts[DELAYED]
    if queue.counted_to == NO_FLOOR and (queue.held_back < waiting or (is_whole and queue.held_back != waiting)):
        yield f"{queue.held_back} tasks are counted as waiting for a retry, {waiting} are in memory"
    if not 0 <= queue.held_back <= queue.counts[DELAYED]:
        yield f"{queue.held_back} of {queue.counts[DELAYED]} delayed tasks are counted as waiting for a retry"
    if project.slow != (slow := sum(map(_is_slow, queue.processing.leased.values()))):
        yield f"{project.slow} of its tasks are counted as slow, {slow} are"
    leases = (task.lease for task in queue.processing.leased.values())
    checks = sum(lease is not None and lease.check == pause.record.phase for lease in leases)
    if project.state == "checking" and pause.out != checks:
        yield f"{pause.out} checks are counted as processing, {checks} are"


def _is_slow(task: Task) -> bool:
    return task.lease is not None and task.lease.is_slow


def _check_task(state: State, project: Project, task: Task, is_changed: bool) -> Iterator[str]:
    name = f"task {task.taskid!r} ({STATE_NAMES[task.state]})"
    if task.project != project.number:
        yield f"{name} belongs to project number {task.project}"
    if task.touched != is_changed or (task.spec_changed and not is_changed):
        yield f"{name} is changed, but not among the changes of the turn"
    if not is_changed and (task.state, task.key) != (task.kept_state, task.kept_key):
        yield f"{name} has another state or key than in the store"
    if task.state == READY:
        key = ready_key(task.priority, task.seq ^ SEQ_MASK if project.queue.newest else task.seq)
        places = [key, key ^ SEQ_MASK] if project.is_sorting else [key]
        if not project.queue.ready.holds(task) or task.key not in [
            place | slot << SLOT_SHIFT for place in places for slot in (0, task.slot)
        ]:
            yield f"{name} is not in its place"
    elif task.state == DELAYED:
        if project.queue.delayed.entries.get(task.key) is not task:
            yield f"{name} is not in its place"
    elif task.state == PROCESSING:
        yield from _check_lease(state, project, task, name)
    else:
        yield f"{name} is in memory"
    if task.state != PROCESSING and task.lease is not None:
        yield f"{name} has a lease"


def _check_lease(state: State, project: Project, task: Task, name: str) -> Iterator[str]:
    session = state.sessions.get(task.lease.session) if task.lease else None
    if session is None or session.leases.get(task.token) is not task:
        yield f"{name} has a lease that its session does not know"
    if project.queue.processing.leased.get(task.token) is not task:
        yield f"{name} is not in its place"


def _check_session(state: State, session: Session) -> Iterator[str]:
    for token, task in session.leases.items():
        if task.state != PROCESSING or task.token != token or task.lease is None:
            yield f"has task {task.taskid!r} under a token that is not its lease"
        elif task.lease.session != session.id:
            yield f"has task {task.taskid!r} by the lease of another session"
        if task.project not in state.projects.by_number:
            yield f"has task {task.taskid!r} of an unknown project"
    slow = sum(map(_is_slow, session.leases.values()))
    if session.slow != slow:
        yield f"{session.slow} of its leases are counted as slow, {slow} are"
    if session.last_hello and session.label in state.drained and not session.draining:
        yield "is not draining, although its name is drained"


def _verify(turn: TurnState, request: Verify) -> VerifyReply:
    return VerifyReply(n=request.n, problems=check(turn)[:PROBLEMS_SHOWN])


# ------------------------------------------------------------------------------------------------ orders


def check_order(name: str, order: Head, count: int) -> Iterator[str]:
    """Check the head of an order that has ``count`` tasks."""
    if order.floor == NO_FLOOR and len(order) != count:
        yield f"{len(order)} tasks are in memory as {name}, all there are, but {count} are counted"
    if len(order) > count:
        yield f"{len(order)} tasks are in memory as {name}, but {count} are counted"
    yield from _check_head(name, order)


def _check_head(name: str, order: Head) -> Iterator[str]:
    first = order.first()
    if first is not None and first.key != min(order.entries):
        yield f"the first {name} task in memory does not have the lowest key"
    if any(key >= order.floor for key in order.entries):
        yield f"a {name} task in memory is not below the floor"
    held = sum(task.size for task in order.entries.values())
    if held != order.bytes:
        yield f"{name} tasks in memory take {held} bytes, {order.bytes} are counted"


def check_slots(project: Project, ready: SlotQueue, clock: SlotClock) -> Iterator[str]:
    """Check the slots of a divided project."""
    queue, slots = project.queue, ready.slots
    if len(ready) > queue.counts[READY]:
        yield f"{len(ready)} tasks are in memory as ready, but {queue.counts[READY]} are counted"
    # Tasks that are still to be moved are in the store only.
    is_all = not project.is_moving and _is_all(slots)
    if is_all and len(ready) != queue.counts[READY]:
        yield f"{len(ready)} tasks are in memory as ready, all there are, but {queue.counts[READY]} are counted"
    held = [(len(slot.head), slot.head.bytes) for slot in slots.by_number.values()]
    if (len(ready), ready.bytes) != (sum(count for count, _ in held), sum(size for _, size in held)):
        yield f"{len(ready)} tasks of {ready.bytes} bytes are counted in slots, which have others"
    leases = Counter(task.slot for task in queue.processing.leased.values() if task.slot >= slots.division)
    if dict(leases) != slots.leases:
        yield f"slots count {sum(slots.leases.values())} leases, there are {leases.total()}, or others"
    for slot in slots.by_number.values():
        yield from (f"slot {slot.record.name!r}: {problem}" for problem in _check_slot(slots, slot, clock))


def _is_all(slots: SlotTable) -> bool:
    """Whether all ready tasks are in memory."""
    entries = slots.entries
    is_known = entries.floor == entries.time_floor == NO_FLOOR and not entries.wanted and not slots.is_moving
    return is_known and not any(slot.head.is_partial for slot in slots.by_number.values())


def _check_slot(slots: SlotTable, slot: Slot, clock: SlotClock) -> Iterator[str]:
    if slots.by_name.get(slot.record.name) is not slot:
        yield "is unknown by its name"
    yield from _check_head("ready", slot.head)
    if any(key >> SLOT_SHIFT != slot.number for key in slot.head.entries):
        yield "has a task of another slot"
    if slot.leases != slots.leases.get(slot.number, 0):
        yield f"counts {slot.leases} leases of {slots.leases.get(slot.number, 0)}"
    first = slot.head.first()
    if first is not None and not 0 < slot.entry <= entry_of(first.key):
        yield "has tasks without an entry that is early enough"
    if slot.place == "ready" and slot.looks_at() > clock.now:
        yield "is ready before its time"
    if slot.place == "ready" and first is not None and slot.mark > entry_of(first.key):
        yield "is ready behind its best task"
    if slot.place == "waiting" and slot.mark >> NUMBER_BITS not in (slot.looks_at(), slot.forgotten_at()):
        yield "waits for another time than its own"
    if slot.place != "parked" and slot.is_full:
        yield "is not parked, although it is full"
    if slot.place == "parked" and not slot.is_full and slot.number not in slots.dry and not slot.leases:
        yield "is parked without a reason"


REQUESTS: Final = (RequestRule(Verify, asked(_verify), keeps=False, slow_ms=SLOW_MS),)
