"""The last attempts of a task, a ring of slots in the family ``history``; the final success is stored elsewhere.

    attempt ends ──► the task is over with this success ──► in its entry in the order of successes
                └──► anything else ──────────────────────► in the next slot of its history
    restarted: the success moves from the entry that is deleted into its slot

So the success of a task costs no write of its own, and a restart costs a read. Why: docs/decisions/0002-histories.md.
"""

from __future__ import annotations

from taskqueue.core.tasks.attempt import AttemptRecord
from taskqueue.core.tasks.needs import TaskRef
from taskqueue.core.tasks.records import WriteSet
from taskqueue.core.tasks.task import ATTEMPTS_KEPT, SUCCESS, Task
from taskqueue.store.contract import Batch, Entry, Store
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.link_bytes import AWAITED

_SUCCESSES = layout.ORDERS[SUCCESS]


def read_history(store: Store, ref: TaskRef) -> dict[int, AttemptRecord]:
    """A task's last attempts, by slot.

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


def moved_success_attempts(store: Store, writes: WriteSet, batch: Batch) -> list[Entry]:
    """Entries of the histories for successes that this turn restarts or changes: their attempts lie in their orders.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded.
    """
    if _SUCCESSES not in batch.deletes:
        return []  # of most turns: no success has left its place
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


def _success_at(store: Store, task: Task, place: int) -> AttemptRecord | None:
    key = layout.order_key(task.project, place)
    value = store.get(_SUCCESSES, [key])[0]
    return None if value is None else decode_record(_SUCCESSES, key, over_entries.decode_success, key, value)


def _newest(task: Task, later: int = 0) -> int:
    """The slot of the last attempt, or of the one before the ``later`` newest ones."""
    return (task.attempts - 1 - later) % ATTEMPTS_KEPT
