"""Tasks and reports in the form that fetchers use over HTTP.

Tokens are text here: they have 63 bits, and JavaScript's numbers have 53.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct
from msgspec.json import encode as json_encode
from msgspec.msgpack import encode

from taskqueue.protocol.fetchers import LeaseRef, NotedLease
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_ERROR_CHARS,
    MAX_KIND_CHARS,
    MAX_RETRY_AFTER_SECONDS,
    MAX_WISHES,
    NIL,
    WORDS,
    NoteValue,
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

TokenText = Annotated[str, Meta(pattern=r"\A[0-9]{1,19}\Z", extra={WORDS: "1 to 19 decimal digits"})]
"""Token in decimal digits; a number is accepted, too."""

LARGEST: Final = 2**63 - 1


class Wish(Struct, forbid_unknown_fields=True):
    """Request for tasks to run.

    Attributes:
        limit: tasks, at most.
        projects: projects to take tasks of; None: any.
        seconds: wait for the first task; 0: none.
        priority: of two waiting fetchers, the one with the higher priority gets the task.
    """

    limit: Annotated[int, Meta(ge=1, le=100)] = 1
    projects: Annotated[list[ProjectName], Meta(max_length=MAX_WISHES)] | None = None
    seconds: Annotated[float, Meta(ge=0, le=60)] = 30.0
    priority: Priority = 0


class Handed(Struct):
    """Task to run, as ``assignment`` in docs/reference/protocol.md.

    Attributes:
        token: token of the lease; the report must contain it.
        timeout: seconds until the lease ends.
        body: body as its producer sent it.
        fetch: how to fetch it: the producer's values over those of the project's settings.
        retried: retries used so far.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it has never run.
        schedule: its present priority, and the producer's exetime, retries, age, itag and job.
        not_before: seconds from now before which it must not start; the timeout counts from then.
        start_within: seconds after that in which it must be started or released; null: no limit.
        etag, last_modified, content_hash: values of its page in the last report, for a conditional request.
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
    """Tasks to run; empty if none came in time.

    Attributes:
        tasks: tasks to run now.
    """

    tasks: list[Handed]


class Lease(Struct, forbid_unknown_fields=True):
    """Lease of a task."""

    project: ProjectName
    taskid: TaskId
    token: TokenText | int


class NextAttempt(Struct, forbid_unknown_fields=True):
    """Changes to the next attempt of a task that failed, as ``again`` in docs/reference/protocol.md.

    Attributes:
        counts: whether this attempt uses up a retry; null: yes, unless the report has retry_after.
        body: new body of the task, any value, or ``{"$msgpack": "base64"}`` for what JSON can't represent. null:
            unchanged.
        priority: new priority of the task; null: unchanged.
    """

    counts: bool | None = None
    body: Any = None
    priority: Priority | None = None


class Report(Struct, forbid_unknown_fields=True):
    """Report of a task, as ``report`` in docs/reference/protocol.md.

    Attributes:
        ok: whether the task succeeded.
        error: error text, shown to users.
        retry_after: if not ok: run it again after these seconds, without using up a retry.
        retry: if not ok: false if the task has failed for good.
        new: follow-up tasks, in the form in which they are pushed.
        result: any value, or ``{"$msgpack": "base64"}`` for what JSON can't represent.
        fetched: outcome of the fetch, for the pace of its slot and its recrawl.
        kind: kind of the error, in one line; empty: a line of the error.
        part: true if the report has only new tasks; the lease goes on, and another report follows.
        again: changes to the next attempt of a task that failed and is to be retried.
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
    """Reports of tasks.

    Attributes:
        tasks: reports, in order.
    """

    tasks: Annotated[list[Report], Meta(max_length=MAX_BATCH)]


class Prolonged(Struct, forbid_unknown_fields=True):
    """Leases to extend.

    Attributes:
        leases: leases to extend.
        seconds: time from now; None: each task's own timeout.
    """

    leases: Annotated[list[Lease], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Released(Struct, forbid_unknown_fields=True):
    """Leases of tasks that were not started.

    Attributes:
        leases: leases of tasks that were not started.
    """

    leases: Annotated[list[Lease], Meta(max_length=MAX_BATCH)]


class LeaseNote(Lease, forbid_unknown_fields=True):
    """Lease of a task, and its note.

    Attributes:
        note: text of at most 256 bytes, or a number; users see one from 0 to 1 as a progress bar.
    """

    note: NoteValue


class Notes(Struct, forbid_unknown_fields=True):
    """Notes of tasks that run.

    Attributes:
        notes: leases of these tasks, with the notes.
    """

    notes: Annotated[list[LeaseNote], Meta(max_length=MAX_BATCH)]


def with_notes(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert notes into those of the protocol."""
    notes = [
        NotedLease(each.project, each.taskid, _token(f"notes[{place}]", each.token), each.note)
        for place, each in enumerate(fields["notes"])
    ]
    return {"notes": notes}


def with_tokens(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert leases into those of the protocol."""
    leases = [
        LeaseRef(lease.project, lease.taskid, _token(f"leases[{place}]", lease.token))
        for place, lease in enumerate(fields["leases"])
    ]
    return fields | {"leases": leases}


def with_reports(fields: dict[str, Any]) -> dict[str, Any]:
    """Convert reports into those of the protocol."""
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
