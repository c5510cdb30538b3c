"""Messages about exports: what an export has of a project, and the import of one into the daemon.

    begin ──► parts 0 … 499 ──► parts 500 … 999 ──► … ──► the last part: the project is whole

The parts of an export are its tasks, and then the points of its history, in order.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Raw, Struct, field

from taskqueue.protocol.base import AnyReply, ChangeRequest
from taskqueue.protocol.choices import ParentFailure, ProjectState, Resolution, TaskState
from taskqueue.protocol.fields import (
    MAX_PARENTS,
    MAX_URL_CHARS,
    NIL,
    PROTOCOL,
    UNSAID,
    AnyJob,
    EpochSeconds,
    GroupName,
    Number,
    Priority,
    ProjectName,
    TaskId,
)
from taskqueue.protocol.values import PLAIN, Attempt, CronRecord, EventTotals, PageFacts, PauseRecord, Schedule

MAX_PARTS: Final = 1_000
"""Most tasks, and most points, in one step of an import."""

PARTS_MOST: Final = 1_000_000_000
"""Parts of an export that can be imported, at most."""

COUNTED_MOST: Final = 2**53 - 1
"""Largest count: every JSON reader has it exactly, and counting on from it can't overflow."""

TOTALS_MOST = 2**43 - 1
"""Largest total of a project, so that the sum over a million projects can be sent, and counted on."""

HAPPENED_MOST: Final = 2**40 - 1
"""Largest number of a project's events in an hour, so that the sum over all projects can be stored, too."""

Counted = Annotated[int, Meta(ge=0, le=COUNTED_MOST)]
Happened = Annotated[int, Meta(ge=0, le=HAPPENED_MOST)]

Events = Annotated[tuple[Happened, ...], Meta(min_length=6, max_length=6)]
"""Counts of new, selected, success, failed, retried, timeout."""


class ExportedParent(Struct, frozen=True, array_like=True, omit_defaults=True, forbid_unknown_fields=True):
    """Parent of an exported task.

    Attributes:
        taskid: id of the parent in its project.
        state: 0 not satisfied yet, 1 satisfied, 2 the parent has failed and the child runs all the same.
        project: the parent's; None for the child's own; empty for a deleted one, whose tasks will never succeed.
    """

    taskid: TaskId
    state: Annotated[int, Meta(ge=0, le=2)] = 0
    project: GroupName | None = None


class ExportedUpdate(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """``force_update`` that is deferred until the end of a lease; an import applies it.

    Attributes:
        url: what the task fetches.
        schedule: when and how often it runs.
        body: any value for the fetcher; the daemon never looks into it.
    """

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    schedule: Schedule = PLAIN
    body: Raw = NIL


class ExportedTask(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Task of an export, with its state.

    Attributes:
        taskid: id of the task in its project.
        state: state of the task; a processing one becomes ready.
        url: what it fetches.
        schedule: as its producer sent it.
        priority: present priority; larger runs first.
        exetime: unix seconds before which it waits; 0: none.
        retried: times that it has failed.
        lastcrawltime: unix seconds of the end of its last attempt; 0: it has never run.
        ended_at: unix seconds; finished tasks only.
        itag: a push with another value restarts the task, if it has finished.
        held_back: delayed by a retry, a ``retry_after`` or a recrawl.
        timed_out: its last attempt timed out.
        apart: its project can finish while it is unfinished.
        bare: finished, and its URL, body and result have been deleted; ``exetime`` tells since when.
        depth: follow-ups between it and a task that was pushed by itself.
        body: any value for the fetcher; the daemon never looks into it.
        deferred: update that is applied in place of what it says itself; processing tasks only.
        result: result of its last success; nil: none.
        parents: tasks that it waits or waited for; those of the deferred update, if there is one.
        on_parent_failure: what it does if one of these fails.
        page: interval, etag, last_modified and content_hash of its page; None: unknown.
        pushed_at: whole unix seconds of the first push; 0: unknown.
        dropped: cancelled because it runs ``only`` after a failure and there was none, or depends on such a task.
        job: name of the run that it came by; empty: none.
        attempts: how its last attempts ended, the oldest first; at most ten.
    """

    taskid: TaskId
    state: TaskState
    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] = ""
    schedule: Schedule = PLAIN
    priority: Priority = 0
    exetime: EpochSeconds = UNSAID
    retried: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    lastcrawltime: EpochSeconds = UNSAID
    ended_at: EpochSeconds = UNSAID
    itag: Annotated[str, Meta(max_length=256)] = ""
    held_back: bool = False
    timed_out: bool = False
    apart: bool = False
    bare: bool = False
    depth: Number = 0
    body: Raw = NIL
    deferred: ExportedUpdate | None = None
    result: Raw = NIL
    parents: Annotated[list[ExportedParent], Meta(max_length=MAX_PARENTS)] = []
    on_parent_failure: ParentFailure = "fail"
    page: PageFacts | None = None
    pushed_at: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    dropped: bool = False
    job: AnyJob = ""
    attempts: list[Attempt] = []


class ExportedProject(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Project of an export.

    Attributes:
        parts: number of parts of the export.
        state: its state once it is whole.
        settings: map of settings that ``project-set`` had changed; nil: none.
        totals: events since it was created; None: none.
        pause: state of its pause; None: none.
        cron: its cron entries by name.
        finished: times that it has finished.
        newest: its ready tasks come with the newest of each priority first.
    """

    parts: Annotated[int, Meta(ge=0, le=PARTS_MOST)]
    state: ProjectState = "running"
    settings: Raw = NIL
    totals: EventTotals | None = None
    pause: PauseRecord | None = None
    cron: dict[str, CronRecord] = field(default_factory=dict)
    finished: Counted = 0
    newest: bool = False


class ExportedPoint(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Events of a project in one minute or hour.

    Attributes:
        at: unix seconds of its beginning.
        events: counts of new, selected, success, failed, retried and timeout, as in the totals.
    """

    at: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    events: Events


class ProjectImport(ChangeRequest["ImportReply"], tag="project-import"):
    """Begin to bring a project back from an export, or bring further parts of it; the last one makes it whole.

    Attributes:
        export: text that identifies the export, such as a hash of the file.
        begin: the project, which is made; without ``tasks`` and ``points``. None: parts of one that has begun.
        first: number of parts before these ones.
        tasks: next tasks of the export.
        every: what the points count, a minute or an hour.
        points: next points of the history, after all tasks.
    """

    project: ProjectName
    export: Annotated[str, Meta(min_length=1, max_length=64)]
    begin: ExportedProject | None = None
    first: Number = 0
    tasks: Annotated[list[ExportedTask], Meta(max_length=MAX_PARTS)] = []
    every: Resolution = "hour"
    points: Annotated[list[ExportedPoint], Meta(max_length=MAX_PARTS)] = []


class ImportProgress(Struct, frozen=True):
    """How far an import is.

    Attributes:
        brought: number of parts that are there; the next step begins with that one.
        parts: number of parts of the export; the project is whole if all are there.
        known: tasks of this step that the project had already; they stay as they are.
    """

    brought: int
    parts: int
    known: int = 0


class ImportReply(ImportProgress, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="import-reply"):
    """How far an import is."""

    v: int = PROTOCOL
    n: int
