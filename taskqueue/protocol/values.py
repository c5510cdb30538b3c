"""Values within messages: tasks, their schedules and reports, counts, attempts, filters.

Records hold some of them, so a field that is added comes last and has a default: ``test_records`` pins their bytes.

Messages, which have a ``type``, are in the module of their noun.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct

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
    UNSAID,
    AgeSeconds,
    EpochSeconds,
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
    """Bounds of the seconds after which a task runs again: fewer as its page changes, more as it does not.

    Attributes:
        min: seconds between two runs, at least.
        max: seconds between two runs, at most.
    """

    min: AgeSeconds
    max: AgeSeconds

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError("min is above max")


class Schedule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """When and how often a task is to run. Names as in pyspider.

    Attributes:
        priority: larger first.
        exetime: unix seconds before which the task waits; 0 is now.
        delay: seconds from arrival at the daemon; wins over exetime, because clients' clocks are wrong.
        retries: further attempts after the first failure; None is the project's setting.
        age: seconds for which a success stays good; None is for ever.
        itag: a new value restarts a task that is over.
        auto_recrawl: with age: run again each age.
        force_update: this message's schedule and body win over the stored ones.
        cancel: with force_update: the task is to end.
        timeout: seconds that processing may take; None is the project's processing_timeout.
        expires_at: unix seconds after which it is not worth running any more: instead of being handed out it ends as
            cancelled, when its turn comes.
        slot: whose pace it keeps to, in a project with slots; None: that of its host or domain, or none.
        recrawl: run it again, as auto_recrawl does, at an interval between these two that follows the changes of its
            page; the first one is age, or min if there is none.
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


PLAIN: Final = Schedule()


class TaskOf(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A task of any project: an array of two."""

    project: ProjectName
    taskid: TaskId


class NewTask(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A task as its producer describes it.

    Attributes:
        project: None is the project of the message (or, for a follow-up, of the task that led to it).
        body: any MessagePack value; the daemon never looks into it.
        depends_on: the tasks that it waits for: taskids, of its own project, or pairs of project and taskid.
        on_parent_failure: what it does when one of them fails: fail too, run all the same, or wait for its success.
    """

    taskid: TaskId
    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    schedule: Schedule = PLAIN
    body: Raw = NIL
    project: ProjectName | None = None
    depends_on: Annotated[tuple[TaskId | TaskOf, ...], Meta(max_length=MAX_PARENTS)] = ()
    on_parent_failure: ParentFailure = "fail"


class Assignment(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task as a fetcher gets it.

    Attributes:
        timeout: seconds from now until its lease runs out.
        retried: how often it has failed before.
        lastcrawltime: unix seconds of its last attempt's end; 0 is never.
        schedule: its priority now, and of what its producer said the exetime, retries, age and itag; no other fields.
        not_before: seconds from the arrival of the message before which it must not be started; its timeout counts
            from then.
        start_within: seconds after that in which it is started or given back; None: whenever there is a place.
        etag, last_modified, content_hash: of its page, as its last report said; for a conditional request.
        slot: name of its slot, such as its host; empty: it has none.
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


class Fetched(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """How a fetch went: what the pace of its slot, and the recrawl of its task, follow.

    One field of a report, not seven: so a report without it costs as much as if there were none.

    Attributes:
        status_code: of the answer, the last one if it was redirected; None: there was none.
        seconds: how long it took, from its start to the report.
        error_kind: of one that failed.
        changed: the page is another one than at the last report; None: what follows tells it.
        content_hash, etag, last_modified: of the page as it is now; kept, and sent with its next assignment.
    """

    status_code: StatusCode | None = None
    seconds: Seconds | None = None
    error_kind: ErrorKind | None = None
    changed: bool | None = None
    content_hash: Validator = ""
    etag: Validator = ""
    last_modified: Validator = ""


class Again(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """How the next attempt of a task that failed differs from this one.

    Attributes:
        counts: this attempt uses up a retry; None: it does unless the report says ``retry_after``.
        body: of the task from now on; nil: it stays as it is.
        priority: of the task from now on; None: it stays as it is.
    """

    counts: bool | None = None
    body: Raw = NIL
    priority: Priority | None = None


class TaskReport(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The outcome of a task that was handed out.

    Attributes:
        ok: it succeeded.
        error: why not; shown to people.
        retry_after: not ok: run it again after so many seconds, without using up a retry, unless ``again`` says so; and
            nothing else of its slot before.
        retry: not ok and False: it has failed for good.
        new: tasks that it led to, stored in the same commit as its end, or as the part.
        result: ok: any MessagePack value of MAX_RESULT_BYTES at most, kept with the task; the daemon never looks into
            it. Nil: it has none.
        fetched: what its slot and its recrawl follow, where it has one of them.
        kind: what ``error`` is about, in one line: the type of an exception and the first line of its message. Empty:
            the daemon takes a line of ``error``.
        part: only new tasks; the task goes on, and its lease with it. Another report follows.
        again: not ok and ``retry``: how its next attempt differs; not heeded if there is none.
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
    """Tasks of a project by state, now. ``failed`` and the like are those that are over and known.

    Attributes:
        ready: may be handed out now.
        delayed: are not due yet.
        processing: are being run.
        success: have succeeded.
        failed: have failed for good.
        cancelled: were ended.
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
    """Events of a project since it was made. A timeout is also counted as failed or as retried."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


class Attempt(Struct, array_like=True, frozen=True, gc=False):
    """How one attempt to run a task ended.

    Attributes:
        at: unix seconds of its end.
        outcome: how it ended.
        fetcher: name of who ran it, or its pseudonym if it has none; empty: nobody (``expired``).
        seconds: from hand-out to end; 0 if it expired, or succeeded after its lease had run out.
        error: why it failed, without its middle if it is long; empty: it succeeded, or its fetcher gave no reason.
        kind: what the error is about, in one line; not stored if it is found in the error.
    """

    at: float
    outcome: AttemptOutcome
    fetcher: str = ""
    seconds: float = 0.0
    error: str = ""
    kind: str = ""


Glob = Annotated[str, Meta(max_length=256)]


class TaskFilter(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which tasks a bulk operation is about: those that everything said here is true of.

    Attributes:
        states: in one of these; empty: in any that the action makes sense for, but to ``retry``, failed ones.
        url: a glob that the url matches.
        error: a glob that the error of the last attempt matches.
        before, since: unix seconds: ended before that, or at that time or later; of those that are live their last run
            counts, and one that was never run is left out.
        pushed_since, pushed_before: unix seconds: first came at that time or later, or before it; a task of which that
            is unknown is left out.
    """

    states: Annotated[list[TaskState], Meta(max_length=len(STATES))] = []
    url: Glob = ""
    error: Glob = ""
    before: EpochSeconds = 0.0
    since: EpochSeconds = 0.0
    pushed_since: EpochSeconds = 0.0
    pushed_before: EpochSeconds = 0.0


PauseSeconds = Annotated[float, Meta(gt=0, le=MAX_PAUSE_SECONDS)]
"""Of a pause by an operator that ends by itself."""

Action = Literal["pause", "resume", "stop", "start", "clear", "reset", "delete"]

BulkAction = Literal["retry", "cancel", "reprioritise", "reschedule"]

OperationAction = Literal[BulkAction, Action, "rerun"]
"""What an operation does."""


class RerunLayer(Struct, frozen=True, omit_defaults=True):
    """Tasks of a rerun of which none waits for another: they wait for tasks of the layers before.

    Attributes:
        tasks: how many.
        taskids: of the first ones; of another project than the first task's, behind its name and a slash.
    """

    tasks: int
    taskids: list[str] = []


class RerunProgress(Struct, frozen=True, omit_defaults=True):
    """What a rerun takes.

    Attributes:
        taskid, scope: what it begins with, and which others are meant.
        passed: tasks that it leaves as they are, though they are meant: bare, gone, or pushed anew meanwhile.
        layers, depth: the first layers, and how many there are; known before any task is changed.
    """

    taskid: str
    scope: RerunScope
    passed: int = 0
    layers: list[RerunLayer] = []
    depth: int = 0


class OperationFields(Struct, omit_defaults=True):
    """What is told and stored of an operation on tasks (``bulk``, ``rerun``), or on projects of a group (``group-do``).

    Attributes:
        id: of the operation.
        action: what it does.
        dry_run: it only counts.
        known: tasks that its projects had when it began; about as many have to be looked at. On a group: its projects.
        seen: looked at so far.
        matched: of them, those that the filter let through: changed, or (dry run) only counted. On a group: projects
            for which the action made sense.
        began_at, ended_at: unix seconds; 0: not yet.
        projects: names of the first of those that it goes through.
        group: that they belong to, if it was asked for.
        filter: which tasks are meant.
        priority: that ``reprioritise`` gives them; None: it is another action.
        exetime: to which ``reschedule`` moves them, in unix seconds; 0 is now. None: it is another action.
        cancelled: somebody has ended it.
        rerun: what a rerun takes; it has come to ``seen`` tasks so far, of which it takes ``known``; ``matched`` of
            these are reset (dry run: would be). None: it is another action.
        until: unix seconds at which its pause of projects ends; 0: it does not end by itself, or is another action.
        number: counted from 1, for people; may be given in place of the id. 0: it began before there were numbers.
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


class Operation(OperationFields, frozen=True):  # type: ignore[misc]  # its record, which goes on, has these fields, too
    """An operation at a moment: on tasks (``client.operations.start``, ``client.tasks.rerun``), or on projects."""


class Change(Struct, frozen=True, omit_defaults=True, gc=False):
    """A change that a person made.

    Attributes:
        number: of the entry; later ones are larger.
        at: unix seconds.
        what: as the command line calls it, such as ``project delete``.
        actor: who asked: as the client said, or what its session is called; ``SIGHUP``: whoever sent that signal.
        address: of the machine that it came from; empty: not known.
        project: that was changed; empty: it was not about one.
        group: that was meant as a whole.
        count: tasks that it changed or dropped.
        detail: what else there is to be said, such as old values: ``rate=5 (was 20)``.
        projects: names of those of the group that were changed.
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
