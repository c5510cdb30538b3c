"""A store as lines of JSON, to be moved to another one: what the lines are. ``forms`` has the same in MessagePack.

    {"taskqueue": 1, "projects": [{"name": "news", "state": "running", …}]}         first: the format, the projects
    {"project": "news", "taskid": "…", "state": "ready", "url": "…", "body": {…}}   a task
    {"history": "hour", "at": 1700000000, "projects": {"news": [5, 4, 4, 0, 0, 0]}} what happened in an hour, or minute
    {"tasks": 20311}                                                                last: how many tasks there were

What has its default is left out. Tasks come project by project in the order in which they would run: what is
processing, then ready, delayed, and what is over, the oldest first; so new seqs, given in the order of the lines, keep
it.

MessagePack can say more than JSON. A value that JSON can't say exactly (bytes, other keys than text, infinite numbers,
numbers in longer forms than they need) stands as {"$msgpack": "base64"}, whole: reading it again gives the same bytes.
Only a setting that is a number is told apart there: inf stands as "inf".
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import inf
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder as JsonDecoder

from taskqueue.core.parts.counts import EventTotals
from taskqueue.core.settings.schema import is_number
from taskqueue.core.settings.settings import Settings
from taskqueue.core.tasks.records import CronRecord, PauseRecord
from taskqueue.protocol.choices import ProjectState, Resolution, StateName
from taskqueue.protocol.fields import (
    MAX_URL_CHARS,
    NIL,
    PLAIN,
    EpochSeconds,
    Number,
    Priority,
    ProjectName,
    Schedule,
    Setting,
    TaskId,
)

VERSION: Final = 2
"""Of the lines."""

READABLE: Final = (1, VERSION)
"""In version 1 there was no history."""

PACKED: Final = "$msgpack"
INF: Final = "inf"

COUNTED_MOST: Final = 2**53 - 1
"""Of anything that is counted: what every reader of JSON has exactly, and far from where counting on would fail."""

HAPPENED_MOST: Final = 2**40 - 1
"""In an hour, to a project: so that their sum can be kept, too, however many projects there are."""

LATEST: Final = 1e11
"""Unix seconds; as ``EpochSeconds``."""

Counted = Annotated[int, Meta(ge=0, le=COUNTED_MOST)]
Happened = Annotated[int, Meta(ge=0, le=HAPPENED_MOST)]

ABSENT: Final = Raw()
NEVER: Final = 0.0
"""Use this very value: it is left out, but not others that equal it."""


class ProjectLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A project, in the first line.

    Attributes:
        overrides: settings said by ``project-set``: a map.
        pause, cron, finished, totals: see ``ProjectRecord``.
    """

    name: ProjectName
    state: ProjectState = "running"
    overrides: Raw = ABSENT
    totals: EventTotals | None = None
    pause: PauseRecord | None = None
    cron: dict[str, CronRecord] = msgspec.field(default_factory=dict)
    finished: Counted = 0


class FirstLine(Struct, frozen=True, forbid_unknown_fields=True):
    """What follows; ``taskqueue`` is VERSION."""

    taskqueue: int
    projects: list[ProjectLine]


def check_numbers(line: ProjectLine) -> None:
    """See that a scheduler can go on counting from what a project's line says.

    Raises:
        ValueError: it is more than anything can have come to.
    """
    records = {"totals": line.totals, "pause": line.pause} | {f"cron.{job}": each for job, each in line.cron.items()}
    for name, record in records.items():
        for field, value in ({} if record is None else msgspec.structs.asdict(record)).items():
            most = LATEST if isinstance(value, float) else COUNTED_MOST
            if isinstance(value, int | float) and not 0 <= value <= most:
                raise ValueError(f"{name}.{field}: expected a number from 0 to {most:,}")


class DeferredLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A ``force_update`` that waits for the end of a lease; takes effect when the task is brought in."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    schedule: Schedule = PLAIN
    body: Raw = ABSENT


class TaskLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task.

    Attributes:
        schedule: as its producer sent it; ``priority`` and ``exetime`` (unix seconds) are those that it has now.
        ended_at: unix seconds; of what is over.
        held_back, timed_out, apart, retried, lastcrawltime, depth: see ``Task`` and ``Spec``.
        bare: it is over, and its url and body are not kept any more.
    """

    project: ProjectName
    taskid: TaskId
    state: StateName
    url: Annotated[str, Meta(max_length=MAX_URL_CHARS)] = ""
    schedule: Schedule = PLAIN
    priority: Priority = 0
    exetime: EpochSeconds = NEVER
    retried: Annotated[int, Meta(ge=0, le=2**32 - 1)] = 0
    lastcrawltime: EpochSeconds = NEVER
    ended_at: EpochSeconds = NEVER
    itag: Annotated[str, Meta(max_length=256)] = ""
    held_back: bool = False
    timed_out: bool = False
    apart: bool = False
    bare: bool = False
    depth: Number = 0
    body: Raw = ABSENT
    deferred: DeferredLine | None = None


Events = tuple[Happened, Happened, Happened, Happened, Happened, Happened]
"""New, selected, success, failed, retried, timeout."""


Sums = tuple[Counted, Counted, Counted, Counted, Counted, Counted]
"""The same of all projects."""


class SliceLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What happened in one minute or hour; comes after the tasks.

    Attributes:
        history: how long it is.
        at: unix seconds of its beginning.
        projects: to which project what.
        all: to all together, those included that were deleted since; None: it is not known.
    """

    history: Resolution
    at: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    projects: dict[ProjectName, Events]
    all: Sums | None = None


class LastLine(Struct, frozen=True, forbid_unknown_fields=True):
    """How many tasks there were."""

    tasks: int


encode_line: Final = msgspec.json.Encoder().encode

_unpack: Final = msgspec.msgpack.Decoder().decode
_skip: Final = msgspec.msgpack.Decoder(Raw).decode
_pack: Final = msgspec.msgpack.Encoder().encode
_decode_json: Final = JsonDecoder().decode


def in_json(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings of a project with words where JSON has no numbers."""
    return {name: INF if isinstance(value, float) and value == inf else value for name, value in settings.items()}


def from_json(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """What ``in_json`` was given; a text that says inf stays one where the setting is a text."""
    return {name: inf if value == INF and is_number(name, Settings) else value for name, value in settings.items()}


def as_json(packed: bytes | Raw) -> Raw:
    """A MessagePack value as JSON that gives the same bytes again; nil is ABSENT."""
    content = bytes(packed)
    if content == bytes(NIL):
        return ABSENT
    try:
        value = encode_line(_unpack(content))
        if PACKED.encode() not in value and _pack(_decode_json(value)) == content:
            return Raw(value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        pass  # what JSON can't say
    return Raw(encode_line({PACKED: b64encode(content).decode()}))


def as_msgpack(value: Raw) -> Raw:
    """The MessagePack value that was written as this JSON.

    Raises:
        ValueError, OverflowError: it is none, or has a number that MessagePack can't say.
    """
    if value == ABSENT:
        return NIL
    decoded = _decode_json(value)
    if not isinstance(decoded, dict) or decoded.keys() != {PACKED}:
        return Raw(_pack(decoded))
    try:
        content = b64decode(decoded[PACKED], validate=True)
        _skip(content)
    except (binascii.Error, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(f"{PACKED} is no MessagePack value in base64: {error}") from None
    return Raw(content)
