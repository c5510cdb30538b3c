"""Codec of messages: one frame is one MessagePack map, which is one message.

    frame ──decode──► message                        well formed: one pass, in C
      └─────error───► envelope ──► version? ──► Rejected
                         └──► a batch: item by item ──► message, flaws

Rules:
1. Decoding raises only ``Rejected``, whatever the bytes.
2. A batch with malformed items is not refused: each malformed item becomes None, with a reason among the flaws. This is
   slower than decoding at once, so only a batch that failed is decoded item by item. The reason of one item costs as
   much as decoding ten items, so only the first FULL_REASONS items get an exact one. After MALFORMED_MOST malformed
   items the rest is not decoded: 10,000 of them delayed all clients by 40 ms.
3. A body is never changed. It is one complete MessagePack value: decoding the frame checks lengths and type bytes, but
   not the contents of strings. A body shares the frame's memory, so copy it to keep it.
4. An accepted value can always be read again. Reading recurses as deep as the value nests, on top of the reader's own
   stack, so a value at the very limit could be accepted here and be unreadable in the store, which would be fatal. So
   a frame is accepted only if it could nest HEADROOM levels deeper.
5. A reason is one line with a place: ``tasks[3].schedule.priority: expected int, got str``; see ``reasons``.

The meaning of messages and sockets must never come in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Union

from msgspec import Meta, Raw, Struct
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from taskqueue.errors import Rejected
from taskqueue.protocol.base import AnyReply, ChangeRequest, Request
from taskqueue.protocol.checks import (
    check_edges,
    check_envelope,
    check_follow_ups,
    check_report,
    check_taskids,
    edges_of,
    item_name,
    task_flaw,
)
from taskqueue.protocol.fields import MAX_BATCH, NIL, PROTOCOL, GroupName, ProjectName, Setting
from taskqueue.protocol.messages import OUTGOING, REQUESTS, AnyOutgoing, AnyRequest, Flaw, Flaws
from taskqueue.protocol.projects import GroupSet, ProjectSet
from taskqueue.protocol.reasons import reason_of
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import NewTask, TaskReport

MAX_MESSAGE_BYTES: Final = 8 << 20
"""Default limit of a message that the daemon accepts."""

HEADROOM: Final = 200
"""Nesting levels by which a later reader of a body may be deeper in its stack than this decoder."""

SHALLOW_BYTES: Final = 300
"""Longest frame that is not checked for nesting: each level takes a byte, so it can't nest too deep."""

SETTINGS_BYTES: Final = 128 << 10
"""Longest settings in a message; decoded, they may take seventy times as much memory."""


MALFORMED: Final = (ValueError, RecursionError)
"""Errors of decoding. ValueError includes msgspec's errors and UnicodeDecodeError; RecursionError is deep nesting."""


class Envelope(Struct):
    """Fields that can be read from any map, even from a malformed message."""

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
    """Settings of a ``project-set`` or ``group-set``, which are decoded last, in a separate map."""

    settings: dict[str, Setting]


_encoder = Encoder()
UNDECODED: Final = {ProjectSet: UndecodedProjectSet, GroupSet: UndecodedGroupSet}

_KINDS: Final[Mapping[object, type]] = {kind.__struct_config__.tag: kind for kind in REQUESTS}
"""Types of requests by their tags."""

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
    """Encode a message, without checking the ranges of its fields: the receiver checks them."""
    return _encoder.encode(message)


def decode_outgoing(frame: bytes) -> AnyOutgoing:
    """Decode a message of the daemon, in a client. Bodies share the frame's memory.

    Raises:
        Rejected: with the code ``malformed``; nothing else.
    """
    try:
        return _said.decode(frame)
    except MALFORMED as error:
        raise Rejected("malformed", reason_of(error)) from None


def decode_request(frame: bytes, max_message: int = MAX_MESSAGE_BYTES) -> tuple[AnyRequest, Flaws]:
    """Decode a client's request; return it with the reasons why items of its batch are None.

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
    n, session, name, actor, settings = request.n, request.session, request.for_name, request.actor, said.settings
    if isinstance(request, UndecodedGroupSet):
        return GroupSet(n=n, session=session, for_name=name, actor=actor, group=request.group, settings=settings)
    return ProjectSet(n=n, session=session, for_name=name, actor=actor, project=request.project, settings=settings)


def request_number(frame: bytes) -> int:
    """Return the number of a rejected request; 0 if it can't be read."""
    n = _read_int(_read_envelope(frame).n)
    return n if n is not None and 0 < n < 2**63 else 0


def _check_depth(frame: bytes) -> None:
    """Refuse a frame that nests too deep: skip it inside HEADROOM arrays (10 to 20 µs for 256 tasks of 300 bytes)."""
    try:
        _anything.decode(b"\x91" * HEADROOM + frame)
    except RecursionError as error:
        raise Rejected("malformed", reason_of(error)) from None
    except ValueError:
        return  # Decoding finds and names the error.


def _decode_by_item(frame: bytes, error: Exception) -> tuple[AnyRequest, Flaws]:
    """Decode a malformed batch item by item, so that only its malformed items are refused."""
    envelope = _read_envelope(frame)
    version, tag = _read_int(envelope.v), _read_str(envelope.type)
    if version is not None and version != PROTOCOL:
        raise Rejected("version", f"v: this daemon speaks version {PROTOCOL} of the protocol, not {version}")
    try:
        match tag:
            case "new-task":
                return new_tasks_by_item(frame)
            case "done":
                return done_by_item(frame)
    except MALFORMED as apart:
        error = apart
    raise Rejected("malformed", reason_of(error, kind=_KINDS.get(tag)))


def _read_envelope(frame: bytes) -> Envelope:
    """Read the envelope of a frame; an empty one if nothing can be read."""
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
"""Malformed items of a message that get an exact reason, at most."""
BRIEF: Final = Flaw(f"malformed; only the first {FULL_REASONS} malformed items of a message get an exact reason")

MALFORMED_MOST: Final = 512
"""Malformed items of a message after which all further items are rejected without being decoded."""
UNREAD: Final = Flaw("not looked at")
"""Flaw of an item that was not decoded; short, as a reply, which is kept, may contain its reason 10,000 times."""

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
    """Decode a ``new-task`` item by item; raise one of MALFORMED if anything except its items is malformed."""
    apart = _new_tasks.decode(frame)
    check_envelope(apart)
    flaws: Flaws = {}
    tasks = _decode_new(apart.tasks, (), flaws)
    check_edges(sum(len(task.depends_on) for task in tasks if task is not None))
    asked = NewTasks(session=apart.session, n=apart.n, project=apart.project, tasks=tasks, states=apart.states)
    asked.for_name = apart.for_name
    return asked, flaws


def _decode_new(items: list[Raw], parent: tuple[int, ...], flaws: Flaws) -> list[NewTask | None]:
    """Decode new tasks; a malformed one becomes None, with a flaw."""
    tasks: list[NewTask | None] = []
    for index, item in enumerate(items):
        if len(flaws) >= MALFORMED_MOST:
            return tasks + _not_decoded(len(items), index, parent, flaws)
        task: NewTask | None = None
        try:
            task = _new_task.decode(item)
        except MALFORMED as error:
            flaws[*parent, index] = _flaw(error, (*parent, index), flaws, NewTask)
        if task is not None and (flaw := task_flaw(task)):
            flaws[*parent, index] = Flaw(f"{item_name((*parent, index))}.{flaw}")
            task = None
        tasks.append(task)
    return tasks


def done_by_item(frame: bytes) -> tuple[Done, Flaws]:
    """Decode a ``done`` item by item; raise one of MALFORMED if anything except its items is malformed.

    Raises:
        Rejected: the message has too many new tasks.
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
    return Done(session=apart.session, n=apart.n, for_name=apart.for_name, tasks=items), flaws


def _not_decoded(count: int, first: int, parent: tuple[int, ...], flaws: Flaws) -> list[None]:
    """Return None for each item from ``first`` on, with a flaw, because too many items before them were malformed."""
    flaws.update(((*parent, index), UNREAD) for index in range(first, count))
    return [None] * (count - first)


def _decode_report(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode a report; if only follow-ups of it are malformed, refuse only these."""
    try:
        finished = _finished.decode(item)
    except MALFORMED as error:
        if b"new" in bytes(item):
            return _decode_follow_ups(item, index, new_before, flaws)
        flaws[index,] = _flaw(error, (index,), flaws, TaskReport)
        return None
    return check_report(finished, index, flaws)


def _decode_follow_ups(item: Raw, index: int, new_before: int, flaws: Flaws) -> TaskReport | None:
    """Decode a report without its follow-ups, and then its follow-ups one by one."""
    try:
        fields = _fields.decode(item)
        new = fields.pop("new", NO_ITEMS)
        finished = _finished.decode(_encoder.encode(fields))
    except MALFORMED as error:
        flaws[index,] = _flaw(error, (index,), flaws, TaskReport)
        return None
    try:
        items = _items.decode(new)
    except MALFORMED as error:
        flaws[index,] = _flaw(error, (index,), flaws, Items, ".new")
        return None
    check_follow_ups(new_before + len(items), 0)
    if check_report(finished, index, flaws) is None:
        return None
    return replace(finished, new=_decode_new(items, (index,), flaws))


def _flaw(error: Exception, path: tuple[int, ...], flaws: Flaws, kind: Any, field: str = "") -> Flaw:
    return BRIEF if len(flaws) >= FULL_REASONS else Flaw(reason_of(error, item_name(path) + field, kind))
