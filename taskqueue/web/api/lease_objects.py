"""Tasks to run and what became of them, as fetchers that speak HTTP say it.

Tokens are text here: they have 63 bits, and JavaScript's numbers have 53.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import encode as json_encode
from msgspec.msgpack import encode

from taskqueue.protocol.fetchers import LeaseRef
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_ERROR_CHARS,
    MAX_KIND_CHARS,
    MAX_RETRY_AFTER_SECONDS,
    MAX_WISHES,
    NIL,
    Priority,
    ProjectName,
    TaskId,
    TimeoutSeconds,
    Token,
)
from taskqueue.protocol.packed_json import PACKED, as_msgpack
from taskqueue.protocol.values import Again, Fetched, NewTask, Schedule, TaskReport
from taskqueue.web.api.problems import Problem
from taskqueue.web.api.task_objects import needed_task

TokenText = Annotated[str, Meta(pattern=r"\A[0-9]{1,19}\Z")]
"""A token in decimal digits; a number is taken, too."""

LARGEST: Final = 2**63 - 1


class Wish(Struct, forbid_unknown_fields=True):
    """Tasks to run.

    Attributes:
        limit: so many at most.
        projects: of these; None: of any.
        seconds: to wait for the first one; 0: only look.
        priority: of two that wait, who has the higher one gets it.
    """

    limit: Annotated[int, Meta(ge=1, le=100)] = 1
    projects: Annotated[list[ProjectName], Meta(max_length=MAX_WISHES)] | None = None
    seconds: Annotated[float, Meta(ge=0, le=60)] = 30.0
    priority: Priority = 0


class Handed(Struct):
    """A task to run, as ``Assignment`` in docs/reference/messages.md.

    Attributes:
        token: names this lease of it; its report says it.
        timeout: seconds until the lease runs out.
        body: as its producer sent it.
        fetch: how to fetch it: the producer's word over that of the project's settings.
        retried: retries that it has used up.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it was never run.
        schedule: its priority now, and of what its producer said the exetime, retries, age and itag.
        not_before: seconds from now before which it must not be started; the timeout counts from then.
        start_within: seconds after that in which it is started or released; null: whenever there is a place.
        etag, last_modified, content_hash: of its page, as its last report said; for a conditional request.
        slot: name of its slot, such as its host; empty: it has none.
    """

    project: str
    taskid: str
    url: str
    token: Token
    timeout: float
    body: Raw
    fetch: Raw
    retried: int
    lastcrawltime: float
    schedule: Schedule
    not_before: float
    start_within: float | None
    etag: str
    last_modified: str
    content_hash: str
    slot: str


class HandedOut(Struct):
    """Tasks to run; none if there were none in time.

    Attributes:
        tasks: to be run now.
    """

    tasks: list[Handed]


class Lease(Struct, forbid_unknown_fields=True):
    """Names a lease."""

    project: ProjectName
    taskid: TaskId
    token: TokenText | int


class NextAttempt(Struct, forbid_unknown_fields=True):
    """How the next attempt of a task that failed differs, as ``Again`` in docs/reference/messages.md.

    Attributes:
        counts: this attempt uses up a retry; null: it does unless the report says retry_after.
        body: of the task from now on, any value; what JSON can't say is ``{"$msgpack": "base64"}``. null: as it was.
        priority: of the task from now on; null: as it was.
    """

    counts: bool | None = None
    body: Any = None
    priority: Priority | None = None


class Report(Struct, forbid_unknown_fields=True):
    """What became of a task, as ``TaskReport`` in docs/reference/messages.md.

    Attributes:
        ok: it succeeded.
        error: why not; shown to people.
        retry_after: not ok: run it again after so many seconds, without using up a retry.
        retry: not ok and false: it has failed for good.
        new: tasks that it led to, as they are pushed.
        result: any value; what JSON can't say is ``{"$msgpack": "base64"}``.
        fetched: how the fetch went; its slot's pace and its recrawl follow that.
        kind: what the error is about, in one line; empty: the daemon takes a line of it.
        part: only new tasks; the lease goes on, and another report follows.
        again: of a task that failed and is to be retried: how its next attempt differs.
    """

    project: ProjectName
    taskid: TaskId
    token: TokenText | int
    ok: bool = True
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""
    retry_after: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER_SECONDS)] | None = None
    retry: bool = True
    new: Annotated[list[Any], Meta(max_length=MAX_BATCH)] = []
    result: Any = None
    fetched: Fetched | None = None
    kind: Annotated[str, Meta(max_length=MAX_KIND_CHARS)] = ""
    part: bool = False
    again: NextAttempt | None = None


class Reports(Struct, forbid_unknown_fields=True):
    """What became of tasks.

    Attributes:
        tasks: the reports, in order.
    """

    tasks: Annotated[list[Report], Meta(max_length=MAX_BATCH)]


class Prolonged(Struct, forbid_unknown_fields=True):
    """Leases that are to go on.

    Attributes:
        leases: that are to go on.
        seconds: from now; None: as long as each task's own timeout.
    """

    leases: Annotated[list[Lease], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Released(Struct, forbid_unknown_fields=True):
    """Leases of tasks that were not started.

    Attributes:
        leases: whose tasks were not started.
    """

    leases: Annotated[list[Lease], Meta(max_length=MAX_BATCH)]


def with_tokens(fields: dict[str, Any]) -> dict[str, Any]:
    """Leases as the protocol names them."""
    leases = [
        LeaseRef(lease.project, lease.taskid, _token(f"leases[{place}]", lease.token))
        for place, lease in enumerate(fields["leases"])
    ]
    return fields | {"leases": leases}


def with_reports(fields: dict[str, Any]) -> dict[str, Any]:
    """Reports as the protocol has them."""
    return {"tasks": [_report(f"tasks[{place}]", report) for place, report in enumerate(fields["tasks"])]}


def _report(name: str, said: Report) -> TaskReport:
    followers: list[NewTask | None] = [needed_task(f"{name}.new[{place}]", item) for place, item in enumerate(said.new)]
    return TaskReport(
        said.project, said.taskid, _token(name, said.token), said.ok, said.error, said.retry_after, said.retry,
        followers, _packed(f"{name}.result", said.result), said.fetched, said.kind, said.part, _again(name, said.again),
    )  # fmt: skip


def _again(name: str, said: NextAttempt | None) -> Again | None:
    return None if said is None else Again(said.counts, _packed(f"{name}.again.body", said.body), said.priority)


def _packed(name: str, value: Any) -> Raw:
    if value is None:
        return NIL
    try:
        if isinstance(value, dict) and value.keys() == {PACKED}:
            return as_msgpack(Raw(json_encode(value)))
        return Raw(encode(value))
    except (ValueError, OverflowError, RecursionError) as error:
        raise Problem(400, f"{name}: {error}", name, "malformed") from None


def _token(name: str, said: str | int) -> int:
    token = int(said)
    if not 0 <= token <= LARGEST:
        raise Problem(400, f"{name}.token: expected 0 to {LARGEST}", f"{name}.token", "malformed")
    return token
