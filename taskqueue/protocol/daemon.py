"""Messages about the daemon itself: its status, its turns, its memory, its store, and the check of its state."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from taskqueue.protocol.base import AnyReply, Reply, Request
from taskqueue.protocol.choices import ProjectSort
from taskqueue.protocol.fetchers import Fetcher
from taskqueue.protocol.fields import PROTOCOL, EpochSeconds, GroupName, Number, Part, ProjectName, ProjectNames
from taskqueue.protocol.projects import Project
from taskqueue.protocol.values import EventTotals, TaskCounts


class StatusShow(Request["StatusReply"], tag="status"):
    """How are you? With a page of projects.

    Attributes:
        after: projects with names after this one; who pages in the order of names goes on so.
        group: projects of this one only; empty: all.
        filter: projects whose names contain it.
        sort: by name, or the most first: tasks in a state now, or events of the last five minutes.
        skip: so many of the first ones; who pages in another order than that of names goes on so.
        fetchers: so many are shown, at most.
        projects: only these; empty: all.
    """

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 100
    group: GroupName = ""
    filter: Part = ""
    sort: ProjectSort = "name"
    skip: Number = 0
    fetchers: Annotated[int, Meta(ge=0, le=1000)] = 1000
    projects: ProjectNames = []


class Status(Struct, frozen=True):
    """The daemon and all its projects together.

    Attributes:
        epoch: grows each time the daemon starts, and each time that it reads its store again.
        version: of the daemon's software.
        uptime_seconds: since the daemon was started.
        totals: events since the projects were made, over all projects.
        counts: over all projects.
        shell: counters of the process around the core (turns, messages, bytes, malformed, …).
        compiled: the core is compiled; else it is interpreted.
    """

    epoch: int
    version: str
    uptime_seconds: float
    counts: TaskCounts
    totals: EventTotals
    shell: dict[str, float] = {}
    compiled: bool = False


class StatusReply(Status, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="status-reply"):
    """Answers ``status``: with a page of projects, and the first fetchers.

    Attributes:
        fetchers: the first of those that fetch.
        projects: a page of them.
        more: there are projects after the last one of this page.
        found: number of projects on all pages together.
        numbers: by what each project of the page is sorted, in order; empty: by name.
    """

    projects: list[Project]
    more: bool
    fetchers: list[Fetcher]
    found: int = 0
    numbers: list[int] = []
    v: int = PROTOCOL
    n: int


STANDS_MOST: Final = 1000
"""Projects of which one reply says how they stand."""


class DaemonShow(Request["DaemonReply"], tag="daemon-show"):
    """How is the daemon itself? Costs the same however many projects there are.

    Attributes:
        projects: names of projects of which the reply says how they stand; unknown names are left out.
    """

    projects: Annotated[list[ProjectName], Meta(max_length=STANDS_MOST)] = []


class ProjectStand(Struct, array_like=True, frozen=True, gc=False):
    """How a project stands, as short as can be: in messages a list.

    Attributes:
        name: of the project.
        idle_seconds: since its last dispatch, or since it has ready tasks if that was later, while it may dispatch one
            of them; 0: it has none, or may not.
        backoffs: slots of it in memory that back off now.
    """

    name: str
    idle_seconds: float
    backoffs: int


class Histogram(Struct, frozen=True, omit_defaults=True, gc=False):
    """How often something was how large, since the daemon began its epoch or since it was started.

    Attributes:
        bounds: of the classes, ascending; what is as large as a bound belongs to its class.
        counts: of each class, those of the ones before it not included; one more than bounds, for what is larger.
        sum: of all values.
    """

    bounds: list[float]
    counts: list[int]
    sum: float = 0.0


class StoreLevel(Struct, frozen=True, omit_defaults=True, gc=False):
    """The tables of one level of the store, of all its families.

    Attributes:
        level: 0 has the newest tables.
        tables: how many there are.
        bytes: how large they are together.
    """

    level: int
    tables: int
    bytes: int


class DaemonStatus(Struct, frozen=True, omit_defaults=True):
    """The daemon's process: its turns, its memory and its store.

    Attributes:
        epoch: grows each time the daemon starts, and each time that it reads its store again.
        version, python: of the daemon's software, and of the Python that runs it.
        compiled: the core is compiled; else it is interpreted.
        pid: of the daemon's process.
        uptime_seconds: since the daemon was started.
        durability: when replies leave: commit, interval or none.
        projects, sessions: that it knows.
        fetchers: that want, hold or run tasks.
        capacity: tasks that all fetchers want at once.
        holds: tasks that all fetchers have.
        hung: places of fetchers taken by handlers whose leases are over.
        beyond: tasks of ``holds`` that are in no place.
        task_bytes: memory of queues and leases.
        task_bytes_most: memory that queues may take.
        resident_bytes: memory of the process; 0: unknown.
        resident_bytes_most: memory that the process may take; 0: unknown.
        database: that the store lies in, without its password; empty: it lies in a folder.
        levels: of the store in a folder, those that have tables.
        log_bytes: of its log, which has what is in no table yet.
        free_bytes: of the store's disk; None: unknown, as that of a database is.
        has_room: no: fewer are free than ``store.min_free`` demands, so nothing is taken or handed out.
        shell: counters of the process around the core, as in ``status-reply``.
        histograms: turn_seconds, commit_seconds, sync_seconds, turn_tasks, attempt_seconds, lateness_seconds.
    """

    epoch: int
    version: str = ""
    python: str = ""
    compiled: bool = False
    pid: int = 0
    uptime_seconds: float = 0.0
    durability: str = ""
    projects: int = 0
    sessions: int = 0
    fetchers: int = 0
    capacity: int = 0
    holds: int = 0
    hung: int = 0
    beyond: int = 0
    task_bytes: int = 0
    task_bytes_most: int = 0
    resident_bytes: int = 0
    resident_bytes_most: int = 0
    database: str = ""
    levels: list[StoreLevel] = []
    log_bytes: int = 0
    free_bytes: int | None = None
    has_room: bool = True
    shell: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}


class DaemonReply(DaemonStatus, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="daemon-reply"):
    """Answers ``daemon-show``.

    Attributes:
        projects_stand: of the projects that were asked for, in the order in which they were.
    """

    projects_stand: list[ProjectStand] = []
    v: int = PROTOCOL
    n: int


class DaemonHistory(Request["DaemonHistoryReply"], tag="daemon-history"):
    """How was the daemon in each minute of the last day?

    Attributes:
        since, until: unix seconds; 0: from a day ago, to now. A page has a bounded number of points.
    """

    since: EpochSeconds = 0.0
    until: EpochSeconds = 0.0


class DaemonPoint(Struct, frozen=True, omit_defaults=True, gc=False):
    """The daemon in one minute, in which it took at least one turn.

    In a minute in which it was started again, counts are those of both parts, and times those of the slower one.

    Attributes:
        at: unix seconds of its beginning.
        epoch: another one than before: the daemon has read its store again, as it does when it starts.
        turns, commits, syncs: how many.
        turn_p50_seconds, commit_p50_seconds, sync_p50_seconds: within which half of them were done. Between the bounds
            of ``turn_seconds``, ``commit_seconds`` and ``sync_seconds`` these and the following are estimates.
        turn_p99_seconds, commit_p99_seconds, sync_p99_seconds: within which 99 of 100 were done; 11: more than 10.
        turn_most_seconds, commit_most_seconds, sync_most_seconds: within which all were done; 11: more than 10.
        resident_bytes: memory of the process at the end; 0: unknown.
        new, selected, ended: tasks that came, hand-outs, and attempts that ended, however they did.
        ready, delayed, blocked, processing: tasks of all projects at the end.
    """

    at: float
    epoch: int = 0
    turns: int = 0
    commits: int = 0
    syncs: int = 0
    turn_p50_seconds: float = 0.0
    turn_p99_seconds: float = 0.0
    turn_most_seconds: float = 0.0
    commit_p50_seconds: float = 0.0
    commit_p99_seconds: float = 0.0
    commit_most_seconds: float = 0.0
    sync_p50_seconds: float = 0.0
    sync_p99_seconds: float = 0.0
    sync_most_seconds: float = 0.0
    resident_bytes: int = 0
    new: int = 0
    selected: int = 0
    ended: int = 0
    ready: int = 0
    delayed: int = 0
    blocked: int = 0
    processing: int = 0


class DaemonHistoryReply(Reply, tag="daemon-history-reply"):
    """Answers ``daemon-history``: a page of points by time; ``next`` is ``since`` for the page after it, 0: there is
    none.

    Attributes:
        points: a page of them, by time.
    """

    points: list[DaemonPoint]
    next: float = 0.0


class Verify(Request["VerifyReply"], tag="verify"):
    """Check the scheduler's own invariants now; costs a look at everything in memory."""


class VerifyReply(Reply, tag="verify-reply"):
    """What is wrong with the scheduler, in words; empty if nothing is.

    Attributes:
        problems: what is wrong, a sentence each; empty: nothing.
    """

    problems: list[str]
