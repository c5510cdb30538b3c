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
    """Show the daemon, a page of projects, and fetchers.

    Attributes:
        after: projects with names after this one.
        group: projects of this group only; empty: all.
        filter: projects whose names contain this text; case does not matter.
        sort: by name, or the most first: tasks in a state, or events of the last five minutes.
        skip: rows to leave out at the start.
        fetchers: fetchers, at most.
        projects: only these projects, of the group if one is named; empty: all. An unknown project is refused.
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
        epoch: grows each time the daemon starts, or reads its store again.
        version: version of the daemon's software.
        uptime_seconds: time since the daemon started.
        counts: tasks of all projects by state.
        totals: events of all projects.
        shell: counters of the process: turns, messages, bytes, malformed, …
        compiled: the core is compiled; false: interpreted.
        has_room: false: the store's disk is nearly full, so tasks are neither taken nor dispatched.
    """

    epoch: int
    version: str
    uptime_seconds: float
    counts: TaskCounts
    totals: EventTotals
    shell: dict[str, float] = {}
    compiled: bool = False
    has_room: bool = True


class StatusReply(Status, AnyReply, frozen=True, kw_only=True, tag_field="type", tag="status-reply"):
    """The daemon, a page of projects, and fetchers.

    Attributes:
        projects: rows of the page; it ends early where the message is full.
        fetchers: fetchers that take or hold tasks, as many as fit into half a message.
        found: projects on all pages.
        numbers: what each project of the page is sorted by: tasks in a state, or events; empty: by name.
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
    """Show the daemon's process; takes 0.2 ms at any size.

    Attributes:
        projects: projects whose standstill the reply reports; unknown ones are left out.
    """

    projects: Annotated[list[ProjectName], Meta(max_length=STANDS_MOST)] = []


class ProjectStand(Struct, array_like=True, frozen=True, gc=False):
    """How long a project has been standing still.

    Attributes:
        name: name of the project.
        idle_seconds: time since its last dispatch, or since it has had ready tasks if later; 0: it has none, or may not
            dispatch any.
        backoffs: its slots in memory that back off now.
    """

    name: str
    idle_seconds: float
    backoffs: int


class Histogram(Struct, frozen=True, omit_defaults=True, gc=False):
    """How many values fell into each class.

    Attributes:
        bounds: upper bounds of the classes, ascending; a value equal to a bound belongs to its class.
        counts: values in each class, and last those above all bounds: one more than ``bounds``.
        sum: sum of all values.
    """

    bounds: list[float]
    counts: list[int]
    sum: float = 0.0


class StoreLevel(Struct, frozen=True, omit_defaults=True, gc=False):
    """Tables of one level of the store, all families together.

    Attributes:
        level: 0 has the newest tables.
        tables: number of tables.
        bytes: their size.
    """

    level: int
    tables: int
    bytes: int


class DaemonStatus(Struct, frozen=True, omit_defaults=True):
    """The daemon's process: its turns, its memory and its store.

    Attributes:
        epoch: grows each time the daemon starts, or reads its store again.
        version: version of the daemon's software.
        python: version of Python that runs it.
        compiled: the core is compiled; false: interpreted.
        pid: process id.
        uptime_seconds: time since the daemon started.
        durability: when replies leave: commit, interval or none.
        projects: number of projects.
        sessions: number of sessions.
        fetchers: fetchers that take, hold or run tasks.
        capacity: sum of their capacities.
        holds: leases that they hold.
        hung: their places that hang.
        beyond: leases of ``holds`` that exceed ``capacity``.
        slow: leases of which four fifths have passed.
        task_bytes: memory of queues and leases.
        task_bytes_most: memory that queues may take: ``advanced.queue_bytes``.
        resident_bytes: memory of the process; 0: unknown.
        resident_bytes_most: memory that the process may take; 0: unknown.
        database: database of the store, without its password; empty: the store is a folder.
        levels: of a store in a folder: levels that have tables.
        log_bytes: size of its write-ahead log, which has what is in no table yet.
        free_bytes: free bytes on the disk of the store; None: unknown, as with a database.
        has_room: false: less than ``store.min_free`` is free, so tasks are neither taken nor dispatched.
        shell: counters of the process, as in ``status-reply``.
        histograms: by name: turn_seconds, commit_seconds, sync_seconds, turn_tasks, attempt_seconds, lateness_seconds.
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
    slow: int = 0
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
    """The daemon's process: its turns, its memory and its store.

    Attributes:
        projects_stand: one for each requested project, in order.
    """

    projects_stand: list[ProjectStand] = []
    v: int = PROTOCOL
    n: int


class WhoIs(Request["WhoReply"], tag="who"):
    """Show the user of a token or of a name. A web process asks so; it takes the right speaks-for-others.

    Attributes:
        digest: digest of a token, in hex.
        name: name of a user that a reverse proxy has let in; read if there is no digest.
    """

    digest: Annotated[str, Meta(max_length=64)] = ""
    name: Annotated[str, Meta(max_length=64)] = ""


class WhoReply(Reply, tag="who-reply"):
    """The user of a token or of a name.

    Attributes:
        name: its name; empty: there is none, or it has expired, or has no token.
        role: its role; empty if there is none.
        projects: globs of the projects that it reaches.
        created_at: unix seconds of its authorisation.
    """

    name: str = ""
    role: str = ""
    projects: list[str] = []
    created_at: float = 0.0


class DaemonHistory(Request["DaemonHistoryReply"], tag="daemon-history"):
    """Show the daemon in each minute of the last day.

    Attributes:
        since: unix seconds: minutes that begin at that time or later; 0: from a day ago.
        until: unix seconds: minutes that begin before that time; 0: to now.
    """

    since: EpochSeconds = 0.0
    until: EpochSeconds = 0.0


class DaemonPoint(Struct, frozen=True, omit_defaults=True, gc=False):
    """The daemon in one minute. If it was restarted in that minute, counts are sums and times are those of the
    slower part.

    Attributes:
        at: unix seconds of its beginning.
        epoch: epoch of the daemon; another one than before: the daemon has read its store again.
        turns: number of turns.
        commits: number of commits.
        syncs: number of syncs.
        turn_p50_seconds: within which half of the turns were done, estimated from the classes of ``turn_seconds``.
        turn_p99_seconds: within which 99 of 100 turns were done; 11: more than 10.
        turn_most_seconds: within which all turns were done; 11: more than 10.
        commit_p50_seconds: as turn_p50_seconds, of commits.
        commit_p99_seconds: as turn_p99_seconds, of commits.
        commit_most_seconds: as turn_most_seconds, of commits.
        sync_p50_seconds: as turn_p50_seconds, of syncs.
        sync_p99_seconds: as turn_p99_seconds, of syncs.
        sync_most_seconds: as turn_most_seconds, of syncs.
        resident_bytes: memory of the process at the end of the minute; 0: unknown.
        new: tasks that came.
        selected: dispatches.
        ended: attempts that ended, however they did.
        ready: tasks of all projects in that state at the end.
        delayed: tasks of all projects in that state at the end.
        blocked: tasks of all projects in that state at the end.
        processing: tasks of all projects in that state at the end.
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
    """A page of minutes, by time.

    Attributes:
        points: minutes in which the daemon took a turn.
        next: ``since`` of the next page; 0: this is the last one.
    """

    points: list[DaemonPoint]
    next: float = 0.0


KEYS_MOST: Final = 1000
"""Names in one reply."""


class KeyList(Request["KeyListReply"], tag="key-list"):
    """Show the use of the keys of the access file since the daemon's start, by name.

    Attributes:
        after: names after this one.
    """

    after: str = ""


class KeyUse(Struct, frozen=True, omit_defaults=True, gc=False):
    """Use of the keys of one name since the daemon's start.

    Attributes:
        name: name in the access file; or local or web, which the daemon gives to keys of its own; or ``user:NAME`` of a
            user who has come by ipc.
        connections: open connections.
        seen_at: unix seconds at which it was connected last: now, if it is; 0: never.
        address: where its newest connection comes from, or came from.
        forbidden: requests that its role or its projects did not allow.
        refused: connections that were refused, because it had expired or the access file could not be read.
    """

    name: str
    connections: int = 0
    seen_at: float = 0.0
    address: str = ""
    forbidden: int = 0
    refused: int = 0


class KeyListReply(Reply, tag="key-list-reply"):
    """A page of names, in their order.

    Attributes:
        keys: none, if the daemon has no keys.
        next: ``after`` of the next page; empty: this is the last one.
    """

    keys: list[KeyUse] = []
    next: str = ""


class Verify(Request["VerifyReply"], tag="verify"):
    """Check the daemon's invariants; scans everything in memory."""


class VerifyReply(Reply, tag="verify-reply"):
    """Problems in the daemon's state.

    Attributes:
        problems: one sentence each; empty: nothing is wrong.
    """

    problems: list[str]
