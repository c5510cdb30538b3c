"""Messages about tasks: pushes, reports, one task with its attempts, parents and children, and lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Raw, Struct

from taskqueue.protocol.base import AnyReply, ChangeRequest, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import KnownState, ParentFailure, PushOutcome, TaskState
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_PARENTS,
    NIL,
    PROTOCOL,
    WAIT_MOST_SECONDS,
    AnyJob,
    EpochSeconds,
    Priority,
    ProjectName,
    TaskId,
)
from taskqueue.protocol.values import Attempt, Glob, NewTask, Schedule, TaskReport


class NewTasks(Request["NewTasksReply"], tag="new-task"):
    """Push tasks to a project.

    Attributes:
        project: project of the tasks that name none.
        tasks: decided in this order; each gets an outcome of its own.
        states: also reply the state that each task had before.
    """

    project: ProjectName
    tasks: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)]
    states: bool = False


TaskOutcome = Literal["done", "unknown", "ignored", "bare"]
"""Outcome of a task that was named; ``bare``: it can't run again, because its URL and body were dropped."""

ReportOutcome = Literal["done", "kept", "stale", "rejected"]


class ItemError(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an item of a batch was rejected.

    Attributes:
        index: index of the item in its list, from 0.
        reason: for users, naming the field.
        parent: of a follow-up: index of the report in ``done``; ``index`` counts in its ``new``. None: not a follow-up.
        code: ``forbidden``: the key of the client may not do this, such as in that project; ``slot-full``: its slot has
            had as many tasks as it may; empty: any other reason.
    """

    index: int
    reason: str
    parent: int | None = None
    code: str = ""


class NewTasksReply(Reply, tag="new-task-reply", omit_defaults=True):
    """The outcome of each pushed task. Everything but ``rejected`` is stored.

    Attributes:
        outcomes: one per task, in order.
        errors: why tasks were rejected: the first ones, as far as the message has room.
        states: one per task, in order: its state before this message, or before an earlier task of this message changed
            it; empty text: unknown before, or malformed. Empty list: not asked for.
    """

    outcomes: list[PushOutcome]
    errors: list[ItemError] = []
    states: list[KnownState] = []


class Done(Request["DoneReply"], tag="done"):
    """Report attempts that have ended, and new tasks that came out of them.

    Attributes:
        tasks: one report per task.
    """

    tasks: Annotated[list[TaskReport | None], Meta(max_length=MAX_BATCH)]


class DoneReply(Reply, tag="done-reply", omit_defaults=True):
    """Whether each report counted, and what became of the new tasks.

    Attributes:
        outcomes: one per report, in order.
        new: one list per report, in order: the outcome of each new task, as in ``new-task-reply``. Empty: no report had
            any.
        errors: why reports, or new tasks in them, were rejected: the first ones, as far as the message has room.
    """

    outcomes: list[ReportOutcome]
    new: list[list[PushOutcome]] = []
    errors: list[ItemError] = []


class TaskRow(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task in a list.

    Attributes:
        taskid: id of the task in its project.
        priority: present priority; larger runs first.
        at: unix seconds: due (delayed), dispatched (processing) or finished; 0: ready or blocked.
        retried: times that it has failed.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it has never run.
        error: error of its last attempt, unless that succeeded; empty while processing.
        fetcher: name or pseudonym of the fetcher that has it, or had it last; empty after a success.
        lease_seconds: seconds until its lease runs out (processing).
        kind: what the error is about, in one line.
        put_off: times in a row that ``retry_after`` has put it off.
        state: state of the task; empty: the state that was asked for.
        pushed_at: whole unix seconds of its first push; 0: unknown.
        job: name of its job; empty: none.
    """

    taskid: str
    """Id of the task in its project."""
    url: str
    """URL that it fetches."""
    priority: int = 0
    at: float = 0.0
    retried: int = 0
    lastcrawltime: float = 0.0
    error: str = ""
    fetcher: str = ""
    lease_seconds: float = 0.0
    kind: str = ""
    put_off: int = 0
    state: str = ""
    pushed_at: float = 0.0
    job: str = ""


class TaskShow(Request["TaskReply"], tag="task-show"):
    """Show one task with its body."""

    project: ProjectName
    taskid: TaskId


class TaskDetails(Struct, frozen=True, omit_defaults=True):
    """A task with its body, its result and its last attempts.

    Attributes:
        state: state of the task.
        schedule: when and how often it runs, as its producer set it.
        priority: present priority, after merging.
        exetime: unix seconds at which it is due (delayed), else 0.
        retried: times that it has failed.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it has never run.
        finished_at: unix seconds at which it finished, else 0.
        lease_seconds: seconds until its lease runs out (processing).
        session: pseudonym of its fetcher (processing).
        error: error of its last attempt, unless that succeeded.
        body: as its producer sent it.
        depth: follow-ups between it and a task that was pushed by itself.
        history: its last 10 attempts, the newest first.
        bare_since: unix seconds since when its URL, schedule, body and history are gone, because the project keeps them
            no longer; 0: they are here.
        crashes: times that its fetcher fell silent while it ran, since the last reported attempt.
        fetcher: name of its fetcher, or its pseudonym (processing).
        result: result of its last success; nil: none, or no room beside the body.
        result_bytes: size of the result as MessagePack; 0: none.
        put_off: times in a row that ``retry_after`` has put it off; 65,535: at least that often.
        pushed_at: whole unix seconds of its first push; 0: unknown.
        note: its last note (processing); None: none, or no room beside the body.
        job: name of its job; empty: none.
        on_parent_failure: what it does if a task that it depends on fails; ``fail`` if it depends on none.
    """

    project: str
    """Name of its project."""
    taskid: str
    """Id of the task in its project."""
    url: str
    """URL that it fetches."""
    state: str
    schedule: Schedule
    priority: int = 0
    exetime: float = 0.0
    retried: int = 0
    lastcrawltime: float = 0.0
    finished_at: float = 0.0
    lease_seconds: float = 0.0
    session: str = ""
    error: str = ""
    body: Any = None
    depth: int = 0
    history: list[Attempt] = []
    bare_since: float = 0.0
    crashes: int = 0
    fetcher: str = ""
    result: Any = None
    result_bytes: int = 0
    put_off: int = 0
    pushed_at: float = 0.0
    note: str | float | None = None
    job: str = ""
    on_parent_failure: ParentFailure = "fail"


class TaskReply(TaskDetails, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="task-reply"):
    """A task, its body and its result included."""

    body: Raw = NIL
    result: Raw = NIL
    v: int = PROTOCOL
    n: int


class TaskWait(WaitingRequest["TaskWaitReply"], tag="task-wait"):
    """Wait until a task has finished.

    Attributes:
        seconds: longest wait; 0: reply at once.
    """

    project: ProjectName
    taskid: TaskId
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class TaskWaitReply(Reply, tag="task-wait-reply"):
    """Whether the task has finished.

    Attributes:
        state: success, failed or cancelled; empty: the task has not finished.
    """

    state: str


class Parent(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task that another one depends on.

    Attributes:
        project: name of its project; empty: it was deleted.
        state: state of the task, or unknown: not pushed yet, or forgotten.
        satisfied: the other task no longer waits for it.
        result: result of its last success; nil: none.
    """

    project: str
    taskid: str
    """Id of the task in its project."""
    state: str
    satisfied: bool = False
    result: Any = None


class PackedParent(Parent, frozen=True):
    """A task that another one depends on.

    Attributes:
        result: result of its last success, perhaps later than the one that was waited for; nil: none.
    """

    result: Raw = NIL


class TaskParents(Request["TaskParentsReply"], tag="task-parents"):
    """List the tasks that a task depends on, with their results, in pages.

    Attributes:
        after: ``next`` of the page before; 0: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[int, Meta(ge=0, le=MAX_PARENTS)] = 0


class TaskParentsReply(Reply, tag="task-parents-reply"):
    """A page of the tasks that a task depends on.

    Attributes:
        parents: about 1 MiB of them; parents that were replaced by a later push are left out.
        next: ``after`` of the next page; None: this is the last one.
    """

    parents: list[PackedParent]
    next: int | None = None


class TaskChildren(Request["TaskChildrenReply"], tag="task-children"):
    """List the tasks that depend on a task, in pages.

    Attributes:
        after: ``next`` of the page before; empty: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[str, Meta(max_length=600)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Child(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task that depends on another one.

    Attributes:
        state: state of the task.
        waits: it still waits for the other task.
    """

    project: str
    """Name of its project."""
    taskid: str
    """Id of the task in its project."""
    state: str
    waits: bool = False


class TaskChildrenReply(Reply, tag="task-children-reply"):
    """A page of the tasks that depend on a task.

    Attributes:
        children: children that a later push has moved to other parents are left out; a page may be short, or empty.
        next: ``after`` of the next page; empty: this is the last one.
    """

    children: list[Child]
    next: str = ""


class TaskList(Request["TaskListReply"], tag="task-list"):
    """List tasks of a project in one state, several, or all, in pages.

    Attributes:
        state: tasks in this state; None: in those of ``states``.
        url: the URL matches; empty: any.
        error: the error of the last attempt, or its kind, matches; empty: any. Not with ``processing``.
        since: unix seconds: finished or, if unfinished, last run at that time or later; 0: any. Tasks that never ran
            don't match.
        newest: from the end of the order backwards; not with ``ready``, ``delayed`` or ``blocked``.
        after: ``next`` of the page before, with all else unchanged; empty: from the start.
        pushed_since: unix seconds: first pushed at that time or later; 0: any. Tasks whose first push is unknown don't
            match.
        pushed_before: unix seconds: first pushed before that time; 0: any. Tasks whose first push is unknown don't
            match.
        states: without ``state``: only tasks in these states; empty: in all.
        ignore_case: letters of either case match ``url`` and ``error``.
        job: tasks of this job; empty: any.
    """

    project: ProjectName
    state: TaskState | None = None
    url: Glob = ""
    error: Glob = ""
    since: EpochSeconds = 0.0
    newest: bool = False
    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0
    states: Annotated[list[TaskState], Meta(max_length=len(get_args(TaskState)))] = []
    ignore_case: bool = False
    job: AnyJob = ""


class TaskListReply(Reply, tag="task-list-reply"):
    """A page of tasks, all in one state.

    Attributes:
        tasks: in the order of their state.
        next: ``after`` of the next page; empty: this is the last one.
    """

    tasks: list[TaskRow]
    next: str = ""


class TaskRetry(ChangeRequest["TasksReply"], tag="task-retry"):
    """Run tasks now, due or not, finished or not, with all their retries; a task with unfinished parents is blocked."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskCancel(ChangeRequest["TasksReply"], tag="task-cancel"):
    """Cancel tasks; later reports on them are stale."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskReprioritise(ChangeRequest["TasksReply"], tag="task-reprioritise"):
    """Change the priority of unfinished tasks.

    Attributes:
        priority: new priority; larger runs first.
    """

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]
    priority: Priority


class TasksReply(Reply, tag="tasks-reply"):
    """The outcome of each task.

    Attributes:
        outcomes: one per taskid, in order.
    """

    outcomes: list[TaskOutcome]
