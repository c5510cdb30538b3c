"""Operations on all tasks that a filter names, and on what these do (operations of the daemon)."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationShow,
)
from taskqueue.web.api.http_operation import Operation

OPERATIONS: Final = (
    Operation(
        "POST", "/operations", "operator", Bulk,
        "Do something with all tasks that a filter names, of a project or a group",
    ),
    Operation("GET", "/operations", "viewer", OperationList, "All operations that are remembered"),
    Operation(
        "GET", "/operations/{id}", "viewer", OperationShow,
        "How far an operation is; waits for its end for up to so many seconds",
    ),
    Operation("POST", "/operations/{id}/cancel", "operator", OperationCancel, "End an operation"),
)  # fmt: skip
