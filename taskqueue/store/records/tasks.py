"""Read tasks: the next ones of a state, lists, histories of attempts, and tasks past their retention.

The next tasks of a state, with their specs, up to the limits:

    order ──scan──► records ──specs──► tasks

Lists: a range of an order, in either direction, filtered by globs on URL and error. There may be very many finished
tasks, so an error filter is applied before anything else of them is read; most of their errors are stored in the order
itself. A page ends early when matching its globs has cost COST_MOST:

    live   ──scan─► records ──specs──► (URL) ──history──► attempts ──► (error) ──► rows
    finished ──scan─► taskids, errors ──► (error) ──specs──► (URL) ──history──► attempts ──► rows

A job is in the records, so those of other jobs are left out before their specs are read.

Last attempts of a task: a ring in the family ``history``, without the final success. So the success of a task costs no
write of its own, and a restart costs a read. docs/why/decisions/0002-histories.md says why.

    attempt ends ──► the task ends with this success ──► in its entry in the order of successes
                └──► anything else ──────────────────────► at the next index of its history
    restarted: the success moves from its entry, which is deleted, to its index

Tasks past their retention: read from the order of their state, without URLs and bodies. Attempts fill a history as a
ring, so its last index tells whether the ring has wrapped:

    order ──scan──► taskids ──ids──► records        history, last index ──► is all of it filled, or only the first?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from taskqueue.core.model.attempt_records import NO_ATTEMPT, error_cost, error_matches
from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.glob import COST_MOST, glob
from taskqueue.core.model.needs import FoundList, FoundOld, FoundOrder, ListRef, Old, OldRef, OrderRef, page_past
from taskqueue.core.model.records import WriteSet
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    KEY_BYTES,
    LIVE,
    NO_FLOOR,
    OVER,
    READY,
    SLOT_SHIFT,
    SUCCESS,
    TASK_BYTES,
    WAITING,
    Task,
    came_within,
)
from taskqueue.errors import Unreadable
from taskqueue.protocol.values import Attempt
from taskqueue.store.contract import Entry, Store
from taskqueue.store.records import layout
from taskqueue.store.records.layout import AWAITED
from taskqueue.store.records.reading import decode_record, raise_unreadable

T = TypeVar("T")

# ------------------------------------------------------------------------------------------------ next tasks

FIRST_SPECS: Final = 8
"""Specs of the first read for an order or a page; each further read has twice as many, as long as bodies are small."""

MOST_SPECS: Final = 128
"""Specs per read, at most: large ones may follow small ones. With 1,024 at once, 4,096 specs took as long (20 ms).

The bound in bytes ends a read only before the next one, as no store can end one at a number of bytes. A spec has up to
``daemon.max_message``, so a read behind 120 small specs takes 1 GiB at worst with the default of 8 MiB, and 2 GiB where
one scan reads neighbours. With fewer at once a database, a millisecond away, would take a round trip for a few tasks.
"""

NEAR_SEQS: Final = 16
"""Factor of seqs to specs: if the seqs span at most this many times the number of specs, one scan reads them."""


def find_order(store: Store, ref: OrderRef) -> FoundOrder:
    """Answer an OrderRef; one entry more than asked for is read, to know the next place."""
    start, end = _bounds(ref)
    entries = store.scan(layout.ORDERS[ref.state], start, end, ref.limit + 1)
    tasks = up_to_bytes(ref.limit_bytes, with_specs(store, ref.project, ref.state, entries[: ref.limit]))
    following = entries[len(tasks) : len(tasks) + 1]
    return FoundOrder(ref, tasks, layout.place_of(following[0][0]) if following else NO_FLOOR)


def _bounds(ref: OrderRef) -> tuple[bytes, bytes]:
    """Return the range of keys from the order's start to its end; empty if the start is above all keys.

    Ready tasks that refill a head: only those without slots.
    """
    most = layout.order_key(ref.project, 1 << SLOT_SHIFT)
    end = most if ref.state == READY and not ref.to_sort else layout.project_key(ref.project + 1)
    return (end if ref.start >= NO_FLOOR else layout.order_key(ref.project, ref.start)), end


def up_to_bytes(limit_bytes: int, tasks: Iterator[Task]) -> list[Task]:
    """Take tasks up to the one with which URLs and bodies reach the limit; at least one."""
    taken: list[Task] = []
    total = 0
    for task in tasks:
        taken.append(task)
        total += task.size - TASK_BYTES
        if total >= limit_bytes:
            break
    return taken


def with_specs(store: Store, project: int, state: int, entries: list[Entry]) -> Iterator[Task]:
    """Read the tasks of the entries lazily, so that large bodies are not read in vain."""
    for some in growing_chunks(entries):
        yield from _some(store, project, state, some)


def growing_chunks(items: list[T]) -> Iterator[list[T]]:
    """Yield the items in chunks of FIRST_SPECS, doubling up to MOST_SPECS."""
    first, count = 0, FIRST_SPECS
    while first < len(items):
        yield items[first : first + count]
        first, count = first + count, min(2 * count, MOST_SPECS)


def _some(store: Store, project: int, state: int, entries: list[Entry]) -> Iterator[Task]:
    family = layout.ORDERS[state]
    spec_keys = [layout.spec_key_of(key) for key, _ in entries]
    specs = _near(store, spec_keys)
    missing = [
        key for key, spec_key in zip((key for key, _ in entries), spec_keys, strict=True) if not specs.get(spec_key)
    ]
    if missing:
        raise Unreadable([(family, key, "its spec is missing") for key in missing])
    for (key, _), record, spec_key in zip(entries, records_of(store, project, state, entries), spec_keys, strict=True):
        value = specs[spec_key]
        taskid, spec = decode_record(layout.SPECS, spec_key, layout.decode_spec, value)
        task = decode_record(family, key, layout.task_of, project, taskid, record)
        layout.fill(task, spec)
        yield task


def _near(store: Store, keys: list[bytes]) -> dict[bytes, bytes | None]:
    """Read the specs of an order's next tasks, mostly neighbours, because the tasks were created in sequence.

    Scanning on costs a fifth of a point look-up, so where keys are close together one scan over up to twice as many
    entries comes first; keys that it did not reach are looked up.
    """
    first, last = min(keys), max(keys)
    near: dict[bytes, bytes | None] = {}
    if layout.seq_of(last) - layout.seq_of(first) <= NEAR_SEQS * len(keys):
        near.update(store.scan(layout.SPECS, first, last + b"\0", 2 * len(keys)))
    far = [key for key in keys if key not in near]
    near.update(zip(far, store.get(layout.SPECS, far), strict=True))
    return near


def records_of(store: Store, project: int, state: int, entries: list[Entry]) -> list[bytes]:
    """Read the records of the entries: in the order itself for live tasks, by taskid for finished ones."""
    if state in LIVE:
        return [value for _, value in entries]
    start, family = layout.project_key(project), layout.ORDERS[state]
    keys = [start + decode_record(family, key, layout.taskid_at, value) for key, value in entries]
    found = store.get(layout.IDS, keys)
    records = [record for record in found if record is not None]
    if len(records) < len(keys):
        unknown = [key for (key, _), record in zip(entries, found, strict=True) if record is None]
        raise Unreadable([(family, key, "it names an unknown task") for key in unknown])
    return records


# ------------------------------------------------------------------------------------------------ lists

LOOKED_UP: Final = 256
"""Errors looked up in histories for one page, at most, if the order does not have them: 15 µs each."""


def find_list(store: Store, ref: ListRef) -> FoundList:
    """Answer a ListRef; one entry more than asked for is read, to know whether there are further ones.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    scan = store.scan_back if ref.newest else store.scan
    entries = scan(layout.ORDERS[ref.state], _bound(ref, ref.start), _bound(ref, ref.end), ref.limit + 1)
    looked = wanted = entries[: ref.limit]
    if ref.error and ref.state in OVER:
        looked, wanted = _with_error(store, ref, looked)
    if ref.job and wanted:
        wanted = _of_job(store, ref, wanted)
    tasks, last = _with_url(store, ref, wanted)
    if last is None and len(looked) < len(entries):
        last = int.from_bytes(looked[-1][0][-KEY_BYTES:], "big")
    attempts = kept_attempts(store, tasks) if ref.attempts else {}
    if ref.error and ref.state in WAITING:
        pattern = glob(ref.error, ref.ignore_case)
        tasks = [task for task in tasks if error_matches(pattern, attempts.get(task.taskid, NO_ATTEMPT))]
    return FoundList(ref, tasks, attempts, None if last is None else page_past(ref.newest, last))


def _bound(ref: ListRef, key: int) -> bytes:
    """Encode a key of the order; the end of the project's keys if ``key`` is above all keys."""
    return layout.project_key(ref.project + 1) if key >= NO_FLOOR else layout.order_key(ref.project, key)


def _with_error(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Filter entries of finished tasks by error; return the scanned entries, and the matching ones."""
    pattern = glob(ref.error, ref.ignore_case)
    last, looked = _last_attempts(store, ref, entries)
    cost = 0
    matching: list[Entry] = []
    for count, (entry, attempt) in enumerate(zip(looked, last, strict=True)):
        if cost > COST_MOST or len(matching) == ref.rows:
            return looked[:count], matching
        cost += error_cost(pattern, attempt)
        if error_matches(pattern, attempt):
            matching.append(entry)
    return looked, matching


def _of_job(store: Store, ref: ListRef, entries: list[Entry]) -> list[Entry]:
    """Filter entries by the job in their tasks' records, before anything else of the tasks is read."""
    end = layout.JOB_MARK + ref.job.encode()
    records = records_of(store, ref.project, ref.state, entries)
    return [entry for entry, record in zip(entries, records, strict=True) if record.endswith(end)]


def _last_attempts(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[Attempt], list[Entry]]:
    """Return the last attempts of finished tasks, with their errors only, and the entries of these tasks.

    Returns only the first ones if too many would have to be looked up.
    """
    errors = [decode_record(layout.ORDERS[ref.state], key, layout.error_at, value) for key, value in entries]
    lacking = [place for place, error in enumerate(errors) if error is None]
    looked = len(entries) if len(lacking) <= LOOKED_UP else lacking[LOOKED_UP]
    tasks = _without_specs(store, ref, [entries[place] for place in lacking[:LOOKED_UP]])
    attempts = kept_attempts(store, tasks)
    last = [replace(NO_ATTEMPT, error=error or "") for error in errors[:looked]]
    for place, task in zip(lacking, tasks, strict=False):
        last[place] = attempts.get(task.taskid, NO_ATTEMPT)
    return last, entries[:looked]


def _with_url(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[Task], int | None]:
    """Return the tasks whose URL matches, and the key of the last scanned task; None if all were scanned."""
    pattern = glob(ref.url or "*", ref.ignore_case)
    tasks: list[Task] = []
    cost, size, last = 0, 0, None
    for task in with_specs(store, ref.project, ref.state, entries):
        if cost > COST_MOST or size >= ref.limit_bytes or len(tasks) == ref.rows:
            return tasks, last
        size += task.size - TASK_BYTES
        last = task.key
        url = task.spec.url if task.spec is not None else ""
        cost += pattern.cost(url)
        if pattern.matches(url) and came_within(task, ref.pushed_since, ref.pushed_before):
            tasks.append(task)
    return tasks, None


def _without_specs(store: Store, ref: ListRef, entries: list[Entry]) -> list[Task]:
    """Read the tasks of entries of finished tasks, without URLs and bodies."""
    family = layout.ORDERS[ref.state]
    tasks = []
    for (key, value), record in zip(entries, records_of(store, ref.project, ref.state, entries), strict=True):
        taskid = layout.taskid_at(value).decode()
        tasks.append(decode_record(family, key, layout.task_of, ref.project, taskid, record))
    return tasks


def kept_attempts(store: Store, tasks: Sequence[Task]) -> dict[str, Attempt]:
    """Return the last attempts, by taskid, of tasks that have run; final successes are not among them."""
    run = [task for task in tasks if task.lastcrawltime or task.state in OVER]
    keys = [layout.attempt_key(task.project, task.taskid, (task.attempts - 1) % ATTEMPTS_KEPT) for task in run]
    return {
        task.taskid: decode_record(layout.HISTORY, key, layout.decode_attempt, value)
        for task, key, value in zip(run, keys, store.get(layout.HISTORY, keys), strict=True)
        if value is not None
    }


# ------------------------------------------------------------------------------------------------ histories

SUCCESSES: Final = layout.ORDERS[SUCCESS]


def read_history(store: Store, ref: TaskRef) -> dict[int, Attempt]:
    """Read a task's last attempts, by index.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    prefix = layout.history_key(*ref)
    entries = store.scan(layout.HISTORY, prefix, prefix + b"\xff", ATTEMPTS_KEPT)
    attempts = {key[-1]: decode_record(layout.HISTORY, key, layout.decode_attempt, value) for key, value in entries}
    id_key = layout.id_key(*ref)
    record = store.get(layout.IDS, [id_key])[0]
    if record is not None and record != AWAITED:
        task = decode_record(layout.IDS, id_key, layout.task_of, *ref, record)
        if task.state == SUCCESS and (success := _success_at(store, task, task.key)) is not None:
            attempts[_newest(task)] = success
    return attempts


def moved_success_attempts(store: Store, writes: WriteSet) -> list[Entry]:
    """Make history entries for successes that this turn restarts or changes, whose attempts are in their orders.

    Empty unless a success leaves its place in the order.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    left = [(task, key) for task, state, key, _, _, _ in writes.moves if state == SUCCESS]
    moved = []
    for task, old_key in left:
        if task.state != SUCCESS:
            success = _success_at(store, task, old_key)
            if success is not None:
                later = sum((other.project, other.taskid) == (task.project, task.taskid) for other in writes.attempts)
                key = layout.attempt_key(task.project, task.taskid, _newest(task, later))
                moved.append((key, layout.encode(success)))
    return moved


def _success_at(store: Store, task: Task, place: int) -> Attempt | None:
    key = layout.order_key(task.project, place)
    value = store.get(SUCCESSES, [key])[0]
    return None if value is None else decode_record(SUCCESSES, key, layout.decode_success, key, value)


def _newest(task: Task, later: int = 0) -> int:
    """Return the index of the last attempt, or of the one before the ``later`` newest ones."""
    return (task.attempts - 1 - later) % ATTEMPTS_KEPT


# ------------------------------------------------------------------------------------------------ past retention


def find_expired(store: Store, ref: OldRef) -> FoundOld:
    """Answer an OldRef; one entry more than asked for is read, to know the next place.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded, or contradicts its entry in the order.
    """
    start, end = layout.order_key(ref.project, ref.start), layout.order_key(ref.project, ref.end)
    entries = store.scan(layout.ORDERS[ref.state], start, layout.project_key(ref.project + 1), ref.limit + 1)
    old = [entry for entry in entries[: ref.limit] if entry[0] < end]
    tasks = _tasks(store, ref, old)
    rest = entries[len(old) :]
    next_key = int.from_bytes(rest[0][0][-KEY_BYTES:], "big") if rest else None
    lengths = _lengths(store, tasks, [value for _, value in old])
    return FoundOld(ref, list(map(Old, tasks, lengths)), next_key)


def _tasks(store: Store, ref: OldRef, entries: list[tuple[bytes, bytes]]) -> list[Task]:
    """Read the tasks of the entries, checked against their records: no live task may be deleted."""
    taskids = [layout.taskid_at(value).decode() for _, value in entries]
    keys = [layout.id_key(ref.project, taskid) for taskid in taskids]
    tasks = []
    for (place, _), taskid, key, record in zip(entries, taskids, keys, store.get(layout.IDS, keys), strict=True):
        if record is None:
            raise_unreadable(layout.ORDERS[ref.state], place, "it names an unknown task")
        task = decode_record(layout.IDS, key, layout.task_of, ref.project, taskid, record)
        if (task.state, layout.order_key(ref.project, task.key)) != (ref.state, place):
            raise_unreadable(layout.ORDERS[ref.state], place, "the task's record has another state or place")
        tasks.append(task)
    return tasks


def _lengths(store: Store, tasks: list[Task], values: list[bytes]) -> list[int]:
    """Count the attempts of each task that may be stored: deleting absent keys would leave useless tombstones."""
    last = [layout.attempt_key(task.project, task.taskid, ATTEMPTS_KEPT - 1) for task in tasks]
    return [
        _first_indices(task, value) if newest is None else ATTEMPTS_KEPT
        for task, value, newest in zip(tasks, values, store.get(layout.HISTORY, last), strict=True)
    ]


def _first_indices(task: Task, value: bytes) -> int:
    """Count the attempts in a history that has not wrapped; the last attempt may be in the task's order instead."""
    if layout.has_attempt(value):
        return (task.attempts - 1) % ATTEMPTS_KEPT
    return task.attempts or (ATTEMPTS_KEPT if task.state == SUCCESS else 0)


# ------------------------------------------------------------------------------------------------ results


def read_results(store: Store, refs: Sequence[TaskRef]) -> dict[TaskRef, Raw]:
    """Read the results of these tasks, if they have one.

    Raises:
        StoreError: the store failed.
    """
    values = store.get(layout.RESULTS, [layout.id_key(*ref) for ref in refs])
    return {ref: Raw(value) for ref, value in zip(refs, values, strict=True) if value is not None}
