"""Operations on statistics, failures and changes."""

from __future__ import annotations

from typing import Final

from taskqueue.protocol.insight import (
    FailureList,
    JobCounts,
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
        "GET", "/stats", Stats, "Events over 5 minutes, 1 hour, 1 day and all time, in pages",
        further=paging.of_stats,
    ),
    Operation(
        "GET", "/projects/{project}/jobs/{job}", JobCounts, "Tasks of a job by state, in pages to be summed up",
        further=paging.of_tasks,
    ),
    Operation(
        "GET", "/stats/history", StatsHistory, "Events by minute or hour, in pages",
        further=paging.of_points,
    ),
    Operation("GET", "/watch", Watch, "Projects that have changed; waits for a change"),
    Operation("GET", "/failures", FailureList, "Failures by error, host, fetcher or project"),
    Operation(
        "GET", "/why", Why, "Projects with tasks that dispatch nothing, and why, in pages",
        {"project": None, "taskid": None}, further=paging.of_tasks,
    ),
    Operation("GET", "/log", Log, "Changes by users and programs, in pages", further=paging.of_changes),
)  # fmt: skip
