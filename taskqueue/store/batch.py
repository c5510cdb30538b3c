"""Encode a turn's WriteSet as one Batch of keys and values. Pure: values in, bytes out.

    Move     old order entry ──delete──   record ──put──► ids, new order entry      spec, if new ──put──► specs

A task's record is packed once and put twice: under its taskid, and in the order of its state. ``records/layout``
describes the encodings, and which record is authoritative while a task is processing. An entry whose key does not
change is overwritten, not deleted.

A turn changes few of the forty families. The others cost nothing: they have no list here and are not read in the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Raw

from taskqueue.core.model.daemon_minutes import MINUTES_KEPT
from taskqueue.core.model.needs import LOG_MOST, ChangeRecord, Old
from taskqueue.core.model.records import KeptAttempt, WriteSet
from taskqueue.core.model.task import ATTEMPTS_KEPT, FAILED, KEY_BYTES, PROCESSING, READY, SEQ_MASK, WAITING, Move, Task
from taskqueue.errors import Corrupt
from taskqueue.protocol.fields import NIL
from taskqueue.store.contract import Batch, Entry, Family
from taskqueue.store.records import layout
from taskqueue.store.records.edges import add_links
from taskqueue.store.records.flows import add_flows
from taskqueue.store.records.format import META
from taskqueue.store.records.insight import failure_key
from taskqueue.store.records.layout import HAS_RESULT, join_links, join_put_off, join_slot
from taskqueue.store.records.operations import add_reruns, add_undo_rows
from taskqueue.store.records.slots import add_slots

Errors = dict[tuple[int, str], str]
"""Error texts of attempts that ended in this turn, by (project number, taskid)."""

NO_ERRORS: Final[Errors] = {}


def batch_of(writes: WriteSet) -> Batch:
    """Encode one turn's changes.

    Raises:
        Corrupt: a task can't be stored: its spec or lease is missing, or its key does not end with its seq.
    """
    batch = Batch(defaultdict(list), defaultdict(list))
    if writes.forgotten:
        _add_forgotten(batch, writes.forgotten)
    if writes.old:
        _add_old(batch, writes.old)
    if writes.moves:
        _add_moves(batch, writes.moves, _errors(writes.attempts) if writes.attempts else NO_ERRORS)
    if writes.attempts:
        _add_attempts(batch, writes)
    if writes.results:
        _add_results(batch, writes.results)
    _add_projects(batch, writes)
    if writes.sessions or writes.outcomes or writes.dropped_sessions:
        _add_sessions(batch, writes)
    if writes.operations or writes.members or writes.dropped_operations:
        _add_operations(batch, writes)
    if writes.failures or writes.failures_from:
        _add_failures(batch, writes)
    if writes.log:
        _add_log(batch, writes.log)
    if writes.drained is not None:
        batch.puts[META].append((layout.DRAINED_KEY, layout.encode(writes.drained)))
    if writes.edges or writes.linked or writes.awaited or writes.propagations or writes.dropped_edges:
        add_links(batch, writes)
    if writes.flows or writes.dropped_flows:
        add_flows(batch, writes)
    if writes.reruns or writes.dropped_reruns:
        add_reruns(batch, writes)
    if writes.undo_pages or writes.dropped_rows:
        add_undo_rows(batch, writes)
    if writes.slots:
        add_slots(batch, writes.slots)
    if writes.points or writes.slices or writes.dropped_slices:
        _add_points(batch, writes)
    if writes.daemon_minutes or writes.dropped_daemon_minutes:
        _add_daemon_minutes(batch, writes)
    return batch


def _add_moves(batch: Batch, moves: Iterable[Move], errors: Errors) -> None:
    """Add state changes of tasks.

    This is the hot path, three moves in a task's life, so names are bound once a batch, not per move.
    """
    pack, plain_size, in_project = layout.RECORD.pack, layout.RECORD.size, layout.project_key
    pack_dated, dated_size, dated = layout.DATED_RECORD.pack, layout.DATED_RECORD.size, layout.DATED_RETRIED
    seq_key = layout.seq_key
    put_id = batch.puts[layout.IDS].append
    puts: dict[int, Callable[[Entry], None]] = {}
    deletes: dict[int, Callable[[bytes], None]] = {}
    specs: list[Entry] = []
    number, project = -1, b""
    for task, old_state, old_key, old_seq, spec_changed, had_deferred in moves:
        state, key, seq = task.state, task.key, task.seq
        if key & SEQ_MASK != seq and (state != READY or key & SEQ_MASK != seq ^ SEQ_MASK):
            raise Corrupt(f"task {task.taskid}: key {key:#x} does not end with its seq {seq:#x}")
        if task.project != number:
            number = task.project
            project = in_project(number)
        place = key.to_bytes(KEY_BYTES, "big")
        flags = task.attempts << layout.ATTEMPTS_SHIFT
        if task.held_back or task.timed_out or task.apart:
            flags += task.held_back * layout.HELD_BACK + task.timed_out * layout.TIMED_OUT + task.apart * layout.APART
        retried = task.retried | task.crashes << layout.CRASHES_SHIFT if task.crashes else task.retried
        marked = state | HAS_RESULT if task.has_result else state
        if pushed_at := task.pushed_at:
            size = dated_size
            record = pack_dated(
                marked, flags, task.priority, retried | dated, task.token, task.exetime, task.lastcrawltime, place,
                pushed_at,
            )  # fmt: skip
        else:
            size = plain_size
            record = pack(marked, flags, task.priority, retried, task.token, task.exetime, task.lastcrawltime, place)
        if task.itag or task.job:
            record += layout.encode_names(task)
        if task.links is not None:
            record = join_links(record, size, task.links)
        if task.slot:
            record = join_slot(record, size, task)
        if task.put_off:
            record = join_put_off(record, size, task.put_off)
        if (old_key != key or old_state != state) and old_state:
            delete_place = deletes.get(old_state)
            if delete_place is None:
                delete_place = deletes[old_state] = batch.deletes[layout.ORDERS[old_state]].append
            delete_place(project + old_key.to_bytes(KEY_BYTES, "big"))
        has_new_seq = not old_state or old_seq != seq
        if state != PROCESSING or (not task.unlisted and (has_new_seq or spec_changed or old_state not in WAITING)):
            put_id((project + task.taskid.encode(), record))
        put_place = puts.get(state)
        if put_place is None:
            put_place = puts[state] = batch.puts[layout.ORDERS[state]].append
        put_place((project + place, _order_value(task, state, record, errors)))
        if has_new_seq or spec_changed:
            specs.append((seq_key(number, seq), _spec_value(task)))
            if old_state and old_seq != seq:
                batch.deletes[layout.SPECS].append(layout.seq_key(number, old_seq))
        if had_deferred or state == PROCESSING:
            _add_deferred(batch, task, old_seq, had_deferred)
    if specs:
        batch.puts[layout.SPECS] = specs


def _errors(attempts: Iterable[KeptAttempt]) -> Errors:
    """Collect the errors stored in the order of failed tasks; an error with its own kind is only in the history."""
    last = {(project, taskid): attempt for project, taskid, _, attempt in attempts}
    return {ref: attempt.error for ref, attempt in last.items() if not attempt.kind}


def _order_value(task: Task, state: int, record: bytes, errors: Errors) -> bytes:
    """Encode a task's entry in the order of its state."""
    if state == PROCESSING:
        if task.lease is None:
            raise Corrupt(f"task {task.taskid}: processing without a lease")
        return layout.encode_lease(record, task.taskid, task.lease)
    if state in WAITING:
        return record
    if task.ended is not None:
        return layout.encode_success(task.taskid, task.ended)
    error = errors.get((task.project, task.taskid)) if state == FAILED else None
    return task.taskid.encode() if error is None else layout.encode_failed(task.taskid, error)


def _spec_value(task: Task) -> bytes:
    if task.spec is None:
        raise Corrupt(f"task {task.taskid}: to be written anew without its spec")
    return layout.encode_spec(task.taskid, task.spec)


def _add_deferred(batch: Batch, task: Task, old_seq: int, had_deferred: bool) -> None:
    """Write the update that is deferred until the lease ends, or delete the stored one."""
    if had_deferred:
        batch.deletes[layout.DEFERRED].append(layout.seq_key(task.project, old_seq))
    if task.state == PROCESSING and task.lease is not None and task.lease.deferred is not None:
        batch.puts[layout.DEFERRED].append((layout.seq_key(task.project, task.seq), layout.encode(task.lease.deferred)))


def _add_forgotten(batch: Batch, tasks: Iterable[Task]) -> None:
    """Delete the entries by taskid and by seq of dropped tasks; their order entries are dropped by range elsewhere.

    A task that got a new seq in this very turn still has its spec under the former one.
    """
    for task in tasks:
        batch.deletes[layout.IDS].append(layout.id_key(task.project, task.taskid))
        batch.deletes[layout.SPECS].append(layout.seq_key(task.project, task.kept_seq or task.seq))
        if task.attempts or task.lastcrawltime:
            indices = range(ATTEMPTS_KEPT)
            batch.deletes[layout.HISTORY] += [layout.attempt_key(task.project, task.taskid, index) for index in indices]
        if task.has_result:
            batch.deletes[layout.RESULTS].append(layout.id_key(task.project, task.taskid))


def _add_old(batch: Batch, old: Iterable[Old]) -> None:
    """Delete tasks whose retention has ended; the record of a bare task stays."""
    for task, attempts in old:
        id_key = layout.id_key(task.project, task.taskid)
        if task.has_result:
            batch.deletes[layout.RESULTS].append(id_key)
        if task.bare:
            batch.puts[layout.IDS].append((id_key, layout.encode_bare(task)))
        else:
            batch.deletes[layout.IDS].append(id_key)
        batch.deletes[layout.ORDERS[task.state]].append(layout.order_key(task.project, task.key))
        batch.deletes[layout.SPECS].append(layout.seq_key(task.project, task.seq))
        batch.deletes[layout.HISTORY] += [layout.attempt_key(task.project, task.taskid, n) for n in range(attempts)]


def _add_attempts(batch: Batch, writes: WriteSet) -> None:
    """Write attempts; each overwrites the older attempt at its index."""
    batch.puts[layout.HISTORY].extend(
        (layout.attempt_key(project, taskid, index), layout.encode(attempt))
        for project, taskid, index, attempt in writes.attempts
    )


def _add_results(batch: Batch, results: Mapping[tuple[int, str], Raw]) -> None:
    """Write results, and delete those of tasks whose last success returned none."""
    for ref, result in results.items():
        if result == NIL:
            batch.deletes[layout.RESULTS].append(layout.id_key(*ref))
        else:
            batch.puts[layout.RESULTS].append((layout.id_key(*ref), bytes(result)))


def _add_failures(batch: Batch, writes: WriteSet) -> None:
    batch.puts[layout.FAILURES].extend(
        (failure_key(place), layout.encode(failure)) for place, failure in writes.failures
    )
    if writes.failures_from:
        batch.drops.append((layout.FAILURES, b"", failure_key(writes.failures_from)))


def _add_projects(batch: Batch, writes: WriteSet) -> None:
    for record in writes.projects:
        batch.puts[layout.PROJECTS].append((layout.project_key(record.number), layout.encode(record)))
    for number, counters in writes.counters.items():
        batch.puts[layout.COUNTERS].append((layout.project_key(number), layout.encode(counters)))
    for bucket in writes.buckets:
        batch.puts[layout.BUCKETS].append((bucket.name.encode(), layout.encode(bucket)))
    for number in writes.dropped_projects:
        _drop(batch, number, layout.PROJECT_FAMILIES)
    for number in writes.cleared:
        _drop(batch, number, layout.LIVE_FAMILIES)
    if writes.next_project is not None:
        batch.puts[META].append((layout.NEXT_PROJECT_KEY, b"%d" % writes.next_project))


def _drop(batch: Batch, project: int, families: Iterable[Family]) -> None:
    start, end = layout.project_key(project), layout.project_key(project + 1)
    batch.drops.extend((family, start, end) for family in families)


def _add_operations(batch: Batch, writes: WriteSet) -> None:
    dropped = frozenset(writes.dropped_operations)
    batch.puts[layout.OPERATIONS].extend(
        (layout.operation_key(record.progress.id), layout.encode(record))
        for record in writes.operations
        if record.progress.id not in dropped
    )
    batch.deletes[layout.OPERATIONS].extend(map(layout.operation_key, writes.dropped_operations))
    for number, members in writes.members.items():
        if members:
            batch.puts[layout.MEMBERS].append((layout.operation_key(number), layout.encode(members)))
        else:
            batch.deletes[layout.MEMBERS].append(layout.operation_key(number))


def _add_log(batch: Batch, entries: Iterable[ChangeRecord]) -> None:
    """Write change-log entries; each deletes the one LOG_MOST places before it."""
    for entry in entries:
        batch.puts[layout.LOG].append((layout.log_key(entry.number), layout.encode(entry)))
        batch.puts[META].append((layout.NEXT_LOG_KEY, b"%d" % (entry.number + 1)))
        if entry.number > LOG_MOST:
            batch.deletes[layout.LOG].append(layout.log_key(entry.number - LOG_MOST))


def _add_points(batch: Batch, writes: WriteSet) -> None:
    """Write the history of events.

    Drops precede puts, so one batch may drop a slice and write it anew.
    """
    for dropped in writes.dropped_slices:
        batch.drops.extend((layout.POINTS, start, end) for start, end in layout.slices_range(dropped))
    batch.puts[layout.POINTS].extend(
        (layout.point_key(resolution, at, project), layout.encode(events))
        for resolution, at, project, events in writes.points
    )
    batch.puts[layout.POINTS].extend(
        (layout.point_key(resolution, at), layout.encode((projects, *events)))
        for resolution, at, events, projects in writes.slices
    )


def _add_daemon_minutes(batch: Batch, writes: WriteSet) -> None:
    batch.deletes[layout.POINTS].extend(map(layout.daemon_minute_key, writes.dropped_daemon_minutes))
    batch.puts[layout.POINTS].extend(
        (layout.daemon_minute_key(each.minute % MINUTES_KEPT), layout.encode(each)) for each in writes.daemon_minutes
    )


def _add_sessions(batch: Batch, writes: WriteSet) -> None:
    """Write sessions and outcomes.

    Outcomes are deleted one by one: they are few, and range tombstones would slow later reads.
    """
    for record in writes.sessions:
        batch.puts[layout.SESSIONS].append((layout.session_key(record.session), layout.encode(record)))
    for session, n, answer in writes.outcomes:
        batch.puts[layout.OUTCOMES].append((layout.outcome_key(session, n), layout.encode_outcome(n, answer)))
    for session, slots in writes.dropped_sessions:
        batch.deletes[layout.SESSIONS].append(layout.session_key(session))
        batch.deletes[layout.OUTCOMES].extend(layout.outcome_key(session, slot) for slot in slots)
