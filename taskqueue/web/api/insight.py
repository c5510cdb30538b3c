"""Operations that tell what has happened."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.insight import (
    FailureList,
    Log,
    Stats,
    StatsHistory,
    Watch,
    Why,
)
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation

OPERATIONS: Final = (
    Operation(
        "GET", "/stats", "viewer", Stats, "What happened over 5 minutes, 1 hour, 1 day and all, in pages",
        further=paging.of_stats,
    ),
    Operation(
        "GET", "/stats/history", "viewer", StatsHistory, "What happened in each minute or hour, in pages",
        further=paging.of_points,
    ),
    Operation("GET", "/watch", "viewer", Watch, "Which projects have changed; waits for a change"),
    Operation("GET", "/failures", "viewer", FailureList, "What failed, by what failures have in common"),
    Operation(
        "GET", "/why", "viewer", Why, "Which projects with tasks stand still, and why, in pages",
        {"project": None, "taskid": None}, further=paging.of_tasks,
    ),
    Operation("GET", "/log", "viewer", Log, "Who changed what, in pages", further=paging.of_changes),
)  # fmt: skip
