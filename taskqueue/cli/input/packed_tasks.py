"""Reader of tasks in MessagePack, for ``taskqueue push --file`` with a file whose name ends in ``.msgpack``.

The file is one map after the other, with the keys that a line of JSON may have (``task_lines``). What JSON can't say
may
stand here: bytes, other keys than text, numbers of any kind. ``body``, ``process`` and ``save`` go to the daemon as the
very bytes that stand in the file, without being read.

    a map ──decoded at once, each field as the daemon would check it──► NewTask         nearly all of them
        └──not so plain, or not right: key by key──► arguments of new_task ──► lines    dates, options, mistakes
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from taskqueue.client.tasks.new_task import canonical_url, default_taskid
from taskqueue.protocol.checks import lone_option
from taskqueue.protocol.fields import MAX_TASKID_BYTES, MAX_URL_CHARS, NIL, TaskId
from taskqueue.protocol.reasons import file_reason
from taskqueue.protocol.values import PLAIN, NewTask, Schedule

SUFFIX: Final = ".msgpack"

CARRIED: Final = ("body", "process", "save")
"""Fields that are not decoded. ``fetch`` is decoded because a task's identity depends on parts of it."""

FETCH, PROCESS, SAVE = map(msgspec.msgpack.encode, ("fetch", "process", "save"))
"""Keys of a body that is made of these parts."""

FIXMAP: Final = 0x80
"""First byte of a MessagePack map of at most 15 pairs, minus their number."""


class _Map(Schedule, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """Task in a file; its schedule has the names and types of the wire."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    taskid: TaskId | None = None
    schedule: Schedule = PLAIN
    fetch: Raw = NIL
    process: Raw = NIL
    save: Raw = NIL
    body: Raw = NIL
    canonical: bool = False


_decode: Final = msgspec.msgpack.Decoder(_Map).decode
_pairs: Final = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_fetch: Final = msgspec.msgpack.Decoder(dict[str, Any]).decode
_value: Final = msgspec.msgpack.Decoder().decode

_schedule: Final = attrgetter(*Schedule.__struct_fields__)
_UNSAID: Final = _schedule(PLAIN)

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def plain_task(value: bytes) -> NewTask | None:
    """Decode the task of a map; None if the map is invalid or has a feature that needs ``arguments``."""
    try:
        it = _decode(value)
        fetch = None if it.fetch is NIL else _fetch(it.fetch)
        url = canonical_url(it.url) if it.canonical else it.url
    except (*UNREADABLE, ValueError):
        return None
    said, body = _schedule(it), _body(it)
    taskid = it.taskid or default_taskid(url, fetch)
    both = it.schedule is not PLAIN and said != _UNSAID
    if both or body is None or (it.taskid and len(taskid.encode()) > MAX_TASKID_BYTES):
        return None
    task = NewTask(taskid, url, it.schedule if said == _UNSAID else Schedule(*said), body)
    return None if lone_option(task) else task


def arguments(value: bytes) -> dict[str, Any]:
    """Decode a map into arguments of ``new_task``, as from a line of JSON.

    Raises:
        ValueError: the value is not a map with text keys.
    """
    try:
        return {key: part if key in CARRIED and part != NIL else _value(part) for key, part in _pairs(value).items()}
    except UNREADABLE as error:
        raise ValueError(f"not a map of a task: {file_reason(error)}") from None


def _body(it: _Map) -> Raw | None:
    """Body, or map of its parts; None if there are both, or if nil is given explicitly."""
    pieces: list[bytes | Raw] = []
    for key, part in ((FETCH, it.fetch), (PROCESS, it.process), (SAVE, it.save)):
        if part is not NIL:
            pieces += (key, part)
    if not pieces:
        return it.body
    if it.body is not NIL or NIL in pieces:
        return None
    return Raw(bytes((FIXMAP + len(pieces) // 2,)) + b"".join(pieces))
