"""Requests about tasks: push, show (with parents and children), wait, retry, cancel, reprioritise.

    task ──edges──► parents ──► results        as many as fit into a message
    task ◄──edges── children                   a page of edges

A page of parents begins at a place among the edges, void ones included, a page of children after an edge of the store;
void edges are left out. Pages before and after a change of a task's parents need not fit together. Edges that are made
in the turn of the request are not shown among the children.

A push is done by ``moves/push``, a wait ended by ``answer_waiters``; lists are in ``task_list``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import replace

from taskqueue.core.model.attempt_records import kind_of
from taskqueue.core.model.edges import POLICIES, UNSATISFIED, EdgesRef, Links, Mark, ParentsRef, TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.project import Project
from taskqueue.core.model.session import Session
from taskqueue.core.model.spec import NO_SPEC, Spec
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    DELAYED,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    Task,
    is_held,
    key_time,
)
from taskqueue.core.model.waiters import Waiter, Waiters
from taskqueue.core.moves import change_log, cycles
from taskqueue.core.moves.push import cancel, need_tasks, need_update, revive, take_batch
from taskqueue.core.request_rule import Halves, RequestRule, Who, asked_for_change, in_halves
from taskqueue.core.turn_state import TurnState
from taskqueue.errors import Rejected
from taskqueue.protocol.choices import NAME, KnownState
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.message_room import attempt_bytes, errors_that_fit, parent_bytes, room_beside, room_in
from taskqueue.protocol.messages import Incoming
from taskqueue.protocol.tasks import (
    Child,
    NewTasks,
    NewTasksReply,
    PackedParent,
    TaskCancel,
    TaskChildren,
    TaskChildrenReply,
    TaskParents,
    TaskParentsReply,
    TaskReply,
    TaskReprioritise,
    TaskRetry,
    TaskShow,
    TasksReply,
    TaskWait,
    TaskWaitReply,
)
from taskqueue.protocol.values import Attempt

# ------------------------------------------------------------------------------------------------ push


def _need_pushed(turn: TurnState, request: NewTasks, wanted: Needs) -> None:
    need_tasks(turn, request.project, request.tasks, wanted)


def _push(turn: TurnState, session: Session, incoming: Incoming) -> NewTasksReply | None:
    request = incoming.request
    assert isinstance(request, NewTasks)
    verdicts = cycles.decide_cycles(turn, incoming) if turn.gives_parents else cycles.UNSEARCHED
    if verdicts is None:
        return None
    states: list[KnownState] = []
    outcomes, errors = take_batch(
        turn,
        request.project,
        request.tasks,
        incoming.flaws,
        verdicts=verdicts,
        states=states if request.states else None,
    )
    if errors:
        errors = errors_that_fit(errors, len(outcomes), 0, turn.state.config.max_message, len(states))
    return NewTasksReply(n=request.n, outcomes=outcomes, errors=errors, states=states)


# ------------------------------------------------------------------------------------------------ show and change


NamedTasks = TaskRetry | TaskCancel | TaskReprioritise
"""Requests that change tasks by their taskids."""

LOGGED_AS: Final[dict[type, str]] = {
    TaskRetry: "task retry",
    TaskCancel: "task cancel",
    TaskReprioritise: "task reprioritise",
}

TASKIDS_LOGGED = 5
"""Taskids in a log entry, at most."""


def show_task(turn: TurnState, message: TaskShow, wanted: Needs) -> Halves:
    """Answer with one task and its body."""
    state = turn.state
    project = state.projects.named(message.project)
    wanted.results.append(need_shown(turn, project, message.taskid, wanted))
    yield
    task = turn.find(project, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    spec = NO_SPEC if task.bare else spec_of(turn, project, task)
    fetcher = state.sessions[task.lease.session].label if task.lease else ""
    room = room_beside(spec.url, spec.schedule, state.config.max_message) - len(spec.body) - len(fetcher.encode())
    note = _note_of(task, room)
    room -= _note_bytes(note)
    result = result_of(turn, project, task)
    fits = result is not None and len(result) <= room
    history = _that_fit(history_of(turn, project, task), room - len(result) if result is not None and fits else room)
    reply = TaskReply(
        n=message.n,
        project=project.name,
        taskid=task.taskid,
        url=spec.url,
        state=STATE_NAMES[task.state],
        schedule=spec.schedule,
        priority=task.priority,
        retried=task.retried,
        lastcrawltime=task.lastcrawltime,
        body=spec.body,
        depth=spec.depth,
        fetcher=fetcher,
        put_off=task.put_off,
        pushed_at=float(task.pushed_at),
        job=task.job,
        result=result if result is not None and fits else NIL,
        result_bytes=0 if result is None else len(result),
        history=history,
        crashes=task.crashes,
        error=history[0].error if history and task.state != SUCCESS else "",
        note=note,
        on_parent_failure="fail" if task.links is None else POLICIES[task.links.on_failure],
    )
    return _with_times(turn, task, reply)


def _note_of(task: Task, room: int) -> str | float | None:
    """Return the note of a running task, if there is one, and room for it."""
    if task.lease is None or task.lease.note is None:
        return None
    note = task.lease.note.note
    return note if _note_bytes(note) <= room else None


def _note_bytes(note: str | float | None) -> int:
    """Return an upper bound of the bytes of a note in a reply."""
    return 0 if note is None else 14 + (len(note.encode()) if isinstance(note, str) else 0)


def spec_of(turn: TurnState, project: Project, task: Task) -> Spec:
    """Return the spec of a task that was looked up whole for this turn, even if the task has left memory."""
    return task.spec or turn.spec_of(turn.changes.beyond.get((project.number, task.taskid)) or task)


def history_of(turn: TurnState, project: Project, task: Task) -> list[Attempt]:
    """Collect the last attempts of a task, newest first, this turn's included."""
    # The store may still have the history of a dropped task of that name.
    looked_up = turn.found.histories.get(TaskRef(project.number, task.taskid), {}) if task.kept_state else {}
    by_index = dict(looked_up)
    for kept in turn.changes.writes.attempts:
        if (kept.project, kept.taskid) == (project.number, task.taskid):
            by_index[kept.ring_index] = kept.attempt
    if task.ended is not None:
        by_index[(task.attempts - 1) % ATTEMPTS_KEPT] = task.ended
    newest = [(task.attempts - age) % ATTEMPTS_KEPT for age in range(1, ATTEMPTS_KEPT + 1)]
    return [shown(turn, by_index[index]) for index in newest if index in by_index]


UPSTREAM: Final = "upstream: "
"""Start of the error of a task that failed with a parent, whose name follows: ``TASKID`` or ``PROJECT/TASKID``."""

PREFIX_OF_OTHERS: Final = re.compile(rf"({NAME}+|a deleted project)/")


def shown(turn: TurnState, attempt: Attempt) -> Attempt:
    """Return an attempt whose error names no parent in a project that the sender of the request does not reach."""
    if turn.caller.scope is None or attempt.outcome != "upstream":
        return attempt
    prefix = PREFIX_OF_OTHERS.match(attempt.error.removeprefix(UPSTREAM))
    if prefix is None or turn.caller.reaches(prefix[1]):
        return attempt
    return replace(attempt, error=f"{UPSTREAM}a task of another project", kind="")


def result_of(turn: TurnState, project: Project, task: Task) -> Raw | None:
    """Return the result of a task's last success, this turn's included; it was looked up for this turn."""
    if not task.has_result:
        return None
    ref = TaskRef(project.number, task.taskid)
    return turn.changes.writes.results.get(ref) or turn.found.results.get(ref)


def retry_tasks(turn: TurnState, by: Who, message: TaskRetry) -> TasksReply:
    """Make delayed and finished tasks ready now, with all their retries; tasks in other states are ignored."""
    ignored = (READY, PROCESSING, BLOCKED)
    return _change_each(turn, by, message, ignored, lambda project, task: revive(turn, project, task))


def cancel_tasks(turn: TurnState, by: Who, message: TaskCancel) -> TasksReply:
    """End live tasks as cancelled; finished ones are ignored."""
    return _change_each(turn, by, message, OVER, lambda project, task: cancel(turn, project, task))


def reprioritise_tasks(turn: TurnState, by: Who, message: TaskReprioritise) -> TasksReply:
    """Give live tasks another priority; finished ones are ignored."""

    def change(project: Project, task: Task) -> None:
        turn.touch(project)
        project.queue.reprioritise(turn.changes, task, message.priority)
        turn.state.want_held(project, task)

    return _change_each(turn, by, message, OVER, change)


def _change_each(
    turn: TurnState,
    by: Who,
    message: NamedTasks,
    ignored: tuple[int, ...],
    change: Callable[[Project, Task], None],
) -> TasksReply:
    """Change the named tasks, except those in an ignored state, and log the change."""
    project = turn.state.projects.named(message.project)
    reply = TasksReply(n=message.n, outcomes=[])
    changed: list[str] = []
    for taskid in message.taskids:
        task = turn.find(project, taskid)
        if task is None:
            reply.outcomes.append("unknown")
        elif task.state in ignored:
            reply.outcomes.append("ignored")
        elif task.bare:
            reply.outcomes.append("bare")
        else:
            if len(changed) < TASKIDS_LOGGED:
                changed.append(_with_old_value(message, task))
            change(project, task)
            reply.outcomes.append("done")
    if changed:
        _log(turn, by, message, changed, reply.outcomes.count("done"))
    return reply


def _with_old_value(message: NamedTasks, task: Task) -> str:
    """Describe a task for the log, with its value before the change."""
    old = task.priority if isinstance(message, TaskReprioritise) else STATE_NAMES[task.state]
    return f"{task.taskid} (was {old})"


def _log(turn: TurnState, by: Who, message: NamedTasks, tasks: Sequence[str], count: int) -> None:
    said = [f"priority={message.priority}"] if isinstance(message, TaskReprioritise) else []
    detail = " ".join([*said, *tasks])
    change_log.note(turn, by, LOGGED_AS[type(message)], project=message.project, count=count, detail=detail)


def _that_fit(attempts: Iterable[Attempt], room: int) -> list[Attempt]:
    """Take the first attempts that fit into ``room`` bytes; the error of the very first is sent twice."""
    fitting: list[Attempt] = []
    for attempt in attempts:
        kind = kind_of(attempt)
        room -= attempt_bytes(attempt.fetcher, attempt.error, kind, errors=1 if fitting else 2)
        if room < 0:
            break
        fitting.append(replace(attempt, kind=kind))
    return fitting


def _with_times(turn: TurnState, task: Task, reply: TaskReply) -> TaskReply:
    if task.state in (DELAYED, BLOCKED):
        return replace(reply, exetime=0.0 if is_held(task) else task.exetime)
    if task.lease is not None:
        lease_seconds = max(0.0, task.lease.deadline - turn.now.boot)
        return replace(reply, lease_seconds=lease_seconds, session=turn.state.sessions[task.lease.session].pseudonym)
    if task.state in OVER:
        return replace(reply, finished_at=key_time(task.key), bare_since=task.exetime)
    return reply


def need_shown(turn: TurnState, project: Project, taskid: str, wanted: Needs) -> TaskRef:
    """Look up everything that is known of a task."""
    ref = TaskRef(project.number, taskid)
    if (held := project.queue.tasks.get(taskid)) is not None:
        turn.ask(held)
    wanted.whole.append(ref)
    wanted.histories.append(ref)
    return ref


def _need_named(turn: TurnState, request: NamedTasks, wanted: Needs) -> None:
    """Look up the named tasks; with their specs if a retry may revive cleared tasks, or a cancel apply updates.

    Both are written again.
    """
    state = turn.state
    project = state.projects.by_name.get(request.project)
    if project is not None:
        refs = [TaskRef(project.number, taskid) for taskid in request.taskids]
        is_swept = project.number in state.pending.swept or turn.clears
        (wanted.whole if is_swept and isinstance(request, TaskRetry) else wanted.tasks).extend(refs)
        for taskid in request.taskids if isinstance(request, TaskCancel) else ():
            need_update(turn, project, taskid)


# ------------------------------------------------------------------------------------------------ wait


def wait(turn: TurnState, request: TaskWait, wanted: Needs) -> Halves:
    """Answer at once if the task has finished or the request has no ``seconds``; else add a waiter.

    Raises:
        Rejected: project or task is unknown, or too many requests wait already.
    """
    state, until = turn.state, turn.now.boot + request.seconds
    project = state.projects.named(request.project)
    ref = TaskRef(project.number, request.taskid)
    wanted.tasks.append(ref)
    yield
    task = turn.find(project, request.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{request.taskid}" is unknown in project "{project.name}"')
    if task.state in OVER or not request.seconds:
        return TaskWaitReply(n=request.n, state=STATE_NAMES[task.state] if task.state in OVER else "")
    waiters = state.task_waiters.of(ref) or Waiters()
    state.waits.add(waiters, Waiter(state.sessions[request.session], request.n, until))
    state.task_waiters.keep(ref, waiters)
    state.boot_timers.note(("task_wait", 0), until)
    return None


# ------------------------------------------------------------------------------------------------ parents


PAGE_BYTES: Final = 1 << 20
"""Bytes of results in a page, at most."""


def show_parents(turn: TurnState, message: TaskParents, wanted: Needs) -> Halves:
    """Answer with a page of the task's parents."""
    state = turn.state
    project = state.projects.named(message.project)
    if message.taskid not in project.queue.tasks:
        wanted.tasks.append(TaskRef(project.number, message.taskid))
    room = min(PAGE_BYTES, room_in(state.config.max_message))
    ref = ParentsRef(project.number, message.taskid, message.after, room)
    wanted.parents.append(ref)
    yield
    task = turn.find(project, message.taskid)
    if task is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    reply = TaskParentsReply(n=message.n, parents=[])
    if task.links is None or not task.links.number:
        return reply
    page = turn.found.parents.get(ref)
    if page is None or _has_new_edges(turn, task, task.links):
        raise Rejected("changed", "taskid: the task's parents have just changed; ask again")
    for place, each in enumerate(page.edges, message.after):
        mark = turn.changes.mark_of(each)
        if mark is None or mark.number != task.links.number:
            continue
        if not turn.reaches(state.projects.by_number.get(each.edge.parent.project)):
            continue
        parent = _parent_view(turn, TaskRef(*each.edge.parent), mark)
        room -= parent_bytes(parent)
        if room < 0 and reply.parents:
            reply.next = place
            return reply
        reply.parents.append(parent)
    if not page.end:
        reply.next = message.after + len(page.edges)
    return reply


def _has_new_edges(turn: TurnState, task: Task, links: Links) -> bool:
    """Whether this turn has made the task's edges, so that they could not be looked up."""
    child = TaskRef(task.project, task.taskid)
    edges = turn.changes.writes.new_edges
    return bool(edges) and any(
        mark is not None and edge.child == child and mark.number == links.number
        for edge, mark in turn.changes.writes.edges.items()
        if edge in edges
    )


def _parent_view(turn: TurnState, ref: TaskRef, mark: Mark) -> PackedParent:
    is_satisfied = mark.state != UNSATISFIED
    of = turn.state.projects.by_number.get(ref.project)
    parent = turn.find(of, ref.taskid) if of is not None else None
    if of is None or parent is None:
        return PackedParent(of.name if of is not None else "", ref.taskid, "unknown", is_satisfied)
    result = result_of(turn, of, parent)
    return PackedParent(of.name, ref.taskid, STATE_NAMES[parent.state], is_satisfied, NIL if result is None else result)


# ------------------------------------------------------------------------------------------------ children


def show_children(turn: TurnState, message: TaskChildren, wanted: Needs) -> Halves:
    """Answer with a page of the task's children."""
    projects, after = turn.state.projects, _after_child(message)
    project = projects.named(message.project)
    if message.taskid not in project.queue.tasks:
        wanted.tasks.append(TaskRef(project.number, message.taskid))
    edges = EdgesRef(False, project.number, message.taskid, after or b"", message.limit)
    wanted.edges.append(edges)
    yield
    if turn.find(project, message.taskid) is None:
        raise Rejected("unknown-task", f'taskid: "{message.taskid}" is unknown in project "{project.name}"')
    if after is None:
        raise Rejected("malformed", f'after: expected the "next" of a page, got "{message.after}"')
    reply = TaskChildrenReply(n=message.n, children=[])
    page = turn.found.edges.get(edges)
    if page is None:  # the project was created in this turn
        return reply
    for each in page.edges:
        of = projects.by_number.get(each.edge.child.project)
        mark, child = turn.changes.mark_of(each), turn.find(of, each.edge.child.taskid) if of is not None else None
        if of is None or mark is None or child is None or child.links is None or child.links.number != mark.number:
            continue
        if not turn.reaches(of):
            continue
        reply.children.append(Child(of.name, child.taskid, STATE_NAMES[child.state], waits=mark.state == UNSATISFIED))
    if not page.end:
        reply.next = page.edges[-1].key.hex()
    return reply


def _after_child(message: TaskChildren) -> bytes | None:
    """Parse the key of the edge after which the page begins; None if it is invalid."""
    try:
        return bytes.fromhex(message.after)
    except ValueError:
        return None


REQUESTS: Final = (
    RequestRule(NewTasks, _push, _need_pushed, grows=True),
    RequestRule(TaskShow, *in_halves(show_task), keeps=False, slow_ms=5.0),
    RequestRule(TaskRetry, asked_for_change(retry_tasks), _need_named, grows=True),
    RequestRule(TaskCancel, asked_for_change(cancel_tasks), _need_named),
    RequestRule(TaskReprioritise, asked_for_change(reprioritise_tasks), _need_named),
    RequestRule(TaskWait, *in_halves(wait), keeps=False),
    RequestRule(TaskParents, *in_halves(show_parents), keeps=False, slow_ms=5.0),
    RequestRule(TaskChildren, *in_halves(show_children), keeps=False, slow_ms=5.0),
)
