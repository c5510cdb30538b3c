"""Operations that tell how the daemon is."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.daemon import (
    DaemonHistory,
    DaemonShow,
    Status,
    Verify,
)
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation

OPERATIONS: Final = (
    Operation(
        "GET", "/status", "viewer", Status, "How the daemon is, with a page of projects", further=paging.of_projects
    ),
    Operation("GET", "/daemon", "viewer", DaemonShow, "How the daemon itself is, with histograms"),
    Operation(
        "GET", "/daemon/history", "viewer", DaemonHistory,
        "How the daemon was in each minute of the last day, in pages", further=paging.of_points,
    ),
    Operation("GET", "/verify", "viewer", Verify, "What is wrong with the scheduler's invariants"),
)  # fmt: skip
