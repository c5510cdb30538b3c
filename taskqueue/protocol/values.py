"""Values within messages: tasks, their schedules and reports, counts, attempts, filters.

Records hold some of them, so a field that is added comes last and has a default: ``test_records`` pins their bytes.

Messages, which have a ``type``, are in the module of their noun.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct, field

from taskqueue.protocol.choices import STATES, AttemptOutcome, ErrorKind, ParentFailure, RerunScope, TaskState
from taskqueue.protocol.fields import (
    MAX_BATCH,
    MAX_ERROR_CHARS,
    MAX_KIND_CHARS,
    MAX_PARENTS,
    MAX_PAUSE_SECONDS,
    MAX_RETRY_AFTER_SECONDS,
    MAX_URL_CHARS,
    NIL,
    NOTATION,
    UNSAID,
    AgeSeconds,
    AnyJob,
    EpochSeconds,
    JobName,
    KnownName,
    Number,
    Priority,
    ProjectName,
    Retries,
    Seconds,
    SlotName,
    StatusCode,
    TaskId,
    TimeoutSeconds,
    Token,
    Validator,
)


class Recrawl(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Bounds of the interval after which a task runs again: it shrinks when the page changes and grows when it
    does not.

    Attributes:
        min: seconds between two runs, at least; not above ``max``.
        max: seconds between two runs, at most.
    """

    min: AgeSeconds
    max: AgeSeconds

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError("min is above max")


class Schedule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """When and how often a task runs. Names as in pyspider.

    Attributes:
        priority: larger runs first.
        exetime: unix seconds before which the task waits; 0: now.
        delay: seconds from arrival at the daemon before which the task waits; overrides ``exetime``, because clients'
            clocks differ.
        retries: further attempts after a failure; None: the project's setting ``retries``.
        age: seconds for which a success stays valid; None: for ever.
        itag: a value other than the stored one restarts a finished task.
        auto_recrawl: with ``age``: run the task again each time its age has passed. Refused in a push without ``age``,
            unless it has ``recrawl``, beside which it has no effect.
        force_update: this schedule and body replace the stored ones.
        cancel: with ``force_update``: cancel the task.
        timeout: seconds that one attempt may take; None: the project's ``processing_timeout``.
        expires_at: unix seconds after which the task is not worth running: it then ends as cancelled instead of being
            dispatched.
        slot: name of its slot, in a project with slots; no control characters. None: its host or domain, or none.
        recrawl: run the task again and again, at an interval that follows the changes of its page; the first interval
            is ``age``, or ``min`` without an age.
        repeat: with ``recrawl``, or ``auto_recrawl`` and ``age``: successes after which it runs again, at most; the
            daemon counts it down. Refused in a push without these. None: no limit.
        job: name of the run that the task comes by; tasks that it leads to get it, too, if they name none. None: no
            job, or that of the task that led to it.
    """

    priority: Priority = 0
    exetime: EpochSeconds = UNSAID
    delay: Seconds | None = None
    retries: Retries | None = None
    age: AgeSeconds | None = None
    itag: Annotated[str, Meta(max_length=256)] | None = None
    auto_recrawl: bool = False
    force_update: bool = False
    cancel: bool = False
    timeout: TimeoutSeconds | None = None
    expires_at: EpochSeconds | None = None
    slot: SlotName | None = None
    recrawl: Recrawl | None = None
    repeat: Retries | None = None
    job: JobName | None = None


PLAIN: Final = Schedule()


class TaskOf(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A task of any project."""

    project: ProjectName
    taskid: TaskId


class NewTask(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A task as its producer describes it.

    Attributes:
        url: what to fetch; the daemon never reads it, except to find the slot.
        schedule: when and how often it runs.
        body: any value for the fetcher; the daemon never looks into it.
        project: None: the project of the message or, for a follow-up, of the task that led to it.
        depends_on: tasks that must succeed before it is ready: taskids of its own project, or tasks of other projects.
            Until then it is blocked.
        on_parent_failure: what it does if one of these fails: fail too, run all the same, or wait for a later success;
            ``only``, refused without ``depends_on``: it runs when all have ended and one has failed, and is cancelled
            if none has.
    """

    taskid: TaskId
    """Id of the task in its project."""
    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    """URL that it fetches."""
    schedule: Schedule = PLAIN
    """When and how often it runs."""
    body: Raw = NIL
    project: ProjectName | None = None
    depends_on: Annotated[tuple[TaskId | TaskOf, ...], Meta(max_length=MAX_PARENTS)] = ()
    on_parent_failure: ParentFailure = "fail"


class Assignment(Struct, frozen=True, omit_defaults=True, gc=False):
    """A dispatched task, as its fetcher gets it.

    Attributes:
        token: token of this lease.
        timeout: seconds from now until the lease runs out.
        body: as its producer sent it.
        retried: times that it has failed before.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it has never run.
        schedule: its present priority and, as its producer set them, ``exetime``, ``retries``, ``age``, ``itag`` and
            ``job``; defaults are left out.
        not_before: seconds from arrival of the message before which it must not start; the timeout counts from then.
        start_within: seconds after ``not_before`` within which it must start, or be released; None: no limit.
        etag, last_modified, content_hash: of its page, from its last report, for a conditional request.
        slot: name of its slot; empty: it has none.
    """

    project: str
    taskid: str
    url: str
    token: Token
    timeout: float
    body: Raw = NIL
    retried: int = 0
    lastcrawltime: float = UNSAID
    schedule: Schedule = PLAIN
    not_before: float = UNSAID
    start_within: float | None = None
    etag: str = ""
    last_modified: str = ""
    content_hash: str = ""
    slot: str = ""


# One field of a report, not seven: a report without it costs as much as if there were none.
class Fetched(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """How a fetch went. The pace of the task's slot and the recrawl of the task follow it.

    Attributes:
        status_code: HTTP status of the answer, the last one after redirects; None: there was no answer.
        seconds: duration from the start of the fetch to the report.
        error_kind: why it failed: connection (no answer), timeout, http (the status), or other.
        changed: the page differs from that of the last report; None: the daemon compares the three fields below.
        content_hash, etag, last_modified: of the page as it is now; stored, and sent with the next dispatch of the
            task.
    """

    status_code: StatusCode | None = None
    seconds: Seconds | None = None
    error_kind: ErrorKind | None = None
    changed: bool | None = None
    content_hash: Validator = ""
    etag: Validator = ""
    last_modified: Validator = ""


class PageFacts(Struct, frozen=True, array_like=True, gc=False):
    """Facts about the page of a task: stored with its spec, and sent to the fetcher with it.

    Attributes:
        interval: seconds from one run to the next.
        etag, last_modified, content_hash: values of the last report; empty if unknown.
    """

    interval: AgeSeconds
    etag: Validator = ""
    last_modified: Validator = ""
    content_hash: Validator = ""


class Again(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """How the next attempt of a failed task differs from this one.

    Attributes:
        counts: this attempt uses up a retry; None: it does unless the report has ``retry_after``.
        body: new body of the task; nil: unchanged.
        priority: new priority of the task; None: unchanged.
    """

    counts: bool | None = None
    body: Raw = NIL
    priority: Priority | None = None


class TaskReport(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The outcome of one attempt, or new tasks that it has found so far.

    Attributes:
        token: token of its lease.
        ok: the attempt succeeded.
        error: why it failed, for users.
        retry_after: seconds until the next attempt of a failed task, which then uses up no retry unless ``again`` says
            so. Whether it failed or not, the task's slot pauses for as long, from one second to a day.
        retry: of a failed task: false fails it for good.
        new: tasks that it led to, stored in the same commit as its end, or as the part.
        result: of a success: any value of at most 65,536 bytes, stored with the task; nil: none. The daemon never looks
            into it.
        fetched: how the fetch went, for the task's slot and recrawl; ``changed`` false also keeps its former result if
            this report brings none.
        kind: what ``error`` is about, in one line; of several lines the first counts. Empty: the daemon takes a line of
            ``error``.
        part: the report has new tasks only; the attempt goes on, and another report follows.
        again: how the next attempt differs, of a task that failed and is retried.
    """

    project: KnownName
    taskid: TaskId
    token: Number
    ok: bool = True
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""
    retry_after: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER_SECONDS)] | None = None
    retry: bool = True
    new: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)] = []
    result: Raw = NIL
    fetched: Fetched | None = None
    kind: Annotated[str, Meta(max_length=MAX_KIND_CHARS)] = ""
    part: bool = False
    again: Again | None = None


class TaskCounts(Struct, omit_defaults=True, gc=False):
    """Tasks of a project by state, now. Finished tasks count as long as the daemon knows them.

    Attributes:
        ready: may be dispatched now.
        delayed: wait for their time or a retry.
        processing: are leased to fetchers.
        success: have succeeded.
        failed: have failed for good.
        cancelled: were cancelled, or expired.
        blocked: wait for other tasks.
    """

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    success: int = 0
    failed: int = 0
    cancelled: int = 0
    blocked: int = 0


class EventTotals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was created. A timeout also counts as failed or retried."""

    new: int = 0
    """Tasks that were new, or that run again."""
    selected: int = 0
    """Tasks dispatched."""
    success: int = 0
    """Attempts that succeeded."""
    failed: int = 0
    """Tasks that failed for good."""
    retried: int = 0
    """Failed attempts of tasks that had retries left."""
    timeout: int = 0
    """Attempts that ran out of time; each also counts as failed or retried."""


class PauseRecord(Struct, array_like=True):
    """State of a project's automatic pause, and of an operator's.

    Attributes:
        failures: failures in a row, since the last success.
        check_at: unix seconds of the next check; 0 without an automatic pause.
        phase: number of the check phase; each has its own, so that checks of an earlier one don't count.
        failed_checks: failed checks of this phase.
        reason: reason of the automatic pause, for the operator.
        neutral_checks: checks of this phase that were neither success nor failure.
        until: unix seconds at which an operator's pause ends; 0 if it does not end by itself.
    """

    failures: int = 0
    check_at: float = 0.0
    phase: int = 0
    failed_checks: int = 0
    reason: str = ""
    neutral_checks: int = 0
    until: float = 0.0


class CronRecord(Struct, array_like=True):
    """State of a cron entry.

    Attributes:
        last_at: unix seconds at which a tick last ran, was skipped or began to wait, or the entry was first seen.
        taskid: taskid of the last pushed task; empty if there was none.
        ran: ticks at which it has pushed its task, or submitted its flow.
        skipped: ticks at which it has not.
        waiting: ticks (unix seconds) of an entry with a graph that wait for the end of an earlier flow, in order.
        problem: reason why the last tick of an entry with a graph was skipped; empty if it was not.
        changed_at: unix seconds at which the entry was changed: no tick before counts as missed; 0 if it never was.
    """

    last_at: float
    taskid: str = ""
    ran: int = 0
    skipped: int = 0
    waiting: list[float] = []
    problem: str = ""
    changed_at: float = 0.0


class Attempt(Struct, array_like=True, frozen=True, gc=False):
    """How one attempt to run a task ended.

    Attributes:
        at: unix seconds of its end.
        outcome: success, failed, timeout, crashed (its fetcher fell silent), expired (not run: too late) or upstream
            (not run: a task that it depends on failed or, with ``only``, none has); slow is no end, but a warning: four
            fifths of the lease had passed.
        fetcher: name of the fetcher that ran it, or its pseudonym; empty: not run.
        seconds: time from dispatch to end; 0 if it did not run, or succeeded after its lease had run out.
        error: why it failed; of a long text head and tail.
        kind: what the error is about, in one line.
    """

    at: float
    outcome: AttemptOutcome
    fetcher: str = ""
    seconds: float = 0.0
    error: str = ""
    kind: str = ""


Glob = Annotated[str, Meta(max_length=256, extra={NOTATION: "glob"})]


class TaskFilter(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Tasks of a bulk operation: those that match every field.

    Attributes:
        states: in one of these states; empty: all that the action applies to, for ``retry`` only failed.
        url: the URL matches; empty: any.
        error: the error of the last attempt, or its kind, matches; empty: any.
        before: unix seconds: finished, or last run, before that time; 0: any. Tasks that never ran don't match.
        since: unix seconds: finished, or last run, at that time or later; 0: any. Tasks that never ran don't match.
        pushed_since: unix seconds: first pushed at that time or later; 0: any. Tasks whose first push is unknown don't
            match.
        pushed_before: unix seconds: first pushed before that time; 0: any. Tasks whose first push is unknown don't
            match.
        ignore_case: letters of either case match ``url`` and ``error``.
        job: of this job; empty: any.
    """

    states: Annotated[list[TaskState], Meta(max_length=len(STATES))] = []
    url: Glob = ""
    error: Glob = ""
    before: EpochSeconds = 0.0
    since: EpochSeconds = 0.0
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0
    ignore_case: bool = False
    job: AnyJob = ""


PauseSeconds = Annotated[float, Meta(gt=0, le=MAX_PAUSE_SECONDS)]
"""Length of a pause that ends by itself."""

Action = Literal["pause", "resume", "stop", "start", "clear", "reset", "delete"]

BulkAction = Literal["retry", "cancel", "reprioritise", "reschedule"]

OperationAction = Literal[BulkAction, Action, "rerun", "undo"]
"""Action of an operation."""


class RerunLayer(Struct, frozen=True, omit_defaults=True):
    """Tasks of a rerun that don't depend on each other, only on tasks of earlier layers.

    Attributes:
        tasks: number of tasks.
        taskids: first taskids, at most 100 over all layers; of another project: ``PROJECT/TASKID``.
    """

    tasks: int
    taskids: list[str] = []


class RerunProgress(Struct, frozen=True, omit_defaults=True):
    """Which tasks a rerun resets.

    Attributes:
        taskid: task that it begins with.
        scope: which other tasks it includes.
        passed: included tasks that it leaves alone: their bodies are gone, they are gone, or they were pushed again
            meanwhile.
        layers: the first 100 layers; known before any task is reset.
        depth: number of layers.
    """

    taskid: str
    scope: RerunScope
    passed: int = 0
    layers: list[RerunLayer] = []
    depth: int = 0


class UndoProgress(Struct, frozen=True, omit_defaults=True):
    """Tasks that an undo has brought back so far, and those that stay as they are.

    Attributes:
        of: number of the operation that it undoes.
        action: what that operation did.
        counts: tasks brought back, by the state that they came back to.
        ran: of these, tasks that were running; they are ready now.
        changed: tasks that something else has changed since; they stay as they are.
        gone: tasks that are unknown now, whose bodies are gone, or whose project is.
        children: tasks that failed since because one of those brought back was cancelled; they stay failed until all
            that they wait for have succeeded.
        children_named: the first 20 of these; of another project: ``PROJECT/TASKID``.
        finished: times that the projects of tasks brought back have finished since; their events and ``on_finished``
            stay.
        finished_named: the first 20 of these projects.
        flows: flows that ended since and run on; clients that waited have been told of their end.
        flows_named: the first 20 of these.
    """

    of: int
    action: BulkAction
    counts: TaskCounts = field(default_factory=TaskCounts)
    ran: int = 0
    changed: int = 0
    gone: int = 0
    children: int = 0
    children_named: list[str] = []
    finished: int = 0
    finished_named: list[str] = []
    flows: int = 0
    flows_named: list[str] = []


class OperationFields(Struct, omit_defaults=True):
    """An operation on tasks (``bulk``, ``rerun``, ``operation-undo``) or on the projects of a group (``group-do``), as
    it is told and stored.

    Attributes:
        id: id of the operation, never used again.
        action: what it does.
        projects: names of the first projects that it goes through.
        dry_run: it only counts.
        known: tasks that its projects had when it began, about as many as it will scan; of a group action: its
            projects.
        seen: tasks, or projects, scanned so far.
        matched: of these, those changed (dry run: that would be).
        began_at: unix seconds of its start.
        ended_at: unix seconds of its end; 0: it runs.
        group: group of its projects, if the request named one; empty: none.
        filter: which tasks it changes.
        priority: priority that ``reprioritise`` sets; None: another action.
        exetime: unix seconds to which ``reschedule`` moves tasks; 0: now. None: another action.
        cancelled: it was ended by ``operation-cancel``.
        rerun: which tasks a rerun resets: it has found ``seen`` so far and takes ``known`` of them; ``matched`` are
            reset (dry run: would be). None: another action.
        until: unix seconds at which its pause of projects ends; 0: no such time.
        number: counted from 1, for users; may be used in place of the id. 0: none.
        rows: tasks that ``operation-undo`` would look at; 0: it can't be undone.
        no_undo: why it can't be undone any more; empty: it can, or could never.
        undone_by: number of the operation that undoes it, or has; 0: none.
        undo: of an undo, what came back; ``seen`` of ``known`` tasks have been looked at, ``matched`` came back. None:
            another action.
    """

    id: int
    action: OperationAction
    projects: list[str]
    dry_run: bool
    known: int
    seen: int
    matched: int
    began_at: float
    ended_at: float = 0.0
    group: str = ""
    filter: TaskFilter = TaskFilter()
    priority: int | None = None
    exetime: float | None = None
    cancelled: bool = False
    rerun: RerunProgress | None = None
    until: float = 0.0
    number: int = 0
    rows: int = 0
    no_undo: str = ""
    undone_by: int = 0
    undo: UndoProgress | None = None


class Operation(OperationFields, frozen=True):  # type: ignore[misc]  # its record, which goes on, has these fields, too
    """An operation on tasks or on projects, as it stands."""


class Change(Struct, frozen=True, omit_defaults=True, gc=False):
    """A change that a user made.

    Attributes:
        number: number of the entry; later entries have larger ones.
        at: unix seconds of the change.
        what: command that makes such a change, such as ``project set``, ``cron set`` or ``config reload``.
        actor: name of the key, such as ops, and what its client said of itself: ``ops (said: cron@web1)``. Without keys
            what the client said, or the name or pseudonym of its session; ``SIGHUP``: sender of that signal.
        address: address of the client's machine; empty: unknown.
        project: project that changed; empty: not about one project.
        group: group that changed as a whole; empty: none.
        count: tasks that were changed or dropped.
        detail: further facts for users, at most 400 characters, such as old values: ``rate=5 (was 20)``.
        projects: names of changed projects of the group, at most 128; a larger group has an entry for each 128.
    """

    number: int
    at: float
    what: str
    actor: str
    address: str = ""
    project: str = ""
    group: str = ""
    count: int = 0
    detail: str = ""
    projects: list[str] = []
