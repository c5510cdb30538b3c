"""Checks that the entries of a store are consistent, in bounded memory.

    orders ──► spec, record       each entry has both, and they agree with it
    ids, specs                    are counted: if there are as many as entries, each belongs to one
    projects                      their counts are those of the entries
    history, deferred, counters   belong to tasks and projects that exist
    edges                         are there in both orders, and counted: ``edge_check``
    flows                         have what was staged, and count their tasks: ``flow_check``
    results                       belong to tasks that have one, and are as many
    slots                         are found in their orders, if they have ready tasks: ``slot_check``

A record names its entry's key, so two entries can't share one record: equal numbers mean that none lacks its
counterpart. Only if the numbers differ is each record and spec looked up, to name the orphans: ``orphans``. What a
sound store may lack: ``allowed_absences``.

Whether all tasks agree is first seen without looking any up: ``fingerprints``. Only if they may not, the families are
read again, with two look-ups per entry, to name what does not agree; that takes four times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.core.tasks.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    LIVE,
    OVER,
    PROCESSING,
    READY,
    STATE_NAMES,
    SUCCESS,
    WAITING,
    Task,
    is_retry,
)
from taskqueue.errors import StoreError, Unreadable
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.damaged_rows import DamagedRows
from taskqueue.store.files.integrity import is_damage
from taskqueue.store.records import layout, over_entries
from taskqueue.store.records.decoding import stored_number
from taskqueue.store.records.edges import decode_propagation
from taskqueue.store.records.epoch import EPOCH_KEY
from taskqueue.store.records.format import META
from taskqueue.store.records.link_bytes import AWAITED
from taskqueue.store.records.pages import pages
from taskqueue.store.tools.allowed_absences import is_cleared, may_be_unlisted
from taskqueue.store.tools.edge_check import EdgeCheck
from taskqueue.store.tools.findings import Findings, Tally
from taskqueue.store.tools.fingerprints import Doubt, Fingerprints
from taskqueue.store.tools.flow_check import FlowCheck
from taskqueue.store.tools.order_bounds import find_below_bounds
from taskqueue.store.tools.orphans import find_orphans
from taskqueue.store.tools.record_names import described, state_text, task_at, taskid_of_attempt
from taskqueue.store.tools.slot_check import SlotCheck

T = TypeVar("T")
Entry = tuple[bytes, bytes]
Progress = Callable[[int], object]
"""Called with the number of entries that have been read."""

SMALL: Final[dict[Family, Callable[[bytes], object]]] = {
    layout.COUNTERS: layout.decode_counters,
    layout.BUCKETS: layout.decode_bucket,
    layout.OPERATIONS: layout.decode_operation,
    layout.MEMBERS: layout.decode_members,
    layout.SESSIONS: layout.decode_session,
    layout.OUTCOMES: layout.decode_outcome,
    layout.FAILURES: layout.decode_failure,
    layout.LOG: layout.decode_log,
    layout.POINTS: layout.decode_events,
}
"""Families that only have to be decodable; keys of the first begin with a project."""

_PROJECT_BYTES: Final = 4


def check(
    store: StoreReader,
    findings: Findings,
    progress: Progress = lambda entries: None,
    damaged: DamagedRows | None = None,
) -> Findings:
    """Check all entries, adding problems to the findings.

    Args:
        damaged: the rows that reads of the store pass over; None: such a row is an error of the read.

    Raises:
        StoreError: the store can't be read.
    """
    damaged = DamagedRows() if damaged is None else damaged
    quick = Findings()
    if _all_agree(store, quick, progress, damaged):
        findings.entries, findings.tasks = quick.entries, quick.tasks
    else:
        find_problems(store, findings, progress, damaged)
    return findings


def find_problems(store: StoreReader, findings: Findings, progress: Progress, damaged: DamagedRows) -> None:
    """Check all entries, each looked up where others refer to it; see ``check``, which is quicker if there are none."""
    _Check(store, findings, progress, damaged).run()


def _all_agree(store: StoreReader, findings: Findings, progress: Progress, damaged: DamagedRows) -> bool:
    """Whether all entries agree, as far as that shows without looking each of them up; False says nothing."""
    try:
        _Check(store, findings, progress, damaged, is_quick=True).run()
    except (Doubt, *layout.UNREADABLE):
        return False
    return not findings.found


class _Check:
    def __init__(
        self,
        store: StoreReader,
        findings: Findings,
        progress: Progress,
        damaged: DamagedRows,
        *,
        is_quick: bool = False,
    ) -> None:
        self._is_quick = is_quick
        self._store = store
        self._damaged = damaged
        self._told = 0
        self._findings = findings
        self._progress = progress
        self._tallies: dict[int, Tally] = {}
        self._names: set[str] = set()
        self._epoch = stored_number(store, EPOCH_KEY, 0)
        self._edges = EdgeCheck(store, self._tallies, self._note)
        self._flows = FlowCheck(self._note)
        self._slots = SlotCheck(store, self._tallies, self._note)

    def run(self) -> None:
        self._meta()
        self._each(layout.PROJECTS, self._projects)
        self._each(layout.FLOWS, self._flows.flows)
        self._each(layout.SLOT_NAMES, self._slots.names)
        self._each(layout.SLOTS, self._slots.slots)
        self._each(layout.SLOTS_READY, self._slots.ready)
        self._each(layout.SLOTS_WAITING, self._slots.waiting)
        (self._compare_tasks if self._is_quick else self._look_up_tasks)()
        self._each(layout.PARENTS, self._edges.parents)
        self._edges.finish()
        self._each(layout.CHILDREN, self._edges.children)
        for family in (layout.STAGES, layout.STAGE_IDS):
            self._each(family, partial(self._flows.staged, family))
        for family, decode in SMALL.items():
            self._each(family, partial(self._small, family, decode))
        self._each(layout.PROPAGATIONS, self._propagations)
        self._each(layout.RERUNS, lambda page: None)
        if self._findings.unreadable:
            return
        self._flows.finish()
        self._next_project()
        for drained in filter(None, self._store.get(META, [layout.DRAINED_KEY])):
            self._read(META, layout.DRAINED_KEY, layout.decode_drained, drained)
        for tally in self._tallies.values():
            self._compare(tally)

    def _look_up_tasks(self) -> None:
        """Check the families of tasks entry by entry."""
        for state, family in layout.ORDERS.items():
            look = self._waiting if state in WAITING else self._leases if state == PROCESSING else self._over
            self._each(family, partial(look, state))
        self._each(layout.IDS, self._ids)
        self._each(layout.SPECS, self._specs)
        self._each(layout.DEFERRED, self._deferred)
        self._each(layout.HISTORY, self._history)
        self._each(layout.RESULTS, self._results)

    def _compare_tasks(self) -> None:
        """Check the families of tasks by their fingerprints; leases and what waits for them, which are few, are looked
        up.

        Raises:
            Doubt: they may not agree.
        """
        tasks = Fingerprints(self._store, self._tallies, self._epoch, self._edges, self._flows, self._slots)

        def leases(page: Sequence[Entry]) -> None:
            self._leases(PROCESSING, page)
            tasks.leases(page)

        self._each(layout.ORDERS[PROCESSING], leases)
        self._each(layout.DEFERRED, self._deferred)
        for family, look in tasks.looks().items():
            self._each(family, look)
        tasks.finish()

    def _each(self, family: Family, look: Callable[[Sequence[Entry]], None]) -> None:
        """Read a family in pages. Corruption in a table ends the reading of this family, and counts are not compared
        any more.
        """
        try:
            for page in pages(self._store, family):
                whole = self._with_project(family, page)
                if whole:
                    look(whole)
                self._findings.entries += len(page)
                self._progress(self._findings.entries)
                if self._is_quick and self._findings.found:
                    raise Doubt
        except Unreadable as error:
            for of, key, reason in error.rows:
                self._note(of, key, reason)
        except StoreError as error:
            if not is_damage(error):
                raise
            self._findings.note_unreadable(error)
        self._tell_damaged()

    def _tell_damaged(self) -> None:
        """Report the rows that have been passed over since this was called last."""
        for row in islice(self._damaged, self._told, None):
            self._note(row.family, row.key, row.reason, _taskid_in(row.family, row.key))
        self._told = len(self._damaged)

    # ------------------------------------------------------------------------------------------ projects

    def _meta(self) -> None:
        for key in layout.META_KEYS:
            try:
                self._store.get(META, [key])
                family = {layout.NEXT_LOG_KEY: layout.LOG, layout.NEXT_FLOW_KEY: layout.FLOWS}.get(key)
                if family is not None and self._is_taken(family, stored_number(self._store, key, 1)):
                    self._note(META, key, "it is a number that is taken")
            except Unreadable as error:
                self._note(META, key, error.rows[0][2])

    def _is_taken(self, family: Family, number: int) -> bool:
        """Whether a family whose keys are numbers has this one, or a larger one."""
        size = 4 if family == layout.FLOWS else 8
        return bool(self._store.scan(family, number.to_bytes(size, "big"), layout.LAST_KEY, 1))

    def _projects(self, page: Sequence[Entry]) -> None:
        for key, value in page:
            record = self._read(layout.PROJECTS, key, layout.decode_project, value)
            if record is None:
                continue
            if layout.project_of(key) != record.number:
                self._note(layout.PROJECTS, key, f"the record has number {record.number}")
                continue
            if record.name in self._names:
                self._note(layout.PROJECTS, key, f'there is another project "{record.name}"')
            self._names.add(record.name)
            self._tallies[record.number] = Tally(record)

    def _next_project(self) -> None:
        try:
            next_one = stored_number(self._store, layout.NEXT_PROJECT_KEY, 1)
        except Unreadable as error:
            self._note(META, layout.NEXT_PROJECT_KEY, str(error))
            return
        if self._tallies and next_one <= max(self._tallies):
            self._note(META, b"", f"the next project is to get number {next_one}, but {max(self._tallies)} is taken")

    def _compare(self, tally: Tally) -> None:
        """Compare what was counted with the project's record."""
        record = tally.record
        self._findings.tasks += sum(tally.places) + sum(tally.bare)
        for state, name in enumerate(STATE_NAMES[1:], 1):
            there, said = tally.places[state] + tally.bare[state], getattr(record.counts, name)
            if there != said:
                self._say(layout.PROJECTS, tally, f"there are {there:,} tasks {name}; the project counts {said:,}")
        if tally.unfinished != record.unfinished:
            reason = f"{tally.unfinished:,} tasks are unfinished; the project counts {record.unfinished:,}"
            self._say(layout.PROJECTS, tally, reason)
        if record.held_back not in (None, tally.held_back):
            reason = f"{tally.held_back:,} tasks wait for a retry; the project counts {record.held_back:,}"
            self._say(layout.PROJECTS, tally, reason)
        if tally.results != tally.with_result:
            reason = f"{tally.with_result:,} tasks have a result, and {tally.results:,} of these are there"
            self._say(layout.RESULTS, tally, reason)
        find_below_bounds(self._store, record, self._note)
        if tally.lacks_places or tally.lacks_specs:
            find_orphans(self._store, self._findings, tally)

    # ------------------------------------------------------------------------------------------ orders

    def _waiting(self, state: int, page: Sequence[Entry]) -> None:
        """Check ready and delayed tasks: the entry is the record, and the spec has the taskid."""
        family = layout.ORDERS[state]
        if state == READY:
            self._slots.tasks(page)
        taskids = self._taskids(family, page)
        records = self._records(page, taskids)
        for (key, value), taskid, record in zip(page, taskids, records, strict=True):
            tally = self._tally(family, key)
            task = self._read(family, key, layout.task_of, layout.project_of(key), taskid or "", value)
            if tally is None or task is None or not self._is_here(family, state, key, task):
                continue
            tally.places[state] += 1
            tally.unfinished += not task.apart
            tally.held_back += is_retry(task)
            self._check_number(family, key, task)
            if taskid is not None and record != value:
                self._note(layout.IDS, key, f"{described(record)}; an entry says {STATE_NAMES[state]}", taskid)
            if is_cleared(task, tally.record.cleared):
                self._note(family, key, "the project was cleared of it", taskid or "")

    def _leases(self, state: int, page: Sequence[Entry]) -> None:
        family = layout.ORDERS[state]
        leased = [self._read(family, key, layout.decode_lease, layout.project_of(key), value) for key, value in page]
        taskids = [None if task is None else task.taskid for task in leased]
        records = self._records(page, taskids)
        for (key, _), task, spec_of, record in zip(page, leased, self._taskids(family, page), records, strict=True):
            tally = self._tally(family, key)
            if tally is None or task is None or not self._is_here(family, state, key, task):
                continue
            tally.places[state] += 1
            tally.unfinished += not task.apart
            tally.unlisted += record is None
            self._check_number(family, key, task)
            self._check_spec(family, key, task.taskid, spec_of)
            for reason in self._lease_problems(key, task, record):
                self._note(family, key, reason, task.taskid)

    def _lease_problems(self, key: bytes, leased: Task, record: bytes | None) -> list[str]:
        if record is None:
            return [] if may_be_unlisted(leased) else ["the task is unknown, and has been run before"]
        task = self._read(layout.IDS, key, layout.task_of, leased.project, leased.taskid, record)
        if task is None:
            return []
        self._flows.count_lease(leased, task)
        if (task.seq, task.attempts, task.state in LIVE) != (leased.seq, leased.attempts, True):
            return [f"{described(record)}, with another seq or other attempts than its lease"]
        place = layout.order_key(task.project, task.key)
        if task.state in WAITING and self._store.get(layout.ORDERS[task.state], [place])[0] is not None:
            return [f"it is {STATE_NAMES[task.state]}, too"]
        return []

    def _over(self, state: int, page: Sequence[Entry]) -> None:
        family = layout.ORDERS[state]
        taskids = [
            self._read(family, key, lambda value: over_entries.taskid_at(value).decode(), value) for key, value in page
        ]
        records = self._records(page, taskids)
        specs_of = self._taskids(family, page)
        for (key, value), taskid, record, spec_of in zip(page, taskids, records, specs_of, strict=True):
            tally = self._tally(family, key)
            if tally is None or taskid is None:
                continue
            tally.places[state] += 1
            self._check_spec(family, key, taskid, spec_of)
            if state == SUCCESS:
                self._read(family, key, over_entries.decode_success, key, value)
            self._read(family, key, over_entries.error_at, value)
            task = (
                None
                if record is None
                else self._read(layout.IDS, key, layout.task_of, tally.record.number, taskid, record)
            )
            if task is None or (task.state, layout.order_key(task.project, task.key)) != (state, key):
                self._note(layout.IDS, key, f"{described(record)}; an entry says {STATE_NAMES[state]}", taskid)
            elif task.bare:
                self._note(family, key, "it has an entry, though it is bare", taskid)

    # ------------------------------------------------------------------------------------------ by taskid, by seq

    def _ids(self, page: Sequence[Entry]) -> None:
        for key, record in page:
            tally = self._tally(layout.IDS, key)
            if record == AWAITED:
                self._edges.awaited(key)
                continue
            task = None if tally is None else self._read(layout.IDS, key, task_at, key, record)
            if tally is None or task is None:
                continue
            if is_cleared(task, tally.record.cleared):
                tally.left += 1
                continue
            tally.ids += 1
            self._flows.count(task)
            tally.with_result += task.has_result
            if task.state == BLOCKED and (task.links is None or not task.links.missing):
                self._note(layout.IDS, key, "it is blocked by nothing", task.taskid)
            self._check_number(layout.IDS, key, task)
            if task.bare and task.state in OVER:
                tally.bare[task.state] += 1
            elif task.bare:
                self._note(layout.IDS, key, f"{described(record)}, though it is bare", task.taskid)

    def _specs(self, page: Sequence[Entry]) -> None:
        for key, _ in page:
            if (tally := self._tally(layout.SPECS, key)) is not None:
                tally.specs += 1

    def _deferred(self, page: Sequence[Entry]) -> None:
        places = [layout.order_key(layout.project_of(key), layout.seq_of(key)) for key, _ in page]
        leases = self._store.get(layout.ORDERS[PROCESSING], places)
        for (key, value), lease in zip(page, leases, strict=True):
            item = self._read(layout.DEFERRED, key, layout.decode_deferred, value)
            if self._tally(layout.DEFERRED, key) is not None and item is not None and lease is None:
                self._note(layout.DEFERRED, key, "it waits for the end of a lease that there is not", item.taskid)

    def _history(self, page: Sequence[Entry]) -> None:
        taskids = [self._read(layout.HISTORY, key, taskid_of_attempt, key) for key, _ in page]
        records = self._records(page, taskids)
        for (key, value), taskid, record in zip(page, taskids, records, strict=True):
            self._read(layout.HISTORY, key, layout.decode_attempt, value)
            if self._tally(layout.HISTORY, key) is None or taskid is None:
                continue
            task = None if record is None else self._read(layout.HISTORY, key, layout.task_of, 0, taskid, record)
            if task is None or task.bare:
                self._note(layout.HISTORY, key, "an attempt of a task that is unknown or bare", taskid)
            if key[-1] >= ATTEMPTS_KEPT:
                self._note(layout.HISTORY, key, f"slot {key[-1]}; there are {ATTEMPTS_KEPT}", taskid)

    def _results(self, page: Sequence[Entry]) -> None:
        for (key, value), record in zip(page, self._store.get(layout.IDS, [key for key, _ in page]), strict=True):
            self._read(layout.RESULTS, key, layout.decode_result, value)
            tally = self._tally(layout.RESULTS, key)
            task = None if record is None else self._read(layout.IDS, key, task_at, key, record)
            if tally is None or (task is not None and is_cleared(task, tally.record.cleared)):
                continue
            if task is None or not task.has_result:
                self._note(layout.RESULTS, key, "a result of a task that has none")
            else:
                tally.results += 1

    def _small(self, family: Family, decode: Callable[[bytes], object], page: Sequence[Entry]) -> None:
        for key, value in page:
            self._read(family, key, decode, value)
            if family == layout.COUNTERS:
                self._tally(family, key)

    def _propagations(self, page: Sequence[Entry]) -> None:
        for key, value in page:
            self._read(layout.PROPAGATIONS, key, decode_propagation, key, value)

    # ------------------------------------------------------------------------------------------ what they share

    def _taskids(self, family: Family, page: Sequence[Entry]) -> list[str | None]:
        """Taskids in the specs of the entries; None: there is no spec, or it can't be decoded."""
        keys = [layout.spec_key_of(key) for key, _ in page]
        taskids: list[str | None] = []
        for (place, _), key, value in zip(page, keys, self._store.get(layout.SPECS, keys), strict=True):
            if value is None:
                self._note(family, place, "its spec is missing")
            found = None if value is None else self._read(layout.SPECS, key, layout.decode_spec, value)
            taskids.append(None if found is None else found[0])
        return taskids

    def _records(self, page: Sequence[Entry], taskids: Sequence[str | None]) -> list[bytes | None]:
        """Records by the projects of the entries and these taskids; None for an unknown task."""
        keys = [
            layout.id_key(layout.project_of(key), taskid or "") for (key, _), taskid in zip(page, taskids, strict=True)
        ]
        return self._store.get(layout.IDS, keys)

    def _is_here(self, family: Family, state: int, key: bytes, task: Task) -> bool:
        is_here = (task.state, layout.order_key(task.project, task.key)) == (state, key)
        if not is_here:
            self._note(family, key, f"its record says {state_text(task.state)}, key {task.key:032x}", task.taskid)
        return is_here

    def _check_spec(self, family: Family, key: bytes, taskid: str, found: str | None) -> None:
        if found is not None and found != taskid:
            self._note(family, key, f"its spec is that of {found!r}", taskid)

    def _check_number(self, family: Family, key: bytes, task: Task) -> None:
        """A seq of a future epoch would be issued once more."""
        if task.seq >> EPOCH_SHIFT > self._epoch:
            self._note(family, key, f"its seq is of an epoch after {self._epoch}, the newest", task.taskid)

    def _with_project(self, family: Family, page: Sequence[Entry]) -> Sequence[Entry]:
        """The entries whose keys are long enough to begin with a project, if the family has projects."""
        if family not in layout.PROJECT_FAMILIES or min([len(key) for key, _ in page]) >= _PROJECT_BYTES:
            return page
        for key, _ in page:
            if len(key) < _PROJECT_BYTES:
                self._note(family, key, "it is too short for a key")
        return [entry for entry in page if len(entry[0]) >= _PROJECT_BYTES]

    def _tally(self, family: Family, key: bytes) -> Tally | None:
        """The tally of the key's project; None, and a problem, if there is no such project."""
        tally = self._tallies.get(layout.project_of(key))
        if tally is None:
            self._note(family, key, "it is of no known project")
        return tally

    def _read(self, family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T | None:
        try:
            return decode(*value)
        except layout.UNREADABLE as error:
            self._note(family, key, f"can't be read ({error})")
            return None

    def _note(self, family: Family, key: bytes, reason: str, taskid: str = "") -> None:
        number = layout.project_of(key) if len(key) >= _PROJECT_BYTES and family in layout.PROJECT_FAMILIES else None
        known = None if number is None else self._tallies.get(number)
        project = known.name if known is not None else "" if number is None else f"#{number}"
        self._findings.note(family, project, taskid, key, reason)

    def _say(self, family: Family, tally: Tally, reason: str) -> None:
        self._findings.note(family, tally.name, "", b"", reason)


def _taskid_in(family: Family, key: bytes) -> str:
    """The taskid in a key of ids or results; empty in other families, which have none or other things around it."""
    return key[_PROJECT_BYTES:].decode(errors="replace") if family in (layout.IDS, layout.RESULTS) else ""
