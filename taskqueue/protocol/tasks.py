"""Messages about tasks: pushes, reports, one task with its attempts, parents and children, and lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Raw, Struct

from taskqueue.protocol.base import AnyReply, ChangeRequest, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import KnownState, PushOutcome, TaskState
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_PARENTS,
    NIL,
    PROTOCOL,
    WAIT_MOST_SECONDS,
    EpochSeconds,
    Priority,
    ProjectName,
    TaskId,
)
from taskqueue.protocol.values import Attempt, Glob, NewTask, Schedule, TaskReport


class NewTasks(Request["NewTasksReply"], tag="new-task"):
    """New tasks for a project. None replaces an item that could not be decoded; see ``Incoming.flaws``.

    Attributes:
        tasks: in order; each gets an outcome of its own.
        states: say also in which state each task was known before.
    """

    project: ProjectName
    tasks: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)]
    states: bool = False


TaskOutcome = Literal["done", "unknown", "ignored", "bare"]
"""What became of a task that was named; ``bare``: it can't run again, because its url and body were dropped."""

ReportOutcome = Literal["done", "kept", "stale", "rejected"]


class ItemError(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why item ``index`` of a batch was rejected; for a follow-up, ``parent`` is the index of its report.

    Attributes:
        index: of the item in the batch, from 0.
        reason: why, for people, naming the field.
        parent: index of the report whose follow-up it is; None: it is none.
        code: slot-full: its slot has had as many tasks as it may; empty: any other reason.
    """

    index: int
    reason: str
    parent: int | None = None
    code: str = ""


class NewTasksReply(Reply, tag="new-task-reply", omit_defaults=True):
    """The outcome of each task, in order.

    Attributes:
        outcomes: what became of each task, in order.
        errors: why tasks were rejected.
        states: of each task, in order, as it was known before; empty: they were not asked for.
    """

    outcomes: list[PushOutcome]
    errors: list[ItemError] = []
    states: list[KnownState] = []


class Done(Request["DoneReply"], tag="done"):
    """Reports on tasks that have been run.

    Attributes:
        tasks: the reports, in order.
    """

    tasks: Annotated[list[TaskReport | None], Meta(max_length=MAX_BATCH)]


class DoneReply(Reply, tag="done-reply", omit_defaults=True):
    """Whether each report counted, in order; and the outcomes of follow-ups.

    Attributes:
        outcomes: whether each report counted, in order.
        new: one list per report, in order; empty when no report had follow-ups.
        errors: why reports, or new tasks in them, were rejected.
    """

    outcomes: list[ReportOutcome]
    new: list[list[PushOutcome]] = []
    errors: list[ItemError] = []


class TaskRow(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task in a list.

    Attributes:
        priority: larger first.
        at: unix seconds: due (delayed), ended (over), handed out (processing); 0: ready.
        retried: retries that it has used up.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it was never run.
        error: of its last attempt, unless that was a success.
        fetcher: name of who has it, or had it last, or its pseudonym; not of a success.
        kind: what the error is about, in one line.
        lease_seconds: until its lease runs out (processing).
        put_off: how often in a row its fetcher has put it off by ``retry_after``.
        state: as of any task; empty: it is that which was asked for.
        pushed_at: unix seconds, whole ones, when it first came; 0: unknown.
    """

    taskid: str
    url: str
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


class TaskShow(Request["TaskReply"], tag="task-show"):
    """Tell about one task, its body included."""

    project: ProjectName
    taskid: TaskId


class TaskDetails(Struct, frozen=True, omit_defaults=True):
    """A task with its body, its result and its last attempts.

    Attributes:
        state: ready, delayed, processing, success, failed or cancelled.
        schedule: when and how often it is to run, as its producer said.
        priority: its priority now; larger first.
        exetime: unix seconds: due (delayed), or 0.
        retried: retries that it has used up.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it was never run.
        finished_at: unix seconds of the end (over), or 0.
        lease_seconds: until its lease runs out (processing).
        session, fetcher: pseudonym of the fetcher that has it, and its name, or the same if it has none (processing).
        error: of its last attempt, unless that was a success.
        body: as its producer sent it.
        depth: follow-ups between it and a task that was pushed by itself.
        history: its last attempts, the newest first; ATTEMPTS_KEPT at most.
        crashes: how often its fetcher has fallen silent while it ran, since somebody last told how it ended.
        bare_since: unix seconds since when its url, schedule, body and history are gone, because its project kept them
            for long enough; 0: they are here.
        result: of its last success, as its fetcher gave it; nil: it gave none, or the body leaves no room for it here.
        result_bytes: of it as MessagePack; 0: it gave none.
        put_off: how often in a row its fetcher has put it off by ``retry_after``; PUT_OFF_MOST: so often at least.
        pushed_at: unix seconds, whole ones, when it first came; 0: unknown, it is older than this is kept.
    """

    project: str
    taskid: str
    url: str
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


class TaskReply(TaskDetails, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="task-reply"):
    """Answers ``task-show``; body and result are MessagePack."""

    body: Raw = NIL
    result: Raw = NIL
    v: int = PROTOCOL
    n: int


class TaskWait(WaitingRequest["TaskWaitReply"], tag="task-wait"):
    """Answer when the task is over, or after ``seconds``, whichever comes first.

    Attributes:
        seconds: to wait, at most.
    """

    project: ProjectName
    taskid: TaskId
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class TaskWaitReply(Reply, tag="task-wait-reply"):
    """Answers ``task-wait``.

    Attributes:
        state: success, failed or cancelled; empty: the task is not over.
    """

    state: str


class Parent(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task that another one waits for.

    Attributes:
        project: empty: it was deleted.
        state: as of any task, or unknown: nobody has pushed it yet, or it is forgotten.
        satisfied: the other one waits for it no more: it has succeeded since, or failed and was to be overlooked.
        result: of its last success; None: there was none, or it left none behind.
    """

    project: str
    taskid: str
    state: str
    satisfied: bool = False
    result: Any = None


class PackedParent(Parent, frozen=True):
    """A parent as messages have it, with its result as MessagePack."""

    result: Raw = NIL


class TaskParents(Request["TaskParentsReply"], tag="task-parents"):
    """Which tasks does a task wait for, and what have they left behind? A page of them.

    Attributes:
        after: the ``next`` of the page before; 0: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[int, Meta(ge=0, le=MAX_PARENTS)] = 0


class TaskParentsReply(Reply, tag="task-parents-reply"):
    """Answers ``task-parents``: a page; ``next`` asks for the one after it, nil: there is none.

    Attributes:
        parents: a page of the tasks that it waits for.
    """

    parents: list[PackedParent]
    next: int | None = None


class TaskChildren(Request["TaskChildrenReply"], tag="task-children"):
    """Which tasks wait for a task, or have waited for it? A page of them.

    Attributes:
        after: the ``next`` of the page before; empty: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[str, Meta(max_length=600)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Child(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task that waits for another one, or has waited for it.

    Attributes:
        state: as of any task.
        waits: it still does.
    """

    project: str
    taskid: str
    state: str
    waits: bool = False


class TaskChildrenReply(Reply, tag="task-children-reply"):
    """Answers ``task-children``: a page, which may be short; ``next`` asks for the next one, empty: there is none.

    Attributes:
        children: a page of the tasks that wait for it.
    """

    children: list[Child]
    next: str = ""


class TaskList(Request["TaskListReply"], tag="task-list"):
    """Tasks of a project in one state, in the order of that state, or in all states, one state after the other.

    Attributes:
        state: None: those of ``states``, and a page has tasks of one of them.
        states: in the order of the list, whatever theirs; empty: each state. Not beside ``state``.
        url: a glob that the url matches; a page looks at a bounded number of tasks, so it may be short, or empty.
        error: a glob that the error of the last attempt matches; not for what is being processed.
        since: unix seconds: ended at that time or later or, if live, last run; one that was never run is left out.
        newest: backwards, from the end of the order; not for what is ready or delayed.
        after: the ``next`` of the page before; empty: from the start.
        pushed_since, pushed_before: unix seconds: first came at that time or later, or before it; a task of which that
            is unknown is left out.
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


class TaskListReply(Reply, tag="task-list-reply"):
    """Answers ``task-list``: a page; ``next`` asks for the one after it, empty: there is none.

    Attributes:
        tasks: a page of them, in the order of their state.
    """

    tasks: list[TaskRow]
    next: str = ""


class TaskRetry(ChangeRequest["TasksReply"], tag="task-retry"):
    """Run these tasks now, whenever they are due and whatever they ended as, with their retries given back.

    One that waits for other tasks is blocked.
    """

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskCancel(ChangeRequest["TasksReply"], tag="task-cancel"):
    """End these tasks; whoever is processing one of them will be told that its answer is stale."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskReprioritise(ChangeRequest["TasksReply"], tag="task-reprioritise"):
    """Give these tasks another priority, up or down; one that is over stays as it is.

    Attributes:
        priority: that they get; larger first.
    """

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]
    priority: Priority


class TasksReply(Reply, tag="tasks-reply"):
    """Answers ``task-retry``, ``-cancel`` and ``-reprioritise``: per taskid, in order, what became of it.

    ``bare``: it can't be retried, because its url and its body are gone; push it with ``force_update``.

    Attributes:
        outcomes: what became of each task, in the order in which they were named.
    """

    outcomes: list[TaskOutcome]
