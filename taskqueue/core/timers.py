"""Timers: leases that have run out, silent fetchers, sessions to forget, tokens, tasks that are due.

The work of a turn is bounded: of a million tasks due in one second each turn promotes PROMOTED_A_TURN, or
``turn_tasks`` if that is less, in equal shares for the projects that have some. A project dispatches nothing until
all its due tasks are ready: see ``dispatch``.

Each kind of timer is a row of ``TIMERS``. Rules set a timer by its kind and the name of its thing,
``state.boot_timers.note(("lease", project.number), at)``; the key types of each clock list its kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from itertools import islice, takewhile
from math import inf
from typing import Final, NamedTuple, TypeVar

from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.flow import Flow
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import OwnedSessions, Session
from taskqueue.core.model.task import PROCESSING, key_time
from taskqueue.core.moves import answer_waiters, flows, lease_end, slots, statistics, undo_rows
from taskqueue.core.moves.dispatch import offer
from taskqueue.core.moves.push import queue_up
from taskqueue.core.requests import fetchers
from taskqueue.core.state import BootKey, State, WallKey
from taskqueue.core.steps import completion, operations
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Corrupt, Rejected

T = TypeVar("T")
Find = Callable[[State, int | str], T | None]

FORGET_LATER_SECONDS: Final = 1.0
"""Seconds until a session is forgotten whose tasks must first be taken back."""

WALL_TIMERS_A_TURN: Final = 2048
"""Wall-clock timers that run in one turn, at most: a timer of due tasks spends none of the budget."""

PROMOTED_A_TURN: Final = 64
"""Tasks promoted in one turn, at most, because tasks of other projects wait meanwhile.

With 2,048 they waited up to 25 ms, and overdue tasks became ready hardly sooner (``benchmarks.overdue``).
"""

SAVE_COST: Final = 16
"""Cost of saving the windows of a project: 0.14 ms, as much as promoting 16 tasks."""


def run_due_timers(turn: TurnState) -> None:
    """Run due timers, up to ``turn_tasks`` tasks; the rest waits for the next turn.

    Half of the budget is reserved for the wall clock: a project dispatches nothing before its due tasks are ready.
    """
    state, now = turn.state, turn.now
    if state.silent:
        fetchers.go_on_silent(turn)
    half, budget = state.config.turn_tasks // 2, state.config.turn_tasks
    while budget > 0 and (key := state.boot_timers.pop_due(now.boot)) is not None:
        budget -= _run(turn, key, budget)
    turn.more = budget <= 0
    _run_wall_timers(turn, max(1, budget, half))
    if len(state.sessions) > state.config.max_sessions:
        _forget_beyond_limit(turn)


def _run_wall_timers(turn: TurnState, budget: int) -> None:
    """Run the timers of the wall clock, and promote due tasks."""
    state, left = turn.state, WALL_TIMERS_A_TURN
    while budget > 0 and left > 0 and (key := state.wall_timers.pop_due(turn.now.wall)) is not None:
        budget -= _run(turn, key, budget)
        left -= 1
    if state.pending.overdue:
        budget -= _promote_in_turns(turn, min(budget, PROMOTED_A_TURN))
    turn.more |= budget <= 0 or left <= 0 or bool(state.pending.overdue)


def _promote_in_turns(turn: TurnState, most: int) -> int:
    """Make up to ``most`` due tasks ready, in equal shares for all projects that have some; return how many."""
    pending, left = turn.state.pending, most
    stuck: list[Project] = []
    while left > 0 and pending.overdue:
        share = max(1, left // len(pending.overdue))
        for project in pending.take_overdue(left):
            promoted = _promote(turn, project, share)
            left -= promoted
            if project.queue.first_due(turn.now.wall) is not None:
                (pending.promote if promoted else stuck.append)(project)
    for project in stuck:
        pending.promote(project)
    return most - left


def due_at(state: State, key: BootKey | WallKey) -> float:
    """Return when the thing behind a key is due on its clock; inf if never, or if it is gone."""
    kind, name = key
    return TIMERS[kind].due_at(state, name)


def _run(turn: TurnState, key: BootKey | WallKey, budget: int) -> int:
    kind, name = key
    return TIMERS[kind].run(turn, name, budget)


def _forget_beyond_limit(turn: TurnState) -> None:
    """Forget the longest silent sessions without leases, above ``max_sessions``; those without kept outcomes first.

    So a client that only reads makes no other one's repeat be done twice, however many sessions it names. With keys
    they are sessions of the owner who has most, so that no key makes others lose theirs.
    """
    state = turn.state
    excess = len(state.sessions) - state.config.max_sessions
    counts = [(-len(owned.all), owner) for owner, owned in state.owners.items()]
    heapify(counts)
    while excess > 0 and counts:
        count, owner = heappop(counts)
        # Down to one less than the next owner has.
        wanted = min(excess, 1 - count + (counts[0][0] if counts else 0))
        owned = state.owners[owner]
        idle = list(islice(_idle(turn, owned), wanted))
        for session in idle:
            turn.forget_session(session)
        excess -= len(idle) if len(idle) == wanted else min(wanted, len(idle) + _heard_now(turn, owned))
        if len(idle) == wanted and owned.all:
            heappush(counts, (count + wanted, owner))


def _idle(turn: TurnState, owned: OwnedSessions) -> Iterator[Session]:
    """Yield the sessions that may be forgotten, in this order; not those whose outcome this turn keeps."""
    state, boot = turn.state, turn.now.boot
    for session in owned.unsaved.values():
        if not session.leases and not session.capacity and (session.heard_at < boot or not _awaits(state, session)):
            yield session
    for session in owned.all.values():
        if session.saved_at and not session.leases and not session.capacity and session.heard_at < boot:
            yield session


def _heard_now(turn: TurnState, owned: OwnedSessions) -> int:
    """Count sessions that a later turn may forget, because this one keeps their outcomes."""
    now = takewhile(lambda session: session.heard_at >= turn.now.boot, reversed(owned.all.values()))
    return sum(not session.leases and not session.capacity for session in now)


def _awaits(state: State, session: Session) -> bool:
    """Whether a session has said hello, or a request of it waits."""
    return bool(session.last_hello or session.waits) or state.waiting_pushes.has_any_of(session.id)


def _expire(turn: TurnState, project: Project, budget: int) -> int:
    """End the leases of a project that have run out, and note those that soon will; return how many."""
    turn.touch(project)
    processing, now = project.queue.processing, turn.now.boot
    count = 0
    while count < budget and processing.next_at() <= now and (task := processing.first()) is not None:
        if task.state != PROCESSING or task.lease is None:
            break
        if task.lease.deadline > now:
            lease_end.note_slow(turn, project, task, task.lease)
        elif task.spec is None:
            _want_expired(turn, project)
            break
        else:
            lease_end.expire(turn, project, task)
        count += 1
    return count


def _want_expired(turn: TurnState, project: Project) -> None:
    """Request the specs of all tasks whose leases have run out, not of one per turn: expiring them needs the specs."""
    for task in project.queue.processing.leased.values():
        if task.lease is not None and task.lease.deadline <= turn.now.boot:
            turn.state.hollow.want(task)


def _queue_up_due(turn: TurnState, project: Project, budget: int) -> int:
    """Queue the project among those whose due tasks become ready."""
    turn.touch(project)
    turn.state.pending.promote(project)
    return 0


def _promote(turn: TurnState, project: Project, most: int) -> int:
    """Make up to ``most`` due tasks of a project ready; return how many.

    If the project goes by due time, each gets a new seq; one whose spec is not in memory keeps the others waiting until
    the spec has been read.
    """
    turn.touch(project)
    promoted = 0
    goes_by_due = project.settings.order == "due" and not turn.state.operations.running
    while promoted < most and (task := project.queue.first_due(turn.now.wall)) is not None:
        if goes_by_due and task.spec is None:
            turn.state.hollow.want(task)
            break
        turn.state.lateness_seconds.note(turn.now.wall - key_time(task.key))
        if goes_by_due:
            queue_up(turn, project, task)
        else:
            project.queue.put_ready(turn.changes, task)
        promoted += 1
    return promoted


# ------------------------------------------------------------------------------------ actions of the rows


def _save(turn: TurnState, project: Project, budget: int) -> int:
    statistics.save(turn, project)
    return SAVE_COST


def _offer(turn: TurnState, project: Project, budget: int) -> int:
    offer(turn, project)
    return 1


def _answer_waiters(turn: TurnState, project: Project, budget: int) -> int:
    completion.answer(turn, project, turn.now.boot)
    completion.answer(turn, project, turn.now.boot, is_early=True)
    turn.state.boot_timers.note(("wait", project.number), project.next_wait_at())
    return 1


def _answer_watchers(turn: TurnState, operation: Operation, budget: int) -> int:
    operations.answer(turn, operation, turn.now.boot)
    turn.state.boot_timers.note(("operation", operation.id), operation.waiters.next_at())
    return 1


def _answer_flow_watchers(turn: TurnState, flow: Flow, budget: int) -> int:
    flows.tell(turn, flow, turn.now.boot)
    turn.state.boot_timers.note(("flow", flow.number), flow.waiters.next_at())
    return 1


def _drop_rows(turn: TurnState, operation: Operation, budget: int) -> int:
    undo_rows.drop(turn, operation, undo_rows.TOO_OLD)
    return 1


def _drop_stage(turn: TurnState, flow: Flow, budget: int) -> int:
    flows.drop(turn, flow, Rejected("unknown-flow", "it was not submitted within an hour"))
    return 1


def _stage_due_at(state: State, flow: Flow) -> float:
    """Return when a stage is dropped (unix seconds); inf while it is checked, and once it is accepted."""
    return inf if flow.record.is_accepted or flow.check is not None else flow.record.staged_at + flows.STAGE_SECONDS


def _fall_silent(turn: TurnState, session: Session, budget: int) -> int:
    cost = 1 + len(session.leases)
    fetchers.fall_silent(turn, session)
    return cost


def _forget(turn: TurnState, session: Session, budget: int) -> int:
    cost = _fall_silent(turn, session, budget)
    if session.leases:
        turn.state.boot_timers.note(("forget", session.id), turn.now.boot + FORGET_LATER_SECONDS)
    else:
        turn.forget_session(session)
    return cost


def _end_rest(turn: TurnState, session: Session, budget: int) -> int:
    session.rested()
    turn.freed[session.id] = session
    return 1


def _begin_checks(turn: TurnState, project: Project, budget: int) -> int:
    project.begin_checks()
    turn.touch(project)
    return 1


def _resume(turn: TurnState, project: Project, budget: int) -> int:
    project.set_running()
    turn.touch(project)
    return 1


def _look_again(turn: TurnState, project: Project, budget: int) -> int:
    turn.touch(project)
    return 1


def _retire(turn: TurnState, project: Project, budget: int) -> int:
    turn.state.pending.drop_old(project.number)
    return 1


def _watch_at(state: State, name: int | str) -> float:
    """Return when watchers get changes, or their log is dropped: at the end of the turn that this timer wakes."""
    return inf if state.watch_log is None else state.watch_log.next_at()


def _silent_at(state: State, session: Session) -> float:
    return session.heard_at + state.config.fetcher_timeout if session.fetches else inf


def _forgotten_at(state: State, session: Session) -> float:
    return session.heard_at + max(state.config.session_timeout, state.config.fetcher_timeout)


def _token_at(project: Project) -> float:
    """Return when a project with work will have a token; inf if it dispatches nothing anyway."""
    if project.state not in ("running", "checking") or project.queue.ready.first() is None:
        return inf
    return project.bucket.token_at()


def _opens_at(project: Project) -> float:
    """Return when a project with work opens; inf if it is open."""
    return inf if project.hours.open or not len(project.queue.ready) else project.hours.until


class Timer(NamedTuple):
    """Rule for a kind of timer.

    Attributes:
        due_at: function that says when the thing of that name is due; inf if never, or if it is gone.
        run: function that does the due work within a budget, and returns its cost, both counted in promoted tasks.
    """

    due_at: Callable[[State, int | str], float]
    run: Callable[[TurnState, int | str, int], int]


def _of(find: Find[T], due_at: Callable[[State, T], float], run: Callable[[TurnState, T, int], int]) -> Timer:
    """Make the timer of a thing that ``find`` finds."""

    def thing_due_at(state: State, name: int | str) -> float:
        thing = find(state, name)
        return inf if thing is None else due_at(state, thing)

    def run_thing(turn: TurnState, name: int | str, budget: int) -> int:
        thing = find(turn.state, name)
        if thing is None:
            raise Corrupt(f"a timer of {name!r} is due, which no longer exists")
        return run(turn, thing, budget)

    return Timer(thing_due_at, run_thing)


def _of_project(due_at: Callable[[Project], float], run: Callable[[TurnState, Project, int], int]) -> Timer:
    return _of(_project, lambda state, project: due_at(project), run)


def _project(state: State, name: int | str) -> Project | None:
    return state.projects.by_number.get(name) if isinstance(name, int) else None


def _operation(state: State, name: int | str) -> Operation | None:
    return state.operations.by_id.get(name) if isinstance(name, int) else None


def _flow(state: State, name: int | str) -> Flow | None:
    return state.flows.by_number.get(name) if isinstance(name, int) else None


def _session(state: State, name: int | str) -> Session | None:
    return state.sessions.get(name) if isinstance(name, str) else None


def _bucket(state: State, name: int | str) -> SharedBucket | None:
    return state.shared.get(name) if isinstance(name, str) else None


TIMERS: Final[Mapping[str, Timer]] = {
    # On the boot clock.
    "lease": _of_project(lambda project: project.queue.processing.next_at(), _expire),
    "bucket": _of_project(_token_at, _offer),
    "slot": _of_project(slots.next_at, slots.advance),
    "wait": _of_project(Project.next_wait_at, _answer_waiters),
    "counters": _of_project(lambda project: project.save_at, _save),
    "operation": _of(_operation, lambda state, operation: operation.waiters.next_at(), _answer_watchers),
    "flow": _of(_flow, lambda state, flow: flow.waiters.next_at(), _answer_flow_watchers),
    "watch": Timer(_watch_at, lambda turn, name, budget: 1),
    "task_wait": Timer(
        lambda state, name: state.task_waiters.next_at(), lambda turn, name, budget: answer_waiters.answer_late(turn)
    ),
    "shared": _of(_bucket, lambda state, bucket: bucket.token_at(), lambda turn, bucket, budget: 1),
    "silence": _of(_session, _silent_at, _fall_silent),
    "forget": _of(_session, _forgotten_at, _forget),
    "fetcher_rest": _of(_session, lambda state, session: session.rest_until or inf, _end_rest),
    # On the wall clock.
    "due": _of_project(lambda project: project.queue.due_at(), _queue_up_due),
    "check": _of_project(Project.check_at, _begin_checks),
    "resume": _of_project(Project.resumes_at, _resume),
    "hours": _of_project(_opens_at, _look_again),
    "project_hold": _of_project(lambda project: min(project.holds.values(), default=inf), _look_again),
    "retention": _of_project(Project.old_at, _retire),
    "stage": _of(_flow, _stage_due_at, _drop_stage),
    "undo": _of(_operation, lambda state, operation: undo_rows.kept_until(operation), _drop_rows),
    # Old failures were looked up for this turn.
    "failures": Timer(lambda state, name: state.failures.old_at, lambda turn, name, budget: 1),
}
"""Rules by kind of timer. A new kind is a row here, and a name among those of its clock in ``state``."""
