"""Messages about operations: changes of all tasks that match a filter, and reruns, which take many turns."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from taskqueue.protocol.base import Change, Reply, Request
from taskqueue.protocol.choices import RerunScope
from taskqueue.protocol.fields import (
    WAIT_MOST_SECONDS,
    EpochSeconds,
    GroupName,
    Number,
    Priority,
    ProjectName,
    Seconds,
    TaskId,
)
from taskqueue.protocol.values import BulkAction, OperationAction, RerunView, TaskFilter


class OperationView(Struct, omit_defaults=True):
    """An operation as people see it: on tasks (``bulk``, ``rerun``), or on the projects of a group (``group-do``).

    Attributes:
        known: tasks that its projects had when it began; about as many have to be looked at. On a group: its projects.
        seen: looked at so far.
        matched: of them, those that the filter let through: changed, or (dry run) only counted. On a group: projects
            for which the action made sense.
        began_at, ended_at: unix seconds; 0: not yet.
        projects: names of the first of those that it goes through.
        group: that they belong to, if it was asked for.
        filter: which tasks are meant.
        priority: that ``reprioritise`` gives them; None: it is another action.
        exetime: to which ``reschedule`` moves them, in unix seconds; 0 is now. None: it is another action.
        cancelled: somebody has ended it.
        rerun: what a rerun takes; it has come to ``seen`` tasks so far, of which it takes ``known``; ``matched`` of
            these are reset (dry run: would be). None: it is another action.
        until: unix seconds at which its pause of projects ends; 0: it does not end by itself, or is another action.
    """

    id: int
    action: OperationAction
    projects: list[str]
    dry_run: bool
    known: int
    seen: int
    matched: int
    began_at: float
    ended_at: float = 0.0
    group: str = ""
    filter: TaskFilter = TaskFilter()
    priority: int | None = None
    exetime: float | None = None
    cancelled: bool = False
    rerun: RerunView | None = None
    until: float = 0.0


class Bulk(Change, tag="bulk"):
    """Do something with all tasks of a project, or of a group, that the filter lets through: starts an operation.

    Attributes:
        priority: for ``reprioritise``.
        exetime: for ``reschedule``, unix seconds; 0 is now.
        delay: for ``reschedule``, seconds from the arrival of this; wins over exetime.
        dry_run: only count them.
    """

    action: BulkAction
    project: ProjectName | None = None
    group: GroupName = ""
    filter: TaskFilter = TaskFilter()
    priority: Priority = 0
    exetime: EpochSeconds = 0.0
    delay: Seconds | None = None
    dry_run: bool = False


class Rerun(Change, tag="rerun"):
    """Run a task again, and others with it, in the order in which they depend on each other: starts an operation.

    Attributes:
        scope: task: it alone; downstream: and all tasks that depend on it; upstream-failed: and those of the tasks that
            it depends on that failed or were cancelled, with nothing but successes left behind it; only-failed: of it
            and all that depend on it those that failed or were cancelled.
        dry_run: only say which ones.
    """

    project: ProjectName
    taskid: TaskId
    scope: RerunScope = "task"
    dry_run: bool = False


class OperationCancel(Change, tag="operation-cancel"):
    """End an operation where it is: what it has changed stays changed."""

    id: Number


class OperationShow(Request, tag="operation-show"):
    """How far is an operation? Answers when it has ended, or after ``seconds``, whichever comes first."""

    id: Number
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 0.0


class OperationList(Request, tag="operation-list"):
    """All operations that are remembered, the newest first."""


class OperationReply(Reply, tag="operation-reply"):
    """Answers ``bulk`` and ``operation-show``."""

    operation: OperationView


class OperationsReply(Reply, tag="operations-reply"):
    """Answers ``operation-list``."""

    operations: list[OperationView]
