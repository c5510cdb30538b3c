"""What the bytes in the store mean: the families, their keys and values. Pure; no I/O ever comes in here.

| family | key | value |
|---|---|---|
| meta | name | format and epoch (the store's own), boot id, clean flag, number for the next project |
| projects | project | ProjectRecord |
| ids | project, taskid | record |
| specs | project, seq | taskid, url, schedule, body |
| ready, delayed | project, place | record |
| leases | project, place | record, taskid, session, number, deadline, selected_at |
| success, failed, cancelled | project, place | taskid |
| deferred | project, seq | the NewTask that waits for the end of a lease |
| errors | project, seq | text of the last error |
| sessions | session | SessionRecord |
| outcomes | session, n % OUTCOME_WINDOW | n, reply |

A project is 4 bytes, a seq 8, a place (``Task.key``) 16, all big endian, so that bytes sort as the numbers
do. The lower half of a place is the task's seq. A record is 50 bytes and the itag; the rest is MessagePack.

Rules:
1. A spec is written when its task is created, replaced or restarted, and never moves: what moves is the
   record.
2. While a task is processing, its record in ``leases`` is true and the one in ``ids`` may be that from before
   the hand-out: this saves a write a task. A task's seq is always true in ``ids``.
3. A record in ``ids`` tells state and place, so it finds the entry in the order and, by seq, the spec.

Why bodies lie apart by seq, and what it costs: docs/decisions/0001-record-layout.md.
"""

from __future__ import annotations

from struct import Struct as Packing
from struct import error as PackingError
from typing import Final

from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder, Encoder

from taskqueue.core.kept import OUTCOME_WINDOW, ProjectRecord, SessionRecord
from taskqueue.core.messages import NewTask, Schedule
from taskqueue.core.replies import AnyReply
from taskqueue.core.task import (
    CANCELLED,
    DELAYED,
    FAILED,
    KEY_BYTES,
    PROCESSING,
    READY,
    SUCCESS,
    Lease,
    Spec,
    Task,
    size_of,
)  # fmt: skip
from taskqueue.store.contract import Family
from taskqueue.store.format import META

PROJECTS: Final = "projects"
IDS: Final = "ids"
SPECS: Final = "specs"
DEFERRED: Final = "deferred"
ERRORS: Final = "errors"
SESSIONS: Final = "sessions"
OUTCOMES: Final = "outcomes"

ORDERS: Final[dict[int, Family]] = {
    READY: "ready",
    DELAYED: "delayed",
    PROCESSING: "leases",
    SUCCESS: "success",
    FAILED: "failed",
    CANCELLED: "cancelled",
}
"""The family of each state's order."""

OF_PROJECTS: Final[tuple[Family, ...]] = (PROJECTS, IDS, SPECS, *ORDERS.values(), DEFERRED, ERRORS)
"""Families whose keys begin with a project's number."""

FAMILIES: Final[tuple[Family, ...]] = (META, *OF_PROJECTS, SESSIONS, OUTCOMES)

BOOT_KEY: Final = b"boot"
CLEAN_KEY: Final = b"clean"
NEXT_PROJECT_KEY: Final = b"next_project"

UNREADABLE: Final = (PackingError, MsgspecError, ValueError)
"""What the decoders raise for bytes that they did not write; UnicodeDecodeError is a ValueError."""

# ------------------------------------------------------------------------------------------------ keys

LAST_KEY: Final = b"\xff" * 8
"""Above every key of every family: project numbers stay below 2**32 - 1, sessions below 2**15 bytes."""

SEQ_BYTES: Final = KEY_BYTES // 2
_PROJECT: Final = Packing(">I")
_SEQ: Final = Packing(">IQ")
_LENGTH: Final = Packing(">H")

project_key = _PROJECT.pack
"""project -> bytes."""

seq_key = _SEQ.pack
"""(project, seq) -> bytes."""


def id_key(project: int, taskid: str) -> bytes:
    """A key of IDS."""
    return project_key(project) + taskid.encode()


def order_key(project: int, place: int) -> bytes:
    """A key of one of ORDERS."""
    return project_key(project) + place.to_bytes(KEY_BYTES, "big")


def spec_key_of(key: bytes) -> bytes:
    """The key in SPECS of the task at a key of one of ORDERS."""
    return key[:4] + key[-SEQ_BYTES:]


def project_of(key: bytes) -> int:
    """The project in a key of one of OF_PROJECTS."""
    return int(_PROJECT.unpack_from(key)[0])


def seq_of(key: bytes) -> int:
    """The seq in a key of SPECS or of one of ORDERS."""
    return int.from_bytes(key[-SEQ_BYTES:], "big")


def session_key(session: str) -> bytes:
    """Its length first, so that no session's keys are a prefix of another's."""
    text = session.encode()
    return _LENGTH.pack(len(text)) + text


def outcome_key(session: str, n: int) -> bytes:
    """The slot of request ``n`` in OUTCOMES."""
    return session_key(session) + bytes((n % OUTCOME_WINDOW,))


# ------------------------------------------------------------------------------------------------ records

RECORD: Final = Packing(f">BBiIQdd{KEY_BYTES}s")
"""state, flags, priority, retried, token, exetime, lastcrawltime, place; the itag follows."""

HELD_BACK: Final = 1
TIMED_OUT: Final = 2


def task_of(project: int, taskid: str, record: bytes) -> Task:
    """The task of a record, without spec and lease; it is kept where the record says."""
    state, flags, priority, retried, token, exetime, crawled, place = RECORD.unpack_from(record)
    key = int.from_bytes(place, "big")
    return Task(
        project, taskid, state, key, int.from_bytes(place[SEQ_BYTES:], "big"), priority, exetime, token,
        retried, crawled, flags & HELD_BACK != 0, flags & TIMED_OUT != 0, record[RECORD.size :].decode(),
        kept_state=state, kept_key=key,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ MessagePack

encode = Encoder().encode

_decode_spec: Final = Decoder(tuple[str, str, Schedule, Raw]).decode
_decode_lease: Final = Decoder(tuple[bytes, str, str, int, float, float]).decode
_decode_outcome: Final = Decoder(tuple[int, AnyReply]).decode

decode_deferred: Final = Decoder(NewTask).decode
decode_project: Final = Decoder(ProjectRecord).decode
decode_session: Final = Decoder(SessionRecord).decode


def encode_spec(taskid: str, spec: Spec) -> bytes:
    """A value of SPECS."""
    return encode((taskid, spec.url, spec.schedule, spec.body))


def decode_spec(value: bytes) -> tuple[str, Spec]:
    """The taskid, and what its producer sent."""
    taskid, url, schedule, body = _decode_spec(value)
    return taskid, Spec(url, schedule, body)


def fill(task: Task, spec: Spec) -> None:
    """Give a hollow task its spec back."""
    task.spec = spec
    task.size = size_of(spec)


def encode_lease(record: bytes, taskid: str, lease: Lease) -> bytes:
    """A lease without what is deferred, which has a family of its own."""
    return encode((record, taskid, lease.session, lease.number, lease.deadline, lease.selected_at))


def decode_lease(project: int, value: bytes) -> Task:
    """A task with its lease, without spec and without what is deferred."""
    record, taskid, session, number, deadline, selected_at = _decode_lease(value)
    task = task_of(project, taskid, record)
    task.lease = Lease(session, number, deadline, selected_at)
    return task


def encode_outcome(n: int, reply: AnyReply) -> bytes:
    """A value of OUTCOMES."""
    return encode((n, reply))


def decode_outcome(value: bytes) -> tuple[int, AnyReply]:
    """The request number, and what it was answered."""
    return _decode_outcome(value)
