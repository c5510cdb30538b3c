"""Names orphans in a project whose records, entries and specs differ in number.

    record ──► entry at its key, or a lease         spec ──► record with its seq, or a lease

``consistency`` explains why this is not done for every project.
"""

from __future__ import annotations

from collections.abc import Iterator

from taskqueue.core.tasks.task import LIVE, PROCESSING, STATE_NAMES, Task
from taskqueue.store.contract import StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.link_bytes import AWAITED
from taskqueue.store.records.pages import pages
from taskqueue.store.tools.allowed_absences import is_cleared
from taskqueue.store.tools.findings import Findings, Tally


def find_orphans(store: StoreReader, findings: Findings, tally: Tally) -> None:
    """Add a project's orphans to the findings; if none can be named, add that the numbers differ."""
    before = findings.found
    for key, task in _records(store, tally):
        if not is_cleared(task, tally.record.cleared) and not task.bare and not _has_place(store, task):
            reason = f"its record says {STATE_NAMES[task.state]}, but it has no entry in that order"
            findings.note(layout.IDS, tally.name, task.taskid, key, reason)
    for key, taskid in _orphan_specs(store, tally):
        findings.note(layout.SPECS, tally.name, taskid, key, "it belongs to no task")
    if findings.found == before:
        reason = (
            f"{tally.ids:,} records, {tally.unlisted:,} unlisted tasks, {sum(tally.places):,} entries, "
            f"{sum(tally.bare):,} bare tasks and {tally.specs:,} specs do not add up"
        )
        findings.note(layout.PROJECTS, tally.name, "", b"", reason)


def _records(store: StoreReader, tally: Tally) -> Iterator[tuple[bytes, Task]]:
    number = tally.record.number
    for page in pages(store, layout.IDS, layout.project_key(number), layout.project_key(number + 1)):
        for key, record in page:
            if record == AWAITED:
                continue
            try:
                yield key, layout.task_of(number, key[4:].decode(), record)
            except layout.UNREADABLE:
                continue  # noted already


def _has_place(store: StoreReader, task: Task) -> bool:
    """Whether the task has an entry of its own. While it is processing its record may say where it was before."""
    family = layout.ORDERS.get(task.state)
    if family is None:
        return False
    if store.get(family, [layout.order_key(task.project, task.key)])[0] is not None:
        spec = store.get(layout.SPECS, [layout.seq_key(task.project, task.seq)])[0]
        return spec is None or _taskid(spec) in (None, task.taskid)
    return task.state in LIVE and _leased(store, task.project, task.seq) == task.taskid


def _leased(store: StoreReader, project: int, seq: int) -> str | None:
    """The taskid of the lease with this seq; None if there is none."""
    value = store.get(layout.ORDERS[PROCESSING], [layout.order_key(project, seq)])[0]
    try:
        return None if value is None else layout.decode_lease(project, value).taskid
    except layout.UNREADABLE:
        return None


def _orphan_specs(store: StoreReader, tally: Tally) -> Iterator[tuple[bytes, str]]:
    number = tally.record.number
    for page in pages(store, layout.SPECS, layout.project_key(number), layout.project_key(number + 1)):
        taskids = [_taskid(value) for _, value in page]
        records = store.get(layout.IDS, [layout.id_key(number, taskid or "") for taskid in taskids])
        for (key, _), taskid, record in zip(page, taskids, records, strict=True):
            seq = layout.seq_of(key)
            if taskid is None or not (_has_seq(record, seq, number, taskid) or _leased(store, number, seq) == taskid):
                yield key, taskid or ""


def _taskid(spec: bytes) -> str | None:
    try:
        return layout.decode_spec(spec)[0]
    except layout.UNREADABLE:
        return None


def _has_seq(record: bytes | None, seq: int, project: int, taskid: str) -> bool:
    try:
        task = None if record is None else layout.task_of(project, taskid, record)
    except layout.UNREADABLE:
        return False
    return task is not None and task.seq == seq and not task.bare
