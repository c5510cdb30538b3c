"""Repair a store in a database in place: each task with a damaged part ends where the operator can see it.

    rows about the store   made anew, with epochs and numbers far above all used ones
    projects               stopped; "recovered-NUMBER" if the name can't be read
    orders ──► unusable entries, and those with unusable specs, are deleted
    ids    ──► a live task without its entry fails, with the reason ``damaged``; a finished one gets a new entry,
               or becomes bare if its spec is gone
           ──► a record that can't be read is made anew from the entry of its task
    edges  ──► copied from the other order
    counts ──► counted again

Unlike the repair of a folder it keeps all sound entries in place, leases and histories, too. It reports what it can't
repair: tasks of flows and of reruns whose own records are damaged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final, TypeVar

from msgspec import Struct, field

from taskqueue.core.model.edges import Edge, Propagation
from taskqueue.core.model.records import KeptAttempt, OperationRecord, ProjectRecord, WriteSet
from taskqueue.core.model.slot_records import SlotRecord
from taskqueue.core.model.spec import NO_SPEC, Spec
from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    FAILED,
    LIVE,
    OVER,
    PROCESSING,
    STATE_NAMES,
    WAITING,
    Task,
    is_retry,
    time_key,
)
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.errors import Damaged, StoreError
from taskqueue.protocol.values import Attempt
from taskqueue.store.batch import batch_of
from taskqueue.store.contract import Batch, Entry, Family
from taskqueue.store.damaged_rows import DamagedRow
from taskqueue.store.postgres.checksums import checksums, matches
from taskqueue.store.postgres.fence import read_position
from taskqueue.store.postgres.packing import unpacked_number
from taskqueue.store.postgres.postgres_store import PostgresStore
from taskqueue.store.postgres.session import TURNS, Session, Statement, Target
from taskqueue.store.postgres.tables import SCHEDULER, table
from taskqueue.store.records import layout
from taskqueue.store.records.edges import decode_mark, edge_keys, tasks_of
from taskqueue.store.records.epochs import EPOCH_BITS, SKIPPED_EPOCHS
from taskqueue.store.records.format import EPOCH_KEY, FORMAT, FORMAT_KEY, META
from taskqueue.store.records.layout import AWAITED, HAS_RESULT
from taskqueue.store.records.operations import rows_of
from taskqueue.store.records.reading import pages
from taskqueue.store.records.slots import decode_slot, name_key
from taskqueue.store.tools.consistency import SMALL
from taskqueue.store.tools.findings import is_cleared

T = TypeVar("T")

DAMAGED: Final = "damaged"
"""Error of the attempt that ends a damaged task."""

SKIPPED_NUMBERS: Final = 1024
"""Numbers that may have been used above the largest one left in the store."""

SHOWN: Final = 1000
"""Lines that are kept, at most."""

_EMPTIED: Final = (layout.SLOTS_READY, layout.SLOTS_WAITING)
"""Families without values, whose entries are whole if their keys can be read."""


class Mended(Struct):
    """Report of a repair.

    Attributes:
        lines: damage and its repair, one line each, at most SHOWN.
        found: number of all such lines.
        failed: tasks that have ended as failed.
    """

    lines: list[str] = field(default_factory=list)
    found: int = 0
    failed: int = 0

    def note(self, line: str) -> None:
        """Add a line to the report."""
        self.found += 1
        if len(self.lines) < SHOWN:
            self.lines.append(line)


def mend(store: PostgresStore, now: float, progress: Callable[[int], object] = lambda entries: None) -> Mended:
    """Repair a store in place, after ``mend_fence`` has repaired its rows about itself.

    Args:
        now: unix seconds.
        progress: called with the number of entries scanned so far.

    Raises:
        StoreError: the database failed; running it again goes on.
    """
    mended = Mended()
    _Mending(store, now, mended, progress).run()
    return mended


def mend_fence(target: Target) -> list[str]:
    """Rewrite the rows of the fence and of META; return lines about the changes.

    Raises:
        StoreError: the database failed, or no epoch can be found.
    """
    lines: list[str] = []
    with closing(Session(target, TURNS)) as session:
        meta = _sound_meta(session, target.schema, lines)
        try:
            read_position(session, target.schema)
        except Damaged as error:
            _make_fence(session, target, int(meta.get(EPOCH_KEY, b"0")), lines, str(error).partition(";")[0])
        for key, family in ((layout.NEXT_LOG_KEY, layout.LOG), (layout.NEXT_FLOW_KEY, layout.FLOWS)):
            last = session.run(
                "read", [Statement(f"select key from {table(target.schema, family)} order by key desc limit 1")]
            )[0]
            if last and key not in meta:
                number = int.from_bytes(last[0][0] or b"", "big") + SKIPPED_NUMBERS
                _put_meta(session, target.schema, key, b"%d" % number, lines)
        if FORMAT_KEY not in meta and EPOCH_KEY in meta:
            _put_meta(session, target.schema, FORMAT_KEY, b"%d" % FORMAT, lines)
    return lines


def _sound_meta(session: Session, schema: str, lines: list[str]) -> dict[bytes, bytes]:
    """Return the entries of META; those with a wrong checksum, or that should be numbers and aren't, are deleted."""
    name = table(schema, META)
    sound: dict[bytes, bytes] = {}
    numbers = (FORMAT_KEY, EPOCH_KEY, layout.NEXT_PROJECT_KEY, layout.NEXT_LOG_KEY, layout.NEXT_FLOW_KEY)
    for key, value, crc in session.run("read", [Statement(f"select key, value, crc from {name}")])[0]:
        if key is None or value is None:
            continue
        if matches(crc, checksums(META, [key], [value])[0]) and (key not in numbers or value.isdigit()):
            sound[key] = value
        else:
            lines.append(f"meta: {key.decode(errors='replace')} is deleted: it can't be read")
            session.run("write", [Statement(f"delete from {name} where key = $1::bytea", (key,))])
    return sound


def _put_meta(session: Session, schema: str, key: bytes, value: bytes, lines: list[str]) -> None:
    sql = f"insert into {table(schema, META)} (key, value) values ($1::bytea, $2::bytea)"
    session.run("write", [Statement(sql, (key, value))])
    lines.append(f"meta: {key.decode()} is {value.decode()} from now on")


def _make_fence(session: Session, target: Target, epoch: int, lines: list[str], reason: str) -> None:
    """Rewrite the rows of schedulers and barriers, with an epoch after all that may have begun."""
    schema = target.schema
    found = session.run("read", [Statement(f"select max(epoch) from {schema}.schedulers")])[0]
    known = unpacked_number(found[0][0] or b"") if epoch == 0 and found else 0
    if not epoch and not 0 < known < 1 << EPOCH_BITS - 1:
        raise StoreError(f"{target.where}: no epoch can be found; restore a backup")
    begun = max(epoch, known) + SKIPPED_EPOCHS
    session.run("write", [
        Statement("begin"),
        Statement(f"delete from {schema}.schedulers where id = {SCHEDULER}"),
        Statement(f"delete from {schema}.barriers where id = {SCHEDULER}"),
        Statement(f"insert into {schema}.schedulers (id, epoch, turn) values ({SCHEDULER}, {begun}, 0)"),
        Statement(f"insert into {schema}.barriers (id, number) values ({SCHEDULER}, 0)"),
        Statement("commit"),
    ])  # fmt: skip
    lines.append(f"{reason}: made anew, with epoch {begun}")


class _Mending:
    def __init__(self, store: PostgresStore, now: float, mended: Mended, progress: Callable[[int], object]) -> None:
        self._store = store
        self._now = now
        self._mended = mended
        self._progress = progress
        self._looked = 0
        self._epoch = store.begin()
        self._number = self._epoch << EPOCH_SHIFT

    def run(self) -> None:
        records = self._projects()
        for record in records:
            self._project(record)
        numbers = {record.number for record in records}
        for family in (layout.PARENTS, layout.CHILDREN):
            self._edges(family)
            self._lost_edges(family, numbers)
        for family in (layout.HISTORY, layout.RESULTS, layout.DEFERRED, *_EMPTIED, *SMALL):
            self._rest(family)
        self._rows()
        self._release()
        self._next_project(records)
        self._store.sync()

    # ------------------------------------------------------------------------------------ projects

    def _projects(self) -> list[ProjectRecord]:
        found: dict[int, ProjectRecord] = {}
        for key, value in self._entries(layout.PROJECTS):
            record = _decoded(layout.decode_project, value)
            if record is None or layout.project_of(key) != record.number:
                self._store.damaged.note(DamagedRow(layout.PROJECTS, key, value, "it can't be decoded"))
            else:
                found[record.number] = record
        lost: dict[int, DamagedRow | None] = {
            layout.project_of(row.key): row for row in self._store.damaged if row.family == layout.PROJECTS
        }
        for family in (layout.IDS, layout.SPECS):
            lost |= {number: lost.get(number) for number in self._numbers(family) if number not in found}
        for number, row in lost.items():
            found[number] = self._recovered(number, row, {record.name for record in found.values()})
        return list(found.values())

    def _recovered(self, number: int, row: DamagedRow | None, names: set[str]) -> ProjectRecord:
        """Make a record for a project; its name is kept, if it can be read and is free."""
        read = None if row is None else _decoded(layout.decode_project, row.value)
        name = read.name if read is not None and read.name not in names else f"recovered-{number}"
        self._mended.note(f"project number {number}: its record can't be read; it is called {name}, and stopped")
        record = ProjectRecord(number, name, "stopped", linked=True)
        self._write(Batch(puts={layout.PROJECTS: [(layout.project_key(number), layout.encode(record))]}))
        return record

    def _numbers(self, family: Family) -> Iterator[int]:
        """Yield numbers of the projects that have entries in a family."""
        start = b""
        while page := self._store.scan(family, start, layout.LAST_KEY, 1):
            number = layout.project_of(page[0][0])
            yield number
            start = layout.project_key(number + 1)

    def _next_project(self, records: Sequence[ProjectRecord]) -> None:
        """Make sure that no project number is used twice."""
        most = max((record.number for record in records), default=0)
        said = self._store.get(META, [layout.NEXT_PROJECT_KEY])[0]
        if records and (said is None or not said.isdigit() or int(said) <= most):
            number = most + SKIPPED_NUMBERS
            self._mended.note(f"the next project gets number {number}")
            self._write(Batch(puts={META: [(layout.NEXT_PROJECT_KEY, b"%d" % number)]}))

    # ------------------------------------------------------------------------------------ tasks of a project

    def _project(self, record: ProjectRecord) -> None:
        before = self._mended.found
        for state in layout.STATE_OF.values():
            self._order(record, state)
        damaged_ids = self._ids(record)
        if damaged_ids:
            self._records(record, damaged_ids)
        self._unlisted(record)
        if record.slots is not None:
            self._slots(record, record.slots.division)
        self._count(record, is_changed=self._mended.found > before)

    def _order(self, record: ProjectRecord, state: int) -> None:
        """Delete unusable entries, and those with unusable specs; rewrite lost records of the other tasks."""
        family = layout.ORDERS[state]
        for page in self._pages(family, record.number):
            specs = self._specs([layout.spec_key_of(key) for key, _ in page])
            gone = [
                key
                for (key, value), spec in zip(page, specs, strict=True)
                if spec is None or not _is_sound(state, key, value)
            ]
            self._add_records(record, state, page, specs)
            # Reads skip a row with a wrong checksum: its task lacks it from here on.
            noted = [row.key for row in self._store.damaged if row.family == family]
            bad_specs = [row.key for row in self._store.damaged if row.family == layout.SPECS]
            if gone or noted or bad_specs:
                self._write(Batch(deletes={family: [*gone, *noted], layout.SPECS: bad_specs}))

    def _add_records(
        self, record: ProjectRecord, state: int, page: Sequence[Entry], specs: Sequence[tuple[str, Spec] | None]
    ) -> None:
        """Rewrite the records of tasks that have an entry and a spec, but no readable record.

        An entry whose record is of a later life of the task is deleted, with the former spec.
        """
        named = [(entry, spec[0]) for entry, spec in zip(page, specs, strict=True) if spec is not None]
        known = self._store.get(layout.IDS, [layout.id_key(record.number, taskid) for _, taskid in named])
        for ((key, value), taskid), there in zip(named, known, strict=True):
            if state == PROCESSING or not _is_sound(state, key, value):
                continue
            if there is None:
                self._record(record, taskid, _record_of(state, key, value))
            elif self._is_of_later_life(record, taskid, there, key):
                self._mended.note(
                    f"{record.name}: task {taskid!r}: its place among the {STATE_NAMES[state]} is deleted"
                )
                self._write(Batch(deletes={layout.ORDERS[state]: [key], layout.SPECS: [layout.spec_key_of(key)]}))

    def _is_of_later_life(self, record: ProjectRecord, taskid: str, there: bytes, key: bytes) -> bool:
        task = None if there == AWAITED else _decoded(layout.task_of, record.number, taskid, there)
        return task is not None and task.seq != layout.seq_of(key)

    def _ids(self, record: ProjectRecord) -> list[str]:
        """End tasks that lack their entries or specs; return taskids with unreadable records."""
        unreadable: list[str] = []
        for page in self._pages(layout.IDS, record.number):
            tasks = []
            for key, value in page:
                if value == AWAITED:
                    continue
                taskid = key[4:].decode(errors="replace")
                task = _decoded(layout.task_of, record.number, taskid, value)
                if task is None:
                    unreadable.append(taskid)
                elif not task.bare and not is_cleared(task, record.cleared):
                    tasks.append(task)
            self._forget_results(record, tasks, dict(page))
            self._end_lost(record, tasks)
        prefix = layout.project_key(record.number)
        noted = [row.key for row in self._store.damaged if row.family == layout.IDS and row.key.startswith(prefix)]
        return unreadable + [key[len(prefix) :].decode(errors="replace") for key in noted]

    def _forget_results(self, record: ProjectRecord, tasks: Sequence[Task], values: Mapping[bytes, bytes]) -> None:
        """Record that tasks with lost results have none."""
        having = [task for task in tasks if task.has_result]
        keys = [layout.id_key(task.project, task.taskid) for task in having]
        for task, key, result in zip(having, keys, self._store.get(layout.RESULTS, keys), strict=True):
            if result is not None and _decoded(layout.decode_result, result) is not None:
                continue
            task.note_result(is_there=False)
            value = bytes((values[key][0] & ~HAS_RESULT,)) + values[key][1:]
            puts = {layout.IDS: [(key, value)]}
            if task.state in WAITING:
                puts[layout.ORDERS[task.state]] = [(layout.order_key(task.project, task.key), value)]
            self._mended.note(f"{record.name}: task {task.taskid!r}: its result is lost")
            self._write(Batch(puts=puts, deletes={layout.RESULTS: [key]}))

    def _end_lost(self, record: ProjectRecord, tasks: Sequence[Task]) -> None:
        specs = self._specs([layout.seq_key(task.project, task.seq) for task in tasks])
        placed = self._placed(tasks)
        for task, spec in zip(tasks, specs, strict=True):
            if task.taskid not in placed or spec is None or spec[0] != task.taskid:
                self._end(record, task, None if spec is None or spec[0] != task.taskid else spec[1])

    def _placed(self, tasks: Sequence[Task]) -> set[str]:
        """Return the taskids of tasks that have an entry in their order, or a lease."""
        placed = set()
        for state, family in layout.ORDERS.items():
            of = [task for task in tasks if (task.state in LIVE if state == PROCESSING else task.state == state)]
            keys = [layout.order_key(task.project, task.seq if state == PROCESSING else task.key) for task in of]
            placed |= {
                task.taskid for task, value in zip(of, self._store.get(family, keys), strict=True) if value is not None
            }
        return placed

    def _end(self, record: ProjectRecord, task: Task, spec: Spec | None) -> None:
        """End a task: a live one as failed; a finished one keeps its state."""
        old = task.state, task.key
        writes = WriteSet()
        if task.state in LIVE:
            task.state, task.key = FAILED, time_key(self._now, task.seq)
            task.slot = 0
            attempt = Attempt(self._now, "failed", error=DAMAGED)
            writes.attempts.append(KeptAttempt(task.project, task.taskid, task.attempts % ATTEMPTS_KEPT, attempt))
            task.attempts = (task.attempts + 1) % ATTEMPTS_KEPT
            self._tell_children(task, writes)
            self._mended.failed += 1
            self._mended.note(
                f"{record.name}: task {task.taskid!r} has failed: it was {STATE_NAMES[old[0]]}, and damaged"
            )
        elif spec is None:
            self._bare(record, task)
            return
        else:
            self._mended.note(
                f"{record.name}: task {task.taskid!r} is {STATE_NAMES[task.state]}, and has its place again"
            )
        task.spec = spec or NO_SPEC
        writes.moves.append((task, *old, task.seq, True, False))
        self._write(batch_of(writes))

    def _tell_children(self, task: Task, writes: WriteSet) -> None:
        """Have the daemon pass on to waiting tasks that the task has failed."""
        links = task.links
        if links is not None and links.has_children:
            self._number += 1
            writes.propagations[self._number] = Propagation(self._number, "failed", task.project, task.taskid)
        if links is not None and links.number:
            self._number += 1
            writes.propagations[self._number] = Propagation(self._number, "edges", task.project, task.taskid)

    def _bare(self, record: ProjectRecord, task: Task) -> None:
        """Make a task bare, whose URL can't be read."""
        self._mended.note(
            f"{record.name}: task {task.taskid!r} is {STATE_NAMES[task.state]}; its URL and body are lost"
        )
        task.drop_body(self._now)
        key, place = layout.id_key(task.project, task.taskid), layout.order_key(task.project, task.key)
        keys = [layout.attempt_key(task.project, task.taskid, index) for index in range(ATTEMPTS_KEPT)]
        deletes = {layout.ORDERS[task.state]: [place], layout.HISTORY: keys, layout.RESULTS: [key]}
        deletes[layout.SPECS] = [layout.seq_key(task.project, task.seq)]
        self._write(Batch(puts={layout.IDS: [(key, layout.encode_bare(task))]}, deletes=deletes))

    def _records(self, record: ProjectRecord, taskids: Iterable[str]) -> None:
        """Rewrite records from the entries of their tasks; tasks without an entry end as failed."""
        wanted = dict.fromkeys(taskids)
        for state, family in layout.ORDERS.items():
            for page in self._pages(family, record.number):
                specs = self._specs([layout.spec_key_of(key) for key, _ in page])
                for (key, value), spec in zip(page, specs, strict=True):
                    if spec is not None and spec[0] in wanted:
                        del wanted[spec[0]]
                        self._record(record, spec[0], _record_of(state, key, value))
        for taskid in wanted:
            self._fail_new(record, taskid)

    def _record(self, record: ProjectRecord, taskid: str, value: bytes) -> None:
        self._mended.note(f"{record.name}: task {taskid!r}: its record is made anew")
        self._write(Batch(puts={layout.IDS: [(layout.id_key(record.number, taskid), value)]}))

    def _fail_new(self, record: ProjectRecord, taskid: str, spec: Spec | None = None, seq: int = 0) -> None:
        """End a task of which only the taskid, and perhaps the spec, is left."""
        self._number += 1
        seq = seq or self._number
        task = Task(record.number, taskid, FAILED, time_key(self._now, seq), seq, spec=spec or NO_SPEC, attempts=1)
        attempt = KeptAttempt(task.project, taskid, 0, Attempt(self._now, "failed", error=DAMAGED))
        self._write(batch_of(WriteSet(moves=[(task, 0, 0, seq, True, False)], attempts=[attempt])))
        self._mended.failed += 1
        self._mended.note(f"{record.name}: task {taskid!r} has failed: only its taskid is left")

    def _unlisted(self, record: ProjectRecord) -> None:
        """End tasks that had only leases and specs, and whose leases are damaged."""
        for page in self._pages(layout.SPECS, record.number):
            read = [(layout.seq_of(key), _decoded(layout.decode_spec, value)) for key, value in page]
            known = self._store.get(
                layout.IDS, [layout.id_key(record.number, "" if spec is None else spec[0]) for _, spec in read]
            )
            leases = self._store.get(
                layout.ORDERS[PROCESSING], [layout.order_key(record.number, seq) for seq, _ in read]
            )
            for (seq, spec), there, lease in zip(read, known, leases, strict=True):
                if spec is not None and there is None and lease is None and seq > record.cleared:
                    self._fail_new(record, spec[0], spec[1], seq)

    def _slots(self, record: ProjectRecord, division: int) -> None:
        """Rewrite names of slots from the slots, and slots from their names, as far as possible."""
        for page in self._pages(layout.SLOTS, record.number):
            read = [(key, slot) for key, value in page if (slot := _decoded(decode_slot, value)) is not None]
            keys = [name_key(record.number, slot.name) for _, slot in read]
            for key, (place, _), number in zip(keys, read, self._store.get(layout.SLOT_NAMES, keys), strict=True):
                if place[4:] != number and int.from_bytes(place[4:], "big") >= division:
                    self._mended.note(f"{record.name}: the name of a slot, key {key.hex()}, leads to it again")
                    self._write(Batch(puts={layout.SLOT_NAMES: [(key, place[4:])]}))
        for page in self._pages(layout.SLOT_NAMES, record.number):
            keys = [key[:4] + number for key, number in page]
            for (name, _), key, value in zip(page, keys, self._store.get(layout.SLOTS, keys), strict=True):
                if value is None or _decoded(decode_slot, value) is None:
                    self._mended.note(f"{record.name}: slot {name[4:].decode(errors='replace')!r} starts anew")
                    slot = SlotRecord(name[4:].decode(errors="replace"))
                    self._write(Batch(puts={layout.SLOTS: [(key, layout.encode(slot))]}))
        self._drop_slots(record.number)

    def _drop_slots(self, number: int) -> None:
        """Delete a project's names and slots that could not be rewritten."""
        for row in [row for row in self._store.damaged if row.family in (layout.SLOT_NAMES, layout.SLOTS)]:
            if layout.project_of(row.key) == number:
                self._write(Batch(deletes={row.family: [row.key]}))

    def _count(self, record: ProjectRecord, *, is_changed: bool) -> None:
        """Count the project's tasks."""
        counts: Counter[int] = Counter()
        unfinished = held_back = 0
        for state, family in layout.ORDERS.items():
            for page in self._pages(family, record.number):
                counts[state] += len(page)
                for _, value in page if state in LIVE else ():
                    task = (
                        layout.decode_lease(record.number, value)
                        if state == PROCESSING
                        else layout.task_of(record.number, "", value)
                    )
                    unfinished += not task.apart
                    held_back += is_retry(task)
        for page in self._pages(layout.IDS, record.number):
            for _, value in page:
                bare = None if value == AWAITED else _decoded(layout.task_of, record.number, "", value)
                if bare is not None and bare.bare and bare.state in OVER:
                    counts[bare.state] += 1
        before = layout.encode(record)
        for state, name in enumerate(STATE_NAMES[1:], 1):
            setattr(record.counts, name, counts[state])
        record.unfinished, record.held_back = unfinished, held_back
        if is_changed or layout.encode(record) != before:
            # New entries may lie below the bounds from which orders are read.
            record.over_low = bytes(len(record.over_low))
        if layout.encode(record) != before:
            self._mended.note(f"{record.name}: its tasks are counted anew")
            self._write(Batch(puts={layout.PROJECTS: [(layout.project_key(record.number), layout.encode(record))]}))

    # ------------------------------------------------------------------------------------ the rest

    def _edges(self, family: Family) -> None:
        """Rewrite edges from the other order, which is a copy; delete edges that are lost in both."""
        other, place = (layout.CHILDREN, 1) if family == layout.PARENTS else (layout.PARENTS, 0)
        for key, value in self._entries(family):
            if _decoded(decode_mark, value) is None:
                self._store.damaged.note(DamagedRow(family, key, value, "it can't be decoded"))
        for row in [row for row in self._store.damaged if row.family == family]:
            pair = _decoded(tasks_of, row.key)
            edge = None if pair is None else Edge(*pair) if family == layout.PARENTS else Edge(pair[1], pair[0])
            same = None if edge is None else self._store.get(other, [edge_keys(edge)[place]])[0]
            self._mended.note(f"{family}: key {row.key.hex()}: {'made anew' if same else 'an edge that is lost'}")
            self._write(Batch(puts={family: [(row.key, same)]}) if same else Batch(deletes={family: [row.key]}))

    def _lost_edges(self, family: Family, projects: Container[int]) -> None:
        """Rewrite edges that only the other order has, if neither end is in a deleted project."""
        other, place = (layout.CHILDREN, 0) if family == layout.PARENTS else (layout.PARENTS, 1)
        for page in pages(self._store, other):
            pairs = [(pair, value) for key, value in page if (pair := _decoded(tasks_of, key)) is not None]
            edges = [
                (Edge(*pair) if other == layout.PARENTS else Edge(pair[1], pair[0]), value) for pair, value in pairs
            ]
            keys = [edge_keys(edge)[place] for edge, _ in edges]
            for (edge, value), key, same in zip(edges, keys, self._store.get(family, keys), strict=True):
                if same is None and edge.child.project in projects and edge.parent.project in projects:
                    self._mended.note(f"{family}: key {key.hex()}: made anew")
                    self._write(Batch(puts={family: [(key, value)]}))

    def _rest(self, family: Family) -> None:
        """Delete unreadable entries of families that need none of theirs."""
        decode = {layout.HISTORY: layout.decode_attempt, layout.RESULTS: layout.decode_result, **SMALL}.get(family)
        for key, value in self._entries(family):
            if decode is not None and _decoded(decode, value) is None:
                self._store.damaged.note(DamagedRow(family, key, value, "it can't be decoded"))
        if family == layout.DEFERRED:
            self._drop_deferred()
        for row in [row for row in self._store.damaged if row.family == family]:
            is_whole = family in _EMPTIED
            self._mended.note(f"{family}: key {row.key.hex()}: {'made anew' if is_whole else 'deleted'}")
            self._write(Batch(puts={family: [(row.key, b"")]}) if is_whole else Batch(deletes={family: [row.key]}))

    def _drop_deferred(self) -> None:
        """Delete updates that are deferred until the end of a lost lease."""
        for page in pages(self._store, layout.DEFERRED):
            places = [layout.order_key(layout.project_of(key), layout.seq_of(key)) for key, _ in page]
            leases = self._store.get(layout.ORDERS[PROCESSING], places)
            gone = [key for (key, _), lease in zip(page, leases, strict=True) if lease is None]
            for key in gone:
                self._mended.note(f"deferred: key {key.hex()}: an update of a task whose lease is lost")
            if gone:
                self._write(Batch(deletes={layout.DEFERRED: gone}))

    def _rows(self) -> None:
        """Delete rows for undos that belong to no operation, and all rows of one that lacks some."""
        records = [record for _, value in self._entries(layout.OPERATIONS) if (record := _operation(value)) is not None]
        having = {rows[0]: (record, rows[1].pages) for record in records if (rows := rows_of(record)) is not None}
        found = Counter(key[:8] for key, _ in self._entries(layout.UNDO_ROWS))
        lost = [key for key in found if layout.operation_of(key) not in having]
        for operation, (record, expected) in having.items():
            key = layout.operation_key(operation)
            if found[key] == expected:
                continue
            self._mended.note(f"operation {record.progress.number}: it can't be undone: a part of its rows is lost")
            record.progress.rows, record.progress.no_undo = 0, "a part of what it changed could not be read"
            if record.undo is not None:
                record.progress.ended_at = self._now
            record.rows = None
            stored = layout.operation_key(record.progress.id), layout.encode(record)
            self._write(Batch(puts={layout.OPERATIONS: [stored]}))
            lost.append(key)
        for key in lost:
            self._mended.note(f"undo_rows: the rows of operation id {layout.operation_of(key)} are deleted")
            end = layout.operation_key(layout.operation_of(key) + 1)
            self._write(Batch(drops=[(layout.UNDO_ROWS, key, end)]))

    def _release(self) -> None:
        for page in pages(self._store, layout.DAMAGED):
            self._write(Batch(deletes={layout.DAMAGED: [key for key, _ in page]}))

    # ------------------------------------------------------------------------------------ what they share

    def _specs(self, keys: Sequence[bytes]) -> list[tuple[str, Spec] | None]:
        values = self._store.get(layout.SPECS, keys)
        return [None if value is None else _decoded(layout.decode_spec, value) for value in values]

    def _pages(self, family: Family, number: int) -> Iterator[list[Entry]]:
        for page in pages(self._store, family, layout.project_key(number), layout.project_key(number + 1)):
            self._looked += len(page)
            self._progress(self._looked)
            yield page

    def _entries(self, family: Family) -> Iterator[Entry]:
        for page in pages(self._store, family):
            yield from page

    def _write(self, batch: Batch) -> None:
        """Write a batch; the rows that it replaces or deletes are no longer damaged."""
        self._store.write(self._epoch, batch)
        written = {family: {key for key, _ in entries} for family, entries in batch.puts.items()}
        for family, keys in batch.deletes.items():
            written.setdefault(family, set()).update(keys)
        self._store.damaged.forget(written)


def _operation(value: bytes) -> OperationRecord | None:
    return _decoded(layout.decode_operation, value)


def _decoded(decode: Callable[..., T], *values: object) -> T | None:
    try:
        return decode(*values)
    except layout.UNREADABLE:
        return None


def _is_sound(state: int, key: bytes, value: bytes) -> bool:
    """Whether an entry of an order can be read, and has its own place."""
    number = layout.project_of(key)
    if state in OVER:
        return _decoded(lambda: layout.taskid_at(value).decode()) is not None
    task = (
        _decoded(layout.decode_lease, number, value)
        if state == PROCESSING
        else _decoded(layout.task_of, number, "", value)
    )
    return task is not None and (task.state, layout.order_key(number, task.key)) == (state, key)


def _record_of(state: int, key: bytes, value: bytes) -> bytes:
    """Return the record of the task at a sound entry."""
    if state in WAITING:
        return value
    number = layout.project_of(key)
    if state == PROCESSING:
        return layout.encode_record(layout.decode_lease(number, value))
    place = int.from_bytes(key[4:], "big")
    return layout.encode_record(Task(number, "", state, place, layout.seq_of(key), attempts=1))
