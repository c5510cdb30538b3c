"""Layout of the bytes in the store: families, keys and values. Pure; no I/O ever comes in here.

| family | key | value |
|---|---|---|
| meta | name | format, epoch, boot id, clean flag, secret, numbers for the next project and log entry; drained names |
| projects | project | ProjectRecord |
| ids | project, taskid | record |
| specs | project, seq | taskid, URL, schedule, body, depth, facts about the fetched page |
| ready, delayed, blocked | project, place | record |
| leases | project, place | record, taskid, session, number, deadline, selected_at |
| success | project, place | 0xff, length of the taskid (1 byte), taskid, seconds (float), fetcher of the last attempt |
| failed | project, place | 0xfe, length of the taskid (1 byte), taskid, error of the last attempt, if it is short |
| failed, cancelled | project, place | taskid; also of a success without a known attempt |
| deferred | project, seq | the NewTask that is deferred until the lease ends |
| results | project, taskid | result of its last success, as reported |
| history | project, length of the taskid (1 byte), taskid, slot (1 byte) | Attempt |
| counters | project | CountersRecord |
| buckets | name | BucketRecord |
| operations | id (8 bytes) | OperationRecord |
| members | id of an operation (8 bytes) | numbers of the projects that it goes through, until it has ended |
| sessions | session | SessionRecord |
| failures | place | Failure |
| outcomes | session, n % OUTCOME_WINDOW | n, the reply as it was sent |
| log | number (8 bytes) | ChangeRecord |
| parents | child, parent | state of the edge (1 byte), its number (8 bytes) |
| children | parent, child | state of the edge (1 byte), its number (8 bytes) |
| propagations | number (8 bytes) | kind, project, taskid, after |
| flows | number (4 bytes) | FlowRecord |
| stages | number of a flow (4 bytes), index (4 bytes) | the staged NewTask |
| stage_ids | number of a flow (4 bytes), taskid | its index (4 bytes) |
| slot_names | project, name | number of the slot (4 bytes) |
| slots | project, number (4 bytes) | SlotRecord |
| slots_ready, slots_waiting | project, division (4 bytes), entry (16, 12 bytes): see ``slot_records`` | nothing |
| reruns | id of an operation (8 bytes), kind (1 byte), place | element of its set, see ``operations`` |
| undo_rows | id of an operation (8 bytes), position (4 bytes) | UndoPage: what the tasks of a step were before it |
| damaged | name of a family, 0 (1 byte), key there | its value, reason and time; in a database only |
| points | series (1 byte), minutes or hours since 1970 (4 bytes), project, or none for all | events |
| points | 4 (1 byte), minutes since 1970, modulo 1,440 (4 bytes) | DaemonMinute |

A project is 4 bytes, a seq 8, a place (``Task.key``) 16, all big endian, so that bytes sort as the numbers do. The
lower half of a place is the task's seq, or its complement, which has the top bit, in a project that goes by newest. A
record is 50 bytes, or 54, then the itag and, behind JOB_MARK, the job; the rest is MessagePack. The upper
four bits of a record's ``retried`` count the task's crashes, the bit below means that it was put off, the next one that
4 more bytes have the unix second in which the task was first pushed; 0x10 of its state means that it has a result. The
fields behind the body of a spec, and the check of a lease, are left out if empty. A child or a parent is its project,
the length of its taskid (1 byte), its taskid.

Facts that only some tasks have are bits of two bytes, and fields between the fixed part and the itag:

    state  bits  …  retried  bits  …  place | pushed_at        | times             | slot, throttled
                                              only with DATED    only with PUT_OFF   only with IN_SLOT
                                            | edge number, missing, on_failure | flow              | itag | mark, job
                                              only with HAS_PARENTS              only with IN_FLOW        with a job

So a task without them needs no byte more. The time of the first push counts as fixed: only old tasks lack it. Of an
awaited task, which is unknown, ids has only AWAITED.

Values in the orders of finished tasks have the last attempt, so that a success costs no write of its own, and a search
for errors no look-up.

Rules:
1. A spec is written when its task is created, replaced or restarted, and never moves; only the record
   moves. Only a task with ``recrawl`` gets a new spec with each success, under a new seq.
2. While a task is processing, its record in ``leases`` is true and the one in ``ids`` may be from before
   the dispatch. Its seq, its attempts, and that it is live, are always true in ``ids``. If it was dispatched in the
   very turn that made it, ``ids`` doesn't have it at all yet (it is *unlisted*), unless it has parents or a job. This
   saves two writes a task.
3. A record in ``ids`` has state and place, so it leads to the entry in the order and, by seq, to the spec; a bare task
   has neither, nor a history.

docs/why/decisions/0001-record-layout.md says why bodies are stored apart by seq, and at what cost.
"""

from __future__ import annotations

from struct import Struct as Packing
from struct import error as PackingError
from typing import Final

from msgspec import MsgspecError, Raw
from msgspec.msgpack import Decoder, Encoder

from taskqueue.core.model.attempt_records import Failure
from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.edges import Links
from taskqueue.core.model.history import ALL, CountersRecord, DroppedSlices
from taskqueue.core.model.lease import Lease
from taskqueue.core.model.needs import ChangeRecord
from taskqueue.core.model.records import BucketRecord, OperationRecord, ProjectRecord, SessionRecord
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import (
    KEY_BYTES,
    LIVE,
    PROCESSING,
    RETRIED_MOST,
    STATE_NAMES,
    STATES,
    Task,
    key_time,
    seq_in,
    size_of,
)
from taskqueue.core.model.undo_rows import UndoPage
from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.values import Attempt, NewTask
from taskqueue.store.contract import Family
from taskqueue.store.records.format import META
from taskqueue.store.records.stored_values import decode_lease_value, decode_spec_value

PROJECTS: Final = "projects"
IDS: Final = "ids"
SPECS: Final = "specs"
DEFERRED: Final = "deferred"
HISTORY: Final = "history"
RESULTS: Final = "results"
COUNTERS: Final = "counters"
BUCKETS: Final = "buckets"
OPERATIONS: Final = "operations"
MEMBERS: Final = "members"
SESSIONS: Final = "sessions"
OUTCOMES: Final = "outcomes"
FAILURES: Final = "failures"
LOG: Final = "log"
POINTS: Final = "points"
PARENTS: Final = "parents"
CHILDREN: Final = "children"
PROPAGATIONS: Final = "propagations"
FLOWS: Final = "flows"
STAGES: Final = "stages"
STAGE_IDS: Final = "stage_ids"
RERUNS: Final = "reruns"
UNDO_ROWS: Final = "undo_rows"
SLOT_NAMES: Final = "slot_names"
SLOTS: Final = "slots"
SLOTS_READY: Final = "slots_ready"
SLOTS_WAITING: Final = "slots_waiting"

ORDERS: Final[dict[int, Family]] = {state: "leases" if state == PROCESSING else STATE_NAMES[state] for state in STATES}
"""Family that stores each state's order, with the state's name, except that of processing tasks."""
STATE_OF: Final[dict[Family, int]] = {family: state for state, family in ORDERS.items()}

PROJECT_FAMILIES: Final[tuple[Family, ...]] = (
    PROJECTS, IDS, SPECS, *ORDERS.values(), DEFERRED, HISTORY, RESULTS, COUNTERS,
    SLOT_NAMES, SLOTS, SLOTS_READY, SLOTS_WAITING,
)  # fmt: skip
"""Families whose keys begin with a project's number."""
LIVE_FAMILIES: Final[tuple[Family, ...]] = (
    *(ORDERS[state] for state in sorted(LIVE)), DEFERRED, SLOTS_READY, SLOTS_WAITING,
)  # fmt: skip
"""Families of live tasks only, and orders of slots; ``clear`` drops them, and the sweep deletes the rest later."""

FAMILIES: Final[tuple[Family, ...]] = (
    META, *PROJECT_FAMILIES, SESSIONS, OUTCOMES, BUCKETS, OPERATIONS, MEMBERS, FAILURES, LOG, POINTS,
    PARENTS, CHILDREN, PROPAGATIONS, FLOWS, STAGES, STAGE_IDS, RERUNS, UNDO_ROWS,
)  # fmt: skip

DAMAGED: Final = "damaged"
"""Family of damaged rows, only in a database, whose rows have only our own checksums."""
DATABASE_FAMILIES: Final[tuple[Family, ...]] = (*FAMILIES, DAMAGED)

BOOT_KEY: Final = b"boot"
CLEAN_KEY: Final = b"clean"
NEXT_PROJECT_KEY: Final = b"next_project"
NEXT_LOG_KEY: Final = b"next_log"
NEXT_FLOW_KEY: Final = b"next_flow"
SECRET_KEY: Final = b"secret"
DRAINED_KEY: Final = b"drained"
META_KEYS: Final = (
    BOOT_KEY, CLEAN_KEY, SECRET_KEY, DRAINED_KEY, NEXT_PROJECT_KEY, NEXT_LOG_KEY, NEXT_FLOW_KEY,
)  # fmt: skip
"""Keys of META that are not the store's own."""

UNREADABLE: Final = (PackingError, MsgspecError, ValueError, IndexError)
"""Errors of the decoders on malformed bytes; UnicodeDecodeError is a ValueError."""

# ------------------------------------------------------------------------------------------------ keys

PROJECT_BYTES: Final = 4
"""Length of the project's number at the beginning of a key of PROJECT_FAMILIES."""

LAST_KEY: Final = b"\xff" * 8
"""Key above all keys of all families: project numbers stay below 2**32 - 1, sessions below 2**15 bytes."""

SEQ_BYTES: Final = KEY_BYTES // 2
_SEQS_END: Final = b"\x80"
"""Bytes above those of every seq, and below its complement."""
_COMPLEMENTS: Final = bytes(reversed(range(256)))
_PROJECT: Final = Packing(">I")
_SEQ: Final = Packing(">IQ")
_LENGTH: Final = Packing(">H")
_TIME: Final = Packing(">I")
_TASK: Final = Packing(">IB")

project_key = _PROJECT.pack
"""project -> bytes: encode the beginning of a project's keys."""

seq_key = _SEQ.pack
"""(project, seq) -> bytes: encode a key of SPECS and DEFERRED."""


def id_key(project: int, taskid: str) -> bytes:
    """Encode a key of IDS and of RESULTS."""
    return project_key(project) + taskid.encode()


def order_key(project: int, place: int) -> bytes:
    """Encode a key in a state's order."""
    return project_key(project) + place.to_bytes(KEY_BYTES, "big")


def spec_key_of(key: bytes) -> bytes:
    """Return the key in SPECS of the task at this key of an order."""
    return key[:PROJECT_BYTES] + seq_bytes_of(key)


def project_of(key: bytes) -> int:
    """Decode the project in a key of PROJECT_FAMILIES."""
    return int(_PROJECT.unpack_from(key)[0])


def seq_of(key: bytes) -> int:
    """Decode the seq in a key of SPECS or of an order."""
    return int.from_bytes(seq_bytes_of(key), "big")


def seq_bytes_of(key: bytes) -> bytes:
    """Return the bytes of the seq in a key of SPECS or of an order, or in a place."""
    seq = key[-SEQ_BYTES:]
    return seq.translate(_COMPLEMENTS) if seq > _SEQS_END else seq


def place_of(key: bytes) -> int:
    """Decode the place in a key of an order."""
    return int.from_bytes(key[-KEY_BYTES:], "big")


def history_key(project: int, taskid: str) -> bytes:
    """Encode the prefix of a task's keys in HISTORY; its length comes first, so no task's prefix begins another's."""
    text = taskid.encode()
    return _TASK.pack(project, len(text)) + text


def attempt_key(project: int, taskid: str, index: int) -> bytes:
    """Encode the key of an attempt in a history."""
    return history_key(project, taskid) + bytes((index,))


def taskid_of_attempt(key: bytes) -> str:
    """Decode the taskid in a key of an attempt; ValueError if its length is not that of the key."""
    length = key[PROJECT_BYTES]
    if len(key) != PROJECT_BYTES + 1 + length + 1:
        raise ValueError(f"{len(key)} bytes, with a taskid of {length}")
    return key[PROJECT_BYTES + 1 : -1].decode()


def operation_key(operation: int) -> bytes:
    """Encode a key of OPERATIONS and of MEMBERS."""
    return operation.to_bytes(8, "big")


def operation_of(key: bytes) -> int:
    """Decode the id in a key of OPERATIONS or MEMBERS."""
    return int.from_bytes(key, "big")


def log_key(number: int) -> bytes:
    """Encode a key of LOG."""
    return number.to_bytes(8, "big")


_SERIES: Final[dict[tuple[Resolution, bool], bytes]] = {
    ("minute", True): b"\0", ("hour", True): b"\1", ("minute", False): b"\2", ("hour", False): b"\3",
}  # fmt: skip
"""First byte of a key of POINTS, by resolution and whether the point sums up all projects."""

DAEMON_MINUTES: Final = (b"\4", b"\5")
"""Start and end of the keys in POINTS of the daemon's own minutes."""


def daemon_minute_key(place: int) -> bytes:
    """Encode the key of a place in the ring of the daemon's minutes."""
    return DAEMON_MINUTES[0] + _TIME.pack(place)


def point_key(resolution: Resolution, at: int, project: int = ALL) -> bytes:
    """Encode a key of POINTS."""
    slice_key = _SERIES[resolution, project == ALL] + _TIME.pack(at)
    return slice_key if project == ALL else slice_key + project_key(project)


def point_of(key: bytes) -> tuple[Resolution, int, int]:
    """Decode resolution, time and project (or ALL) in a key of POINTS; ValueError if it is malformed."""
    for (resolution, is_all), series in _SERIES.items():
        if key[:1] == series and len(key) == (5 if is_all else 9):
            return resolution, _TIME.unpack_from(key, 1)[0], ALL if is_all else project_of(key[5:])
    raise ValueError(f"{len(key)} bytes that begin with {key[:1].hex()}")


def slices_range(slices: DroppedSlices) -> list[tuple[bytes, bytes]]:
    """Return start and end of the key ranges in POINTS that the slices occupy."""
    whole = (True, False) if slices.whole else (False,)
    times = _TIME.pack(slices.start), _TIME.pack(slices.end)
    return [(series + times[0], series + times[1]) for series in (_SERIES[slices.resolution, each] for each in whole)]


def session_key(session: str) -> bytes:
    """Encode a key of SESSIONS; the length comes first, so that no session's key is a prefix of another's."""
    text = session.encode()
    return _LENGTH.pack(len(text)) + text


def outcome_key(session: str, n: int) -> bytes:
    """Encode the key in OUTCOMES of request ``n`` of a session, in a ring of OUTCOME_WINDOW places."""
    return session_key(session) + bytes((n % OUTCOME_WINDOW,))


# ------------------------------------------------------------------------------------------------ records

RECORD: Final = Packing(f">BBiIQdd{KEY_BYTES}s")
"""Fixed part of a record: state, flags, priority, retried and crashes, token, exetime, lastcrawltime, place."""

DATED_RECORD: Final = Packing(f"{RECORD.format}I")
"""Fixed part of a record with the unix second in which the task was first pushed."""

DATED: Final = 0x04
"""Bit beside PUT_OFF: the record has the time of the first push."""

DATED_RETRIED: Final = DATED << 24
"""DATED within the whole ``retried``."""

HELD_BACK: Final = 1
TIMED_OUT: Final = 2
APART: Final = 4
BARE: Final = 8
ATTEMPTS_SHIFT: Final = 4
"""Bits below the upper half of the flags, which counts attempts modulo ATTEMPTS_KEPT."""
CRASHES_SHIFT: Final = 28
JOB_MARK: Final = b"\xff"
"""Byte between itag and job; it never occurs in UTF-8, so no itag has it."""


def task_of(project: int, taskid: str, record: bytes) -> Task:
    """Decode the task of a record, without spec and lease; ValueError if its state is invalid."""
    links, slot, put_off, pushed_at, marks, itag, job = None, (0, 0), 0, 0, record[0], "", ""
    size = fixed_bytes(record)
    if size != RECORD.size:
        pushed_at = _TIME.unpack_from(record, RECORD.size)[0]
    if record[RETRIED_AT] & PUT_OFF:
        record, put_off = split_put_off(record, size)
    if marks > STATE_MASK:
        record, links, slot = split_marked(record, size)
    if len(record) > size:
        itag, job = _names_in(record[size:])
    state, flags, priority, retried, token, exetime, crawled, place = RECORD.unpack_from(record)
    if state not in STATES:
        raise ValueError(f"state {state} is unknown")
    key = int.from_bytes(place, "big")
    return Task(
        project, taskid, state, key, seq_in(key), priority, exetime, token,
        retried & RETRIED_MOST, crawled, flags & HELD_BACK != 0, flags & TIMED_OUT != 0, flags & APART != 0,
        flags >> ATTEMPTS_SHIFT, itag, kept_state=state, kept_key=key,
        bare=flags & BARE != 0, crashes=retried >> CRASHES_SHIFT, has_result=marks & HAS_RESULT != 0, links=links,
        slot=slot[0], throttled=slot[1], put_off=put_off, pushed_at=pushed_at, job=job,
    )  # fmt: skip


def _names_in(names: bytes) -> tuple[str, str]:
    """Decode the itag and the job at the end of a record; either may be empty."""
    itag, _, job = names.partition(JOB_MARK)
    return itag.decode(), job.decode()


def encode_names(task: Task) -> bytes:
    """Encode the itag and the job of a task, the end of its record."""
    return task.itag.encode() + JOB_MARK + task.job.encode() if task.job else task.itag.encode()


def task_at(key: bytes, record: bytes) -> Task:
    """Decode the task of an entry in ids; not for awaited tasks."""
    return task_of(project_of(key), key[PROJECT_BYTES:].decode(), record)


def encode_record(task: Task) -> bytes:
    """Encode the record of a task that is not bare, without its links, its slot and its put-offs."""
    flags = task.attempts << ATTEMPTS_SHIFT | task.held_back | task.timed_out * TIMED_OUT | task.apart * APART
    retried = task.retried | task.crashes << CRASHES_SHIFT
    place = task.key.to_bytes(KEY_BYTES, "big")
    times = task.exetime, task.lastcrawltime
    state = task.state | HAS_RESULT if task.has_result else task.state
    return _packed(task, state, flags, task.priority, retried, task.token, *times, place) + encode_names(task)


def _packed(task: Task, state: int, flags: int, priority: int, retried: int, *rest: float | bytes) -> bytes:
    if not task.pushed_at:
        return RECORD.pack(state, flags, priority, retried, *rest)
    return DATED_RECORD.pack(state, flags, priority, retried | DATED_RETRIED, *rest, task.pushed_at)


def fixed_bytes(record: bytes) -> int:
    """Return the bytes of a record's fixed part."""
    return DATED_RECORD.size if record[RETRIED_AT] & DATED else RECORD.size


def encode_bare(task: Task) -> bytes:
    """Encode the record of a bare task, which has lost all else; its attempts are counted from the first again."""
    place = task.key.to_bytes(KEY_BYTES, "big")
    times = task.exetime, task.lastcrawltime
    record = _packed(task, task.state, BARE, task.priority, 0, task.token, *times, place) + encode_names(task)
    return record if task.links is None else join_links(record, fixed_bytes(record), task.links)


# ------------------------------------------------------------------------------------------------ MessagePack

encode = Encoder().encode

decode_outcome: Final = Decoder(tuple[int, Raw]).decode
"""Decode the request number, and the reply as it was sent."""
decode_result: Final = Decoder(Raw).decode
"""Decode a result as it was reported; fails if the value is not one whole MessagePack value."""
decode_deferred: Final = Decoder(NewTask).decode
decode_project: Final = Decoder(ProjectRecord).decode
decode_session: Final = Decoder(SessionRecord).decode
decode_attempt: Final = Decoder(Attempt).decode
decode_counters: Final = Decoder(CountersRecord).decode
decode_bucket: Final = Decoder(BucketRecord).decode
decode_operation: Final = Decoder(OperationRecord).decode
decode_members: Final = Decoder(list[int]).decode
decode_undo_page: Final = Decoder(UndoPage).decode
decode_drained: Final = Decoder(list[str]).decode
decode_failure: Final = Decoder(Failure).decode
decode_log: Final = Decoder(ChangeRecord).decode
decode_point: Final = Decoder(tuple[int, int, int, int, int, int]).decode
decode_events: Final = Decoder(tuple[int, ...]).decode
"""Decode a point or a slice: counts of any length."""
decode_slice: Final = Decoder(tuple[int, int, int, int, int, int, int]).decode
"""Decode the number of projects that have a point, then the sums of events."""


def decode_daemon_minute(value: bytes) -> DaemonMinute:
    """Decode a minute of the daemon; an older version wrote fewer numbers, a later one writes more."""
    minute, *numbers = decode_events(value)
    return DaemonMinute(minute, *numbers[: len(DaemonMinute._fields) - 1])


def encode_spec(taskid: str, spec: Spec) -> bytes:
    """Encode a value of SPECS."""
    value = (taskid, spec.url, spec.schedule, spec.body)
    if spec.page is not None:
        return encode((*value, spec.depth, spec.page))
    return encode((*value, spec.depth) if spec.depth else value)


def decode_spec(value: bytes) -> tuple[str, Spec]:
    """Decode taskid and spec."""
    kept = decode_spec_value(value)
    return kept.taskid, Spec(kept.url, kept.schedule, kept.body, kept.depth, kept.page)


def fill(task: Task, spec: Spec) -> None:
    """Give a hollow task its spec back."""
    task.spec = spec
    task.size = size_of(spec)


def encode_lease(record: bytes, taskid: str, lease: Lease) -> bytes:
    """Encode a lease with its task's record; the deferred update is stored in DEFERRED."""
    value = (record, taskid, lease.session, lease.number, lease.deadline, lease.selected_at)
    if lease.links is not None:
        return encode((*value, lease.check, (lease.links.number, lease.links.missing, _policy(lease.links))))
    return encode((*value, lease.check) if lease.check else value)


def decode_lease(project: int, value: bytes) -> Task:
    """Decode a task with its lease, without its spec and the deferred update."""
    kept = decode_lease_value(value)
    task = task_of(project, kept.taskid, kept.record)
    links = None
    if kept.links is not None:
        links = Links(False, *kept.links[:2])
        _set_policy(links, kept.links[2])
    task.lease = Lease(kept.session, kept.number, kept.deadline, kept.selected_at, check=kept.check, links=links)
    return task


def encode_outcome(n: int, answer: Raw) -> bytes:
    """Encode a value of OUTCOMES."""
    return encode((n, answer))


# ------------------------------------------------------------------------------------------------ what only some have

HAS_CHILDREN: Final = 0x80
HAS_PARENTS: Final = 0x40
IN_FLOW: Final = 0x20
HAS_RESULT: Final = 0x10
"""Bit beside the links: the task has a result."""
IN_SLOT: Final = 0x08
STATE_MASK: Final = 0x07

AWAITED: Final = bytes((HAS_CHILDREN,))
"""Value in ids of an unknown task for which others wait."""

RETRIED_AT: Final = 6
"""Offset of the first byte of ``retried``, whose upper half counts crashes; PUT_OFF and DATED are bits of it."""
PUT_OFF: Final = 0x08

NEEDED: Final = 0x40
DROPPED: Final = 0x80
"""Bits of ``on_failure``: see ``Links``."""

_PUT_OFF: Final = Packing(">H")
_PARENTS: Final = Packing(">QHB")
_FLOW: Final = Packing(">I")
_SLOT: Final = Packing(">IB")


def join_links(record: bytes, size: int, links: Links) -> bytes:
    """Add the links to a record.

    Args:
        size: bytes of the record's fixed part.
    """
    bits, extra = 0, b""
    if links.has_children:
        bits = HAS_CHILDREN
    if links.number:
        bits |= HAS_PARENTS
        extra = _PARENTS.pack(links.number, links.missing, _policy(links))
    if links.flow:
        bits |= IN_FLOW
        extra += _FLOW.pack(links.flow)
    return bytes((record[0] | bits,)) + record[1:size] + extra + record[size:]


def split_marked(record: bytes, size: int) -> tuple[bytes, Links | None, tuple[int, int]]:
    """Return the record with its bare state, its links, if any, and its slot, which is (number, throttled).

    Raises:
        struct.error: the record is too short.
    """
    bits, at, slot = record[0], size, (0, 0)
    if bits & IN_SLOT:
        slot = _SLOT.unpack_from(record, at)
        at += _SLOT.size
    links = Links(bits & HAS_CHILDREN != 0) if bits & (HAS_CHILDREN | HAS_PARENTS | IN_FLOW) else None
    if links is not None and bits & HAS_PARENTS:
        links.number, links.missing, policy = _PARENTS.unpack_from(record, at)
        _set_policy(links, policy)
        at += _PARENTS.size
    if links is not None and bits & IN_FLOW:
        (links.flow,) = _FLOW.unpack_from(record, at)
        at += _FLOW.size
    return bytes((bits & STATE_MASK,)) + record[1:size] + record[at:], links, slot


def _policy(links: Links) -> int:
    return links.on_failure | links.needed * NEEDED | links.dropped * DROPPED


def _set_policy(links: Links, policy: int) -> None:
    links.on_failure = policy & ~(NEEDED | DROPPED)
    links.needed = policy & NEEDED != 0
    links.dropped = policy & DROPPED != 0


def join_slot(record: bytes, size: int, task: Task) -> bytes:
    """Add the task's slot to a record, which may have its links already."""
    slot = _SLOT.pack(task.slot, task.throttled)
    return bytes((record[0] | IN_SLOT,)) + record[1:size] + slot + record[size:]


def join_put_off(record: bytes, size: int, times: int) -> bytes:
    """Add the number of put-offs in a row to a record, which may have its links and its slot already."""
    marked = bytes((record[RETRIED_AT] | PUT_OFF,))
    return record[:RETRIED_AT] + marked + record[RETRIED_AT + 1 : size] + _PUT_OFF.pack(times) + record[size:]


def split_put_off(record: bytes, size: int) -> tuple[bytes, int]:
    """Return the record without the number of put-offs, and the number.

    Raises:
        struct.error: the record is too short.
    """
    (times,) = _PUT_OFF.unpack_from(record, size)
    return record[:size] + record[size + _PUT_OFF.size :], times


# ------------------------------------------------------------------------------------------------ finished tasks

WITH_ATTEMPT: Final = 0xFF
"""First byte of a success with its attempt; no taskid begins with it, because it never occurs in UTF-8."""
_SUCCESS: Final = Packing(">BBf")


def encode_success(taskid: str, attempt: Attempt) -> bytes:
    """Encode a value in the order of successes, with the task's last attempt, which its history then lacks."""
    text = taskid.encode()
    return _SUCCESS.pack(WITH_ATTEMPT, len(text), attempt.seconds) + text + attempt.fetcher.encode()


def taskid_at(value: bytes) -> bytes:
    """Return the taskid in a value of the order of a finished state."""
    if value[0] == WITH_ERROR:
        return value[2 : 2 + value[1]]
    return value[_SUCCESS.size :][: value[1]] if has_attempt(value) else value


WITH_ERROR: Final = 0xFE
"""First byte of a failed task's value that has the error of its attempt; like 0xff it never begins UTF-8."""

MAX_INLINE_ERROR_BYTES: Final = 512
"""Size of an error above which only the history stores it, such as a long traceback."""


def encode_failed(taskid: str, error: str) -> bytes:
    """Encode a value in the order of failed tasks.

    It has the error if that is short, so that a search for errors needs no look-up.
    """
    text, said = taskid.encode(), error.encode()
    return text if len(said) > MAX_INLINE_ERROR_BYTES else bytes((WITH_ERROR, len(text))) + text + said


def error_at(value: bytes) -> str | None:
    """Return the error in a value of the order of a finished state; None if only the history may have it."""
    return value[2 + value[1] :].decode() if value[0] == WITH_ERROR else None


def has_attempt(value: bytes) -> bool:
    """Whether this value of the order of a finished state contains the task's last attempt."""
    return value[0] == WITH_ATTEMPT


def decode_success(key: bytes, value: bytes) -> Attempt | None:
    """Decode the attempt of the task at a key of the successes; None if the value has none."""
    if not has_attempt(value):
        return None
    _, length, seconds = _SUCCESS.unpack_from(value)
    place = int.from_bytes(key[-KEY_BYTES:], "big")
    return Attempt(key_time(place), "success", value[_SUCCESS.size + length :].decode(), seconds)
