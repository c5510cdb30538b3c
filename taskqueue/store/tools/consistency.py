"""Check that the entries of a store are consistent, in bounded memory. RULES lists the possible problems of entries.

    orders ──► spec, record       each entry has both, and they agree with it
    ids, specs                    are counted: equal numbers mean that each belongs to an entry
    projects                      have the counts of the entries: TOTALS
    history, deferred, counters   belong to tasks and projects that exist
    edges, flows, slots, rows     ``relations``
    results                       belong to tasks that have one, in equal number

A record names its entry's key, so two entries can't share one record: with equal numbers none lacks its counterpart. If
the numbers differ, each record and spec is looked up, to name the orphans. ``findings`` lists what a sound store may
lack.

A first pass compares all tasks without looking any up: ``fingerprints``. Only if they may differ, the families are read
again, with two look-ups per entry, to name the problems; that takes up to five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeVar

from msgspec import Struct

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    DELAYED,
    KEY_BYTES,
    LIVE,
    OVER,
    PROCESSING,
    READY,
    SLOT_SHIFT,
    STATE_NAMES,
    SUCCESS,
    WAITING,
    Task,
    is_retry,
)
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.errors import StoreError, Unreadable
from taskqueue.store.contract import Entry, Family, StoreReader
from taskqueue.store.damaged_rows import DamagedRows
from taskqueue.store.files.integrity import is_damage
from taskqueue.store.records import layout
from taskqueue.store.records.format import META
from taskqueue.store.records.layout import AWAITED, PROJECT_BYTES, STATE_MASK
from taskqueue.store.records.reading import pages, stored_number
from taskqueue.store.tools.findings import Checked, Findings, Tally, is_cleared
from taskqueue.store.tools.fingerprints import Doubt, Fingerprints, Look
from taskqueue.store.tools.relations import EdgeCheck, FlowCheck, RowsCheck, SlotCheck

T = TypeVar("T")
Progress = Callable[[int], object]
"""Function that is called with the number of entries read so far."""

SMALL: Final[dict[Family, Callable[[bytes], object]]] = {
    layout.COUNTERS: layout.decode_counters,
    layout.BUCKETS: layout.decode_bucket,
    layout.OPERATIONS: layout.decode_operation,
    layout.MEMBERS: layout.decode_members,
    layout.UNDO_ROWS: layout.decode_undo_page,
    layout.SESSIONS: layout.decode_session,
    layout.OUTCOMES: layout.decode_outcome,
    layout.FAILURES: layout.decode_failure,
    layout.LOG: layout.decode_log,
    layout.POINTS: layout.decode_events,
}
"""Families whose values only have to be decodable; keys of the first begin with a project."""

# ------------------------------------------------------------------------------------------------ the table of rules


NO_TASK: Final = Task(0, "", 0, 0, 0, bare=True)
"""Placeholder for the unknown task of an entry."""


class Seen(Struct, gc=False):
    """Entry about a task, with its looked-up counterparts.

    Attributes:
        record: record of the task in ids; for a deferred update, the lease whose end it awaits.
        spec_of: taskid in the spec; None if there is no spec, or it can't be decoded.
        task: task as in the entry, or else in its record.
        recorded: task as in the record, for a lease; None if the record is absent or can't be decoded.
    """

    checked: Checked
    tally: Tally
    family: Family
    key: bytes
    value: bytes
    taskid: str
    record: bytes | None
    spec_of: str | None = None
    task: Task = NO_TASK
    recorded: Task | None = None

    @property
    def is_here(self) -> bool:
        """Whether the task names the entry's place as its own."""
        task = self.task
        return layout.order_key(task.project, task.key) == self.key and layout.ORDERS.get(task.state) == self.family

    @property
    def says(self) -> str:
        """Text about the task's state in its record in ids."""
        if self.record is None:
            return "the task is unknown"
        return f"its record says {_name_of(self.record[0] & STATE_MASK if self.record else 0)}"


def _name_of(state: int) -> str:
    return STATE_NAMES[state] if 0 < state < len(STATE_NAMES) else "nothing"


Told = str | Literal[False]


class Rule(NamedTuple):
    """Possible problem of entries of some families: ``told`` returns its text, or False.

    The problem is reported for the entry's own family, or for ``of``.
    """

    families: Sequence[Family]
    told: Callable[[Seen], Told]
    of: Family | None = None


def _lease_reason(e: Seen) -> Told:
    lease, task = e.task, e.recorded
    if e.record is None:  # a task that was never run may have been dispatched by the turn that created it
        return bool(lease.attempts or lease.lastcrawltime) and "the task is unknown, and has been run before"
    if task is None:
        return False
    if (task.seq, task.attempts, task.state in LIVE) != (lease.seq, lease.attempts, True):
        return f"{e.says}, with another seq or other attempts than its lease"
    place = layout.order_key(task.project, task.key)
    is_twice = task.state in WAITING and e.checked.store.get(layout.ORDERS[task.state], [place])[0] is not None
    return is_twice and f"it is {STATE_NAMES[task.state]}, too"


def _record_reason(e: Seen) -> Told:
    """Compare a record with its entry: a waiting task's entry is its record; others name their place."""
    state = layout.STATE_OF[e.family]
    is_wrong = e.spec_of is not None and e.record != e.value if state in WAITING else not e.is_here
    return is_wrong and f"{e.says}; an entry says {STATE_NAMES[state]}"


_LEASES: Final = layout.ORDERS[PROCESSING]
_WAITING: Final = [family for family, state in layout.STATE_OF.items() if state in WAITING]
_OVER: Final = [layout.ORDERS[state] for state in OVER]

RULES: Final = (
    Rule([layout.IDS], lambda e:
        e.task.state == BLOCKED and not (e.task.links and e.task.links.missing) and "it is blocked by nothing"),
    Rule([*_WAITING, _LEASES, layout.IDS], lambda e:  # its seq would be issued once more
        e.task.seq >> EPOCH_SHIFT > e.checked.epoch and f"its seq is of an epoch after {e.checked.epoch}, the newest"),
    Rule([_LEASES, *_OVER], lambda e: e.spec_of not in (None, e.taskid) and f"its spec is that of {e.spec_of!r}"),
    Rule([*_WAITING, *_OVER], _record_reason, of=layout.IDS),
    Rule(_WAITING, lambda e: is_cleared(e.task, e.tally.record.cleared) and "the project was cleared of it"),
    Rule([_LEASES], _lease_reason),
    Rule(_OVER, lambda e: e.task.bare and e.is_here and "it has an entry, although it is bare"),
    Rule([layout.IDS], lambda e: e.task.bare and e.task.state not in OVER and f"{e.says}, although it is bare"),
    Rule([layout.DEFERRED], lambda e: e.record is None and "it is deferred until a lease ends that is missing"),
    Rule([layout.HISTORY], lambda e: e.task.bare and "an attempt of a task that is unknown or bare"),
    Rule([layout.HISTORY], lambda e: e.key[-1] >= ATTEMPTS_KEPT and f"index {e.key[-1]}; there are {ATTEMPTS_KEPT}"),
    Rule([layout.RESULTS], lambda e: not e.task.has_result and "a result of a task that has none"),
)  # fmt: skip
"""Rules in the order in which problems of an entry are reported."""

_OF_FAMILY: Final = {family: [rule for rule in RULES if family in rule.families] for family in layout.PROJECT_FAMILIES}

# ------------------------------------------------------------------------------------------------ reading


def check(
    store: StoreReader,
    findings: Findings,
    progress: Progress = lambda entries: None,
    damaged: DamagedRows | None = None,
) -> Findings:
    """Check all entries, adding problems to the findings.

    Args:
        damaged: rows that reads of the store skip; None if a damaged row fails the read.

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
    """Check all entries, looking up each counterpart; ``check`` is quicker if there are no problems."""
    _Check(store, findings, progress, damaged).run()


def _all_agree(store: StoreReader, findings: Findings, progress: Progress, damaged: DamagedRows) -> bool:
    """Whether all entries agree, as far as fingerprints show; False proves nothing."""
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
        self._names: set[str] = set()
        self._checked = Checked(store, findings)
        self._edges = EdgeCheck(self._checked)
        self._flows = FlowCheck(self._checked)
        self._slots = SlotCheck(self._checked)
        self._rows = RowsCheck(self._checked)

    def run(self) -> None:
        self._meta()
        self._each({layout.PROJECTS: self._projects, layout.FLOWS: self._flows.flows, **self._slots.looks()})
        (self._compare_tasks if self._is_quick else self._look_up_tasks)()
        self._each({layout.PARENTS: self._edges.parents})
        self._edges.finish()
        self._each({layout.CHILDREN: self._edges.children, **self._flows.looks()})
        small = {family: partial(self._small, family, decode) for family, decode in SMALL.items()}
        self._each({**small, layout.OPERATIONS: self._rows.operations, layout.UNDO_ROWS: self._rows.rows})
        self._each({layout.PROPAGATIONS: self._edges.propagations, layout.RERUNS: lambda page: None})
        if self._findings.unreadable:
            return
        self._edges.finish_awaited()
        self._flows.finish()
        self._rows.finish()
        self._next_project()
        for drained in filter(None, self._store.get(META, [layout.DRAINED_KEY])):
            self._checked.read(META, layout.DRAINED_KEY, layout.decode_drained, drained)
        for tally in self._checked.tallies.values():
            self._compare(tally)

    def _look_up_tasks(self) -> None:
        """Check the families of tasks entry by entry."""
        orders = {
            family: self._leases
            if family == _LEASES
            else partial(self._waiting if state in WAITING else self._over, state)
            for family, state in layout.STATE_OF.items()
        }
        others = {layout.IDS: self._ids, layout.SPECS: self._specs, layout.DEFERRED: self._deferred}
        self._each({**orders, **others, layout.HISTORY: self._history, layout.RESULTS: self._results})

    def _compare_tasks(self) -> None:
        """Check the families of tasks by their fingerprints; leases and deferred updates, which are few, are looked up.

        Raises:
            Doubt: they may not agree.
        """
        tasks = Fingerprints(self._checked, self._edges, self._flows, self._slots)

        def leases(page: Sequence[Entry]) -> None:
            self._leases(page)
            tasks.leases(page)

        self._each({_LEASES: leases, layout.DEFERRED: self._deferred, **tasks.looks()})
        tasks.finish()

    def _each(self, looks: Mapping[Family, Look]) -> None:
        """Read families in pages."""
        for family, look in looks.items():
            self._read_family(family, look)
            for row in islice(self._damaged, self._told, None):
                self._checked.note(row.family, row.key, row.reason, _taskid_in(row.family, row.key))
            self._told = len(self._damaged)

    def _read_family(self, family: Family, look: Look) -> None:
        """Read a family; corruption in a table ends the read, and counts are not compared any more."""
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
                self._checked.note(of, key, reason)
        except StoreError as error:
            if not is_damage(error):
                raise
            self._findings.note_unreadable(error)

    def _with_project(self, family: Family, page: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries whose keys are long enough to begin with a project, if the family has projects."""
        if family not in layout.PROJECT_FAMILIES or min([len(key) for key, _ in page]) >= PROJECT_BYTES:
            return page
        for key, _ in page:
            if len(key) < PROJECT_BYTES:
                self._checked.note(family, key, "it is too short for a key")
        return [entry for entry in page if len(entry[0]) >= PROJECT_BYTES]

    # ------------------------------------------------------------------------------------------ projects

    def _meta(self) -> None:
        for key in layout.META_KEYS:
            try:
                self._store.get(META, [key])
                family = {layout.NEXT_LOG_KEY: layout.LOG, layout.NEXT_FLOW_KEY: layout.FLOWS}.get(key)
                if family is not None and self._is_taken(family, stored_number(self._store, key, 1)):
                    self._checked.note(META, key, "this number is taken")
            except Unreadable as error:
                self._checked.note(META, key, error.rows[0][2])

    def _is_taken(self, family: Family, number: int) -> bool:
        """Whether a family whose keys are numbers has this number, or a larger one."""
        size = 4 if family == layout.FLOWS else 8
        return bool(self._store.scan(family, number.to_bytes(size, "big"), layout.LAST_KEY, 1))

    def _projects(self, page: Sequence[Entry]) -> None:
        for key, value in page:
            record = self._checked.read(layout.PROJECTS, key, layout.decode_project, value)
            if record is None:
                continue
            if layout.project_of(key) != record.number:
                self._checked.note(layout.PROJECTS, key, f"the record has number {record.number}")
                continue
            if record.name in self._names:
                self._checked.note(layout.PROJECTS, key, f'there is another project "{record.name}"')
            self._names.add(record.name)
            self._checked.tallies[record.number] = Tally(record)

    def _next_project(self) -> None:
        try:
            next_one = stored_number(self._store, layout.NEXT_PROJECT_KEY, 1)
        except Unreadable as error:
            self._checked.note(META, layout.NEXT_PROJECT_KEY, str(error))
            return
        last = max(self._checked.tallies, default=0)
        if self._checked.tallies and next_one <= last:
            self._checked.note(META, b"", f"the next project would get number {next_one}, but {last} is taken")

    def _compare(self, tally: Tally) -> None:
        """Compare the tally with the project's record."""
        self._findings.tasks += sum(tally.places) + sum(tally.bare)
        for family, text, counted, said in _totals(tally):
            if said not in (None, counted):
                self._findings.note(family, tally.name, "", b"", text.format(counted, said))
        for family, start, low in _bounds(tally.record):
            for key, _ in self._store.scan(family, start, start + low, 1):
                reason = "it lies below the project's bound for the start of the order"
                self._checked.note(family, key, reason)
        if tally.lacks_places or tally.lacks_specs:
            _find_orphans(self._checked, tally)

    # ------------------------------------------------------------------------------------------ tasks

    def _waiting(self, state: int, page: Sequence[Entry]) -> None:
        """Check waiting tasks: the entry is the record, and the spec has the taskid."""
        if state == READY:
            self._slots.tasks(page)
        family = layout.ORDERS[state]
        specs_of = self._specs_of(family, page)
        taskids = [spec_of or "" for spec_of in specs_of]
        tasks = {
            key: self._checked.read(family, key, layout.task_of, layout.project_of(key), taskid, value)
            for (key, value), taskid in zip(page, taskids, strict=True)
        }
        for seen in self._seen(family, page, taskids, specs_of):
            if (task := tasks[seen.key]) is not None:
                seen.task = task
                if self._is_counted(seen):
                    seen.tally.held_back += is_retry(task)

    def _leases(self, page: Sequence[Entry]) -> None:
        tasks = {
            key: self._checked.read(_LEASES, key, layout.decode_lease, layout.project_of(key), value)
            for key, value in page
        }
        taskids = [None if task is None else task.taskid for task in tasks.values()]
        for seen in self._seen(_LEASES, page, taskids, self._specs_of(_LEASES, page)):
            if (task := tasks[seen.key]) is not None:
                seen.task, seen.recorded = task, self._recorded(layout.IDS, seen)
                if self._is_counted(seen):
                    seen.tally.unlisted += seen.record is None
                    if seen.recorded is not None:
                        self._flows.count_lease(task, seen.recorded)

    def _over(self, state: int, page: Sequence[Entry]) -> None:
        family = layout.ORDERS[state]
        taskids = [self._checked.read(family, key, _taskid_of_over, value) for key, value in page]
        for seen in self._seen(family, page, taskids, self._specs_of(family, page)):
            seen.tally.places[state] += 1
            if state == SUCCESS:
                self._checked.read(family, seen.key, layout.decode_success, seen.key, seen.value)
            self._checked.read(family, seen.key, layout.error_at, seen.value)
            seen.task = self._recorded(layout.IDS, seen) or NO_TASK
            self._tell(seen)

    def _ids(self, page: Sequence[Entry]) -> None:
        for key, record in page:
            tally = self._checked.tally(layout.IDS, key)
            if record == AWAITED:
                self._edges.awaited(key)
                continue
            task = None if tally is None else self._checked.read(layout.IDS, key, layout.task_at, key, record)
            if tally is None or task is None:
                continue
            if is_cleared(task, tally.record.cleared):
                tally.left += 1
                continue
            self._flows.count(task)
            tally.count_record(task)
            self._tell(Seen(self._checked, tally, layout.IDS, key, record, task.taskid, record, None, task))

    def _specs(self, page: Sequence[Entry]) -> None:
        for key, _ in page:
            if (tally := self._checked.tally(layout.SPECS, key)) is not None:
                tally.specs += 1

    def _deferred(self, page: Sequence[Entry]) -> None:
        places = [layout.order_key(layout.project_of(key), layout.seq_of(key)) for key, _ in page]
        for (key, value), lease in zip(page, self._store.get(_LEASES, places), strict=True):
            item = self._checked.read(layout.DEFERRED, key, layout.decode_deferred, value)
            tally = self._checked.tally(layout.DEFERRED, key)
            if tally is not None and item is not None:
                self._tell(Seen(self._checked, tally, layout.DEFERRED, key, value, item.taskid, lease))

    def _history(self, page: Sequence[Entry]) -> None:
        self._small(layout.HISTORY, layout.decode_attempt, page)
        taskids = [self._checked.read(layout.HISTORY, key, layout.taskid_of_attempt, key) for key, _ in page]
        for seen in self._seen(layout.HISTORY, page, taskids, [None] * len(page)):
            seen.task = self._recorded(layout.HISTORY, seen) or NO_TASK
            self._tell(seen)

    def _results(self, page: Sequence[Entry]) -> None:
        for (key, value), record in zip(page, self._store.get(layout.IDS, [key for key, _ in page]), strict=True):
            self._checked.read(layout.RESULTS, key, layout.decode_result, value)
            tally = self._checked.tally(layout.RESULTS, key)
            known = None if record is None else self._checked.read(layout.IDS, key, layout.task_at, key, record)
            task = known or NO_TASK
            if tally is not None and not is_cleared(task, tally.record.cleared):
                self._tell(Seen(self._checked, tally, layout.RESULTS, key, value, "", record, None, task))
                tally.results += task.has_result

    def _small(self, family: Family, decode: Callable[[bytes], object], page: Sequence[Entry]) -> None:
        for key, value in page:
            self._checked.read(family, key, decode, value)
            if family == layout.COUNTERS:
                self._checked.tally(family, key)

    def _tell(self, seen: Seen) -> None:
        for _, told, of in _OF_FAMILY[seen.family]:
            if reason := told(seen):
                self._checked.note(of or seen.family, seen.key, reason, seen.taskid)

    def _is_counted(self, seen: Seen) -> bool:
        """Check and count an entry of a live task, unless the task names another place."""
        task = seen.task
        if not seen.is_here:
            reason = f"its record says {_name_of(task.state)}, key {task.key:032x}"
            self._checked.note(seen.family, seen.key, reason, seen.taskid)
            return False
        self._tell(seen)
        seen.tally.places[task.state] += 1
        seen.tally.unfinished += not task.apart
        return True

    # ------------------------------------------------------------------------------------------ look-ups

    def _seen(
        self, family: Family, page: Sequence[Entry], taskids: Sequence[str | None], specs_of: Sequence[str | None]
    ) -> Iterator[Seen]:
        """Yield entries with known projects and taskids, with the records of their tasks."""
        keys = [key[:PROJECT_BYTES] + (taskid or "").encode() for (key, _), taskid in zip(page, taskids, strict=True)]
        records = self._store.get(layout.IDS, keys)
        for (key, value), taskid, record, spec_of in zip(page, taskids, records, specs_of, strict=True):
            tally = self._checked.tally(family, key)
            if tally is not None and taskid is not None:
                yield Seen(self._checked, tally, family, key, value, taskid, record, spec_of)

    def _specs_of(self, family: Family, page: Sequence[Entry]) -> list[str | None]:
        """Return the taskids in the specs of the entries; None if there is no spec, or it can't be decoded."""
        keys = [layout.spec_key_of(key) for key, _ in page]
        taskids: list[str | None] = []
        for (place, _), key, value in zip(page, keys, self._store.get(layout.SPECS, keys), strict=True):
            if value is None:
                self._checked.note(family, place, "its spec is missing")
            found = None if value is None else self._checked.read(layout.SPECS, key, layout.decode_spec, value)
            taskids.append(None if found is None else found[0])
        return taskids

    def _recorded(self, family: Family, seen: Seen) -> Task | None:
        """Decode the task of the record; an unreadable record is reported for this family."""
        project, record = seen.tally.record.number, seen.record
        if record is None:
            return None
        return self._checked.read(family, seen.key, layout.task_of, project, seen.taskid, record)


def _taskid_of_over(value: bytes) -> str:
    return layout.taskid_at(value).decode()


def _totals(tally: Tally) -> Iterator[tuple[Family, str, int, int | None]]:
    """Yield numbers that must be equal: family and text of the problem, counted number, number in a record."""
    record = tally.record
    for state, name in enumerate(STATE_NAMES[1:], 1):
        text = f"there are {{:,}} tasks {name}; the project counts {{:,}}"
        yield layout.PROJECTS, text, tally.places[state] + tally.bare[state], getattr(record.counts, name)
    text = "{:,} tasks are unfinished; the project counts {:,}"
    yield layout.PROJECTS, text, tally.unfinished, record.unfinished
    text = "{:,} tasks wait for a retry; the project counts {:,}"
    yield layout.PROJECTS, text, tally.held_back, record.held_back
    text = "{:,} tasks have a result, but {:,} results exist"
    yield layout.RESULTS, text, tally.with_result, tally.results


def _taskid_in(family: Family, key: bytes) -> str:
    """Return the taskid in a key of ids or results; empty in other families, whose keys have none, or more."""
    return key[PROJECT_BYTES:].decode(errors="replace") if family in (layout.IDS, layout.RESULTS) else ""


_IN_NO_SLOT: Final = (1 << SLOT_SHIFT).to_bytes(KEY_BYTES, "big")
"""Key above the places of ready tasks without a slot; tasks beyond it are yet to be moved."""


def _bounds(record: ProjectRecord) -> Iterator[tuple[Family, bytes, bytes]]:
    """Yield, for each order of a project, its family, the start of its keys, and the bound below which nothing is read.

    Divided projects have orders of slots instead of the ready tasks' order; in these, stale entries may lie below the
    bound.
    """
    start = layout.project_key(record.number)
    if record.slots is None or record.slots.by == "none":
        yield layout.ORDERS[READY], start, min(record.ready_low, _IN_NO_SLOT)
    yield layout.ORDERS[DELAYED], start, record.delayed_low
    for state, at in zip(OVER, range(0, len(record.over_low), KEY_BYTES), strict=False):
        yield layout.ORDERS[state], start, record.over_low[at : at + KEY_BYTES]


# ------------------------------------------------------------------------------------------------ orphans


def _find_orphans(checked: Checked, tally: Tally) -> None:
    """Name the orphans of a project whose records, entries and specs differ in number; if there are none, say so.

    record ──► entry at its key, or a lease         spec ──► record with its seq, or a lease
    """
    store, number, before = checked.store, tally.record.number, checked.findings.found
    for page in pages(store, layout.IDS, layout.project_key(number), layout.project_key(number + 1)):
        for key, record in page:
            task = None if record == AWAITED else _quietly(layout.task_at, key, record)
            if task is None or is_cleared(task, tally.record.cleared) or task.bare or _has_place(store, task):
                continue
            reason = f"its record says {STATE_NAMES[task.state]}, but it has no entry in that order"
            checked.note(layout.IDS, key, reason, task.taskid)
    for key, taskid in _orphan_specs(store, number):
        checked.note(layout.SPECS, key, "it belongs to no task", taskid)
    if checked.findings.found == before:
        reason = (
            f"{tally.ids:,} records, {tally.unlisted:,} unlisted tasks, {sum(tally.places):,} entries, "
            f"{sum(tally.bare):,} bare tasks and {tally.specs:,} specs do not add up"
        )
        checked.findings.note(layout.PROJECTS, tally.name, "", b"", reason)


def _has_place(store: StoreReader, task: Task) -> bool:
    """Whether the task has an entry of its own. The record of a processing task may name its former place."""
    family = layout.ORDERS.get(task.state)
    if family is None:
        return False
    if store.get(family, [layout.order_key(task.project, task.key)])[0] is not None:
        spec = store.get(layout.SPECS, [layout.seq_key(task.project, task.seq)])[0]
        found = None if spec is None else _quietly(layout.decode_spec, spec)
        return found is None or found[0] == task.taskid
    return task.state in LIVE and _leased(store, task.project, task.seq) == task.taskid


def _leased(store: StoreReader, project: int, seq: int) -> str | None:
    value = store.get(_LEASES, [layout.order_key(project, seq)])[0]
    task = None if value is None else _quietly(layout.decode_lease, project, value)
    return None if task is None else task.taskid


def _orphan_specs(store: StoreReader, number: int) -> Iterator[tuple[bytes, str]]:
    for page in pages(store, layout.SPECS, layout.project_key(number), layout.project_key(number + 1)):
        specs = [_quietly(layout.decode_spec, value) for _, value in page]
        taskids = [None if spec is None else spec[0] for spec in specs]
        records = store.get(layout.IDS, [layout.id_key(number, taskid or "") for taskid in taskids])
        for (key, _), taskid, record in zip(page, taskids, records, strict=True):
            seq = layout.seq_of(key)
            task = None if record is None else _quietly(layout.task_of, number, taskid, record)
            is_its = task is not None and task.seq == seq and not task.bare
            if taskid is None or not (is_its or _leased(store, number, seq) == taskid):
                yield key, taskid or ""


def _quietly(decode: Callable[..., T], *value: object) -> T | None:
    """Decode; None for malformed bytes, which have been reported already."""
    try:
        return decode(*value)
    except layout.UNREADABLE:
        return None
