"""What is heard and what is said: the messages of protocol 1, as values without methods.

These are the types that the wire decodes frames into and encodes frames from; docs/protocol.md describes the same
messages for other languages. Each is a MessagePack map with named fields; ``type`` tells which. A field that has a
default may be left out.

    producer, fetcher, admin ── Request (type, v, session, n, …) ──►  scheduler
                             ◄── Reply   (type, n, …) ──────────────
    fetcher                  ◄── Select  (type, number, tasks) ─────    unasked, as soon as there is work

Numbers: ``n`` counts the requests of a session; a repeat of the same ``n`` is answered, not done again. ``number``
counts the ``select`` messages to a session. ``token`` names one lease of one task, for ever.

What must never come in here: behaviour, and anything that knows how these values are encoded.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NewType

from msgspec import Meta, Raw, Struct

PROTOCOL: Final = 1
"""Version number in every message; a request with another one is refused with the code ``version``."""

Token = NewType("Token", int)
"""Names one lease of one task; never used twice, so an answer can't be taken for another's."""

Peer = NewType("Peer", bytes)
"""A routing id of the socket: where to send an answer to now. It identifies nobody; the session does."""

# ------------------------------------------------------------------------------------------------ limits

MAX_TASKID_BYTES: Final = 128
MAX_URL_CHARS: Final = 8192
MAX_ERROR_CHARS: Final = 2048
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
MAX_CAPACITY: Final = 100_000
MAX_BATCH: Final = 10_000
"""Most items in one ``new-task``, ``done``, ``extend`` or ``release``."""

MAX_WISHES: Final = 1000
"""Most projects that a fetcher can name; one that wants more names none, and gets any project's tasks."""

TaskId = Annotated[str, Meta(min_length=1, max_length=MAX_TASKID_BYTES)]
ProjectName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_.\-]+\Z")]
SessionId = Annotated[str, Meta(min_length=1, max_length=64)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
EpochSeconds = Annotated[float, Meta(ge=0, le=1e11)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
AgeSeconds = Annotated[float, Meta(ge=1, le=1e9)]
TimeoutSeconds = Annotated[float, Meta(gt=0, le=1e7)]
Retries = Annotated[int, Meta(ge=0, le=1_000_000)]

NIL: Final = Raw(b"\xc0")
"""An absent body: MessagePack's nil."""

# ------------------------------------------------------------------------------------------------ tasks


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
    """

    priority: Priority = 0
    exetime: EpochSeconds = 0.0
    delay: Seconds | None = None
    retries: Retries | None = None
    age: AgeSeconds | None = None
    itag: Annotated[str, Meta(max_length=256)] | None = None
    auto_recrawl: bool = False
    force_update: bool = False
    cancel: bool = False
    timeout: TimeoutSeconds | None = None


PLAIN: Final = Schedule()


class NewTask(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A task as its producer describes it.

    Attributes:
        project: None is the project of the message (or, for a follow-up, of the task that led to it).
        body: any MessagePack value; the daemon never looks into it.
    """

    taskid: TaskId
    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    schedule: Schedule = PLAIN
    body: Raw = NIL
    project: ProjectName | None = None


class Handed(Struct, frozen=True, omit_defaults=True, gc=False):
    """A task as a fetcher gets it.

    Attributes:
        timeout: seconds from now until its lease runs out.
        retried: how often it has failed before.
        lastcrawltime: unix seconds of its last attempt's end; 0 is never.
    """

    project: str
    taskid: str
    url: str
    token: Token
    timeout: float
    body: Raw = NIL
    retried: int = 0
    lastcrawltime: float = 0.0


class Finished(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """What became of a task that was handed out.

    Attributes:
        ok: it succeeded.
        error: why not; shown to people.
        retry_after: not ok: run it again after so many seconds, without using up a retry.
        retry: not ok and False: it has failed for good.
        new: tasks that came out of it, kept in the same commit.
    """

    project: ProjectName
    taskid: TaskId
    token: Number
    ok: bool = True
    error: Annotated[str, Meta(max_length=MAX_ERROR_CHARS)] = ""
    retry_after: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER_SECONDS)] | None = None
    retry: bool = True
    new: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)] = []


# ------------------------------------------------------------------------------------------------ heard


class Request(Struct, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """What every request carries.

    Attributes:
        v: the protocol's version.
        session: chosen at random by a client process when it starts.
        n: this request's number in its session, from 1.
    """

    v: Annotated[int, Meta(ge=PROTOCOL, le=PROTOCOL)] = PROTOCOL
    session: SessionId
    n: Annotated[int, Meta(ge=1, le=2**63 - 1)]


class Hello(Request, tag="hello"):
    """Facts about a fetcher, stated again and again; a lost, repeated or late one does no harm.

    Attributes:
        capacity: how many leases it will hold at once.
        projects: whose tasks it wants; None is any project's.
        holds: tokens of the tasks that it has, those in an unanswered ``done`` included.
        seen: number of the last ``select`` that it saw.
        name: for people, such as host:pid.
    """

    capacity: Annotated[int, Meta(ge=0, le=MAX_CAPACITY)] = 0
    projects: Annotated[list[ProjectName], Meta(max_length=MAX_WISHES)] | None = None
    holds: Annotated[list[Number], Meta(max_length=MAX_CAPACITY)] = []
    seen: Number = 0
    name: Annotated[str, Meta(max_length=128)] = ""


class NewTasks(Request, tag="new-task"):
    """Here are tasks for a project. None stands for an item that could not be decoded; see ``Heard.flaws``."""

    project: ProjectName
    tasks: Annotated[list[NewTask | None], Meta(max_length=MAX_BATCH)]


class Done(Request, tag="done"):
    """These tasks have been run."""

    tasks: Annotated[list[Finished | None], Meta(max_length=MAX_BATCH)]


class Extend(Request, tag="extend"):
    """Give these leases ``seconds`` from now; None is each task's own timeout again."""

    tokens: Annotated[list[Number], Meta(max_length=MAX_BATCH)]
    seconds: TimeoutSeconds | None = None


class Release(Request, tag="release"):
    """These tasks were not started: hand them to somebody else, no retry used up."""

    tokens: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Status(Request, tag="status"):
    """How are you? Projects in the order of their names, from the first one after ``after``."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 100


class ProjectShow(Request, tag="project-show"):
    """Tell about one project."""

    project: ProjectName


Setting = bool | int | float | str | list[float]


class ProjectSet(Request, tag="project-set"):
    """Change settings of a project, now and across restarts; an unknown project is made."""

    project: ProjectName
    settings: dict[str, Setting]


class ProjectUnset(Request, tag="project-unset"):
    """Forget what ``project-set`` said of these keys; an empty list means all of them."""

    project: ProjectName
    keys: list[str] = []


Action = Literal["pause", "resume", "stop", "start", "delete"]


class ProjectDo(Request, tag="project-do"):
    """Pause, resume, stop, start or delete a project; ``start`` makes an unknown one."""

    project: ProjectName
    action: Action


class TaskShow(Request, tag="task-show"):
    """Tell about one task, its body included."""

    project: ProjectName
    taskid: TaskId


class TaskRetry(Request, tag="task-retry"):
    """Run these tasks now, whatever they wait for or ended as, with their retries given back."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class TaskCancel(Request, tag="task-cancel"):
    """End these tasks; whoever is processing one of them will be told that its answer is stale."""

    project: ProjectName
    taskids: Annotated[list[TaskId], Meta(max_length=MAX_BATCH)]


class Verify(Request, tag="verify"):
    """Check the scheduler's own invariants now; costs a look at everything in memory."""


AnyRequest = (
    Hello | NewTasks | Done | Extend | Release | Status | ProjectShow | ProjectSet | ProjectUnset | ProjectDo
    | TaskShow | TaskRetry | TaskCancel | Verify
)  # fmt: skip

# ------------------------------------------------------------------------------------------------ said

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


class Now(Struct, frozen=True, gc=False):
    """The time, as an argument.

    Attributes:
        wall: unix seconds; exetime, ages and cron run on it.
        boot: seconds on a clock that never steps; deadlines and buckets run on it.
    """

    wall: float
    boot: float


Flaws = dict[tuple[int, ...], str]
"""Why items of a batch could not be decoded, by their path: (index,) or, for a follow-up, (parent, index)."""


class Heard(Struct):
    """A request and where its answer goes to.

    Attributes:
        flaws: reasons for the items that are None in the request's batch.
    """

    peer: Peer
    request: AnyRequest
    flaws: Flaws = {}


class Said(Struct, gc=False):
    """A message and where it goes to.

    Attributes:
        kept: it tells of something that the turn keeps, so it must not leave before that is on disk.
    """

    peer: Peer
    message: AnySaid
    kept: bool = True
