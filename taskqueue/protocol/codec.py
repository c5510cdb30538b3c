"""The codec: one frame is one MessagePack map is one message.

    frame ──decode──► message                        all is well: one pass, in C
      └─────error───► envelope ──► version? ──► Rejected
                         └──► a batch: item by item ──► message, flaws

Rules:
1. Whatever the bytes, nothing but ``Rejected`` is raised.
2. A batch with malformed items is not refused: each of them becomes None and its reason a flaw. That is slow next to
   decoding at once, so only what failed that way is taken apart. To say what is wrong with an item takes as long as to
   decode ten, so only the first FULL_REASONS of a message are told exactly. After MALFORMED_MOST nothing is looked at:
   10,000 of them kept everybody waiting for 40 ms.
3. A body stays as it came. It is one complete MessagePack value, or the frame would not have decoded (lengths
   and type bytes are checked while it is skipped); what is inside its strings is not looked at. It shares the
   frame's memory: to keep it, copy it.
4. What is taken can be read again. Reading nests as deep as the value does, on top of the reader's own stack, so a
   value at the very limit could be taken here and be unreadable in the store, which would be fatal. A frame is
   taken only if it could nest HEADROOM levels deeper.
5. A reason is one line with a place: ``tasks[3].schedule.priority: expected int, got str``. msgspec says it as
   ``Expected `int`, got `str` - at `$.tasks[3].schedule.priority```; the words change here.

What must never come in here: what a message means, and sockets.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Union

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from taskqueue.errors import MAX_REASON_CHARS, Rejected
from taskqueue.protocol.base import AnyReply, ChangeRequest, Request
from taskqueue.protocol.checks import (
    check_edges,
    check_envelope,
    check_follow_ups,
    check_report,
    check_taskids,
    edges_of,
    item_name,
    taskids_flaw,
)
from taskqueue.protocol.fields import MAX_BATCH, NIL, PROTOCOL, GroupName, ProjectName, Setting
from taskqueue.protocol.messages import OUTGOING, REQUESTS, AnyOutgoing, AnyRequest, Flaws
from taskqueue.protocol.projects import GroupSet, ProjectSet
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask, TaskReport

MAX_MESSAGE_BYTES: Final = 8 << 20
"""Default of the longest message that the daemon accepts."""

HEADROOM: Final = 200
"""Nesting levels by which a later reader of a body may be deeper in its stack than the decoder here."""

SHALLOW_BYTES: Final = 300
"""So short a frame can't nest so deep that it matters: each level takes a byte."""

SETTINGS_BYTES: Final = 128 << 10
"""Longest settings in a message: decoded they may take seventy times as much."""


class Envelope(Struct):
    """The fields that can be read of any message, whatever else is wrong with it."""

    type: Raw = NIL
    v: Raw = NIL
    n: Raw = NIL


class UndecodedProjectSet(ChangeRequest[AnyReply], tag="project-set"):
    """A ``project-set`` whose settings are not decoded yet."""

    project: ProjectName
    settings: Raw


class UndecodedGroupSet(ChangeRequest[AnyReply], tag="group-set"):
    """A ``group-set`` whose settings are not decoded yet."""

    group: GroupName
    settings: Raw


class SaidSettings(Struct):
    """The field of a ``project-set`` or ``group-set`` that is decoded last, alone in a map of its own."""

    settings: dict[str, Setting]


_encoder = Encoder()
UNDECODED: Final = {ProjectSet: UndecodedProjectSet, GroupSet: UndecodedGroupSet}

_request: Decoder[AnyRequest | UndecodedProjectSet | UndecodedGroupSet] = Decoder(
    Union[(*UNDECODED.values(), *(kind for kind in REQUESTS if kind not in UNDECODED))]
)
_settings: Decoder[SaidSettings] = Decoder(SaidSettings)
_said: Decoder[AnyOutgoing] = Decoder(Union[(*OUTGOING,)])
_envelope: Decoder[Envelope] = Decoder(Envelope)
_anything: Decoder[Raw] = Decoder(Raw)
_int: Decoder[int] = Decoder(int)
_str: Decoder[str] = Decoder(str)


def encode(message: AnyRequest | AnyOutgoing | Raw) -> bytes:
    """Encode a message. Ranges of its fields are not checked here; its receiver does."""
    return _encoder.encode(message)


def decode_outgoing(frame: bytes) -> AnyOutgoing:
    """Decode a message of the scheduler, for its clients. Bodies share the frame's memory.

    Raises:
        Rejected: with the code ``malformed``; nothing else.
    """
    try:
        return _said.decode(frame)
    except MALFORMED as error:
        raise Rejected("malformed", reason_of(error)) from None


def decode_request(frame: bytes, max_message: int = MAX_MESSAGE_BYTES) -> tuple[AnyRequest, Flaws]:
    """Decode a client's request; also returns why items of its batch are None.

    Raises:
        Rejected: with the code ``malformed``, ``version`` or ``too-large``; nothing else.
    """
    if len(frame) > max_message:
        raise Rejected("too-large", f"message: {len(frame)} bytes, at most {max_message} are taken")
    if len(frame) > SHALLOW_BYTES:
        _check_depth(frame)
    try:
        request = _request.decode(frame)
        check_envelope(request)
        if isinstance(request, UndecodedProjectSet | UndecodedGroupSet):
            return _with_settings(request), {}
    except MALFORMED as error:
        return _decode_by_item(frame, error)
    return request, check_taskids(request)


def _with_settings(request: UndecodedProjectSet | UndecodedGroupSet) -> ProjectSet | GroupSet:
    if len(request.settings) > SETTINGS_BYTES:
        raise Rejected("too-large", f"settings: {len(request.settings)} bytes, at most {SETTINGS_BYTES} are taken")
    said = _settings.decode(b"\x81\xa8settings" + bytes(request.settings))
    n, session, actor, settings = request.n, request.session, request.actor, said.settings
    if isinstance(request, UndecodedGroupSet):
        return GroupSet(n=n, session=session, actor=actor, group=request.group, settings=settings)
    return ProjectSet(n=n, session=session, actor=actor, project=request.project, settings=settings)


def request_number(frame: bytes) -> int:
    """The ``n`` of a request that was rejected; 0 if it can't be read."""
    n = _read_int(_read_envelope(frame).n)
    return n if n is not None and 0 < n < 2**63 else 0


def _check_depth(frame: bytes) -> None:
    """Skip over the frame inside HEADROOM arrays, which fails if it nests too deep; 10 to 20 µs for 256 tasks of 300
    bytes.
    """
    try:
        _anything.decode(b"\x91" * HEADROOM + frame)
    except RecursionError as error:
        raise Rejected("malformed", reason_of(error)) from None
    except ValueError:
        return  # What is wrong with it is found, and named, when it is decoded.


def _decode_by_item(frame: bytes, error: Exception) -> tuple[AnyRequest, Flaws]:
    """Decode a malformed frame item by item, if it is a batch, so that only malformed items are refused."""
    envelope = _read_envelope(frame)
    version = _read_int(envelope.v)
    if version is not None and version != PROTOCOL:
        raise Rejected("version", f"v: this daemon speaks version {PROTOCOL} of the protocol, not {version}")
    try:
        match _read_str(envelope.type):
            case "new-task":
                return new_tasks_by_item(frame)
            case "done":
                return done_by_item(frame)
    except MALFORMED as apart:
        error = apart
    raise Rejected("malformed", reason_of(error))


def _read_envelope(frame: bytes) -> Envelope:
    """The envelope; an empty one if nothing can be read."""
    try:
        return _envelope.decode(frame)
    except MALFORMED:
        return Envelope()


def _read_int(raw: Raw) -> int | None:
    try:
        return _int.decode(raw)
    except MALFORMED:
        return None


def _read_str(raw: Raw) -> str | None:
    try:
        return _str.decode(raw)
    except MALFORMED:
        return None


# ------------------------------------------------------------------------------------------------ batches, by item

Items = Annotated[list[Raw], Meta(max_length=MAX_BATCH)]

FULL_REASONS: Final = 128
"""Items of a message whose reason says what is wrong with them."""
BRIEF_REASON: Final = f"malformed; what is wrong is told of the first {FULL_REASONS} items of a message"

MALFORMED_MOST: Final = 512
"""Items of a message that may be malformed before those after them are rejected whatever they are."""
UNREAD_REASON: Final = "not looked at"
"""Short, for it may stand 10,000 times in an answer, which is kept."""

NO_ITEMS: Final = Raw(b"\x90")
"""MessagePack's empty array."""


class UndecodedNewTasks(Request[AnyReply], tag="new-task"):
    """A ``new-task`` whose items are not decoded yet."""

    project: ProjectName
    tasks: Items
    states: bool = False


class UndecodedDone(Request[AnyReply], tag="done"):
    """A ``done`` whose items are not decoded yet."""

    tasks: Items


_new_tasks: Decoder[UndecodedNewTasks] = Decoder(UndecodedNewTasks)
_done: Decoder[UndecodedDone] = Decoder(UndecodedDone)
_new_task: Decoder[NewTask] = Decoder(NewTask)
_finished: Decoder[TaskReport] = Decoder(TaskReport)
_fields: Decoder[dict[str, Raw]] = Decoder(dict[str, Raw])
_items: Decoder[list[Raw]] = Decoder(Items)


def new_tasks_by_item(frame: bytes) -> tuple[NewTasks, Flaws]:
    """Decode a ``new-task`` item by item; raises one of MALFORMED if anything but items is wrong."""
    apart = _new_tasks.decode(frame)
    check_envelope(apart)
    flaws: Flaws = {}
    tasks = _decode_new(apart.tasks, (), flaws)
    check_edges(sum(len(task.depends_on) for task in tasks if task is not None))
    asked = NewTasks(session=apart.session, n=apart.n, project=apart.project, tasks=tasks, states=apart.states)
    return asked, flaws


def _decode_new(items: list[Raw], parent: tuple[int, ...], flaws: Flaws) -> list[NewTask | None]:
    """Decode each item; a malformed one becomes None, with a flaw."""
    tasks: list[NewTask | None] = []
    for index, item in enumerate(items):
        if len(flaws) >= MALFORMED_MOST:
            return tasks + _not_decoded(len(items), index, parent, flaws)
        task: NewTask | None = None
        try:
            task = _new_task.decode(item)
        except MALFORMED as error:
            flaws[*parent, index] = _reason(error, (*parent, index), flaws)
        if task is not None and (flaw := taskids_flaw(task, item_name((*parent, index)))):
            flaws[*parent, index] = flaw
            task = None
        tasks.append(task)
    return tasks


def done_by_item(frame: bytes) -> tuple[Done, Flaws]:
    """Decode a ``done`` item by item; raises one of MALFORMED if anything but items is wrong.

    Raises:
        Rejected: it has too many new tasks.
    """
    apart = _done.decode(frame)
    check_envelope(apart)
    flaws: Flaws = {}
    items: list[TaskReport | None] = []
    new = edges = 0
    for index, item in enumerate(apart.tasks):
        if len(flaws) >= MALFORMED_MOST:
            items += _not_decoded(len(apart.tasks), index, (), flaws)
            break
        finished = _decode_report(item, index, new, flaws)
        new += len(finished.new) if finished else 0
        edges += edges_of(finished) if finished else 0
        check_follow_ups(new, edges)
        items.append(finished)
    return Done(session=apart.session, n=apart.n, tasks=items), flaws


def _not_decoded(count: int, first: int, parent: tuple[int, ...], flaws: Flaws) -> list[None]:
    """None for each item from ``first`` on, with a flaw: too many items before them were malformed."""
    flaws.update(((*parent, index), UNREAD_REASON) for index in range(first, count))
    return [None] * (count - first)


def _decode_report(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode one report; if only its follow-ups are malformed, only they are refused."""
    try:
        finished = _finished.decode(item)
    except MALFORMED as error:
        if b"new" in bytes(item):
            return _decode_follow_ups(item, index, new_before, flaws)
        flaws[index,] = _reason(error, (index,), flaws)
        return None
    return check_report(finished, index, flaws)


def _decode_follow_ups(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode one report without its follow-ups, and these one by one."""
    try:
        fields = _fields.decode(item)
        new = fields.pop("new", NO_ITEMS)
        finished = _finished.decode(_encoder.encode(fields))
    except MALFORMED as error:
        flaws[index,] = _reason(error, (index,), flaws)
        return None
    try:
        items = _items.decode(new)
    except MALFORMED as error:
        flaws[index,] = _reason(error, (index,), flaws, ".new")
        return None
    check_follow_ups(new_before + len(items), 0)
    if check_report(finished, index, flaws) is None:
        return None
    return replace(finished, new=_decode_new(items, (index,), flaws))


def _reason(error: Exception, path: tuple[int, ...], flaws: Flaws, field: str = "") -> str:
    return BRIEF_REASON if len(flaws) >= FULL_REASONS else reason_of(error, item_name(path) + field)


# ------------------------------------------------------------------------------------------------ reasons

MALFORMED: Final = (ValueError, RecursionError)
"""Errors of decoding: msgspec's errors and UnicodeDecodeError are ValueErrors; or deep nesting."""

_WORDS: Final = (
    ("`", ""),
    ("Object contains ", ""),
    ("Object missing ", "missing "),
    ("Expected object", "expected map"),
    ("got None", "got nil"),
    ("got object", "got map"),
    ("MessagePack data is ", ""),
    ("float <= 100000000000.0", "unix seconds of at most 1e11, not milliseconds"),
)
"""MessagePack's words for Python's, and no ornaments."""

_WHERE = re.compile(r" - at (?:`(key)` in )?`\$\.?([^`]*)`\Z")


def reason_of(error: Exception, name: str = "") -> str:
    """The reason of an error, with its place.

    Args:
        error: raised by the decoder.
        name: path of the decoded value in its message, such as ``tasks[3]``; empty if it is the message.
    """
    said = _message(error)
    where = _WHERE.search(said.replace("$[...]", "$"))
    what = _in_plain_words(said[: where.start()] if where else said)
    field = _join(name, where[2] if where else "") or "message"
    kind = "key: " if where and where[1] else ""
    return f"{field}: {kind}{what}"[:MAX_REASON_CHARS]


def _message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deep"
    if isinstance(error, UnicodeDecodeError):
        return "a string is not utf-8"
    return str(error)


def _join(name: str, field: str) -> str:
    return f"{name}.{field}" if name and field and not field.startswith("[") else name + field


def _in_plain_words(said: str) -> str:
    """``Object missing required field `url``` as ``missing required field url``."""
    for theirs, ours in _WORDS:
        said = said.replace(theirs, ours)
    return said[:1].lower() + said[1:]
