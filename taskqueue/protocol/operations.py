"""Messages about operations: changes of all tasks that match a filter, and reruns, which take many turns."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from taskqueue.protocol.base import ChangeRequest, Reply, Request, WaitingRequest
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
from taskqueue.protocol.values import BulkAction, Operation, TaskFilter


class Bulk(ChangeRequest["OperationReply"], tag="bulk"):
    """Do something with all tasks of a project, or of a group, that the filter lets through: starts an operation.

    Attributes:
        action: what is done.
        project: whose tasks; None: those of the group.
        group: whose projects' tasks; empty: those of the project.
        filter: which of their tasks.
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


class Rerun(ChangeRequest["OperationReply"], tag="rerun"):
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


class OperationCancel(ChangeRequest["OperationReply"], tag="operation-cancel"):
    """End an operation where it is: what it has changed stays changed.

    Attributes:
        id: or number.
    """

    id: Number


class OperationShow(WaitingRequest["OperationReply"], tag="operation-show"):
    """How far is an operation? Answers when it has ended, or after ``seconds``, whichever comes first.

    Attributes:
        id: or number.
        seconds: to wait for its end, at most; 0: none.
    """

    id: Number
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 0.0


class OperationList(Request["OperationsReply"], tag="operation-list"):
    """All operations that are remembered, the newest first."""


class OperationReply(Reply, tag="operation-reply"):
    """Answers ``bulk`` and ``operation-show``.

    Attributes:
        operation: as it is now.
    """

    operation: Operation


class OperationsReply(Reply, tag="operations-reply"):
    """Answers ``operation-list``.

    Attributes:
        operations: the newest first.
    """

    operations: list[Operation]
