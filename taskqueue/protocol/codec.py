"""The codec: one frame is one MessagePack map is one message of ``core.messages``.

    frame ──decode──► message                        all is well: one pass, in C
      └─────error───► envelope ──► version? ──► Rejected
                         └──► a batch: item by item ──► message, flaws

Rules:
1. Whatever the bytes, nothing but ``Rejected`` is raised.
2. A batch with malformed items is not refused: each of them becomes None and its reason a flaw.
3. A body stays as it came. It is one complete MessagePack value, or the frame would not have decoded (lengths
   and type bytes are checked while it is skipped); what is inside its strings is not looked at. It shares the
   frame's memory: whoever keeps it copies it.
4. What is taken can be read again. Reading nests as deep as the value does, on top of the reader's own stack, so a
   value at the very limit could be taken here and be unreadable in the store, which would be fatal. A frame is
   taken only if it could nest HEADROOM levels deeper.

What must never come in here: what a message means, and sockets.
"""

from __future__ import annotations

from typing import Final, Union, get_args

from msgspec import Raw, Struct
from msgspec.msgpack import Decoder, Encoder

from taskqueue.errors import Rejected
from taskqueue.protocol.batches import done_by_item, new_tasks_by_item
from taskqueue.protocol.checks import check_taskids
from taskqueue.protocol.fields import NIL, PROTOCOL, GroupName, ProjectName, Setting
from taskqueue.protocol.reasons import MALFORMED, reason_of
from taskqueue.protocol.replies import AnyOutgoing
from taskqueue.protocol.requests import AnyRequest, Change, Flaws, GroupSet, ProjectSet

MAX_MESSAGE_BYTES: Final = 8 << 20
"""Default of the longest message that the daemon accepts."""


HEADROOM: Final = 200
"""Nesting levels by which a later reader of a body may be deeper in its stack than the decoder here."""

SHALLOW_BYTES: Final = 300
"""So short a frame can't nest so deep that it matters: each level takes a byte."""


SETTINGS_BYTES: Final = 128 << 10
"""Of the settings in a message, at most: decoded they may take seventy times as much, so longer ones are not."""


class Envelope(Struct):
    """The fields that can be read of any message, whatever else is wrong with it."""

    type: Raw = NIL
    v: Raw = NIL
    n: Raw = NIL


class UndecodedProjectSet(Change, tag="project-set"):
    """A ``project-set`` whose settings are not decoded yet."""

    project: ProjectName
    settings: Raw


class UndecodedGroupSet(Change, tag="group-set"):
    """A ``group-set`` whose settings are not decoded yet."""

    group: GroupName
    settings: Raw


class SaidSettings(Struct):
    """The field of a ``project-set`` or ``group-set`` that is decoded last, alone in a map of its own."""

    settings: dict[str, Setting]


_encoder = Encoder()
UNDECODED: Final = {ProjectSet: UndecodedProjectSet, GroupSet: UndecodedGroupSet}

_request: Decoder[AnyRequest | UndecodedProjectSet | UndecodedGroupSet] = Decoder(
    Union[(*UNDECODED.values(), *(kind for kind in get_args(AnyRequest) if kind not in UNDECODED))]
)
_settings: Decoder[SaidSettings] = Decoder(SaidSettings)
_said: Decoder[AnyOutgoing] = Decoder(AnyOutgoing)
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
