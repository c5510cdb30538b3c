"""Types, choices and limits of the fields of messages. The messages: a module a noun, all together in ``messages``.

Frames are decoded into these types and encoded from them; docs/protocol.md describes the same for other languages. Each
is a MessagePack map with named fields; ``type`` says which. A field that has a default may be left out.

    producer, fetcher, admin ── Request (type, v, session, n, …) ──►  scheduler
                             ◄── Reply   (type, n, …) ──────────────
    fetcher                  ◄── Select  (type, number, tasks) ─────    unasked, as soon as there is work

Numbers: ``n`` counts the requests of a session; a repeat of the same ``n`` is answered, not done again. ``number``
counts the ``select`` messages to a session. ``token`` identifies one lease of one task, for ever.

No behaviour here, and nothing that knows how these values are encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NewType, overload

from msgspec import Meta, Raw, Struct

from taskqueue.error_texts import KIND_CHARS
from taskqueue.protocol.choices import NAME, NAME_CHARS, ErrorKind, ParentFailure

PROTOCOL: Final = 1
"""Version number in every message; a request with another one is refused with the code ``version``."""

Token = NewType("Token", int)
"""Names one lease of one task; never used twice, so an answer can't be taken for another's. Nobody can guess it."""

Peer = NewType("Peer", bytes)
"""A routing id of the socket: where to send an answer to now. It identifies nobody; the session does."""

UNSAID: Final[Any] = float("0")
"""Zero where it is the default of a field and means never, or at once. msgspec leaves a number out if it *is* the
default, not if it equals it, so whoever makes a message gives this very one. It has no type, and is no literal, because
the compiler, which knows floats by value, would make another one of it.
"""

# ------------------------------------------------------------------------------------------------ limits

MAX_TASKID_BYTES: Final = 128
MAX_URL_CHARS: Final = 8192
MAX_ERROR_CHARS: Final = 2048
MAX_KIND_CHARS: Final = KIND_CHARS
MAX_PAUSE_SECONDS: Final = 1e7
"""Of a pause for a time: 115 days."""
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
MAX_SLOT_CHARS: Final = 253
"""Of the name of a slot; a host's name is no longer (RFC 1035, section 2.3.4)."""

STATUS_CODES: Final = range(100, 1000)
"""Of an answer over HTTP: three digits. Above 599 none is valid (RFC 9110, section 15), but servers send them."""

MAX_VALIDATOR_CHARS: Final = 256
"""Of an etag, a last-modified or the hash of a page."""

MAX_RESULT_BYTES: Final = 64 << 10
"""Of the result of a task, as MessagePack."""

MAX_CAPACITY: Final = 100_000
Capacity = Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]
MAX_BATCH: Final = 10_000
"""Most items in one ``new-task``, ``done``, ``extend`` or ``release``."""

MAX_FOLLOWERS: Final = 2 * MAX_BATCH
"""Most new tasks in one ``done``, of all its outcomes together."""

MAX_PARENTS: Final = 1000
"""Most tasks that one task can wait for."""

MAX_EDGES: Final = 10_000
"""Most tasks that the tasks of one message can wait for together."""

MAX_WISHES: Final = 1000
"""Most projects that a fetcher can name; one that wants more names none, and gets any project's tasks."""

TaskId = Annotated[str, Meta(min_length=1, max_length=MAX_TASKID_BYTES)]
ProjectName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, pattern=rf"\A{NAME}+\Z")]
KnownName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS)]
"""Of a project that is only looked up, and never made: what no project can be called is of none. So its characters
need no check, which takes longer than all else of decoding a report.
"""
GroupName = Annotated[str, Meta(max_length=NAME_CHARS, pattern=rf"\A{NAME}*\Z")]
"""Of a group of projects, or of a shared bucket; empty: none."""
Part = Annotated[str, Meta(max_length=NAME_CHARS)]
"""Of a name; its case does not matter."""
SessionId = Annotated[str, Meta(min_length=1, max_length=64)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
MAX_EPOCH_SECONDS: Final = 1e11
"""Latest unix second that a time may be: in the year 5138, so that one in milliseconds is refused."""
EpochSeconds = Annotated[float, Meta(ge=0, le=MAX_EPOCH_SECONDS)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
AgeSeconds = Annotated[float, Meta(ge=1, le=1e9)]
TimeoutSeconds = Annotated[float, Meta(gt=0, le=1e7)]
Retries = Annotated[int, Meta(ge=0, le=1_000_000)]
SlotName = Annotated[str, Meta(min_length=1, max_length=MAX_SLOT_CHARS, pattern=r"\A[^\x00-\x1f\x7f]+\Z")]
StatusCode = Annotated[int, Meta(ge=STATUS_CODES.start, lt=STATUS_CODES.stop)]
Validator = Annotated[str, Meta(max_length=MAX_VALIDATOR_CHARS)]
"""What tells one version of a page from another; empty: unknown."""

NIL: Final = Raw(b"\xc0")
"""An absent body: MessagePack's nil."""

# ------------------------------------------------------------------------------------------------ tasks


class Recrawl(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Bounds of the seconds after which a task runs again: fewer as its page changes, more as it does not."""

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


# ------------------------------------------------------------------------------------------------ settings, time

Setting = bool | int | float | str | list[Any] | dict[str, Any] | None
"""What the value of a setting can be; ``settings.merge`` looks closer."""

if TYPE_CHECKING:

    class Wall(float):
        """Unix seconds; exetime, ages and cron run on them. A time more or less seconds is a time of the same clock.

        To mypy it is a type of its own, so that no time of the one clock gets where one of the other is expected. When
        the program runs it is ``float``: a NewType would have to be called for each deadline that is computed.
        """

        def __add__(self, seconds: float, /) -> Wall: ...
        @overload
        def __sub__(self, since: Wall, /) -> float: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, seconds: float, /) -> Wall: ...
        def __sub__(self, other: float, /) -> float: ...

    class Boot(float):
        """Seconds on a clock that never steps; deadlines and buckets run on them. See ``Wall``."""

        def __add__(self, seconds: float, /) -> Boot: ...
        @overload
        def __sub__(self, since: Boot, /) -> float: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, seconds: float, /) -> Boot: ...
        def __sub__(self, other: float, /) -> float: ...

else:
    Wall = Boot = float

WAIT_MOST_SECONDS = 60.0

MAX_SLOT_DELAY_SECONDS: Final = 1e6
"""Longest delay of a slot, eleven days: tasks that are further apart have times of their own."""
MIN_SLOT_RATE: Final = 0.0001
MAX_SLOT_BURST: Final = 1e6

OUTCOME_WINDOW = 64
"""Outcomes kept per session: a client has at most this many requests unanswered."""
