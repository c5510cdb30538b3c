"""Lists of tasks for people: a range of an order, in either direction, filtered by globs on url and error.

    live   ──scan─► records ──specs──► (url) ──history──► attempts ──► (error) ──► rows
    over   ──scan─► taskids, errors ──► (error) ──specs──► (url) ──history──► attempts ──► rows

Finished tasks may be very many, so an error filter is applied before anything else of them is read; most of their
errors are stored in the order itself. A page ends early when matching its globs has cost COST_MOST.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from taskqueue.core.parts.glob import COST_MOST, glob
from taskqueue.core.tasks.attempt import NO_ATTEMPT, AttemptRecord, error_cost, error_matches
from taskqueue.core.tasks.needs import FoundList, ListRef, page_past
from taskqueue.core.tasks.task import ATTEMPTS_KEPT, KEY_BYTES, NO_FLOOR, OVER, TASK_BYTES, WAITING, Task, came_within
from taskqueue.store.contract import Store
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.orders import Entry, records_of, with_specs

LOOKED_UP: Final = 256
"""Errors looked up in histories for one page, because the order does not have them: 15 µs each."""


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
    tasks, last = _with_url(store, ref, wanted)
    if last is None and len(looked) < len(entries):
        last = int.from_bytes(looked[-1][0][-KEY_BYTES:], "big")
    attempts = _attempts(store, tasks) if ref.attempts else {}
    if ref.error and ref.state in WAITING:
        pattern = glob(ref.error)
        tasks = [task for task in tasks if error_matches(pattern, attempts.get(task.taskid, NO_ATTEMPT))]
    return FoundList(ref, tasks, attempts, None if last is None else page_past(ref.newest, last))


def _bound(ref: ListRef, key: int) -> bytes:
    """A key of the order; the end of the project's keys if ``key`` is above all keys."""
    return layout.project_key(ref.project + 1) if key >= NO_FLOOR else layout.order_key(ref.project, key)


def _with_error(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[Entry], list[Entry]]:
    """Filter entries of finished tasks by error; returns the entries that were examined, and those that match."""
    pattern = glob(ref.error)
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


def _last_attempts(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[AttemptRecord], list[Entry]]:
    """The last attempts of finished tasks as far as their errors go, and the entries of these tasks; only the first
    ones if too many would have to be looked up.
    """
    errors = [decode_record(layout.ORDERS[ref.state], key, over_entries.error_at, value) for key, value in entries]
    lacking = [place for place, error in enumerate(errors) if error is None]
    looked = len(entries) if len(lacking) <= LOOKED_UP else lacking[LOOKED_UP]
    tasks = _without_specs(store, ref, [entries[place] for place in lacking[:LOOKED_UP]])
    attempts = _attempts(store, tasks)
    last = [replace(NO_ATTEMPT, error=error or "") for error in errors[:looked]]
    for place, task in zip(lacking, tasks, strict=False):
        last[place] = attempts.get(task.taskid, NO_ATTEMPT)
    return last, entries[:looked]


def _with_url(store: Store, ref: ListRef, entries: list[Entry]) -> tuple[list[Task], int | None]:
    """The tasks whose url matches, and the key of the last task examined; None if all were."""
    pattern = glob(ref.url or "*")
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
    """The tasks of entries of finished tasks, without urls and bodies."""
    family = layout.ORDERS[ref.state]
    tasks = []
    for (key, value), record in zip(entries, records_of(store, ref.project, ref.state, entries), strict=True):
        taskid = over_entries.taskid_at(value).decode()
        tasks.append(decode_record(family, key, layout.task_of, ref.project, taskid, record))
    return tasks


def _attempts(store: Store, tasks: Sequence[Task]) -> dict[str, AttemptRecord]:
    """The last attempts, by taskid, of tasks that have been run; a final success is not among them."""
    run = [task for task in tasks if task.lastcrawltime or task.state in OVER]
    keys = [layout.attempt_key(task.project, task.taskid, (task.attempts - 1) % ATTEMPTS_KEPT) for task in run]
    return {
        task.taskid: decode_record(layout.HISTORY, key, layout.decode_attempt, value)
        for task, key, value in zip(run, keys, store.get(layout.HISTORY, keys), strict=True)
        if value is not None
    }
