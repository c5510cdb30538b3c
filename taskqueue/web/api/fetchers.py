"""Operations on fetchers, and for fetchers that speak HTTP: take tasks, report their outcomes.

The web process takes tasks for a fetcher, and passes them on:

    daemon ──select──► web process ──pass on──► worker ──done, extend, release──► any web process ──► daemon

To the daemon the web process is one fetcher, named by its option; drained, it dispatches nothing. It keeps listing the
tasks that it has passed on in its hellos, so a lease lasts as long as the task's own timeout, and ``extend`` prolongs
it. A dead worker is noticed when the lease ends, not before, since it is silent between requests. If the web process
dies, its tasks go back after ``fetcher_timeout`` (60 s), without using up a retry; a report that arrives earlier
through any other web process counts, and so does a late success, unless another fetcher has received the task.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from taskqueue import Task
from taskqueue.protocol.fetchers import (
    Extend,
    FetcherDo,
    Fetchers,
    FetcherShow,
    Hello,
    Note,
    Release,
)
from taskqueue.protocol.tasks import Done
from taskqueue.protocol.values import Assignment
from taskqueue.web.api import paging
from taskqueue.web.api.answering import in_json, json_of, while_there
from taskqueue.web.api.decoding import Decoding
from taskqueue.web.api.http_operation import Endpoint, Operation
from taskqueue.web.api.lease_objects import (
    Handed,
    HandedOut,
    Notes,
    Prolonged,
    Released,
    Reports,
    Wish,
    with_notes,
    with_reports,
    with_tokens,
)
from taskqueue.web.services import services_of


class Travelled(Struct, array_like=True):
    """Parts of ``Task.to_bytes`` that are needed here."""

    version: int
    handed: Assignment


def handing_out(operation: Operation) -> Endpoint:
    """Make the endpoint by which workers take tasks."""
    decoding = Decoding(operation)

    async def hand_out(request: Request) -> Response:
        said = await decoding.arguments(request)
        client = services_of(request).client
        asking = client.select(
            said["limit"], projects=said["projects"], timeout=said["seconds"], priority=said["priority"]
        )
        tasks = await while_there(request, asking)
        if await request.is_disconnected():
            await client.release(*tasks)
            raise ClientDisconnect
        await client.pass_on(*tasks)
        return in_json(json_of(HandedOut([_handed(task) for task in tasks])))

    return hand_out


def _handed(task: Task) -> Handed:
    it = msgspec.msgpack.decode(task.to_bytes(), type=Travelled).handed
    return Handed(
        it.project, it.taskid, it.url, it.token, it.timeout, it.body, Raw(msgspec.msgpack.encode(task.fetch)),
        it.retried, it.lastcrawltime, it.schedule, it.not_before, it.start_within, it.etag, it.last_modified,
        it.content_hash, it.slot,
    )  # fmt: skip


OPERATIONS: Final = (
    Operation("GET", "/fetchers", Fetchers, "Fetchers, in pages", further=paging.of_fetchers),
    Operation("GET", "/fetchers/{fetcher}", FetcherShow, "All fetchers of a name"),
    Operation(
        "POST", "/fetchers/{fetcher}/drain", FetcherDo, "Give fetchers of a name no new tasks",
        {"action": "drain"},
    ),
    Operation(
        "POST", "/fetchers/{fetcher}/resume", FetcherDo, "Give fetchers of a name tasks again",
        {"action": "resume"},
    ),
    Operation(
        "POST", "/leases", Hello, "Take tasks to run; waits for the first one", arguments=Wish,
        endpoint=handing_out, own_reply=HandedOut,
    ),
    Operation(
        "POST", "/leases/done", Done, "Report tasks: succeeded, or with ok false failed", arguments=Reports,
        remake=with_reports,
    ),
    Operation(
        "POST", "/leases/extend", Extend, "Give leases more time", arguments=Prolonged, remake=with_tokens
    ),
    Operation(
        "POST", "/leases/note", Note, "Put notes on tasks that run, one a second a task", arguments=Notes,
        remake=with_notes,
    ),
    Operation(
        "POST", "/leases/release", Release, "Hand back tasks that were not started", arguments=Released,
        remake=with_tokens,
    ),
)  # fmt: skip
