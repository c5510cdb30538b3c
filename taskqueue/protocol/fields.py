"""Types and limits of the fields of messages. Each noun has a module of messages; ``messages`` has all of them.

Frames are decoded into these types and encoded from them; docs/reference/messages.md is generated from them. A message
is a MessagePack map with named fields; its ``type`` says which one. A field with a default may be left out.

    producer, fetcher, operator ── Request (type, v, session, n, …) ──►  daemon
                                ◄── Reply   (type, n, …) ──────────────
    fetcher                     ◄── Select  (type, number, tasks) ─────    unasked, as soon as there is work

Numbers: ``n`` counts the requests of a session; the daemon answers a repeated ``n`` without carrying it out again.
``number`` counts the ``select`` messages to a session. ``token`` identifies one lease of one task, for ever.

This module has no behaviour and does not know how its values are encoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NewType, overload

from msgspec import Meta, Raw

from taskqueue.protocol.choices import NAME, NAME_CHARS, NAME_WORDS
from taskqueue.texts.error_texts import KIND_CHARS

PROTOCOL: Final = 1
"""Version of the protocol, in every message; the daemon refuses another one with the code ``version``."""

Token = NewType("Token", int)
"""Number of one lease of one task; it is never used twice, so reports can't be confused, and can't be guessed."""

Peer = NewType("Peer", bytes)
"""Present address of a client: the routing id of its socket, with its name if callers have names.

The session identifies the client.
"""

UNSAID: Final[Any] = float("0")
"""Zero as the default of a field, where it means never or at once. msgspec leaves a number out only if it *is* the
default, not if it equals it, so code that makes messages uses this object. It has no type and is not a literal, because
the compiler, which knows floats by value, would make another object of it.
"""

# ------------------------------------------------------------------------------------------------ limits

MAX_TASKID_BYTES: Final = 128
MAX_URL_CHARS: Final = 8192
MAX_ERROR_CHARS: Final = 2048
MAX_KIND_CHARS: Final = KIND_CHARS
MAX_PAUSE_SECONDS: Final = 1e7
"""Longest timed pause: 115 days."""
MAX_RETRY_AFTER_SECONDS: Final = 86_400.0
MAX_SLOT_CHARS: Final = 253
"""Longest name of a slot: that of a host (RFC 1035, section 2.3.4)."""

STATUS_CODES: Final = range(100, 1000)
"""Status codes of HTTP: three digits. Above 599 none is valid (RFC 9110, section 15), but servers send them."""

MAX_VALIDATOR_CHARS: Final = 256
"""Longest etag, last-modified or hash of a page."""

MAX_RESULT_BYTES: Final = 64 << 10
"""Largest result of a task, as MessagePack."""

MAX_NOTE_BYTES: Final = 256
"""Longest note of a task, as UTF-8."""
MAX_NOTE_NUMBER: Final = 1e15
"""Largest number that is a note, and the smallest without its sign."""

MAX_CAPACITY: Final = 100_000
Capacity = Annotated[int, Meta(ge=0, le=MAX_CAPACITY)]
MAX_BATCH: Final = 10_000
"""Most items in one ``new-task``, ``done``, ``extend``, ``release`` or ``note``."""

MAX_FOLLOWERS: Final = 2 * MAX_BATCH
"""Most new tasks in one ``done``, over all its reports."""

MAX_PARENTS: Final = 1000
"""Most tasks that one task can wait for."""

MAX_EDGES: Final = 10_000
"""Most edges in one message."""

MAX_WISHES: Final = 1000
"""Most projects that a fetcher can name; a fetcher that wants more names none and gets tasks of all projects."""

NOTATION: Final = "notation"
"""Key of a type's name in docs/reference/messages.md, which explains these names."""

WORDS: Final = "words"
"""Key of words for the texts that a type takes, for errors; a type with a pattern has them."""
_NAME: Final = {NOTATION: "name", WORDS: f"1 to {NAME_CHARS} {NAME_WORDS}"}
_NAME_OR_EMPTY: Final = {NOTATION: "name or empty", WORDS: f"at most {NAME_CHARS} {NAME_WORDS}"}

TaskId = Annotated[str, Meta(min_length=1, max_length=MAX_TASKID_BYTES, extra={NOTATION: "taskid"})]
ProjectName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, pattern=rf"\A{NAME}+\Z", extra=_NAME)]
KnownName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, extra={NOTATION: "name"})]
"""Name of a project that is looked up, never created. Its characters are not checked, because that would take longer
than the rest of decoding a report.
"""
ProjectNames = Annotated[list[ProjectName], Meta(max_length=200)]
"""Projects that a list is limited to; empty: all."""
GroupName = Annotated[str, Meta(max_length=NAME_CHARS, pattern=rf"\A{NAME}*\Z", extra=_NAME_OR_EMPTY)]
"""Name of a group of projects, or of a shared bucket; empty: none."""
JobName = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS, pattern=rf"\A{NAME}+\Z", extra=_NAME)]
"""Name of a job: of the run, such as that of a day, that a task came by."""
AnyJob = Annotated[str, Meta(max_length=NAME_CHARS, pattern=rf"\A{NAME}*\Z", extra=_NAME_OR_EMPTY)]
"""Name of a job that tasks are selected by; empty: any, or none."""
Part = Annotated[str, Meta(max_length=NAME_CHARS)]
"""Part of a name; case does not matter."""
SessionId = Annotated[str, Meta(min_length=1, max_length=64)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1, extra={NOTATION: "int"})]
Priority = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1, extra={NOTATION: "int32"})]
MAX_EPOCH_SECONDS: Final = 1e11
"""Latest time in unix seconds: in the year 5138, so that times in milliseconds are refused."""
EpochSeconds = Annotated[float, Meta(ge=0, le=MAX_EPOCH_SECONDS)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
AgeSeconds = Annotated[float, Meta(ge=1, le=1e9)]
TimeoutSeconds = Annotated[float, Meta(gt=0, le=1e7)]
Retries = Annotated[int, Meta(ge=0, le=1_000_000)]
_SLOT: Final = {WORDS: f"1 to {MAX_SLOT_CHARS} characters without control characters, such as line ends and tabs"}
SlotName = Annotated[str, Meta(min_length=1, max_length=MAX_SLOT_CHARS, pattern=r"\A[^\x00-\x1f\x7f]+\Z", extra=_SLOT)]
StatusCode = Annotated[int, Meta(ge=STATUS_CODES.start, lt=STATUS_CODES.stop)]
Validator = Annotated[str, Meta(max_length=MAX_VALIDATOR_CHARS)]
"""Text that distinguishes versions of a page; empty: unknown."""

NoteValue = (
    Annotated[str, Meta(max_length=MAX_NOTE_BYTES)] | Annotated[float, Meta(ge=-MAX_NOTE_NUMBER, le=MAX_NOTE_NUMBER)]
)
"""Text or number that users see beside a task while it runs."""

NIL: Final = Raw(b"\xc0")
"""An absent body: MessagePack's nil."""


# ------------------------------------------------------------------------------------------------ settings, time

Setting = bool | int | float | str | list[Any] | dict[str, Any] | None
"""Value of a setting; ``settings.merge`` checks it further."""

if TYPE_CHECKING:

    class Wall(float):
        """Unix seconds, for exetime, ages and cron. A time plus or minus seconds is a time of the same clock.

        To mypy this is a separate type, so that times of the two clocks can't be mixed up. At run time it is ``float``:
        a NewType would have to be called for each computed deadline.
        """

        def __add__(self, seconds: float, /) -> Wall: ...
        @overload
        def __sub__(self, since: Wall, /) -> float: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, seconds: float, /) -> Wall: ...
        def __sub__(self, other: float, /) -> float: ...

    class Boot(float):
        """Seconds on a clock that never steps, for deadlines and buckets; a separate type like ``Wall``."""

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
"""Longest delay of a slot: eleven days. Tasks that are further apart use an exetime."""
MIN_SLOT_RATE: Final = 0.0001
MAX_SLOT_BURST: Final = 1e6

OUTCOME_WINDOW = 64
"""Outcomes kept per session, and the most unanswered requests of a client."""
