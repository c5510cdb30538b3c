"""Bulk operations: changes of all tasks that a filter selects."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.operations import (
    Bulk,
    OperationCancel,
    OperationList,
    OperationShow,
    OperationUndo,
)
from taskqueue.web.api.http_operation import Operation

OPERATIONS: Final = (
    Operation(
        "POST", "/operations", Bulk,
        "Change all tasks that a filter selects, of a project or a group",
    ),
    Operation("GET", "/operations", OperationList, "All operations that the daemon remembers"),
    Operation(
        "GET", "/operations/{id}", OperationShow,
        "Progress of an operation; waits for its end, up to `seconds`",
    ),
    Operation("POST", "/operations/{id}/cancel", OperationCancel, "Cancel an operation"),
    Operation("POST", "/operations/{id}/undo", OperationUndo, "Take back what a change of many tasks did"),
)  # fmt: skip
