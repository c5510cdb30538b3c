"""Look up what a turn of the core needs; each family is read once a turn, in one batch.

    tasks, whole, answered    ──ids──► records ──(whole, or the token matches)──► specs
    orders                    ──scan─► records ──specs──► tasks with specs, up to the limits
    lists                     the same with filters, see ``records/tasks``
    pages                     ──scan─► ids ──(whole)──► specs, up to the limits ──(errors)──► history
    old                       ──scan─► records past their retention, see ``records/tasks``
    failures, log             ──scan─► entries
    specs, sessions, histories, results, points    read by key

Things that the store does not have are left out. A record that can't be decoded raises Unreadable: guessing would
lose tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Raw

from taskqueue.core.model.needs import ChangeRecord, Found, FoundPage, LogRef, Needs, PageRef, SpecRef
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import ATTEMPTS_KEPT, Task
from taskqueue.protocol.fields import OUTCOME_WINDOW
from taskqueue.protocol.values import Attempt
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from taskqueue.store.records.edges import find_edges, find_parents, find_propagations, read_tasks, walk
from taskqueue.store.records.flows import find_members, find_stages
from taskqueue.store.records.insight import find_failures, find_points
from taskqueue.store.records.layout import AWAITED
from taskqueue.store.records.operations import find_rerun, find_undo
from taskqueue.store.records.reading import decode_record
from taskqueue.store.records.slots import find_slot_answers, find_slots
from taskqueue.store.records.tasks import (
    find_expired,
    find_list,
    find_order,
    growing_chunks,
    read_history,
    read_results,
    up_to_bytes,
)

PAGE_BYTES: Final = 1 << 20
"""Bytes of URLs and bodies that end a page, but not before its first task."""


LATER_BYTES: Final = 16 << 20
"""Bytes of bodies that one turn reads, at most, if a later turn could read them."""
AT_A_TIME: Final = 8
"""Specs per read, if later turns may read them."""


def find(store: Store, needs: Needs) -> Found:
    """Answer the needs of a turn.

    Raises:
        StoreError: the store failed.
        Unreadable: a record can't be decoded; the message names its family and key.
    """
    found = Found()
    if needs.tasks or needs.answered or needs.whole:
        _find_tasks(store, needs, found)
    if needs.specs:
        found.specs = _specs(store, needs.specs)
    if needs.later:
        _find_later(store, needs.later, found)
    if needs.orders:
        found.orders = [find_order(store, ref) for ref in needs.orders]
    if needs.sessions:
        found.sessions = {session: _outcomes(store, session) for session in needs.sessions}
    if needs.histories:
        found.histories = {ref: read_history(store, ref) for ref in needs.histories}
    if needs.results:
        found.results = read_results(store, needs.results)
    if needs.lists:
        found.lists = {ref: find_list(store, ref) for ref in needs.lists}
    if needs.pages:
        found.pages = {ref: _page(store, ref) for ref in needs.pages}
    if needs.old:
        found.old = {ref: find_expired(store, ref) for ref in needs.old}
    if needs.failures:
        found.failures = {ref: find_failures(store, ref) for ref in needs.failures}
    if needs.points:
        found.points = {(ref.session, ref.n): (ref, find_points(store, ref)) for ref in needs.points}
    if needs.edges:
        find_edges(store, needs.edges, found)
    if needs.parents:
        find_parents(store, needs.parents, found)
    if needs.walks:
        found.walks = {ref: walk(store, ref, found) for ref in needs.walks}
    if needs.propagations is not None:
        find_propagations(store, needs.propagations, found)
    if needs.stages:
        find_stages(store, needs.stages, found)
    if needs.members:
        find_members(store, needs.members, found)
    if needs.rerun is not None:
        found.rerun = find_rerun(store, needs.rerun, found)
    if needs.undo is not None:
        found.undo = find_undo(store, needs.undo, found)
        pages = [page for page in found.undo.pages if page is not None]
        updated = [(page.project, taskid) for page in pages for taskid in page.updates]
        _fill(store, [found.tasks[ref] for ref in updated if ref in found.tasks])
    if needs.slot_names or needs.slots or needs.slot_pages:
        find_slots(store, needs, found)
    if needs.slot_questions:
        found.slot_answers = find_slot_answers(store, needs.slot_questions, found)
    for part in needs.log:
        found.log.update((entry.number, entry) for entry in _log(store, part))
    return found


def _log(store: Store, ref: LogRef) -> Iterator[ChangeRecord]:
    for key, value in store.scan(layout.LOG, layout.log_key(ref.first), layout.log_key(ref.end), ref.end - ref.first):
        yield decode_record(layout.LOG, key, layout.decode_log, value)


# ------------------------------------------------------------------------------------------------ by taskid


def _find_tasks(store: Store, needs: Needs, found: Found) -> None:
    """Look up tasks by taskid.

    The body of a task that is answered with a wrong token is not read, so that guessing tokens stays cheap.
    """
    answered = [(project, taskid) for project, taskid, _ in needs.answered]
    found.tasks, found.awaited = read_tasks(store, [*needs.tasks, *needs.whole, *answered])
    tasks = found.tasks
    if not tasks:
        return
    whole: list[tuple[int, str]] = [ref for ref in needs.whole if ref in tasks]
    for ref, said in zip(answered, needs.answered, strict=True):
        if ref in tasks and tasks[ref].token == said.token:  # only an answer with the right token counts
            whole.append(ref)
    if whole:
        _fill(store, [tasks[ref] for ref in dict.fromkeys(whole)])


def _fill(store: Store, tasks: Sequence[Task]) -> None:
    """Load the specs of the tasks."""
    refs = [SpecRef(task.project, task.seq) for task in tasks]
    specs = _specs(store, refs)
    for ref, task in zip(refs, tasks, strict=True):
        if ref in specs:
            layout.fill(task, specs[ref])


def _specs(store: Store, refs: Sequence[SpecRef]) -> dict[SpecRef, Spec]:
    keys = [layout.seq_key(project, seq) for project, seq in refs]
    return {
        ref: decode_record(layout.SPECS, key, layout.decode_spec, value)[1]
        for ref, key, value in zip(refs, keys, store.get(layout.SPECS, keys), strict=True)
        if value is not None
    }


def _find_later(store: Store, refs: Sequence[SpecRef], found: Found) -> None:
    """Read a few specs at a time until their bodies reach LATER_BYTES."""
    left = LATER_BYTES
    while refs and left > 0:
        some, refs = refs[:AT_A_TIME], refs[AT_A_TIME:]
        specs = _specs(store, some)
        left -= sum(len(spec.body) for spec in specs.values())
        found.specs.update(specs)
        found.later += some


def _page(store: Store, ref: PageRef) -> FoundPage:
    """Read a page of a project's tasks by taskid.

    Reads one entry more than asked for, to know whether the page is the last.
    """
    start = layout.id_key(ref.project, ref.after) + (b"\0" if ref.after else b"")
    entries = store.scan(layout.IDS, start, layout.project_key(ref.project + 1), ref.limit + 1)
    looked_at = entries[: ref.limit]
    end = layout.JOB_MARK + ref.job.encode() if ref.job else b""
    known = tasks = [
        decode_record(layout.IDS, key, layout.task_of, ref.project, _taskid_in(key), record)
        for key, record in looked_at
        if record != AWAITED and record.endswith(end)
    ]
    if ref.whole:
        tasks = up_to_bytes(PAGE_BYTES, _filled(store, tasks))
    attempts = _attempts(store, tasks) if ref.errors else {}
    is_whole = len(tasks) == len(known)
    last = _taskid_in(looked_at[-1][0]) if is_whole and looked_at else tasks[-1].taskid if tasks else ref.after
    return FoundPage(ref, tasks, attempts, end=is_whole and len(looked_at) == len(entries), last=last)


def _taskid_in(key: bytes) -> str:
    return decode_record(layout.IDS, key, bytes.decode, key[layout.PROJECT_BYTES :])


def _filled(store: Store, tasks: list[Task]) -> Iterator[Task]:
    for some in growing_chunks(tasks):
        _fill(store, some)
        yield from some


def _attempts(store: Store, tasks: Sequence[Task]) -> dict[str, Attempt]:
    """Load the last attempts, by taskid."""
    keys = [layout.attempt_key(task.project, task.taskid, (task.attempts - 1) % ATTEMPTS_KEPT) for task in tasks]
    return {
        task.taskid: decode_record(layout.HISTORY, key, layout.decode_attempt, value)
        for task, key, value in zip(tasks, keys, store.get(layout.HISTORY, keys), strict=True)
        if value is not None
    }


def _outcomes(store: Store, session: str) -> dict[int, Raw]:
    prefix = layout.session_key(session)
    entries = store.scan(layout.OUTCOMES, prefix, prefix + b"\xff", OUTCOME_WINDOW)
    return dict(decode_record(layout.OUTCOMES, key, layout.decode_outcome, value) for key, value in entries)
