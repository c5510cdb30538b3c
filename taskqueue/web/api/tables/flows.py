"""Operations on flows."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.replies import FlowReply, FlowsReply, FlowTasksReply
from taskqueue.protocol.requests import FlowCancel, FlowList, FlowShow, FlowSubmit, FlowTasks
from taskqueue.web.api import paging
from taskqueue.web.api.operation import Operation

OPERATIONS: Final = (
    Operation("GET", "/flows", "viewer", FlowList, FlowsReply, "Flows, in pages", further=paging.of_flows),
    Operation(
        "GET", "/projects/{project}/flows", "viewer", FlowList, FlowsReply, "Flows of a project, in pages",
        further=paging.of_flows,
    ),
    Operation(
        "GET", "/projects/{project}/flows/{flow}", "viewer", FlowShow, FlowReply,
        "How far a flow is; waits for its end for up to so many seconds",
    ),
    Operation(
        "GET", "/projects/{project}/flows/{flow}/tasks", "viewer", FlowTasks, FlowTasksReply,
        "Tasks of a flow, in pages", further=paging.of_parents,
    ),
    Operation(
        "POST", "/projects/{project}/flows/{flow}/submit", "operator", FlowSubmit, FlowReply,
        "Accept all staged tasks of a flow at once",
    ),
    Operation("POST", "/projects/{project}/flows/{flow}/cancel", "operator", FlowCancel, FlowReply, "End a flow"),
)  # fmt: skip
