"""Messages that tell what has happened and why: statistics, history, failures, changes, ``why`` and ``watch``."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from taskqueue.protocol.base import AnyReply, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import NAME_CHARS, FailuresBy, ProjectState, Resolution, WhyCause
from taskqueue.protocol.fields import (
    MAX_TASKID_BYTES,
    PROTOCOL,
    WAIT_MOST_SECONDS,
    EpochSeconds,
    GroupName,
    JobName,
    Number,
    ProjectName,
    TaskId,
)
from taskqueue.protocol.values import Change, EventTotals, TaskCounts


class Window(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events of a project in a span before now. A timeout also counts as failed or retried.

    Attributes:
        mean_seconds: mean duration of the attempts that ended, from dispatch to report or timeout.
        p95_seconds: duration that 19 of 20 of these attempts stayed below, within 18 % from 16 ms to 49 minutes; at
            most 77.5 minutes.
    """

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
    mean_seconds: float = 0.0
    p95_seconds: float = 0.0


QUIET: Final = Window()
"""Nothing happened. Use this very value: a message leaves it out, but not others that equal it."""


class Windows(Struct, frozen=True, omit_defaults=True, gc=False, rename={"minutes": "5m", "hour": "1h", "day": "1d"}):
    """Events of a project in the last five minutes, hour and day.

    Attributes:
        minutes: the last five minutes.
        hour: the last hour.
        day: the last day.
    """

    minutes: Window = QUIET
    hour: Window = QUIET
    day: Window = QUIET


class HistoryPoint(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events in one minute or hour.

    Attributes:
        at: unix seconds of its beginning.
    """

    at: float
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


class ProjectStats(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events of one project.

    Attributes:
        name: name of the project.
        totals: since it was created.
        windows: in the last five minutes, hour and day.
    """

    name: str
    totals: EventTotals
    windows: Windows


class FailureGroup(Struct, frozen=True, omit_defaults=True, gc=False):
    """Failed attempts that have something in common.

    Attributes:
        name: what they have in common: kind of error, host with its port, fetcher or project; empty: none, such as the
            host of ``data:,x``.
        failures: number of attempts.
        first_at: unix seconds of the end of the first one.
        last_at: unix seconds of the end of the last one.
        project: project of the last one.
        taskid: taskid of the last one.
        host: host of the last one.
        fetcher: fetcher of the last one.
        error: kind of the last one's error.
    """

    name: str
    failures: int
    first_at: float
    last_at: float
    project: str
    taskid: str
    host: str = ""
    fetcher: str = ""
    error: str = ""


WATCH_ROWS: Final = 512
"""Projects, and names of deleted ones, in one reply, at most."""


# A list, because a reply has hundreds of them.
class ProjectPulse(Struct, array_like=True, frozen=True, gc=False):
    """A project in few bytes.

    Attributes:
        name: name of the project.
        group: name of its group; empty: none.
        state: as in Project.
        reason: why it paused itself; empty: it has not.
        rate: rate of its own bucket; may be infinite.
        burst: burst of its own bucket; may be infinite.
        bucket: name of its shared bucket; empty: none.
        counts: tasks by state, now: ready, delayed, processing, success, failed, cancelled, blocked.
        totals: events since it was created: new, selected, success, failed, retried, timeout.
        paused_until: unix seconds at which a user's pause ends; 0: no pause, or until ``resume``.
        slow: processing tasks of which four fifths of the lease have passed.
    """

    name: str
    group: str
    state: ProjectState
    reason: str
    rate: float
    burst: float
    bucket: str
    counts: tuple[int, ...]
    totals: tuple[int, ...]
    paused_until: float = 0.0
    slow: int = 0


class ProjectChanges(Struct, frozen=True, omit_defaults=True):
    """Projects that have changed since an earlier reply.

    Attributes:
        epoch: grows each time the daemon starts, or reads its store again.
        since: ``since`` of the next request.
        counts: tasks of all projects by state.
        totals: events of all projects.
        projects: changed projects, the longest unreported first; at most 512 with ``gone``, and as many as fit into a
            message.
        gone: names of deleted projects.
        anew: forget earlier replies: this one begins with all projects.
        more: ask again at once: further changes are waiting.
        found: number of projects.
    """

    epoch: int
    since: str
    counts: TaskCounts
    totals: EventTotals
    projects: list[ProjectPulse] = []
    gone: list[str] = []
    anew: bool = False
    more: bool = False
    found: int = 0


class WatchReply(ProjectChanges, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="watch-reply"):
    """Projects that have changed since an earlier reply."""

    v: int = PROTOCOL
    n: int


class Stats(Request["StatsReply"], tag="stats"):
    """List the events of projects in the last 5 minutes, hour and day, and in all, in pages.

    Attributes:
        after: projects with names after this one.
        group: projects of this group only; empty: all.
    """

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    group: GroupName = ""


class JobCounts(Request["JobCountsReply"], tag="job-counts"):
    """Count the tasks of a job in a project by state, in pages: the sum of all pages is the count.

    Attributes:
        job: name of the run that the tasks came by.
        after: ``next`` of the page before; empty: from the start.
    """

    project: ProjectName
    job: JobName
    after: Annotated[str, Meta(max_length=MAX_TASKID_BYTES)] = ""


class JobCountsReply(Reply, tag="job-counts-reply"):
    """How many of a bounded number of tasks belong to a job.

    Attributes:
        counts: those of the job by state; bare ones count as finished.
        next: ``after`` of the next page; empty: this is the last one.
    """

    counts: TaskCounts
    next: str = ""


class StatsHistory(Request["HistoryReply"], tag="stats-history"):
    """Show the events of each minute of the last day, or of each hour of the last 90 days.

    Attributes:
        project: events of this project; None: of all, those deleted since included.
        every: minute or hour.
        since: unix seconds: from the minute or hour that has this time; 0: from the first.
        until: unix seconds: to the minute or hour that has this time; 0: to the last.
    """

    project: ProjectName | None = None
    every: Resolution = "minute"
    since: EpochSeconds = 0.0
    until: EpochSeconds = 0.0


class StatsReply(Reply, tag="stats-reply"):
    """A page of projects, by name.

    Attributes:
        projects: rows of the page.
    """

    projects: list[ProjectStats]
    more: bool


class HistoryReply(Reply, tag="stats-history-reply"):
    """A page of points, by time.

    Attributes:
        points: points in which anything happened, of at most 256 scanned; a page may be short, or empty.
        next: ``since`` of the next page; 0: this is the last one.
    """

    points: list[HistoryPoint]
    next: float = 0.0


class Watch(WaitingRequest[WatchReply], tag="watch"):
    """Wait until projects have changed.

    Attributes:
        since: ``since`` of the reply before; empty: reply with all projects.
        seconds: longest wait for a change; 0: reply at once.
    """

    since: Annotated[str, Meta(max_length=64)] = ""
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class Why(Request["WhyReply"], tag="why"):
    """Explain why a project, a task, or each project that stands still dispatches nothing.

    Attributes:
        project: None: each project that stands still, in pages.
        taskid: a task of the project; None: the project itself.
        after: ``next`` of the page before; empty: from the first one.
    """

    project: ProjectName | None = None
    taskid: TaskId | None = None
    after: Annotated[str, Meta(max_length=NAME_CHARS)] = ""


class StandingProject(Struct, frozen=True, gc=False):
    """A project that has tasks but dispatches none, and is not about to.

    Attributes:
        project: name of the project.
        sentence: why, for users.
        cause: why, for programs.
    """

    project: str
    sentence: str
    cause: WhyCause


class WhyReply(Reply, tag="why-reply"):
    """Why nothing is dispatched.

    Attributes:
        sentence: for users.
        cause: of a project, for programs.
        projects: without a project: those that stand still, by name.
        next: ``after`` of the next page; empty: this is the last one.
    """

    sentence: str
    cause: WhyCause = ""
    projects: list[StandingProject] = []
    next: str = ""


class FailureList(Request["FailuresReply"], tag="failures"):
    """Count failed attempts by what they have in common.

    Attributes:
        project: failures of this project only; None: of all.
        by: kind of error, host, fetcher or project.
        since: unix seconds: ended at that time or later; 0: all that are kept.
        limit: groups, at most.
    """

    project: ProjectName | None = None
    by: FailuresBy = "error"
    since: EpochSeconds = 0.0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Failures(Struct, frozen=True):
    """Failed attempts, counted by what they have in common.

    Attributes:
        since: unix seconds from which failures were counted: as requested or, if later, the end of the oldest one that
            is kept; 0: none is kept.
        failures: number of failed attempts, exact.
        count: number of groups, those included that are not listed.
        groups: groups with the most failures first.
    """

    since: float
    failures: int
    count: int
    groups: list[FailureGroup]


class FailuresReply(Failures, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="failures-reply"):
    """Failed attempts, counted by what they have in common."""

    v: int = PROTOCOL
    n: int


class Log(Request["LogReply"], tag="log"):
    """List changes that users made, the newest first, in pages.

    Attributes:
        project: changes of this project only, even if deleted since; None: all.
        since: unix seconds: changes at that time or later.
        before: ``next`` of the page before; 0: from the newest. A page scans 1,000 changes, so it may be short, or
            empty.
    """

    project: ProjectName | None = None
    since: EpochSeconds = 0.0
    before: Number = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class LogReply(Reply, tag="log-reply"):
    """A page of changes.

    Attributes:
        entries: the newest first.
        next: ``before`` of the next page; 0: this is the last one.
    """

    entries: list[Change]
    next: int = 0
