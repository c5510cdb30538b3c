"""What is said: replies to requests, and ``select``, as values without methods. See ``messages``."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw, Struct

from taskqueue.core.messages import NIL, PROTOCOL, Handed, Peer, Schedule, Setting

NewOutcome = Literal["new", "merged", "replaced", "deferred", "restarted", "cancelled", "ignored", "rejected"]
DoneOutcome = Literal["done", "stale", "rejected"]


class ItemError(Struct, frozen=True, omit_defaults=True, gc=False):
    """Why item ``index`` of a batch was rejected; for a follow-up, ``parent`` is its place in ``done``."""

    index: int
    reason: str
    parent: int | None = None


class Reply(Struct, kw_only=True, tag_field="type"):
    """What every answer carries: the number of the request that it answers."""

    v: int = PROTOCOL
    n: int


class Welcome(Reply, tag="welcome"):
    """Answers ``hello``. A fetcher silent for ``fetcher_timeout`` seconds gives back what it holds.

    Attributes:
        epoch: grows each time the scheduler starts.
        max_message: bytes of the longest message it takes.
        version: of the daemon's software.
    """

    epoch: int
    fetcher_timeout: float
    max_message: int
    version: str = ""


class NewTasksReply(Reply, tag="new-task-reply", omit_defaults=True):
    """Per task, in order, what became of it."""

    outcomes: list[NewOutcome]
    errors: list[ItemError] = []


class DoneReply(Reply, tag="done-reply", omit_defaults=True):
    """Per item, in order, whether it counted; ``new`` has, per item with follow-ups, what became of them.

    Attributes:
        new: one list an item, in the order of the items; empty when no item had follow-ups.
    """

    outcomes: list[DoneOutcome]
    new: list[list[NewOutcome]] = []
    errors: list[ItemError] = []


class TokensReply(Reply, tag="tokens-reply"):
    """Answers ``extend`` and ``release``: how many of the leases were in force, so that it counted."""

    counted: int
    stale: list[int] = []


class Counts(Struct, omit_defaults=True, gc=False):
    """Tasks of a project by state, now. ``failed`` and the like are those that are over and known."""

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    success: int = 0
    failed: int = 0
    cancelled: int = 0


class Totals(Struct, omit_defaults=True, gc=False):
    """Events of a project since it was made."""

    new: int = 0
    selected: int = 0
    success: int = 0
    failed: int = 0
    retried: int = 0
    timeout: int = 0


ProjectState = Literal["running", "paused", "stopped"]


class ProjectView(Struct, omit_defaults=True):
    """A project as people see it.

    Attributes:
        settings: in force now.
        overrides: the part of them that ``project-set`` said.
        tokens: level of its bucket.
    """

    name: str
    state: ProjectState
    counts: Counts
    totals: Totals
    settings: dict[str, Setting]
    overrides: dict[str, Setting]
    tokens: float = 0.0


SHOWN_WISHES: Final = 20


class FetcherView(Struct, omit_defaults=True):
    """A fetcher as people see it.

    Attributes:
        silent_seconds: since it was last heard.
        projects: the first SHOWN_WISHES of those that it wants; None: any.
    """

    session: str
    name: str
    capacity: int
    holds: int
    silent_seconds: float
    projects: list[str] | None = None


class StatusReply(Reply, tag="status-reply"):
    """How the daemon is.

    Attributes:
        projects: a page of them.
        more: there are projects after the last one of this page.
        counts: over all projects.
        shell: counters of the process around the core (turns, messages, bytes, malformed, …).
    """

    epoch: int
    version: str
    uptime_seconds: float
    counts: Counts
    totals: Totals
    projects: list[ProjectView]
    more: bool
    fetchers: list[FetcherView]
    shell: dict[str, float] = {}


class ProjectReply(Reply, tag="project-reply"):
    """Answers ``project-show``, ``-set``, ``-unset`` and ``-do``; None: it has been deleted."""

    project: ProjectView | None


class TaskReply(Reply, tag="task-reply", omit_defaults=True):
    """Answers ``task-show``.

    Attributes:
        state: ready, delayed, processing, success, failed or cancelled.
        exetime: unix seconds: due (delayed), or 0.
        finished_at: unix seconds of the end (over), or 0.
        lease_seconds: until its lease runs out (processing).
        session: of the fetcher that has it (processing).
        error: of its last attempt.
    """

    project: str
    taskid: str
    url: str
    state: str
    schedule: Schedule
    priority: int = 0
    exetime: float = 0.0
    retried: int = 0
    lastcrawltime: float = 0.0
    finished_at: float = 0.0
    lease_seconds: float = 0.0
    session: str = ""
    error: str = ""
    body: Raw = NIL


class TasksReply(Reply, tag="tasks-reply"):
    """Answers ``task-retry`` and ``task-cancel``: per taskid, in order, ``done``, ``unknown`` or ``ignored``."""

    outcomes: list[Literal["done", "unknown", "ignored"]]


class VerifyReply(Reply, tag="verify-reply"):
    """What is wrong with the scheduler, in words; empty if nothing is."""

    problems: list[str]


class ErrorReply(Reply, tag="error"):
    """The request was refused; nothing of it was done.

    Attributes:
        n: of the refused request; 0 if it could not be read.
        code: for programs: malformed, version, too-large, too-old, unknown-project, setting, unavailable, …
        reason: for people, naming the field.
    """

    code: str
    reason: str


class Select(Struct, kw_only=True, tag_field="type", tag="select"):
    """Tasks for a fetcher. ``number`` counts the ``select`` messages to its session, without gaps."""

    v: int = PROTOCOL
    number: int
    tasks: list[Handed]


AnyReply = (
    Welcome | NewTasksReply | DoneReply | TokensReply | StatusReply | ProjectReply | TaskReply | TasksReply
    | VerifyReply | ErrorReply
)  # fmt: skip
AnySaid = AnyReply | Select


class Said(Struct, gc=False):
    """A message and where it goes to.

    Attributes:
        kept: it tells of something that the turn keeps, so it must not leave before that is on disk.
    """

    peer: Peer
    message: AnySaid
    kept: bool = True
