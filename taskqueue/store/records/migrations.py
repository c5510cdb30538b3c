"""Migrations of older stores, one step per format.

    1 ──► 2   the error of a task's last attempt becomes the newest attempt of its history; projects count their
              unfinished tasks
    2 ──► 3   nothing is rewritten: failed tasks have their errors in the order from now on; older versions can't read
    it
    3 ──► 4   nothing is rewritten: tasks may wait for others, and have results, from now on; older versions can't read
    it
    4 ──► 5   nothing is rewritten: projects may be divided into slots from now on; older versions can't read it
    5 ──► 6   each host has one slot, however it is spelled: see ``slot_spellings``; tasks count their
              put-offs from now on
    6 ──► 7   nothing is rewritten: records may have the time of the first push from now on; older versions can't
              read it
    7 ──► 8   overrides of ``project-set`` are in tables, ``slot`` and ``keep``: see ``former_setting_names``
    8 ──► 9   nothing is rewritten: sessions may have an owner from now on, whom older versions would forget
    9 ──► 10  nothing is rewritten: ready tasks may lie newest first from now on; older versions can't read it
    10 ──► 11 nothing is rewritten: schedules may have ``repeat``, tasks a job, or run ``only`` after a failure,
              operations rows for an undo, and flows be of a cron entry from now on; older versions can't read it

A step contains the older format itself, and uses ``layout`` only where the two agree: when ``layout`` changes, parts
that a step used are copied here. A step works page by page, and running it again writes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder

from taskqueue.core.model.task import ATTEMPTS_KEPT, LIVE, STATE_NAMES, SUCCESS, Task
from taskqueue.protocol.values import Attempt
from taskqueue.store.contract import Batch, Family, Store
from taskqueue.store.records import layout
from taskqueue.store.records.format import Migrations
from taskqueue.store.records.former_setting_names import renamed
from taskqueue.store.records.reading import decode_record
from taskqueue.store.records.slot_spellings import join_spellings
from taskqueue.texts.error_texts import cut_text

PAGE: Final = 1024
"""Entries per batch."""

ERRORS: Final = "errors"
"""Family of format 1: project, seq -> text of the last error, in UTF-8."""

TIMED_OUT: Final = "timeout"
"""Error text that format 1 had for a timeout."""

_NEWEST: Final = ATTEMPTS_KEPT - 1
"""Index of the last attempt of a task without a count of attempts: format 1 had 0 in place of ``Task.attempts``."""

Entry = tuple[bytes, bytes]


class _SpecOf1(Struct, array_like=True):
    """First field of a spec; a step needs no others."""

    taskid: str


_decode_spec: Final = Decoder(_SpecOf1).decode


def keep_histories(store: Store, epoch: int) -> None:
    """Migrate from format 1 to 2."""
    for page in _pages(store, layout.PROJECTS):
        store.write(epoch, Batch(puts={layout.PROJECTS: [_unfinished(*entry) for entry in page]}))
    for page in _pages(store, ERRORS):
        store.write(epoch, Batch(puts={layout.HISTORY: list(_attempts(store, page))}))
    store.write(epoch, Batch(drops=[(ERRORS, b"", layout.LAST_KEY)]))


def rename_settings(store: Store, epoch: int) -> None:
    """Migrate from format 7 to 8."""
    for page in _pages(store, layout.PROJECTS):
        found = (_renamed(*entry) for entry in page)
        store.write(epoch, Batch(puts={layout.PROJECTS: [entry for entry in found if entry is not None]}))


def leave_all(store: Store, epoch: int) -> None:
    """Migrate from a format that the next one reads unchanged: nothing to do."""


MIGRATIONS: Final[Migrations] = {
    1: keep_histories,
    2: leave_all,
    3: leave_all,
    4: leave_all,
    5: join_spellings,
    6: leave_all,
    7: rename_settings,
    8: leave_all,
    9: leave_all,
    10: leave_all,
}


def _pages(store: Store, family: Family) -> Iterator[list[Entry]]:
    start = b""
    while page := store.scan(family, start, layout.LAST_KEY, PAGE):
        yield page
        start = page[-1][0] + b"\0"


def _renamed(key: bytes, value: bytes) -> Entry | None:
    """Rename the settings in a project's record; None if they have the present names already."""
    record = decode_record(layout.PROJECTS, key, layout.decode_project, value)
    overrides = renamed(record.overrides)
    if overrides == record.overrides:
        return None
    record.overrides = overrides
    return key, layout.encode(record)


def _unfinished(key: bytes, value: bytes) -> Entry:
    """Count unfinished tasks of a project: in format 1 no live task was ``apart``, so all of them."""
    record = decode_record(layout.PROJECTS, key, layout.decode_project, value)
    counts = record.counts
    record.unfinished = sum(getattr(counts, STATE_NAMES[state]) for state in LIVE)
    record.armed = record.unfinished > 0
    return key, layout.encode(record)


def _attempts(store: Store, page: list[Entry]) -> Iterator[Entry]:
    """Make attempts of error texts, except for tasks that have succeeded since."""
    keys = [key for key, _ in page]
    tasks = _tasks(store, keys)
    for key, value in page:
        task = tasks.get(key)
        if task is not None and task.state != SUCCESS:
            text = decode_record(ERRORS, key, bytes.decode, value)
            attempt = Attempt(task.lastcrawltime, "timeout" if text == TIMED_OUT else "failed", error=cut_text(text))
            yield layout.attempt_key(task.project, task.taskid, _NEWEST), layout.encode(attempt)


def _tasks(store: Store, keys: list[bytes]) -> dict[bytes, Task]:
    """Look up the known tasks at these keys of SPECS."""
    specs = zip(keys, store.get(layout.SPECS, keys), strict=True)
    taskids = {
        key: decode_record(layout.SPECS, key, _decode_spec, value).taskid for key, value in specs if value is not None
    }
    id_keys = [layout.id_key(layout.project_of(key), taskid) for key, taskid in taskids.items()]
    records = zip(taskids.items(), id_keys, store.get(layout.IDS, id_keys), strict=True)
    return {
        key: decode_record(layout.IDS, id_key, layout.task_of, layout.project_of(key), taskid, record)
        for (key, taskid), id_key, record in records
        if record is not None
    }
