"""The lines of an export, in its two formats: readable JSON, and MessagePack for speed.

    {"taskqueue": 6, "projects": [{"name": "news", "state": "running", …}]}         first: the version, the projects
    {"project": "news", "taskid": "…", "state": "ready", "url": "…", "body": {…}}   a task
    {"history": "hour", "at": 1700000000, "projects": {"news": [5, 4, 4, 0, 0, 0]}} events of an hour, or a minute
    {"tasks": 20311}                                                                last: the number of tasks

Fields with their default are omitted. Tasks come project by project in the order in which they would run: processing,
ready, delayed, then the finished ones, oldest first; so new seqs, assigned in the order of the lines, keep it.

A task has its valid edges: those of a deferred update, if there is one, because an import applies it.

Both formats have the same fields. In MessagePack a body is written unchanged. In JSON it is translated.

MessagePack has values that JSON lacks. A body that JSON can't represent exactly (bytes, keys that are not text,
infinite numbers, numbers in longer encodings than they need) is written as {"$msgpack": "base64"}, so that decoding
gives the same bytes. A number in a setting is the exception: infinity is written as "inf".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder as JsonDecoder
from msgspec.msgpack import Decoder

from taskqueue.core.model.edges import POLICIES, Links, Mark
from taskqueue.core.model.records import CronRecord, PauseRecord
from taskqueue.core.model.recrawl_interval import PageFacts
from taskqueue.core.model.task import LATEST_SECOND, Task
from taskqueue.protocol.choices import ParentFailure, ProjectState, Resolution, TaskState
from taskqueue.protocol.fields import (
    MAX_PARENTS,
    MAX_URL_CHARS,
    NIL,
    AnyJob,
    EpochSeconds,
    GroupName,
    Number,
    Priority,
    ProjectName,
    Setting,
    TaskId,
)
from taskqueue.protocol.packed_json import ABSENT, as_json, as_msgpack
from taskqueue.protocol.values import PLAIN, EventTotals, Schedule
from taskqueue.settings.description import Description, described
from taskqueue.settings.settings import Settings
from taskqueue.store.records import layout
from taskqueue.store.records.edges import BELOW_TASK, decode_mark, task_key, tasks_of
from taskqueue.store.records.reading import decode_record

VERSION: Final = 6
"""Version of the fields."""

READABLE: Final = (1, 2, 3, 4, 5, VERSION)
"""Versions that can be imported.

1 had no history of events, 2 no results of tasks, 3 no edges between them, 4 no facts about fetched pages, 5 other
names of settings (``setting_names``).
"""

FLAT_SETTINGS_MOST: Final = 5
"""Last version with the old names of settings."""

INF: Final = "inf"

COUNTED_MOST: Final = 2**53 - 1
"""Largest count: every JSON reader has it exactly, and counting on from it can't overflow."""

HAPPENED_MOST: Final = 2**40 - 1
"""Largest number of a project's events in an hour, so that the sum over all projects can be stored, too."""

LATEST: Final = 1e11
"""Largest time in unix seconds, as for ``EpochSeconds``."""

Counted = Annotated[int, Meta(ge=0, le=COUNTED_MOST)]
Happened = Annotated[int, Meta(ge=0, le=HAPPENED_MOST)]

NEVER: Final = 0.0
"""Default of times: only this very object is omitted from a line, not other values that equal it."""


class ProjectLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Project in the first line.

    Attributes:
        overrides: map of settings set by ``project-set``.
        pause, cron, finished, totals: see ``ProjectRecord``.
        newest: True if the lines of its ready tasks begin with the newest one of each priority.
    """

    name: ProjectName
    state: ProjectState = "running"
    overrides: Raw = ABSENT
    totals: EventTotals | None = None
    pause: PauseRecord | None = None
    cron: dict[str, CronRecord] = msgspec.field(default_factory=dict)
    finished: Counted = 0
    newest: bool = False


class FirstLine(Struct, frozen=True, forbid_unknown_fields=True):
    """First line; ``taskqueue`` is the VERSION."""

    taskqueue: int
    projects: list[ProjectLine]


def check_numbers(line: ProjectLine) -> None:
    """Check that a daemon can go on counting from the numbers in a project's line.

    Raises:
        ValueError: a number is negative or implausibly large.
    """
    records = {"totals": line.totals, "pause": line.pause} | {
        f"cron.{entry}": each for entry, each in line.cron.items()
    }
    for name, record in records.items():
        for field, said in ({} if record is None else msgspec.structs.asdict(record)).items():
            for value in said if isinstance(said, list) else [said]:
                most = LATEST if isinstance(value, float) else COUNTED_MOST
                if isinstance(value, int | float) and not 0 <= value <= most:
                    raise ValueError(f"{name}.{field}: expected a number from 0 to {most:,}")


class DeferredLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """``force_update`` that is deferred until the end of a lease; an import applies it."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    schedule: Schedule = PLAIN
    body: Raw = ABSENT


class ParentLine(Struct, frozen=True, array_like=True, omit_defaults=True, forbid_unknown_fields=True):
    """Parent of a task.

    Attributes:
        state: 0 not satisfied yet, 1 satisfied, 2 the parent has failed and the child runs all the same.
        project: the parent's; None for the child's own; empty for a deleted one, whose tasks will never succeed.
    """

    taskid: TaskId
    state: Annotated[int, Meta(ge=0, le=2)] = 0
    project: GroupName | None = None


ParentLines = Annotated[list[ParentLine], Meta(max_length=MAX_PARENTS)]


class TaskLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Task, with its state.

    Attributes:
        schedule: schedule as its producer sent it; ``priority`` and ``exetime`` (unix seconds) are the current ones.
        ended_at: unix seconds; finished tasks only.
        held_back, timed_out, apart, retried, lastcrawltime, depth: see ``Task`` and ``Spec``.
        bare: finished, and its url, body and result have been deleted.
        result: result of its last success.
        parents: tasks that it waits or waited for; those of the deferred update, if there is one.
        page: interval, etag, last_modified and content_hash of its page; None if unknown.
        pushed_at: unix seconds of the first push; 0 if unknown.
        job: name of the run that it came by; empty if none.
    """

    project: ProjectName
    taskid: TaskId
    state: TaskState
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
    result: Raw = ABSENT
    parents: ParentLines = []
    on_parent_failure: ParentFailure = "fail"
    page: PageFacts | None = None
    pushed_at: Annotated[int, Meta(ge=0, le=LATEST_SECOND)] = 0
    dropped: bool = False
    job: AnyJob = ""


Events = tuple[Happened, Happened, Happened, Happened, Happened, Happened]
"""Counts of new, selected, success, failed, retried, timeout."""

Sums = tuple[Counted, Counted, Counted, Counted, Counted, Counted]
"""Counts of the same six events, summed over all projects."""


class SliceLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Events of one minute or hour; follows the tasks.

    Attributes:
        history: minute or hour.
        at: unix seconds of its beginning.
        projects: events by project.
        all: sums over all projects, deleted ones included; None if unknown.
    """

    history: Resolution
    at: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    projects: dict[ProjectName, Events]
    all: Sums | None = None


class LastLine(Struct, frozen=True, forbid_unknown_fields=True):
    """Last line, with the number of tasks."""

    tasks: int


encode_line: Final = msgspec.json.Encoder().encode


def in_json(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Replace infinite numbers in settings by "inf", which JSON can write."""
    return _replaced(settings, Settings, inf, INF)


def from_json(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Replace "inf" in settings by infinity, unless the setting is a text; the inverse of ``in_json``."""
    return _replaced(settings, Settings, INF, inf)


def _replaced(settings: Mapping[str, Setting], kind: type[Struct], old: Setting, new: Setting) -> dict[str, Setting]:
    known = described(kind)
    return {name: _one_replaced(value, known.get(name), old, new) for name, value in settings.items()}


def _one_replaced(value: Setting, setting: Description | None, old: Setting, new: Setting) -> Setting:
    if setting is None:
        return value
    if isinstance(value, dict) and setting.section is not None:
        return _replaced(value, setting.section, old, new)
    if isinstance(value, dict) and setting.sections is not None:
        kind = setting.sections
        return {name: _replaced(row, kind, old, new) if isinstance(row, dict) else row for name, row in value.items()}
    return new if setting.endless and value == old else value


def parent_lines(entries: Iterable[tuple[bytes, bytes]], task: Task, names: Mapping[int, str]) -> Iterator[ParentLine]:
    """Yield the parents of a task.

    Args:
        entries: entries of the task in PARENTS.
        names: project names by number.

    Raises:
        Unreadable: an entry can't be decoded.
    """
    links = counting_links(task)
    number = 0 if links is None else links.number
    for key, value in entries if number else ():
        _, parent = decode_record(layout.PARENTS, key, tasks_of, key)
        mark = Mark(*decode_record(layout.PARENTS, key, decode_mark, value))
        if mark.number == number:
            own = parent.project == task.project
            yield ParentLine(parent.taskid, mark.state, None if own else names.get(parent.project, ""))


def parents_range(task: Task) -> tuple[bytes, bytes]:
    """Return start and end of the keys of a task's edges to its parents."""
    start = task_key(task.project, task.taskid)
    return start, start + BELOW_TASK


def policy_of(task: Task) -> ParentFailure:
    """Return the task's policy for a failed parent."""
    links = counting_links(task)
    return "fail" if links is None else POLICIES[links.on_failure]


def counting_links(task: Task) -> Links | None:
    """Return the links that are valid once a deferred update of the task is applied."""
    if task.lease is not None and task.lease.deferred is not None:
        return task.lease.links
    return task.links


SettingValues = Mapping[str, Setting]


class ExportFormat(NamedTuple):
    """Encoding of an export, as a sequence of parts: a line of JSON each, or a MessagePack map each.

    Attributes:
        unit: name of a part in messages.
        end: bytes that follow each part.
        last: bytes that begin the last part, and no other.
        history: bytes that may begin parts with the history of events.
        encode, decode_first, decode_task, decode_slice, decode_last: codecs of the parts.
        to_value: embeds a MessagePack value in a part, nil as ABSENT; ``to_msgpack`` returns the same bytes again.
        encode_settings: embeds a project's settings in a part; ``decode_settings`` returns them again.
    """

    unit: str
    end: bytes
    last: bytes
    history: tuple[bytes, ...]
    encode: Callable[[Struct], bytes]
    decode_first: Callable[[bytes], FirstLine]
    decode_task: Callable[[bytes], TaskLine]
    decode_slice: Callable[[bytes], SliceLine]
    decode_last: Callable[[bytes], LastLine]
    to_value: Callable[[bytes | Raw], Raw]
    to_msgpack: Callable[[Raw], Raw]
    encode_settings: Callable[[SettingValues], dict[str, Setting]]
    decode_settings: Callable[[SettingValues], dict[str, Setting]]


def _raw_value(value: bytes | Raw) -> Raw:
    return ABSENT if bytes(value) == bytes(NIL) else Raw(value)


def _packed_value(value: Raw) -> Raw:
    return NIL if value == ABSENT else value


JSON: Final = ExportFormat(
    "line",
    b"\n",
    b'{"tasks":',
    (b'{"history":',),
    encode_line,
    JsonDecoder(FirstLine).decode,
    JsonDecoder(TaskLine).decode,
    JsonDecoder(SliceLine).decode,
    JsonDecoder(LastLine).decode,
    as_json,
    as_msgpack,
    in_json,
    from_json,
)
MESSAGEPACK: Final = ExportFormat(
    "map",
    b"",
    b"\x81\xa5tasks",
    (b"\x83\xa7history", b"\x84\xa7history"),
    msgspec.msgpack.Encoder().encode,
    Decoder(FirstLine).decode,
    Decoder(TaskLine).decode,
    Decoder(SliceLine).decode,
    Decoder(LastLine).decode,
    _raw_value,
    _packed_value,
    dict,
    dict,
)


def detect_format(beginning: bytes) -> ExportFormat:
    """Detect the format of a file with this beginning: JSON begins with a brace, and a MessagePack map never does."""
    return MESSAGEPACK if beginning[:1] >= b"\x80" else JSON
