"""Messages that tell what has happened and why: statistics, history, failures, changes, ``why`` and ``watch``."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from taskqueue.protocol.base import AnyReply, Reply, Request, WaitingRequest
from taskqueue.protocol.choices import NAME_CHARS, FailuresBy, ProjectState, Resolution, WhyCause
from taskqueue.protocol.fields import PROTOCOL, WAIT_MOST_SECONDS, EpochSeconds, GroupName, Number, ProjectName, TaskId
from taskqueue.protocol.values import Change, EventTotals, TaskCounts


class Window(Struct, frozen=True, omit_defaults=True, gc=False):
    """Events of a project in some time before now. An attempt that timed out is also among failed or retried.

    Attributes:
        mean_seconds: that attempts took which ended then, from hand-out to answer or timeout.
        p95_seconds: what 19 of 20 of them took at most; within 18 % from 16 ms to 49 minutes, 78 minutes at most.
    """

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0
    mean_seconds: float = 0.0
    p95_seconds: float = 0.0


QUIET: Final = Window()
"""Nothing happened. Use this very value: a message leaves it out, but not others that equal it."""


class Windows(Struct, frozen=True, omit_defaults=True, gc=False, rename={"minutes": "5m", "hour": "1h", "day": "1d"}):
    """Events of a project in the last five minutes, hour and day; in messages ``5m``, ``1h``, ``1d``.

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
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


class ProjectStats(Struct, frozen=True, omit_defaults=True, gc=False):
    """What happened to a project: over windows, and over all (``totals``).

    Attributes:
        name: of the project.
        totals: its events since it was made.
        windows: its events in the last five minutes, hour and day.
    """

    name: str
    totals: EventTotals
    windows: Windows


class FailureGroup(Struct, frozen=True, omit_defaults=True, gc=False):
    """Failed attempts that have something in common.

    Attributes:
        name: what that is: kind of error, host, fetcher or project; empty: there was none, such as of ``data:,x``.
        failures: how many.
        first_at, last_at: unix seconds of the end of the first and of the last one.
        project, taskid, host, fetcher, error: of the last one; of the error what it is about, in one line.
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


class ProjectPulse(Struct, array_like=True, frozen=True, gc=False):
    """A project, as short as can be: in messages a list. To tell of ten thousand of them must cost little.

    Attributes:
        name: of the project.
        group: empty: none.
        state: running, stopped, paused, or checking whether its tasks still fail.
        reason: why it has paused itself; empty: it has not.
        rate, burst: of its own bucket; one that shares a bucket may have none (inf).
        bucket: the shared bucket that its settings name; empty: none.
        counts: tasks by state, now, in the order of ``TaskCounts``.
        totals: events since it was made, in the order of ``EventTotals``.
        paused_until: unix seconds at which the pause by a person ends; 0: there is none, or it lasts until ``resume``.
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


class ProjectChanges(Struct, frozen=True, omit_defaults=True):
    """Projects that have changed, after those told before; what changed longest ago comes first.

    Attributes:
        epoch: grows each time the scheduler starts.
        since: to be given with the next request.
        counts, totals: of all projects together.
        projects: those that have changed, as they are now; at most WATCH_ROWS, and as many as fit into a message.
        gone: names of those that have been deleted.
        anew: forget what earlier replies said: this one begins with all projects.
        more: ask again at once: there is more to tell of what had changed some time ago.
        found: projects that there are.
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
    """Answers ``watch``: what has changed after its ``since``."""

    v: int = PROTOCOL
    n: int


class Stats(Request["StatsReply"], tag="stats"):
    """What happened over 5 minutes, 1 hour, 1 day, and all: projects in the order of their names, after ``after``.

    Attributes:
        after: projects with names after this one; empty: from the first.
        group: projects of this one only; empty: all.
    """

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 100
    group: GroupName = ""


class StatsHistory(Request["HistoryReply"], tag="stats-history"):
    """What happened in each minute of the last day, or in each hour of the last 90 days.

    Attributes:
        project: to this one; None: to all together.
        every: minute or hour.
        since, until: unix seconds; 0: from the first, to the last. A page has a bounded number of points.
    """

    project: ProjectName | None = None
    every: Resolution = "minute"
    since: EpochSeconds = 0.0
    until: EpochSeconds = 0.0


class StatsReply(Reply, tag="stats-reply"):
    """Answers ``stats``: a page; ``more``: there are projects after the last one of it.

    Attributes:
        projects: a page of them, by name.
    """

    projects: list[ProjectStats]
    more: bool


class HistoryReply(Reply, tag="stats-history-reply"):
    """Answers ``stats-history``: a page of points by time, where anything happened; ``next`` is ``since`` for the page
    after it, 0: there is none.

    Attributes:
        points: a page of them, by time.
    """

    points: list[HistoryPoint]
    next: float = 0.0


class Watch(WaitingRequest[WatchReply], tag="watch"):
    """Which projects have changed? Answered when some have, or after ``seconds``, whichever comes first.

    Attributes:
        since: that of the reply before; empty: from the beginning, so all projects are told.
        seconds: to wait for a change, at most.
    """

    since: Annotated[str, Meta(max_length=64)] = ""
    seconds: Annotated[float, Meta(ge=0, le=WAIT_MOST_SECONDS)] = 30.0


class Why(Request["WhyReply"], tag="why"):
    """Why is nothing (or, with a taskid, this task not) handed out?

    Attributes:
        project: None: of each project that stands still, page by page; without a taskid.
        taskid: of the task; None: it is about the project.
        after: of pages, the ``next`` of the page before.
    """

    project: ProjectName | None = None
    taskid: TaskId | None = None
    after: Annotated[str, Meta(max_length=NAME_CHARS)] = ""


class StandingProject(Struct, frozen=True, gc=False):
    """A project that has tasks to do, dispatches none, and is not about to.

    Attributes:
        project: its name.
        sentence: why, for people.
        cause: why, for programs; see ``WhyCause``.
    """

    project: str
    sentence: str
    cause: WhyCause


class WhyReply(Reply, tag="why-reply"):
    """Answers ``why``, in one sentence for people.

    Attributes:
        sentence: for people.
        cause: of a project, for programs; see ``WhyCause``.
        projects: without a project: those of this page that stand still, by name.
        next: ``after`` of the next page; empty: this is the last one.
    """

    sentence: str
    cause: WhyCause = ""
    projects: list[StandingProject] = []
    next: str = ""


class FailureList(Request["FailuresReply"], tag="failures"):
    """Which attempts failed: counted by what they have in common, of one project or of all.

    Attributes:
        project: of this one only; None: of all.
        by: kind of error, host of the url, fetcher, or project.
        since: unix seconds; ended at that time or later. 0: all that are kept.
        limit: groups, the largest ones.
    """

    project: ProjectName | None = None
    by: FailuresBy = "error"
    since: EpochSeconds = 0.0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Failures(Struct, frozen=True):
    """Failed attempts, counted by what they have in common.

    Attributes:
        since: unix seconds from which on they were counted: as it was asked, or when the first one that is kept came.
        failures: counted in all.
        count: of groups, those included that are not here.
        groups: the largest first.
    """

    since: float
    failures: int
    count: int
    groups: list[FailureGroup]


class FailuresReply(Failures, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="failures-reply"):
    """Answers ``failures``."""

    v: int = PROTOCOL
    n: int


class Log(Request["LogReply"], tag="log"):
    """Who changed what, the newest change first.

    Attributes:
        project: changes of this project only; None: all.
        since: unix seconds: none that were made before.
        before: the ``next`` of the page before; 0: from the newest on. A page looks at a bounded number of changes, so
            it may be short, or empty.
    """

    project: ProjectName | None = None
    since: EpochSeconds = 0.0
    before: Number = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class LogReply(Reply, tag="log-reply"):
    """Answers ``log``: a page, the newest first; ``next`` asks for the one after it, 0: there is none.

    Attributes:
        entries: a page of them, the newest first.
    """

    entries: list[Change]
    next: int = 0
