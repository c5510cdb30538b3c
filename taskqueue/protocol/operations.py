"""Messages about operations, which take many turns: changes of all tasks that match a filter, undos, and reruns."""

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
    """Do something with all tasks of a project or group that match a filter, as an operation.

    Attributes:
        action: retry: run now, with all retries; cancel; reprioritise: set ``priority``; reschedule: wait until
            ``exetime``, or for ``delay``.
        project: project of the tasks; None: see ``group``.
        group: group of the tasks' projects; exactly one of both is set.
        filter: which of their tasks.
        priority: for ``reprioritise``.
        exetime: for ``reschedule``: unix seconds; a time in the past is now.
        delay: for ``reschedule``: seconds from arrival of this message; overrides ``exetime``.
        dry_run: change nothing, only count.
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
    """Run a task again, and others with it, in the order of their dependencies, as an operation.

    Attributes:
        scope: which others, see the rules.
        dry_run: change nothing, only show the tasks in layers.
    """

    project: ProjectName
    taskid: TaskId
    scope: RerunScope = "task"
    dry_run: bool = False


class OperationCancel(ChangeRequest["OperationReply"], tag="operation-cancel"):
    """End an operation; what it has changed stays changed.

    Attributes:
        id: its id or number.
    """

    id: Number


class OperationUndo(ChangeRequest["OperationReply"], tag="operation-undo"):
    """Take back what a bulk operation did, as an operation.

    Attributes:
        id: its id or number.
    """

    id: Number


class OperationShow(WaitingRequest["OperationReply"], tag="operation-show"):
    """Show an operation, or wait until it has ended.

    Attributes:
        id: its id or number.
        seconds: longest wait for its end; 0: reply at once.
    """

    id: Number
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 0.0


class OperationList(Request["OperationsReply"], tag="operation-list"):
    """List the operations that run and the last 100 that have ended."""


class OperationReply(Reply, tag="operation-reply"):
    """An operation, as it is now.

    Attributes:
        operation: as it is now.
    """

    operation: Operation


class OperationsReply(Reply, tag="operations-reply"):
    """Operations that run, or have ended.

    Attributes:
        operations: the newest first.
    """

    operations: list[Operation]
