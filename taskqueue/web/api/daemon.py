"""Operations on the daemon's state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from taskqueue.protocol.daemon import DaemonHistory, DaemonShow, KeyList, StatusReply, StatusShow, Verify
from taskqueue.protocol.values import EventTotals, TaskCounts
from taskqueue.web.api import paging
from taskqueue.web.api.http_operation import Operation


class StatusShown(Struct):
    """State of the daemon, in short.

    Attributes:
        epoch: grows with each start of the daemon, and each time that it loads its store again.
        version: version of the daemon's software.
        compiled: the core is compiled rather than interpreted.
        uptime_seconds: seconds since the daemon started.
        projects: number of projects.
        counts: tasks by state, now, over all projects.
        totals: events since the projects were created, over all projects.
        shell: counters of the process around the core, since its start (turns, messages, bytes, malformed, …).
    """

    epoch: int
    version: str
    compiled: bool
    uptime_seconds: float
    projects: int
    counts: TaskCounts
    totals: EventTotals
    shell: dict[str, float]


def without_pages(reply: StatusReply, said: Mapping[str, Any]) -> StatusShown:
    """Return a status without its projects and fetchers."""
    return StatusShown(
        reply.epoch, reply.version, reply.compiled, reply.uptime_seconds, reply.found, reply.counts, reply.totals,
        reply.shell,
    )  # fmt: skip


OPERATIONS: Final = (
    Operation(
        "GET", "/status", StatusShow, "State of the daemon, in short",
        {"after": "", "limit": 1, "group": "", "filter": "", "sort": "name", "skip": 0, "fetchers": 0},
        own_reply=StatusShown, shown=without_pages,
    ),
    Operation("GET", "/daemon", DaemonShow, "State of the daemon, with histograms"),
    Operation(
        "GET", "/daemon/history", DaemonHistory,
        "History of the daemon by minutes of the last day, in pages", further=paging.of_points,
    ),
    Operation(
        "GET", "/daemon/keys", KeyList, "Use of each key since the daemon's start, in pages", further=paging.of_keys,
    ),
    Operation("GET", "/daemon/verify", Verify, "Violations of the daemon's invariants"),
)  # fmt: skip
