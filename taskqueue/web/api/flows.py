"""Operations on flows."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from taskqueue.protocol.fields import MAX_BATCH, Number, ProjectName
from taskqueue.protocol.flows import (
    FlowCancel,
    FlowList,
    FlowName,
    FlowShow,
    FlowStage,
    FlowSubmit,
    FlowTasks,
)
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation
from taskqueue.web.api.task_objects import needed_task


class Stage(Struct, forbid_unknown_fields=True):
    """Tasks of a flow, in the form in which they are pushed, parents first.

    Attributes:
        tasks: parents first: a task waits for earlier ones of the flow, or for tasks outside of it.
        first: index of the first of these tasks in the flow, from 0.
    """

    project: ProjectName
    flow: FlowName
    tasks: Annotated[list[Any], Meta(min_length=1, max_length=MAX_BATCH)]
    first: Number = 0


def with_tasks(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert the tasks into those of the protocol."""
    return fields | {"tasks": [needed_task(f"tasks[{place}]", item) for place, item in enumerate(fields["tasks"])]}


OPERATIONS: Final = (
    Operation("GET", "/flows", FlowList, "Flows, in pages", further=paging.of_flows),
    Operation(
        "GET", "/projects/{project}/flows", FlowList, "Flows of a project, in pages", further=paging.of_flows
    ),
    Operation(
        "GET", "/projects/{project}/flows/{flow}", FlowShow,
        "Progress of a flow; waits for its end, up to `seconds`",
    ),
    Operation(
        "GET", "/projects/{project}/flows/{flow}/tasks", FlowTasks, "Tasks of a flow, in pages",
        further=paging.of_parents,
    ),
    Operation(
        "POST", "/projects/{project}/flows/{flow}/stage", FlowStage,
        "Stage tasks of a flow that is about to be submitted", arguments=Stage, remake=with_tasks,
    ),
    Operation(
        "POST", "/projects/{project}/flows/{flow}/submit", FlowSubmit,
        "Accept all staged tasks of a flow at once",
    ),
    Operation("POST", "/projects/{project}/flows/{flow}/cancel", FlowCancel, "Cancel a flow"),
)  # fmt: skip
