"""All operations of the HTTP interface; ``docs/http.md`` tells about them."""

from __future__ import annotations

from typing import Final

from taskqueue.web.api.operation import Operation
from taskqueue.web.api.tables import daemon, fetchers, flows, leases, projects, slots, tasks

OPERATIONS: Final[tuple[Operation, ...]] = (
    *daemon.OPERATIONS,
    *projects.OPERATIONS,
    *tasks.OPERATIONS,
    *flows.OPERATIONS,
    *slots.OPERATIONS,
    *fetchers.OPERATIONS,
    *leases.OPERATIONS,
)
