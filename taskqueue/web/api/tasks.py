"""Operations on tasks."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from taskqueue.protocol.fields import ProjectName, TaskId
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
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.pushing import LINES, pushing
from taskqueue.web.api.task_objects import PushedTasks


class TaskRef(Struct, forbid_unknown_fields=True):
    """Names a task."""

    project: ProjectName
    taskid: TaskId


def as_list(fields: dict[str, Any]) -> dict[str, Any]:
    """One task where several may be named."""
    return {"project": fields["project"], "taskids": [fields["taskid"]]}


OPERATIONS: Final = (
    Operation(
        "GET", "/projects/{project}/tasks", "viewer", TaskList, "Tasks in one state, or in all, in pages",
        further=paging.of_tasks,
    ),
    Operation(
        "POST", "/projects/{project}/tasks", "operator", NewTasks, "Push a task, a list of them, or a stream of lines",
        arguments=PushedTasks, whole="tasks", endpoint=pushing, takes=(LINES,), gives=(LINES,),
    ),
    Operation("POST", "/projects/{project}/tasks/retry", "operator", TaskRetry, "Run tasks now"),
    Operation("POST", "/projects/{project}/tasks/cancel", "operator", TaskCancel, "End tasks"),
    Operation(
        "POST", "/projects/{project}/tasks/reprioritise", "operator", TaskReprioritise, "Give tasks another priority"
    ),
    Operation("GET", "/projects/{project}/tasks/{taskid}", "viewer", TaskShow, "All about a task"),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/wait", "viewer", TaskWait,
        "Wait until a task is over, for up to so many seconds",
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/parents", "viewer", TaskParents, "What a task waits for, in pages",
        further=paging.of_parents,
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/children", "viewer", TaskChildren, "What waits for a task, in pages",
        further=paging.of_tasks,
    ),
    Operation(
        "GET", "/projects/{project}/tasks/{taskid}/why", "viewer", Why, "Why a task is not handed out",
        arguments=TaskRef,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/retry", "operator", TaskRetry, "Run a task now", arguments=TaskRef,
        remake=as_list,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/cancel", "operator", TaskCancel, "End a task", arguments=TaskRef,
        remake=as_list,
    ),
    Operation(
        "POST", "/projects/{project}/tasks/{taskid}/rerun", "operator", Rerun, "Run a task again, and others with it"
    ),
)  # fmt: skip
