"""The lines of an export, in its two formats: readable JSON, and MessagePack for speed.

    {"taskqueue": 7, "projects": [{"name": "news", "state": "running", …}]}         first: the version, the projects
    {"taskid": "…", "state": "ready", "url": "…", "body": {…}, "project": "news"}   a task
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

from taskqueue.core.model.edges import ONLY, OVERLOOKED, PASSED, POLICIES, SATISFIED, Links, Mark
from taskqueue.core.model.task import Task
from taskqueue.protocol.choices import ParentFailure, ProjectState, Resolution
from taskqueue.protocol.exports import Counted, Events, ExportedParent, ExportedTask, ExportedUpdate
from taskqueue.protocol.fields import NIL, ProjectName, Setting
from taskqueue.protocol.packed_json import ABSENT, as_json, as_msgpack
from taskqueue.protocol.values import CronRecord, EventTotals, PauseRecord
from taskqueue.settings.description import Description, described
from taskqueue.settings.settings import Settings
from taskqueue.store.records import layout
from taskqueue.store.records.edges import BELOW_TASK, decode_mark, task_key, tasks_of
from taskqueue.store.records.former_setting_names import renamed
from taskqueue.store.records.reading import decode_record

VERSION: Final = 7
"""Version of the fields."""

READABLE: Final = (1, 2, 3, 4, 5, 6, VERSION)
"""Versions that can be imported.

1 had no history of events, 2 no results of tasks, 3 no edges between them, 4 no facts about fetched pages, 5 other
names of settings (``former_setting_names``), 6 no attempts of tasks.
"""

NO_ATTEMPTS_MOST: Final = 6
"""Last version without attempts of tasks, and without the number of flows."""

FLAT_SETTINGS_MOST: Final = 5
"""Last version with the old names of settings."""

INF: Final = "inf"


class ProjectLine(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Project in the first line.

    Attributes:
        overrides: map of settings set by ``project-set``.
        pause, cron, finished, totals: see ``ProjectRecord``.
        newest: True if the lines of its ready tasks begin with the newest one of each priority.
        flows: number of its flows, which are not exported.
        unmade: number of tasks that these had yet to make.
    """

    name: ProjectName
    state: ProjectState = "running"
    overrides: Raw = ABSENT
    totals: EventTotals | None = None
    pause: PauseRecord | None = None
    cron: dict[str, CronRecord] = msgspec.field(default_factory=dict)
    finished: Counted = 0
    newest: bool = False
    flows: Counted = 0
    unmade: Counted = 0


class FirstLine(Struct, frozen=True, forbid_unknown_fields=True):
    """First line; ``taskqueue`` is the VERSION."""

    taskqueue: int
    projects: list[ProjectLine]


class DeferredLine(ExportedUpdate, frozen=True):
    """``force_update`` that is deferred until the end of a lease."""

    body: Raw = ABSENT


class TaskLine(ExportedTask, frozen=True, kw_only=True):
    """Task, with its state, whose values are in the form of the export."""

    project: ProjectName
    body: Raw = ABSENT
    deferred: DeferredLine | None = None
    result: Raw = ABSENT


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
_decode_overrides: Final = Decoder(dict[str, Setting] | None).decode


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


def parent_lines(
    entries: Iterable[tuple[bytes, bytes]], task: Task, names: Mapping[int, str]
) -> Iterator[ExportedParent]:
    """Yield the parents of a task.

    Args:
        entries: entries of the task in PARENTS.
        names: project names by number.

    Raises:
        Unreadable: an entry can't be decoded.
    """
    links = counting_links(task)
    number = 0 if links is None else links.number
    # An export has no operations, so no undo will bring the parent back.
    passed = SATISFIED if links is not None and links.on_failure == ONLY else OVERLOOKED
    for key, value in entries if number else ():
        _, parent = decode_record(layout.PARENTS, key, tasks_of, key)
        mark = Mark(*decode_record(layout.PARENTS, key, decode_mark, value))
        if mark.number == number:
            own = parent.project == task.project
            state = passed if mark.state == PASSED else mark.state
            yield ExportedParent(parent.taskid, state, None if own else names.get(parent.project, ""))


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
        decode_version: reads the version in a first part with unknown fields; VERSION if there is none.
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
    decode_version: Callable[[bytes], int]
    to_value: Callable[[bytes | Raw], Raw]
    to_msgpack: Callable[[Raw], Raw]
    encode_settings: Callable[[SettingValues], dict[str, Setting]]
    decode_settings: Callable[[SettingValues], dict[str, Setting]]


class _Versioned(Struct):
    """First line of any version."""

    taskqueue: int = VERSION


def _version_by(decode: Callable[[bytes], _Versioned]) -> Callable[[bytes], int]:
    def version(line: bytes) -> int:
        try:
            return decode(line).taskqueue
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return VERSION

    return version


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
    _version_by(JsonDecoder(_Versioned).decode),
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
    _version_by(Decoder(_Versioned).decode),
    _raw_value,
    _packed_value,
    dict,
    dict,
)


def detect_format(beginning: bytes) -> ExportFormat:
    """Detect the format of a file with this beginning: JSON begins with a brace, and a MessagePack map never does."""
    return MESSAGEPACK if beginning[:1] >= b"\x80" else JSON


# ------------------------------------------------------------------------------------------------ in MessagePack


def packed_task(line: TaskLine, form: ExportFormat) -> ExportedTask:
    """Return the task of a line, with its values in MessagePack.

    Raises:
        ValueError: a value can't be represented in MessagePack.
    """
    deferred = line.deferred
    said = {name: getattr(line, name) for name in ExportedTask.__struct_fields__}
    said |= {"body": form.to_msgpack(line.body), "result": form.to_msgpack(line.result)}
    if deferred is not None:
        said["deferred"] = ExportedUpdate(deferred.url, deferred.schedule, form.to_msgpack(deferred.body))
    return ExportedTask(**said)


def overrides_of(line: ProjectLine, form: ExportFormat, version: int) -> dict[str, Setting]:
    """Return the settings in a project's line, under their present names.

    Raises:
        ValueError: they can't be read.
    """
    try:
        said = _decode_overrides(form.to_msgpack(line.overrides)) or {}
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"overrides: {error}") from None
    return form.decode_settings(renamed(said) if version <= FLAT_SETTINGS_MOST else said)
