"""Why nothing is dispatched, in one sentence: the first reason that applies.

    all          each project that has tasks and stands still, page by page
    a task       unknown, finished, processing, not due yet, expired; else the reason of its project
    a project    its state, its hours, its rate ──► overdue tasks ──► its tasks ──► its limits
                 ──► the daemon's disk and leases ──► its slots ──► its tokens ──► its fetchers ──► its tasks in memory

A reason is only given if those before it don't apply. Asking changes nothing: it sets no timer and reads no order.
Times are durations from now.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final

from taskqueue.core.model.attempt_records import kind_of
from taskqueue.core.model.bucket import SharedBucket
from taskqueue.core.model.cycle_search import cycle_in
from taskqueue.core.model.edges import ONLY, UNSATISFIED, EdgePlace, EdgesRef, Links, TaskRef, WalkRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.now import Now
from taskqueue.core.model.project import Project
from taskqueue.core.model.recrawl_interval import recurs_after
from taskqueue.core.model.session import Session, most_at_one
from taskqueue.core.model.task import (
    BLOCKED,
    CANCELLED,
    DELAYED,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Task,
    is_held,
    key_time,
)
from taskqueue.core.moves import cycles
from taskqueue.core.request_rule import SLOW_MS, Halves, RequestRule, in_halves
from taskqueue.core.requests import why_slots
from taskqueue.core.requests.pages import sees_fetcher
from taskqueue.core.requests.tasks import history_of, need_shown, spec_of
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.choices import WhyCause
from taskqueue.protocol.fetchers import HungPlaces
from taskqueue.protocol.fields import MAX_PARENTS
from taskqueue.protocol.insight import StandingProject, Why, WhyReply
from taskqueue.protocol.message_room import room_in
from taskqueue.texts.hung_places import hung_sentence, task_of
from taskqueue.texts.units import duration_text

Look = Callable[[TurnState, Project], Iterator[str]]

SOON: Final = 1e-6
"""Seconds that count as 0."""

LONG_WAIT: Final = 1.0
"""Seconds until the next token that a sentence mentions, at least."""

HEARTBEATS_AT_LEAST: Final = 2
"""Hellos that a healthy fetcher sends within its timeout, at least."""

NAMES_TOLD: Final = 3
"""Fetchers that a sentence names, at most."""

PARENTS_NAMED: Final = 5
"""Parents that the sentence of a blocked task names, at most."""

EDGES_WALKED: Final = 64
"""Edges and tasks read to find a cycle that a blocked task waits in: a database may be a millisecond away."""

MOVING: Final[frozenset[WhyCause]] = frozenset({"none", "pace", "overdue"})
"""Causes of projects that dispatch as fast as they may, or are about to."""

LOOKED_AT: Final = 100
"""Projects scanned for a page, at most."""

SLOTS_LOOKED_AT: Final = 1000
"""Slots in memory that cost as much as one project."""

SENTENCE_BYTES: Final = 16 << 10
"""Upper bound of a sentence; a page ends where another one might not fit."""


def why(turn: TurnState, request: Why, wanted: Needs) -> Halves:
    """Answer with the first reason that applies, or without a project a page of projects that stand still.

    Raises:
        Rejected: the project is unknown, or a task is named without one.
    """
    if request.project is None:
        yield
        return _standing(turn, request)
    project = turn.state.projects.named(request.project)
    if request.taskid is not None:
        need_shown(turn, project, request.taskid, wanted)
        why_slots.need(project, request.taskid, wanted)
        if project.linked:
            wanted.edges.append(_parents_ref(project, request.taskid))
            known = project.queue.tasks.get(request.taskid)
            if known is None or known.state == BLOCKED:
                wanted.walks.append(_walk_ref(project, request.taskid))
    yield
    if request.taskid is not None:
        put_off = _put_off(turn.find(project, request.taskid))
        sentence = f'task "{request.taskid}" {_of_task(turn, project, request.taskid)}{put_off}'
        return WhyReply(n=request.n, sentence=sentence)
    cause, reason = _reason_of(turn, project)
    return WhyReply(n=request.n, sentence=f'project "{project.name}" {reason}', cause=cause)


# ------------------------------------------------------------------------------------------------ all projects


def _standing(turn: TurnState, request: Why) -> WhyReply:
    """Answer with the projects after ``request.after`` that have tasks to do and stand still."""
    if request.taskid is not None:
        raise Rejected("malformed", "project: required with a taskid")
    state = turn.state
    names = state.projects.within(turn.caller.scope)
    found: list[StandingProject] = []
    left, room = float(LOOKED_AT), room_in(state.config.max_message)
    for name in names[bisect_right(names, request.after) :]:
        project = state.projects.by_name[name]
        if project.queue.live:
            cause, reason = _reason_of(turn, project)
            slots = project.queue.slots
            left -= 1 + (len(slots.by_number) / SLOTS_LOOKED_AT if slots is not None else 0)
            if cause not in MOVING:
                found.append(StandingProject(name, f'project "{name}" {reason}', cause))
                room -= len(state.environment.pack(found[-1]))
        if (left <= 0 or room < SENTENCE_BYTES) and name != names[-1]:
            return WhyReply(n=request.n, sentence=_counted(found), projects=found, next=name)
    return WhyReply(n=request.n, sentence=_counted(found), projects=found)


def _counted(found: Sequence[StandingProject]) -> str:
    if not found:
        return "nothing stands still"
    return f"{len(found):,} projects stand still" if len(found) > 1 else "1 project stands still"


# ------------------------------------------------------------------------------------------------ a task


def _of_task(turn: TurnState, project: Project, taskid: str) -> str:
    task = turn.find(project, taskid)
    if task is None:
        rejected = why_slots.rejected(project)
        return f'is unknown in project "{project.name}": it was never pushed, or was cleared{rejected}'
    if task.state == READY:
        return _of_ready(turn, project, task)
    if is_held(task):
        return "is kept by a rerun, and runs again once the rerun has reset all of its tasks"
    if task.state == DELAYED and (wait := key_time(task.key) - turn.now.wall) > 0:
        return f"is due {_in(wait)}, {_delay_of(turn, project, task)}"
    if task.state == DELAYED:
        return f'has been due for {duration_text(-wait)}; project "{project.name}" {_of_project(turn, project)}'
    if task.state == BLOCKED and task.links is not None:
        return _of_blocked(turn, project, task, task.links)
    if task.state == PROCESSING:
        return _of_running(turn, task)
    return _of_over(turn, project, task)


def _of_ready(turn: TurnState, project: Project, task: Task) -> str:
    now = turn.now
    expires_at = spec_of(turn, project, task).schedule.expires_at
    if expires_at is not None and expires_at <= now.wall:
        return f"expired {_ago(now.wall - expires_at)}: it will be cancelled when its turn comes"
    expiry = "" if expires_at is None else f", and expires {_in(expires_at - now.wall)}"
    others = _others(project.queue.counts[READY] - 1)
    reason = _first_of(_FIRST_LOOKS, turn, project)
    if not reason and (waits := why_slots.of_task(turn, project, task)):
        return f"is ready{others}{expiry}; {waits}"
    reason = reason or _of_project(turn, project)
    return f'is ready{others}{why_slots.before(project, task)}{expiry}; project "{project.name}" {reason}'


def _delay_of(turn: TurnState, project: Project, task: Task) -> str:
    """Explain why a delayed task waits."""
    spec = spec_of(turn, project, task)
    schedule = spec.schedule
    if not task.held_back:
        return "as its schedule says"
    attempts = history_of(turn, project, task)
    if attempts and attempts[0].outcome == "success":
        return f"as it runs again every {duration_text(recurs_after(schedule, spec.page) or 0)}"
    error = _quoted(kind_of(attempts[0]) if attempts else "")
    if not task.retried:
        return f"as its fetcher asked, after {error}"
    if recurs_after(schedule) is not None:
        return f"to be tried again after {error}"
    retries = project.settings.retries if schedule.retries is None else schedule.retries
    return f"as retry {task.retried} of {retries}, after {error}"


def _of_blocked(turn: TurnState, project: Project, task: Task, links: Links) -> str:
    if cycle := _cycle(turn, project, task):
        return (
            f"is blocked for ever, as these wait for each other: {cycles.shown(turn, cycle)}; cancel one of them, or "
            "push it with force_update and other parents"
        )
    found = turn.found.edges.get(_parents_ref(project, task.taskid))
    edges = found.edges if found is not None else []
    waiting = [each.edge.parent for each in edges if each.mark == (UNSATISFIED, links.number)]
    by_number = turn.state.projects.by_number
    shown = [ref for ref in waiting if turn.reaches(by_number.get(ref.project))]
    named = [_parent(turn, project, ref) for ref in shown[:PARENTS_NAMED]]
    hidden = len(waiting) - len(shown)
    rest = links.missing - len(named) - hidden
    more = f" and {rest} more" if rest > 0 and named else ""
    others = f"{', ' if named else ''}{_tasks(hidden)} of other projects" if hidden else ""
    only = ""
    if links.on_failure == ONLY:
        only = "; another one has failed, so it runs then" if links.needed else "; it runs only if a parent fails"
    return f"is blocked, waiting for {_tasks(links.missing)}: {', '.join(named)}{more}{others}{only}"


def _parent(turn: TurnState, project: Project, ref: TaskRef) -> str:
    """Describe a parent: its taskid and its state."""
    of = turn.state.projects.by_number.get(ref.project)
    if of is None:
        return f'"{ref.taskid}" of a project that was deleted'
    parent = turn.find(of, ref.taskid)
    name = f'"{ref.taskid}"' + (f' of project "{of.name}"' if of is not project else "")
    return f"{name} ({'unknown: not pushed yet' if parent is None else STATE_NAMES[parent.state]})"


def _cycle(turn: TurnState, project: Project, task: Task) -> list[TaskRef]:
    """Find tasks near the task that wait for each other, and that it waits for or is among; see ``cycle_in``."""
    waits: dict[TaskRef, list[TaskRef]] = {}
    for page in turn.found.walks.get(_walk_ref(project, task.taskid), {}).values():
        for each in page.edges:
            child = turn.task_at(each.edge.child)
            if child is None or child.state != BLOCKED or child.links is None:
                continue
            if turn.changes.mark_of(each) == (UNSATISFIED, child.links.number):
                waits.setdefault(each.edge.child, []).append(each.edge.parent)
    return cycle_in(waits, [TaskRef(project.number, task.taskid)])


def _walk_ref(project: Project, taskid: str) -> WalkRef:
    return WalkRef(True, (EdgePlace(TaskRef(project.number, taskid), b""),), EDGES_WALKED)


def _parents_ref(project: Project, taskid: str) -> EdgesRef:
    return EdgesRef(True, project.number, taskid, b"", MAX_PARENTS)


def _of_running(turn: TurnState, task: Task) -> str:
    now = turn.now
    lease = task.lease
    if lease is None:
        return "is processing"
    who = turn.state.sessions[lease.session].label
    ends = _in(lease.deadline - now.boot)
    slow = ", four fifths of it have passed" if lease.is_slow else ""
    held = duration_text(now.boot - lease.selected_at)
    return f"has been processing on {who} for {held}; its lease ends {ends}{slow}"


def _of_over(turn: TurnState, project: Project, task: Task) -> str:
    now = turn.now
    when = _ago(now.wall - key_time(task.key))
    again = "push it with force_update, or retry it, to run it again"
    if task.bare:
        again = f"its body was dropped {_ago(now.wall - task.exetime)}; push it with force_update to run it again"
    if task.state == SUCCESS:
        return f"succeeded {when}; {again}"
    if task.links is not None and task.links.dropped and task.links.on_failure == ONLY:
        return f"was cancelled {when}, as it runs only if a parent fails, and none has; {again}"
    attempts = history_of(turn, project, task)
    kind = kind_of(attempts[0]) if attempts else ""
    error = f": {_quoted(kind)}" if kind else ""
    ended = "was cancelled" if task.state == CANCELLED else "failed for good"
    return f"{ended} {when}{error}; {again}"


# ------------------------------------------------------------------------------------------------ a project


def _of_project(turn: TurnState, project: Project) -> str:
    return _reason_of(turn, project)[1]


def _reason_of(turn: TurnState, project: Project) -> tuple[WhyCause, str]:
    for cause, look in _LOOKS:
        for reason in look(turn, project):
            return cause, reason
    return "none", _of_handing(turn, project)


def _of_handing(turn: TurnState, project: Project) -> str:
    asking = [session for session in turn.state.sessions.values() if _asks(session, project)]
    hung = _hung(turn.now, [session for session in asking if sees_fetcher(turn, session)])
    return f"is dispatching tasks{why_slots.summary(turn, project)}{f'; {hung}' if hung else ''}"


def _first_of(looks: Sequence[tuple[WhyCause, Look]], turn: TurnState, project: Project) -> str:
    return next((reason for _, look in looks for reason in look(turn, project)), "")


def _look_whether_stopped(turn: TurnState, project: Project) -> Iterator[str]:
    if project.state == "stopped":
        yield f"is stopped; start it with: taskqueue project start {project.name}"


def _look_whether_paused(turn: TurnState, project: Project) -> Iterator[str]:
    if project.state == "paused":
        pause = project.pause.record
        resume = f"taskqueue project resume {project.name}"
        if project.importing is not None:
            yield f"is paused until it is whole: {pause.reason}"
        elif pause.check_at:
            check = _in(pause.check_at - turn.now.wall)
            yield f"paused itself ({pause.reason}); it tries a few tasks {check}, or now with: {resume}"
        elif pause.until:
            yield f"was paused by an operator; it resumes {_in(pause.until - turn.now.wall)}, or now with: {resume}"
        else:
            yield f"was paused by an operator; resume it with: {resume}"


def _look_at_hours(turn: TurnState, project: Project) -> Iterator[str]:
    now = turn.now
    hours = turn.state.environment.hours(project.settings.active, now.wall)
    if not hours.open:
        opens = "never begin" if hours.until == inf else f"begin {_in(hours.until - now.wall)}"
        yield f"is outside its active hours ({project.settings.active}), which {opens}"


def _look_at_rate(turn: TurnState, project: Project) -> Iterator[str]:
    if not project.settings.rate:
        yield f"has a rate of 0; set another one with: taskqueue project set {project.name} rate=1"


def _look_at_overdue(turn: TurnState, project: Project) -> Iterator[str]:
    queue, now = project.queue, turn.now.wall
    if not queue.is_behind(now):
        return
    due = sum(key_time(key) <= now for key in queue.delayed.entries)
    overdue = f"{due:,} overdue"
    if key_time(queue.delayed.floor) <= now:  # only a scan would count those that are due in the store
        overdue = f"at least {overdue}" if due else "overdue tasks are being read"
        overdue += f", {queue.counts[DELAYED]:,} delayed in all"
    yield f"is catching up: {overdue}; it dispatches again once all due tasks are ready"


def _look_at_tasks(turn: TurnState, project: Project) -> Iterator[str]:
    queue = project.queue
    finished = queue.known - queue.live
    if not queue.live:
        yield f"has nothing to do ({_tasks(finished, 'finished')})" if finished else "has no tasks"
    elif queue.counts[BLOCKED] == queue.live:
        yield f"has only blocked tasks ({queue.live:,}), which wait for other tasks"
    elif not queue.counts[READY] and not queue.counts[DELAYED]:
        yield f"has {_all_running(turn, project)}"
    elif not queue.counts[READY]:
        yield f"has no due task; {_next_due(turn.now, project)}"


def _look_at_limits(turn: TurnState, project: Project) -> Iterator[str]:
    running, most = len(project.queue.processing), project.settings.max_processing
    if running >= most:
        yield f"has {_tasks(running, 'processing')}, and a max_processing of {most:g}"
    if project.state == "checking" and project.pause.room <= 0:
        yield "checks whether its tasks still fail, and waits for the results of the tasks that it has dispatched"


def _look_at_pace_of_slots(turn: TurnState, project: Project) -> Iterator[str]:
    if why_slots.is_paced(turn, project):
        yield why_slots.of_project(turn, project)


def _look_at_slots(turn: TurnState, project: Project) -> Iterator[str]:
    if reason := why_slots.of_project(turn, project):
        yield reason


def _look_at_tokens(turn: TurnState, project: Project) -> Iterator[str]:
    wait = project.bucket.token_at() - turn.now.boot
    if wait > SOON:
        yield f"is running at {_limit(project.settings.rate, wait)}"
    if project.shared is not None:
        yield from _look_at_shared(turn, project, project.shared)


def _look_at_shared(turn: TurnState, project: Project, shared: SharedBucket) -> Iterator[str]:
    wait = shared.bucket.token_at() - turn.now.boot
    if shared.name not in turn.state.config.buckets:
        yield f'shares the bucket "{shared.name}", which is not in the config'
    elif wait == inf:
        yield f'shares the bucket "{shared.name}", which has a rate of 0'
    elif wait > SOON:
        yield f'shares the bucket "{shared.name}", which is at {_limit(shared.bucket.rate, wait)}'


def _look_at_fetchers(turn: TurnState, project: Project) -> Iterator[str]:
    state = turn.state
    fetchers = [session for session in state.sessions.values() if session.capacity]
    asking = [session for session in fetchers if _asks(session, project)]
    seen = [session for session in asking if sees_fetcher(turn, session)]
    if not fetchers and turn.caller.scope is None:
        yield "has tasks to dispatch, but no fetcher is connected"
    elif not asking:
        yield "has tasks to dispatch, but no fetcher asks for them"
    elif all(session.draining for session in asking):
        names = f": {_resumable(seen)}" if seen else ""
        yield f"has tasks to dispatch, but all fetchers that ask for them are draining{names}"
    elif any(state.connections.is_crowded(session) for session in asking):
        most = most_at_one(state.config.max_leases)
        yield f"waits for a task to finish: its fetchers' connection has {_tasks(most)}, half of limits.max_leases"
    elif all(session.free <= 0 for session in asking):
        taking = [session for session in asking if not session.draining]
        held = sum(len(session.leases) - session.beyond for session in taking)
        places = sum(session.capacity for session in taking)
        rest = f", {len(asking) - len(taking)} draining" if len(taking) < len(asking) else ""
        full = "has tasks to dispatch, but all fetchers that ask for them are full"
        if len(seen) < len(asking):
            yield full
            return
        hung = _hung(turn.now, taking)
        yield f"{full}{rest}: {hung}" if hung else f"{full} ({held} of {places} places){rest}"


def _hung(now: Now, fetchers: Sequence[Session]) -> str:
    """Describe the hung places of fetchers; empty if there are none."""
    hanging = [session for session in fetchers if session.hung_places]
    if not hanging:
        return ""
    longest = max(hanging, key=lambda session: session.hung_seconds(now.boot))
    view = longest.hung_view(now.boot) or HungPlaces(0)
    return hung_sentence(
        sum(session.hung_places for session in hanging),
        sum(session.concurrency for session in hanging),
        list(dict.fromkeys(session.label for session in hanging)),
        view.seconds,
        task_of(view.project, view.taskid, view.url),
    )


def _resumable(draining: Sequence[Session]) -> str:
    """Name the first NAMES_TOLD fetchers, and the command that resumes one."""
    names = list(dict.fromkeys(session.label for session in draining))
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return f"{', '.join(names[:NAMES_TOLD])}{more}; resume with: taskqueue fetcher resume {names[0]}"


def _look_at_memory(turn: TurnState, project: Project) -> Iterator[str]:
    first = project.queue.ready.first()
    if first is None or first.spec is None:
        yield "is reading its next tasks from the store"


def _look_at_daemon(turn: TurnState, project: Project) -> Iterator[str]:
    """Reasons that concern all projects."""
    state = turn.state
    if not state.config.has_room:
        yield "waits for disk space: the store's disk has less than store.min_free left"
    elif state.memory.leases >= state.config.max_leases:
        leased = _tasks(state.memory.leases if turn.caller.scope is None else state.config.max_leases)
        yield f"waits for a task to finish: fetchers have {leased}, as many as limits.max_leases allows"


_FIRST_LOOKS: Final[tuple[tuple[WhyCause, Look], ...]] = (
    ("stopped", _look_whether_stopped),
    ("paused", _look_whether_paused),
    ("hours", _look_at_hours),
    ("rate", _look_at_rate),
    ("overdue", _look_at_overdue),
    ("tasks", _look_at_tasks),
    ("limits", _look_at_limits),
    ("daemon", _look_at_daemon),
)
"""Reasons that come before those of slots, of which a task is in one only."""
_LOOKS: Final[tuple[tuple[WhyCause, Look], ...]] = (
    *_FIRST_LOOKS,
    ("pace", _look_at_pace_of_slots),
    ("slots", _look_at_slots),
    ("pace", _look_at_tokens),
    ("fetchers", _look_at_fetchers),
    ("memory", _look_at_memory),
)


def _asks(session: Session, project: Project) -> bool:
    return session.interest is None or project.name in session.interest


def _all_running(turn: TurnState, project: Project) -> str:
    running, blocked = len(project.queue.processing), project.queue.counts[BLOCKED]
    others = f"{_tasks(blocked, 'blocked')}" if blocked else "no others"
    ends = _in(project.queue.processing.next_deadline() - turn.now.boot)
    return f"{_tasks(running, 'processing')} and {others}; the next lease ends {ends}{_silent_holder(turn, project)}"


def _silent_holder(turn: TurnState, project: Project) -> str:
    """Name the most silent fetcher that has tasks of the project, if it is silent for longer than healthy ones."""
    state = turn.state
    names = dict.fromkeys(task.lease.session for task in project.queue.processing.leased.values() if task.lease)
    session = min((state.sessions[name] for name in names), key=lambda session: session.heard_at)
    silent, limit = turn.now.boot - session.heard_at, state.config.fetcher_timeout
    if silent <= limit / HEARTBEATS_AT_LEAST:
        return ""
    back = _in(limit - silent)
    return f'; fetcher "{session.label}" has been silent for {duration_text(silent)} and loses its tasks {back}'


def _next_due(now: Now, project: Project) -> str:
    at = project.queue.due_at()
    due = (
        "the time of the next one is being read from the store"
        if at == inf
        else f"the next one is due {_in(at - now.wall)}{_put_off(project.queue.delayed.first())}"
    )
    running = len(project.queue.processing)
    return f"{due} ({_tasks(running, 'processing')})" if running else due


# ------------------------------------------------------------------------------------------------ words


def _limit(rate: float, wait: float) -> str:
    """Describe a reached limit, with the time of the next token if that takes a second or more."""
    following = f"; the next dispatch is {_in(wait)}" if wait >= LONG_WAIT else ""
    return f"its limit of {rate:g}/s{following}"


def _in(seconds: float) -> str:
    return "now" if seconds <= 0 else f"in {duration_text(seconds)}"


def _ago(seconds: float) -> str:
    return f"{duration_text(seconds)} ago"


def _tasks(count: int, state: str = "") -> str:
    return f"{count} task{'' if count == 1 else 's'} {state}".rstrip()


def _others(count: int) -> str:
    if not count:
        return ""
    return ", as is 1 other" if count == 1 else f", as are {count} others"


def _put_off(task: Task | None) -> str:
    return f"; put off {task.put_off:,} times in a row" if task is not None and task.put_off > 1 else ""


def _quoted(error: str) -> str:
    if not error:
        return "an error without a reason"
    return f'"{" ".join(error.split())}"'


# Slow because a project may have 100,000 slots in memory, which are counted in up to 90 ms.
REQUESTS: Final = (RequestRule(Why, *in_halves(why), keeps=False, slow_ms=SLOW_MS),)
