"""Steps of bulk operations: one action on many tasks, in the order of taskids, a page at a time.

A page scans a bounded number of tasks, and ends early when its globs have cost enough, or when the deferred updates of
tasks that it has cancelled are large: they are written, too. No task is changed twice, because taskids only grow on the
way; tasks that arrive later are skipped, because their seq is above the operation's bound. What the tasks of a page
were is written with it: ``undo_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import Final

from taskqueue.core.model.attempt_records import NO_ATTEMPT, error_cost, error_matches
from taskqueue.core.model.glob import COST_MOST, glob
from taskqueue.core.model.needs import FoundPage, PageRef
from taskqueue.core.model.operation import Operation
from taskqueue.core.model.project import Project
from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    BLOCKED,
    DELAYED,
    FAILED,
    NO_TOKEN,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    Task,
    came_within,
    key_time,
)
from taskqueue.core.model.undo_rows import MADE_DUE, UndoPage
from taskqueue.core.moves import undo_rows
from taskqueue.core.moves.push import cancel, revive
from taskqueue.core.state import State
from taskqueue.core.turn_state import TurnState
from taskqueue.protocol.values import Attempt, BulkAction, TaskFilter

PAGE_TASKS = 256

UPDATES_BYTES = 1 << 20
"""Bytes of deferred updates after which a page ends."""

HOLLOW_MOST: Final = 8
"""Specs of running tasks with deferred updates that a step reads, at most; a page ends before the next one."""

SKIPPED_MOST: Final = 1024
"""Projects without tasks in the selected states that are skipped in one step, at most."""

SENSIBLE: Final[dict[BulkAction, tuple[int, ...]]] = {
    "retry": (DELAYED, *OVER),
    "cancel": (READY, DELAYED, PROCESSING, BLOCKED),
    "reprioritise": (READY, DELAYED, PROCESSING, BLOCKED),
    "reschedule": (READY, DELAYED, BLOCKED),
}
"""States in which an action changes something."""

MEANT: Final[dict[str, tuple[int, ...]]] = {
    "retry": (FAILED,),
    "cancel": SENSIBLE["cancel"],
    "reprioritise": SENSIBLE["reprioritise"],
    "reschedule": SENSIBLE["reschedule"],
}
"""States that are selected by default: a retry without states must not crawl everything again by accident."""


def page_ref(state: State, operation: Operation) -> PageRef:
    """Make the page of the operation's next step."""
    record = operation.record
    return PageRef(
        operation.project,
        record.after,
        min(PAGE_TASKS, state.config.turn_tasks),
        whole=bool(record.progress.filter.url),
        errors=bool(record.progress.filter.error),
    )


def need_updated(turn: TurnState, operation: Operation) -> None:
    """Look up the specs of the next running tasks that a cancel may end, if that applies deferred updates of them."""
    project, record = turn.state.projects.by_number.get(operation.project), operation.record
    if project is None or record.progress.action != "cancel" or not turn.state.memory.deferred:
        return
    for task in nsmallest(HOLLOW_MOST, _hollow_after(project, record), key=lambda task: task.taskid):
        turn.ask(task)


def _hollow_after(project: Project, record: OperationRecord) -> Iterator[Task]:
    for task in project.queue.processing.leased.values():
        if _is_hollow(task) and task.taskid > record.after and task.seq <= record.bound:
            yield task


def _is_hollow(task: Task) -> bool:
    """Whether a task has a deferred update, for which its spec must be read."""
    return task.lease is not None and task.lease.deferred is not None and task.spec is None


def take_page(turn: TurnState, operation: Operation, page: FoundPage) -> None:
    """Apply the operation to the tasks of a page; after a project's last page, move to the next project."""
    project = turn.state.projects.by_number.get(page.ref.project)
    if project is not None and not _meet_all(turn, project, operation, page):
        return
    note(project, operation.record)
    operation.go_on(turn.now)
    _skip_empty(turn, operation)


def note(project: Project | None, record: OperationRecord) -> None:
    """Record for the log how many tasks of the project were changed; None: it was deleted meanwhile."""
    count, record.logged = record.progress.matched - record.logged, record.progress.matched
    if count and project is not None and not record.progress.dry_run:
        record.changed.append(project.name)
        record.tasks += count


def _meet_all(turn: TurnState, project: Project, operation: Operation, page: FoundPage) -> bool:
    """Apply the operation to a page; True if the project has no further tasks."""
    rows = undo_rows.begin_page(turn, project) if operation.record.rows is not None else None
    is_through = _meet_each(turn, project, operation.record, page, rows)
    if rows is not None:
        undo_rows.keep(turn, operation, rows)
    return is_through


def _meet_each(
    turn: TurnState, project: Project, record: OperationRecord, page: FoundPage, rows: UndoPage | None
) -> bool:
    """Apply the operation to a page, task by task, and collect the rows of those that it changes."""
    attempts = page.attempts | _new_attempts(turn, page.ref)
    if not page.tasks:
        record.after = page.last
    cost, deferred = 0, turn.state.memory.deferred
    for known in page.tasks:
        if cost > COST_MOST or deferred - turn.state.memory.deferred > UPDATES_BYTES:
            return False
        task = turn.find(project, known.taskid) or known
        spec, last = task.spec or known.spec, attempts.get(known.taskid, NO_ATTEMPT)
        cost += _cost(record, spec, last)
        is_meant = task.seq <= record.bound and _matches(record, task, spec, last)
        if is_meant and record.progress.action == "cancel" and _is_hollow(task):
            return False  # the next step has its spec
        record.after = known.taskid
        record.progress.seen += 1
        if is_meant:
            record.progress.matched += 1
            if not record.progress.dry_run:
                _change(turn, project, task, record, rows)
    return page.end


def _skip_empty(turn: TurnState, operation: Operation) -> None:
    """Skip projects without a task in the selected states; their tasks are not counted as seen."""
    for _ in range(SKIPPED_MOST):
        project = turn.state.projects.by_number.get(operation.project) if operation.running else None
        if not operation.running or (project is not None and _has_any(project, operation.record)):
            return
        operation.go_on(turn.now)


def _has_any(project: Project, record: OperationRecord) -> bool:
    return any(project.queue.counts[state] for state in _meant(record))


def _meant(record: OperationRecord) -> Sequence[int]:
    """States in which tasks are changed."""
    return [STATE_NAMES.index(name) for name in record.progress.filter.states] or MEANT[record.progress.action]


def _new_attempts(turn: TurnState, ref: PageRef) -> dict[str, Attempt]:
    """Map taskids to attempts that ended in this turn."""
    if not ref.errors:
        return {}
    return {kept.taskid: kept.attempt for kept in turn.changes.writes.attempts if kept.project == ref.project}


def _cost(record: OperationRecord, spec: Spec | None, last: Attempt) -> int:
    wanted = record.progress.filter
    of_url = glob(wanted.url, wanted.ignore_case).cost(spec.url) if wanted.url and spec is not None else 0
    return of_url + (error_cost(glob(wanted.error, wanted.ignore_case), last) if wanted.error else 0)


def _matches(record: OperationRecord, task: Task, spec: Spec | None, last: Attempt) -> bool:
    wanted = record.progress.filter
    if task.bare or task.state not in _meant(record) or not _is_of_the_time(wanted, task):
        return False
    if wanted.job and task.job != wanted.job:
        return False
    if wanted.error and not error_matches(glob(wanted.error, wanted.ignore_case), last):
        return False
    return not wanted.url or (spec is not None and glob(wanted.url, wanted.ignore_case).matches(spec.url))


def _is_of_the_time(wanted: TaskFilter, task: Task) -> bool:
    if not came_within(task, wanted.pushed_since, wanted.pushed_before):
        return False
    if not (wanted.before or wanted.since):
        return True
    moment = _moment(task)
    return moment > 0 and moment >= wanted.since and (not wanted.before or moment < wanted.before)


def _moment(task: Task) -> float:
    """Time at which the task or its last attempt ended (unix seconds); 0: it never ran."""
    return key_time(task.key) if task.state in OVER else task.lastcrawltime


def _change(turn: TurnState, project: Project, task: Task, record: OperationRecord, rows: UndoPage | None) -> None:
    state, action = turn.state, record.progress.action
    turn.touch(project)
    keeps_token = task.token != NO_TOKEN and action not in ("retry", "cancel")
    if rows is not None:
        rows.rows.append(undo_rows.row_of(task, keeps_token=keeps_token))
    if action == "retry":
        revive(turn, project, task)
    elif action == "cancel":
        if rows is not None:
            undo_rows.keep_update(task, rows)
        cancel(turn, project, task)
    elif action == "reprioritise":
        project.queue.reprioritise(turn.changes, task, record.progress.priority or 0)
        state.want_held(project, task)
    else:
        _reschedule(turn, project, task, record.progress.exetime or 0.0)
        if rows is not None and not task.exetime:
            rows.rows[-1].flags |= MADE_DUE
        state.want_held(project, task)
    if rows is not None and not keeps_token:
        task.token = rows.token


def _reschedule(turn: TurnState, project: Project, task: Task, at: float) -> None:
    """Move a waiting task; one that waits for a retry still does, so no link brings it forward."""
    if task.state == READY:  # it may have waited for a retry, but waits no longer
        task.held_back = False
    project.queue.put(turn.changes, task, at if at > turn.now.wall else 0.0)
