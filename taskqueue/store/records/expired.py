"""Looks up tasks that are past their retention: from the order of their state, without urls and bodies.

    order ──scan──► taskids ──ids──► records        history, last slot ──► are all its slots filled, or only the first?

The attempts of a task fill the slots of its history as a ring, so the last slot tells whether the ring has wrapped.
"""

from __future__ import annotations

from taskqueue.core.tasks.needs import FoundOld, Old, OldRef
from taskqueue.core.tasks.task import ATTEMPTS_KEPT, KEY_BYTES, SUCCESS, Task
from taskqueue.store.contract import Store
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import decode_record, raise_unreadable


def find_expired(store: Store, ref: OldRef) -> FoundOld:
    """Answer an OldRef; one entry more than asked for is read, to know which comes next.

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
    slots = _slots(store, tasks, [value for _, value in old])
    return FoundOld(ref, list(map(Old, tasks, slots)), next_key)


def _tasks(store: Store, ref: OldRef, entries: list[tuple[bytes, bytes]]) -> list[Task]:
    """The tasks of the entries, checked against their records: nothing live may be deleted."""
    taskids = [over_entries.taskid_at(value).decode() for _, value in entries]
    keys = [layout.id_key(ref.project, taskid) for taskid in taskids]
    tasks = []
    for (place, _), taskid, key, record in zip(entries, taskids, keys, store.get(layout.IDS, keys), strict=True):
        if record is None:
            raise_unreadable(layout.ORDERS[ref.state], place, "it is the name of an unknown task")
        task = decode_record(layout.IDS, key, layout.task_of, ref.project, taskid, record)
        if (task.state, layout.order_key(ref.project, task.key)) != (ref.state, place):
            raise_unreadable(layout.ORDERS[ref.state], place, "the task is not where its order has it")
        tasks.append(task)
    return tasks


def _slots(store: Store, tasks: list[Task], values: list[bytes]) -> list[int]:
    """How many history slots of each task may be filled: deleting absent keys would leave tombstones for nothing."""
    last = [layout.attempt_key(task.project, task.taskid, ATTEMPTS_KEPT - 1) for task in tasks]
    return [
        _first_slots(task, value) if newest is None else ATTEMPTS_KEPT
        for task, value, newest in zip(tasks, values, store.get(layout.HISTORY, last), strict=True)
    ]


def _first_slots(task: Task, value: bytes) -> int:
    """Attempts in the history of a task whose ring has not wrapped; the last attempt may be stored in its order
    instead.
    """
    if over_entries.has_attempt(value):
        return (task.attempts - 1) % ATTEMPTS_KEPT
    return task.attempts or (ATTEMPTS_KEPT if task.state == SUCCESS else 0)
