"""Operations on tasks."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from taskqueue.protocol.choices import STATES, TaskState
from taskqueue.protocol.fields import AnyJob, EpochSeconds, ProjectName, TaskId
from taskqueue.protocol.insight import Why
from taskqueue.protocol.operations import (
    Rerun,
)
from taskqueue.protocol.tasks import (
    NewTasks,
    TaskCancel,
    TaskChildren,
    TaskList,
    TaskParents,
    TaskReprioritise,
    TaskRetry,
    TaskShow,
    TaskWait,
)
from taskqueue.protocol.values import Glob
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.pushing import LINES, pushing
from taskqueue.web.api.task_objects import PushedTasks


class TasksAsked(Struct, forbid_unknown_fields=True):
    """Query for the tasks of a project, as ``task-list`` in docs/reference/protocol.md.

    Attributes:
        state: may be repeated for several states; none: all states.
        job: tasks of this job; empty: any.
    """

    project: ProjectName
    state: Annotated[list[TaskState], Meta(max_length=len(STATES))] = []
    url: Glob = ""
    error: Glob = ""
    since: EpochSeconds = 0.0
    newest: bool = False
    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0
    ignore_case: bool = False
    job: AnyJob = ""


class TaskRef(Struct, forbid_unknown_fields=True):
    """Reference to a task."""

    project: ProjectName
    taskid: TaskId


def with_states(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert one state into ``state``, several into ``states``."""
    states = fields["state"]
    return fields | {"state": states[0] if len(states) == 1 else None, "states": states if len(states) > 1 else []}


def as_list(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert one taskid into a list."""
    return {"project": fields["project"], "taskids": [fields["taskid"]]}


OPERATIONS: Final = (
    Operation(
        "GET", "/projects/{project}/tasks", TaskList, "Tasks in some states, or in all, in pages",
        arguments=TasksAsked, remake=with_states, further=paging.of_tasks,
    ),
    Operation(
        "POST", "/projects/{project}/tasks", NewTasks, "Push a task, a list of them, or a stream of lines",
        arguments=PushedTasks, whole="tasks", endpoint=pushing, takes=(LINES,), gives=(LINES,),
    ),
    Operation("POST", "/projects/{project}/tasks/retry", TaskRetry, "Run tasks now"),
    Operation("POST", "/projects/{project}/tasks/cancel", TaskCancel, "Cancel tasks"),
    Operation(
        "POST", "/projects/{project}/tasks/reprioritise", TaskReprioritise, "Give tasks another priority"
    ),
    Operation("GET", "/projects/{project}/tasks/{taskid}", TaskShow, "A task in detail"),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/wait", TaskWait,
        "Wait until a task has finished, up to `seconds`",
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/parents", TaskParents, "Parents of a task, in pages",
        further=paging.of_parents,
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/children", TaskChildren, "Children of a task, in pages",
        further=paging.of_tasks,
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/why", Why, "Why a task is not dispatched",
        arguments=TaskRef,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/retry", TaskRetry, "Run a task now", arguments=TaskRef,
        remake=as_list,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/cancel", TaskCancel, "Cancel a task", arguments=TaskRef,
        remake=as_list,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/rerun", Rerun, "Run a task again, alone or with others"
    ),
)  # fmt: skip
