"""Import exports of either format into a store that no other process writes to.

    first line ──► new projects, one batch
    tasks ──BATCH_TASKS at a time──► look up ──► unknown tasks, and the counts of their projects: one batch

Rules:
1. A task that the store already has stays as it is, and is counted. So an interrupted import can be repeated, and
   between two batches the store is consistent.
2. A project that the store already has keeps its settings and its state; a new one gets those of the export.
3. A processing task becomes ready, with unchanged retries. An update that was deferred until the end of its lease is
   applied.
4. Each task gets a new seq, in the order of the lines, and the store a new epoch.
5. Edges are kept: one to a known parent is satisfied if that is a success; an unknown parent is awaited. A daemon later
   passes on to waiting tasks how a task has ended. A live task is blocked while one of its edges is not satisfied.
6. Slots are not exported: a daemon later moves ready tasks of a divided project to their slots.
7. The history of events comes after the tasks; points that the store already has stay as they are. A new point of a
   minute or hour that the store already has is added to the sum over all projects; for other times the sum is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import add
from typing import Final, Literal, NoReturn, TypeVar

import msgspec
from msgspec import Raw, Struct

from taskqueue.core.model.edges import (
    DELETED_PROJECT,
    ONLY,
    OVERLOOKED,
    POLICIES,
    SATISFIED,
    UNSATISFIED,
    Edge,
    Links,
    Mark,
    Propagation,
    PropagationKind,
    TaskRef,
)
from taskqueue.core.model.exported_task import check_records, flaw_of, kept_attempts, made_task
from taskqueue.core.model.history import NO_EVENTS, SECONDS
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.pause import imported_pause
from taskqueue.core.model.records import ProjectRecord, WriteSet
from taskqueue.core.model.slot_records import SlotWrites
from taskqueue.core.model.slot_table import entry_of
from taskqueue.core.model.task import (
    BLOCKED,
    DELAYED,
    LIVE,
    OVER,
    PROCESSING,
    READY,
    SEQ_MASK,
    STATE_NAMES,
    SUCCESS,
    Task,
    is_retry,
    ready_key,
    time_key,
)
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.errors import MAX_REASON_CHARS, Rejected, StoreError
from taskqueue.protocol.exports import ExportedParent
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.reasons import file_reason
from taskqueue.settings.environment import Environment
from taskqueue.settings.layer_size import check_size
from taskqueue.settings.settings import check, merge
from taskqueue.store.batch import batch_of
from taskqueue.store.contract import Batch, Store, StoreReader
from taskqueue.store.ledger import FIRST_PROJECT
from taskqueue.store.lookup import find
from taskqueue.store.records import layout
from taskqueue.store.records.reading import decode_record, pages, stored_number
from taskqueue.store.tools.export_format import (
    JSON,
    READABLE,
    VERSION,
    ExportFormat,
    FirstLine,
    ProjectLine,
    SliceLine,
    TaskLine,
    overrides_of,
    packed_task,
)
from taskqueue.store.tools.findings import is_cleared
from taskqueue.store.tools.store_stats import project_records

T = TypeVar("T")

BATCH_TASKS: Final = 1000
BATCH_BYTES: Final = 8 << 20
"""Bytes of lines that end a batch."""

RECORD_BYTES: Final = 192 << 10
"""Bytes of a project's largest record: settings may have 64 KiB, and 300 cron entries 320 bytes each; each turn that
touches the project rewrites it."""

PROJECTS_MOST: Final = 100_000
"""Projects in one export, at most; all are in memory at once."""

UNREADABLE: Final = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""Errors of malformed lines: bad JSON, bytes that are not UTF-8, numbers too large to be stored, deep nesting."""

KnownTasks = Literal["refuse", "skip"]
"""Policy for a project that already has tasks: refuse the whole import, or skip the tasks that the store has."""


class ImportCounts(Struct):
    """Counts of an import so far.

    Attributes:
        projects: projects created.
        new: tasks created.
        known: tasks that the store already had, unchanged.
    """

    projects: int = 0
    new: int = 0
    known: int = 0


class BadLine(StoreError):
    """Malformed line, or a truncated export; all imported before it stays."""


def import_lines(
    store: Store,
    lines: Iterable[bytes],
    known: KnownTasks,
    boot: float,
    environment: Environment,
    form: ExportFormat = JSON,
) -> Iterator[ImportCounts]:
    """Import lines; yield the counts so far after each batch.

    Args:
        boot: boot-clock seconds now; the buckets of new projects are empty at that time.
        environment: parses settings as the daemon will.

    Raises:
        BadLine: a line is malformed or contradicts others, or the last one is missing.
        StoreError: a project has tasks and ``known`` is refuse, in which case nothing is imported; or the store failed.
        Unreadable: a record of the store can't be decoded.
    """
    numbered = enumerate(lines, 1)
    first = first_line(numbered, form)
    inflow = _Importer(store, boot, form, first.taskqueue)
    inflow.make_projects(first.projects, known, environment)
    yield inflow.brought
    for page in pages_of(numbered, form):
        if isinstance(page, list):
            inflow.add(page)
        else:
            inflow.add_slice(*page)
        yield inflow.brought
    store.sync()


def first_line(numbered: Iterator[tuple[int, bytes]], form: ExportFormat) -> FirstLine:
    """Read the first of numbered lines.

    Raises:
        BadLine: it is malformed, or of a version that can't be read here.
    """
    number, line = next(numbered, (1, b""))
    try:
        first = form.decode_first(line)
    except UNREADABLE as error:
        _check_version(form, number, form.decode_version(line) if line else VERSION)
        refuse_line(form, number, f"this is not the beginning of an export: {file_reason(error, FirstLine)}")
    _check_version(form, number, first.taskqueue)
    if len(first.projects) > PROJECTS_MOST:
        refuse_line(form, number, f"{len(first.projects):,} projects; at most {PROJECTS_MOST:,} are allowed")
    return first


def _check_version(form: ExportFormat, number: int, version: int) -> None:
    if version not in READABLE:
        refuse_line(form, number, f"{form.unit}s of version {version} can't be read here, only 1 to {VERSION}")


def pages_of(
    numbered: Iterator[tuple[int, bytes]], form: ExportFormat
) -> Iterator[list[tuple[int, TaskLine]] | tuple[int, SliceLine]]:
    """Yield pages of tasks, and single slices of the history of events; the lines go on after the first one.

    Raises:
        BadLine: a line is malformed, or the last one is missing or counts other tasks.
    """
    page: list[tuple[int, TaskLine]] = []
    size = count = 0
    for number, line in numbered:
        if line.startswith(form.last):
            yield page
            _check_last(number, line, count, form)
            return
        if line.startswith(form.history):
            if page:
                yield page
                page, size = [], 0
            yield number, _decoded(number, line, form, form.decode_slice, SliceLine)
            continue
        page.append((number, _decoded(number, line, form, form.decode_task, TaskLine)))
        size += len(line)
        count += 1
        if len(page) >= BATCH_TASKS or size >= BATCH_BYTES:
            yield page
            page, size = [], 0
    yield page
    unit = form.unit
    raise BadLine(f"the {unit}s end after {count:,} tasks, without their last {unit}; import the whole export again")


def _check_last(number: int, line: bytes, count: int, form: ExportFormat) -> None:
    try:
        said = form.decode_last(line).tasks
    except UNREADABLE as error:
        refuse_line(form, number, file_reason(error))
    if said != count:
        refuse_line(form, number, f"expected {said:,} tasks, found {count:,}")


def _decoded(number: int, line: bytes, form: ExportFormat, decode: Callable[[bytes], T], kind: type[T]) -> T:
    try:
        return decode(line)
    except UNREADABLE as error:
        refuse_line(form, number, file_reason(error, kind))


def refuse_line(form: ExportFormat, number: int, reason: str) -> NoReturn:
    """Raise BadLine for a line."""
    said = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
    raise BadLine(f"{form.unit} {number:,}: {said}")


FALLING_FROM: Final = 1 << EPOCH_SHIFT - 1
"""Number from which the seqs of lines count down that begin with the newest task; half of those of an epoch."""


class _Importer:
    def __init__(self, store: Store, boot: float, form: ExportFormat, version: int) -> None:
        self.brought = ImportCounts()
        self._form = form
        self._version = version
        self._store = store
        self._boot = boot
        self._epoch = store.begin()
        self._number = self._epoch << EPOCH_SHIFT
        self._falling = self._number + FALLING_FROM
        self._projects = {record.name: record for record in project_records(store)}
        self._named: dict[str, ProjectLine] = {}
        self._leased = dict(_leased(store))

    def make_projects(self, lines: Iterable[ProjectLine], known: KnownTasks, environment: Environment) -> None:
        """Create the projects that do not exist yet."""
        self._named = {line.name: line for line in lines}
        for name in sorted(self._named):
            if known == "refuse" and name in self._projects and _has_tasks(self._projects[name]):
                raise StoreError(f'project "{name}" has tasks already; use --merge to add those that it lacks')
        number = stored_number(self._store, layout.NEXT_PROJECT_KEY, FIRST_PROJECT)
        writes = WriteSet()
        for line in lines:
            if line.name not in self._projects:
                self._projects[line.name] = self._made(line, number, environment)
                writes.projects.append(self._projects[line.name])
                number += 1
        writes.next_project = number
        self._store.write(self._epoch, batch_of(writes))
        self.brought.projects = len(writes.projects)

    def _made(self, line: ProjectLine, number: int, environment: Environment) -> ProjectRecord:
        try:
            overrides = _overrides(line, environment, self._form, self._version)
            return _record(line, number, self._boot, overrides)
        except Rejected as rejected:
            refuse_line(self._form, 1, f'project "{line.name}": {rejected.reason}')
        except UNREADABLE as error:
            refuse_line(self._form, 1, f'project "{line.name}": {error}')

    def add_slice(self, number: int, line: SliceLine) -> None:
        """Import the events of one minute or hour."""
        numbers = {name: self._project(number, name).number for name in line.projects}
        self._store.write(self._epoch, _slice_batch(self._store, line, numbers))

    def add(self, page: list[tuple[int, TaskLine]]) -> None:
        """Import one batch of tasks."""
        refs = [TaskRef(self._project(number, line.project).number, line.taskid) for number, line in page]
        parents = [ref for _, line in page for ref in _parent_refs(line, self._projects)]
        looked_up = find(self._store, Needs(tasks=[*refs, *parents]))
        found, leased = looked_up.tasks, {ref: self._leased[ref] for ref in parents if ref in self._leased}
        writes, touched = WriteSet(), dict[int, ProjectRecord]()
        edges = _EdgeImporter(writes, found | leased, looked_up.awaited, self._projects)
        for ref, (number, line) in zip(refs, page, strict=True):
            project, there = self._projects[line.project], found.get(ref)
            if ref in self._leased or (there is not None and not is_cleared(there, project.cleared)):
                self.brought.known += 1
                continue
            if there is not None:
                writes.forgotten.append(there)
            task, result = self._task(number, line, project, edges, writes)
            if task.has_result:
                writes.results[ref] = result
            found[ref] = task
            _count(project, task)
            touched[project.number] = project
            writes.moves.append((task, 0, 0, 0, True, False))
            self.brought.new += 1
        writes.projects = list((touched | edges.touched).values())
        _have_moved(writes)
        self._write(writes)

    def _write(self, writes: WriteSet) -> None:
        """Write tasks; only the record of a bare one."""
        bare = [move[0] for move in writes.moves if move[0].bare]
        writes.moves = [move for move in writes.moves if not move[0].bare]
        batch = batch_of(writes)
        batch.puts[layout.IDS] += [
            (layout.id_key(task.project, task.taskid), layout.encode_bare(task)) for task in bare
        ]
        self._store.write(self._epoch, batch)

    def _project(self, number: int, name: str) -> ProjectRecord:
        if name not in self._named:
            refuse_line(self._form, number, f'project "{name}" is not in the first {self._form.unit}')
        return self._projects[name]

    def _task(
        self, number: int, line: TaskLine, project: ProjectRecord, edges: _EdgeImporter, writes: WriteSet
    ) -> tuple[Task, Raw]:
        """Make the task of a line, with its attempts, and its result."""
        self._number += 2
        try:
            said = packed_task(line, self._form)
            if flaw := flaw_of(said):
                raise ValueError(flaw)
            seq = self._number - 1
            if self._named[line.project].newest and line.state == "ready":
                self._falling -= 1
                seq = self._falling
            task, state = made_task(said, project.number, seq)
            task.state = state
            writes.attempts += kept_attempts(task, state, said.attempts)
            edges.add(line, task, self._number - 1)
            task.key = _key(task, line, newest=bool(project.newest))
            return task, said.result
        except UNREADABLE as error:
            refuse_line(self._form, number, str(error))


def _leased(store: Store) -> Iterator[tuple[TaskRef, Task]]:
    """Yield processing tasks, which may lack a record."""
    family = layout.ORDERS[PROCESSING]
    for page in pages(store, family):
        for key, value in page:
            number = decode_record(family, key, layout.project_of, key)
            task = decode_record(family, key, layout.decode_lease, number, value)
            yield TaskRef(number, task.taskid), task


def _has_tasks(record: ProjectRecord) -> bool:
    return any(getattr(record.counts, name) for name in STATE_NAMES[1:])


def _record(line: ProjectLine, number: int, boot: float, overrides: dict[str, Setting]) -> ProjectRecord:
    check_records(line.totals, line.pause, line.cron)
    record = ProjectRecord(number, line.name, line.state, overrides, bucket_at=boot)
    record.totals = line.totals or record.totals
    record.cron = line.cron
    record.finished = line.finished
    record.held_back = 0
    record.pause = imported_pause(line.state, line.pause)
    if len(layout.encode(record)) > RECORD_BYTES:
        raise ValueError(f"it is more than {RECORD_BYTES:,} bytes")
    return record


def _overrides(line: ProjectLine, environment: Environment, form: ExportFormat, version: int) -> dict[str, Setting]:
    """Decode settings, and check them as ``project-set`` would: a daemon does not start with invalid ones."""
    overrides = overrides_of(line, form, version)
    check(merge({}, overrides), environment)
    check_size(overrides, environment)
    return overrides


def _key(task: Task, line: TaskLine, *, newest: bool) -> int:
    """Compute the task's place in the order of its state."""
    if task.state == READY:
        return ready_key(task.priority, task.seq ^ SEQ_MASK if newest else task.seq)
    if task.state == BLOCKED:
        return task.seq
    return time_key(task.exetime if task.state == DELAYED else line.ended_at, task.seq)


def _count(project: ProjectRecord, task: Task) -> None:
    name = STATE_NAMES[task.state]
    setattr(project.counts, name, getattr(project.counts, name) + 1)
    if task.state in LIVE and not task.apart:
        project.unfinished += 1
        project.armed = True
    if project.held_back is not None:  # otherwise the daemon counts them, with the others of this older store
        project.held_back += is_retry(task)
    # The bounds of orders may be too low.
    project.ready_low, project.delayed_low, project.over_low = bytes(16), bytes(16), bytes(48)


# ------------------------------------------------------------------------------------------------ edges, slots, history


def _parent_refs(line: TaskLine, projects: Mapping[str, ProjectRecord]) -> Iterator[TaskRef]:
    """Yield the parents of a task, without those of unknown projects."""
    for parent in line.parents:
        project = projects.get(line.project if parent.project is None else parent.project)
        if project is not None:
            yield TaskRef(project.number, parent.taskid)


class _EdgeImporter:
    """Importer of the edges of one page of tasks.

    Args:
        writes: changes to which edges are added.
        tasks, awaited: looked-up tasks and parents.
        projects: records by name.

    Attributes:
        touched: projects that have edges from now on, by number.
    """

    def __init__(
        self,
        writes: WriteSet,
        tasks: Mapping[tuple[int, str], Task],
        awaited: dict[TaskRef, None],
        projects: Mapping[str, ProjectRecord],
    ) -> None:
        self._writes = writes
        self._projects = projects
        self._awaited = awaited
        cleared = {record.number: record.cleared for record in projects.values()}
        self._tasks = {ref: task for ref, task in tasks.items() if not is_cleared(task, cleared[ref[0]])}
        self.touched: dict[int, ProjectRecord] = {}

    def add(self, line: TaskLine, task: Task, number: int) -> None:
        """Give a new task its edges, and the state that they imply.

        Args:
            number: number of the edges; this and the next one are used.

        Raises:
            ValueError: it waits for a task of a project that is not in the store.
        """
        ref = TaskRef(task.project, task.taskid)
        if line.parents:
            self._give_parents(ref, line, task, number)
        self._arrive(ref, task, number)
        self._tasks[ref] = task
        missing = task.links.missing if task.links is not None else 0
        if task.state in LIVE:
            task.state = BLOCKED if missing else DELAYED if task.exetime else READY

    def _give_parents(self, child: TaskRef, line: TaskLine, task: Task, number: int) -> None:
        links = task.links = Links(
            number=number, on_failure=POLICIES.index(line.on_parent_failure), dropped=line.dropped
        )
        is_told = False
        for parent, state in {self._ref(line, each): each.state for each in line.parents}.items():
            if parent == child:
                raise ValueError(f"parents: {line.taskid} would wait for itself")
            mark = state
            known = self._tasks.get(parent)
            if known is not None:
                self._have_children(known)
            elif parent.project != DELETED_PROJECT and parent not in self._awaited:
                self._awaited[parent] = None
                self._writes.awaited[parent] = True
            if state == UNSATISFIED and known is not None:
                # A daemon is to satisfy the edges of a task that may be dropped then.
                mark = SATISFIED if known.state == SUCCESS and links.on_failure != ONLY else UNSATISFIED
                is_told |= mark == UNSATISFIED and known.state in OVER
            is_told |= mark == UNSATISFIED and parent.project == DELETED_PROJECT
            links.missing += mark == UNSATISFIED
            links.needed |= mark == OVERLOOKED
            self._writes.edges[Edge(child, parent)] = Mark(mark, number)
            self._writes.new_edges[Edge(child, parent)] = None
        if is_told:
            self._writes.propagations[number] = Propagation(number, "edges", *child)

    def _ref(self, line: TaskLine, parent: ExportedParent) -> TaskRef:
        if parent.project == "":
            return TaskRef(DELETED_PROJECT, parent.taskid)
        project = self._projects.get(parent.project or line.project)
        if project is None:
            raise ValueError(f'parents: there is no project "{parent.project}"; import it first')
        for each in (project, self._projects[line.project]):
            if not each.linked:
                each.linked = True
                self.touched[each.number] = each
        return TaskRef(project.number, parent.taskid)

    def _arrive(self, ref: TaskRef, task: Task, number: int) -> None:
        """Have a daemon pass on to waiting tasks how the task has ended."""
        if ref not in self._awaited:
            return
        del self._awaited[ref]
        self._writes.awaited.pop(ref, None)
        task.links = task.links or Links()
        task.links.has_children = True
        if task.state in OVER:
            kind: PropagationKind = "succeeded" if task.state == SUCCESS else "failed"
            self._writes.propagations[number + 1] = Propagation(number + 1, kind, *ref)

    def _have_children(self, parent: Task) -> None:
        links = parent.links = parent.links or Links()
        if links.has_children:
            return
        links.has_children = True
        if parent.kept_state in OVER:
            self._writes.linked[TaskRef(parent.project, parent.taskid)] = parent
        elif parent.kept_state:
            self._writes.moves.append(parent.as_move())


def _have_moved(writes: WriteSet) -> None:
    """Have a daemon move the ready tasks among these new ones to slots, if their projects are divided.

    An import does not know the numbers of slots. So it puts these tasks into the range of number 0, with an entry that
    leads there, and marks the project, which is among those of the writes, as moving.
    """
    records = {record.number: record for record in writes.projects}
    best: dict[int, int] = {}
    for task, *_ in writes.moves:
        division = records[task.project].slots
        if task.state == READY and division is not None and division.by != "none":
            division.is_moving = True
            best[task.project] = min(task.key, best.get(task.project, task.key))
    for number, key in best.items():
        writes.slots.append(SlotWrites(number, 0, old={(0, entry_of(key)): True}))


def _slice_batch(store: StoreReader, line: SliceLine, numbers: Mapping[str, int]) -> Batch:
    """Make the batch that imports a slice; earlier slices of that time must have been written.

    Args:
        numbers: project numbers by name.
    """
    at = line.at // SECONDS[line.history]
    known = _known_points(store, line, at, numbers)
    sum_key = layout.point_key(line.history, at)
    kept = store.get(layout.POINTS, [sum_key])[0]
    count, *events = (
        (0, *NO_EVENTS) if kept is None else decode_record(layout.POINTS, sum_key, layout.decode_slice, kept)
    )
    new = {name: row for name, row in line.projects.items() if name not in known}
    if kept is None and line.all is not None:
        events = list(line.all)
    else:
        for row in new.values():
            events = list(map(add, events, row))
    if not new and kept is not None:
        return Batch()
    puts = [(layout.point_key(line.history, at, numbers[name]), layout.encode(row)) for name, row in new.items()]
    return Batch(puts={layout.POINTS: [*puts, (sum_key, layout.encode((count + len(new), *events)))]})


def _known_points(store: StoreReader, line: SliceLine, at: int, numbers: Mapping[str, int]) -> frozenset[str]:
    keys = [layout.point_key(line.history, at, numbers[name]) for name in line.projects]
    points = zip(line.projects, store.get(layout.POINTS, keys), strict=True)
    return frozenset(name for name, value in points if value is not None)
