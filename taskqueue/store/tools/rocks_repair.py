"""Build a new store from the readable parts of a damaged one in RocksDB.

    FROM ──salvage──► a copy that opens ──each task once──► lines ──import──► TO, with its epochs far above

Every task with any readable part gets one place:

1. Entries of the project's orders are written in their order, if their record agrees or is lost. A processing task
   becomes ready.
2. A record without an entry in an order is written in its own state, a spec without a record as ready: it may run
   once more than necessary, which the guarantees allow.
3. A live task without its spec, which has its URL, is lost and reported. A finished one stays known.
4. A project without its record is named ``recovered-NUMBER``, and is stopped.

Histories of attempts, leases, flows, counters and operations are not kept.

Unreadable blocks are skipped. RocksDB reports that a block is damaged, but not where the next one begins.
A seek behind a damaged block works, so the next key is found by doubling steps, and then by bisection: a few hundred
seeks per block.

    entries   a a a a ✗ ✗ b b b        a page that fails is halved down to the first unreadable entry; then the first
                                       readable key behind it is searched for
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from os.path import abspath, basename, dirname, exists, join
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from msgspec import Raw, Struct, field

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import OVER, PROCESSING, READY, WAITING, Task, ready_key
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.errors import StoreError, Unreadable
from taskqueue.protocol.exports import ExportedParent
from taskqueue.protocol.fields import NIL
from taskqueue.settings.environment import Environment
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.files.file_snapshot import sync_folder
from taskqueue.store.files.folder import LOG, MANIFEST, TABLE, exclusive_lock
from taskqueue.store.files.integrity import damage_of, is_damage
from taskqueue.store.records import layout
from taskqueue.store.records.epochs import skip_epochs
from taskqueue.store.records.format import EPOCH_KEY, META
from taskqueue.store.records.layout import AWAITED
from taskqueue.store.records.reading import PAGE
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools.export_format import (
    MESSAGEPACK,
    VERSION,
    FirstLine,
    LastLine,
    counting_links,
    parent_lines,
    parents_range,
)
from taskqueue.store.tools.exporter import IN_ORDER, project_line, task_line
from taskqueue.store.tools.findings import is_cleared
from taskqueue.store.tools.importer import ImportCounts, import_lines
from taskqueue.store.tools.salvage import copy_readable

T = TypeVar("T")
Entry = tuple[bytes, bytes]
SHOWN: Final = 1000
"""Lines about losses that are kept, at most."""
_UNREADABLE: Final = (*layout.UNREADABLE, IndexError)


class Repaired(Struct):
    """Report of a repair.

    Attributes:
        lost: losses, one line each, at most SHOWN.
        found: number of all losses.
        projects, tasks: numbers of saved projects and tasks.
        epoch: last epoch that is skipped.
    """

    lost: list[str] = field(default_factory=list)
    found: int = 0
    projects: int = 0
    tasks: int = 0
    epoch: int = 0

    def lose(self, line: str) -> None:
        """Report a loss."""
        self.found += 1
        if len(self.lost) < SHOWN:
            self.lost.append(line)


def repair(path: str, to: str, boot: float, environment: Environment, progress: Callable[[int], object]) -> Repaired:
    """Create a store in ``to``, which must be empty or absent, from the readable parts of the one in ``path``.

    Args:
        boot: boot-clock seconds now.
        environment: parses settings as the daemon will.
        progress: called with the number of tasks saved so far.

    Raises:
        StoreError: a daemon has the store, nothing of it can be read, or ``to`` is not empty.
        OSError: a write failed; nothing is left of the new store.
    """
    if exists(to) and os.listdir(to):
        raise StoreError(f"{to}: the folder is not empty; name a new one")
    above, repaired = dirname(abspath(to)), Repaired()
    os.makedirs(above, exist_ok=True)
    if not any(TABLE.fullmatch(name) or LOG.fullmatch(name) for name in os.listdir(path)):
        raise StoreError(f"{path}: this folder has no files of a store")
    with exclusive_lock(path), TemporaryDirectory(prefix=f"{basename(abspath(to))}.partial-", dir=above) as folder:
        work, new = join(folder, "work"), join(folder, "new")
        os.mkdir(work)
        damage = damage_of(path)
        for line in [] if damage is None else damage.lines():
            repaired.lose(line)
        names = [] if damage is None else [flaw.name for flaw in damage.flaws]
        copy_readable(path, work, repaired.lose, has_manifest=not any(map(MANIFEST.fullmatch, names)))
        with closing(RocksStore(work)) as old, closing(RocksStore(new)) as store:
            saving = _Saving(TolerantReader(old, repaired.lose), repaired.lose)
            for brought in import_lines(store, saving.lines(), "skip", boot, environment, MESSAGEPACK):
                _count(repaired, brought)
                progress(repaired.tasks)
            repaired.epoch = skip_epochs(store, to, saving.epoch)
        os.rename(new, to)
        sync_folder(above)
    return repaired


def _count(repaired: Repaired, brought: ImportCounts) -> None:
    repaired.tasks, repaired.projects = brought.new, brought.projects


class _Saving:
    """Export of the tasks of a damaged store.

    Attributes:
        epoch: newest epoch in anything that was read.
    """

    def __init__(self, store: TolerantReader, lose: Callable[[str], object]) -> None:
        self.epoch = int(store.get(META, [EPOCH_KEY])[0] or b"0")
        self._store = store
        self._lose = lose

    def lines(self) -> Iterator[bytes]:
        """Yield the encoded lines of an export; a task may occur twice, and the first one counts."""
        records = self._projects()
        yield MESSAGEPACK.encode(FirstLine(VERSION, [project_line(record, MESSAGEPACK) for record in records]))
        count = 0
        names = {record.number: record.name for record in records}
        for record in records:
            for task in self._tasks(record):
                self.epoch = max(self.epoch, max(task.seq, task.token) >> EPOCH_SHIFT)
                count += 1
                yield MESSAGEPACK.encode(
                    task_line(record.name, task, self._result(record, task), self._parents(task, names), MESSAGEPACK)
                )
        yield MESSAGEPACK.encode(LastLine(count))

    def _result(self, record: ProjectRecord, task: Task) -> Raw:
        """Return the result of a task; nil if it has none, or it is lost."""
        value = self._store.get(layout.RESULTS, [layout.id_key(record.number, task.taskid)])[0]
        result = None if value is None else _decoded(layout.decode_result, value)
        if result is None and task.has_result:
            self._lose(f"{record.name}: task {task.taskid!r}: its result can't be read")
        return NIL if result is None or task.bare else result

    def _parents(self, task: Task, names: dict[int, str]) -> list[ExportedParent]:
        """Return the parents of a task, as far as its edges can be read."""
        if counting_links(task) is None:
            return []
        pages = self._store.pages(layout.PARENTS, *parents_range(task))
        entries = (entry for page in pages for entry in page)
        try:
            return list(parent_lines(entries, task, names))
        except Unreadable as error:
            self._lose(f"{names[task.project]}: task {task.taskid!r}: its parents can't be read ({error})")
            return []

    def _projects(self) -> list[ProjectRecord]:
        found: dict[int, ProjectRecord] = {}
        for page in self._store.pages(layout.PROJECTS):
            for _, value in page:
                record = _decoded(layout.decode_project, value)
                if record is not None:
                    found[record.number] = record
        for family in (layout.IDS, layout.SPECS):
            for number in self._numbers(family):
                if number not in found:
                    found[number] = ProjectRecord(number, f"recovered-{number}", "stopped")
                    self._lose(f"project number {number}: its record; its tasks are in the project recovered-{number}")
        return list(found.values())

    def _numbers(self, family: Family) -> Iterator[int]:
        """Yield numbers of the projects that have entries in a family."""
        start = b""
        while page := next(self._store.pages(family, start), None):
            numbers = {layout.project_of(key) for key, _ in page}
            yield from sorted(numbers)
            start = layout.project_key(max(numbers) + 1)

    def _tasks(self, record: ProjectRecord) -> Iterator[Task]:
        for state in IN_ORDER:
            for page in self._of(record, layout.ORDERS[state]):
                yield from self._placed(record, state, page)
        for page in self._of(record, layout.IDS):
            yield from self._recorded(record, page)
        for page in self._of(record, layout.SPECS):
            yield from self._specified(record, page)

    def _of(self, record: ProjectRecord, family: Family) -> Iterator[Sequence[Entry]]:
        return self._store.pages(family, layout.project_key(record.number), layout.project_key(record.number + 1))

    def _placed(self, record: ProjectRecord, state: int, page: Sequence[Entry]) -> Iterator[Task]:
        """Yield tasks by the entries of an order, if their records agree."""
        specs = self._specs([layout.spec_key_of(key) for key, _ in page])
        tasks = [_task_at(state, key, value, found) for (key, value), found in zip(page, specs, strict=True)]
        keys = [layout.id_key(record.number, "" if task is None else task.taskid) for task in tasks]
        for (key, _), task, found, known in zip(page, tasks, specs, self._store.get(layout.IDS, keys), strict=True):
            if task is None or is_cleared(task, record.cleared):
                continue
            there = None if known in (None, AWAITED) else _decoded(layout.task_of, record.number, task.taskid, known)
            if state != PROCESSING and there is not None:
                if (there.state, layout.order_key(record.number, there.key)) != (state, key):
                    continue
                task = there
            if found is not None and found[0] == task.taskid:
                yield _with(task, found[1])
            elif state in OVER:
                yield _bared(task)
            else:
                self._lose_task(record, task.taskid)

    def _recorded(self, record: ProjectRecord, page: Sequence[Entry]) -> Iterator[Task]:
        """Yield tasks of records without an entry in an order."""
        tasks = [_decoded(layout.task_at, key, value) for key, value in page if value != AWAITED]
        known = [task for task in tasks if task is not None and not is_cleared(task, record.cleared)]
        specs = self._specs([layout.seq_key(record.number, task.seq) for task in known])
        for task, found in zip(known, specs, strict=True):
            if task.bare:
                yield task
            elif found is None or found[0] != task.taskid:
                if task.state in OVER:
                    yield _bared(task)
                elif not self._is_leased(record.number, task.seq):
                    self._lose_task(record, task.taskid)
            elif not self._has_place(task):
                yield _with(task, found[1])

    def _specified(self, record: ProjectRecord, page: Sequence[Entry]) -> Iterator[Task]:
        """Yield tasks of specs without a record, except cleared tasks."""
        found = [(layout.seq_of(key), _decoded(layout.decode_spec, value)) for key, value in page]
        keys = [layout.id_key(record.number, "" if spec is None else spec[0]) for _, spec in found]
        for (seq, spec), known in zip(found, self._store.get(layout.IDS, keys), strict=True):
            if spec is not None and known in (None, AWAITED) and seq > record.cleared and spec[1].url:
                priority = spec[1].schedule.priority
                task = Task(record.number, spec[0], READY, ready_key(priority, seq), seq, priority)
                yield _with(task, spec[1])

    def _specs(self, keys: Sequence[bytes]) -> list[tuple[str, Spec] | None]:
        values = self._store.get(layout.SPECS, keys)
        return [None if value is None else _decoded(layout.decode_spec, value) for value in values]

    def _has_place(self, task: Task) -> bool:
        family = layout.ORDERS.get(task.state)
        return family is not None and self._store.get(family, [layout.order_key(task.project, task.key)])[0] is not None

    def _is_leased(self, number: int, seq: int) -> bool:
        return self._store.get(layout.ORDERS[PROCESSING], [layout.order_key(number, seq)])[0] is not None

    def _lose_task(self, record: ProjectRecord, taskid: str) -> None:
        self._lose(f"{record.name}: task {taskid!r}: its URL and body can't be read")


def _decoded(decode: Callable[..., T], *values: object) -> T | None:
    try:
        return decode(*values)
    except _UNREADABLE:
        return None


def _task_at(state: int, key: bytes, value: bytes, spec: tuple[str, Spec] | None) -> Task | None:
    """Decode the task of an entry of an order; None if it is malformed, or needs a spec and has none."""
    number, place = layout.project_of(key), int.from_bytes(key[len(layout.project_key(0)) :], "big")
    if state == PROCESSING:
        return _decoded(layout.decode_lease, number, value)
    if state in WAITING:
        return None if spec is None else _decoded(layout.task_of, number, spec[0], value)
    taskid = _decoded(lambda value: layout.taskid_at(value).decode(), value)
    return None if taskid is None else Task(number, taskid, state, place, layout.seq_of(key))


def _with(task: Task, spec: Spec) -> Task:
    task.spec, task.bare = spec, False
    return task


def _bared(task: Task) -> Task:
    task.spec, task.bare = None, True
    return task


KEY_BYTES: Final = 288
"""Length of numbers that stand for keys, longer than any key."""


class TolerantReader:
    """Reader of a damaged store's readable entries.

    Args:
        lost: called with a line for each range of keys that can't be read.
    """

    def __init__(self, store: StoreReader, lost: Callable[[str], object]) -> None:
        self._store = store
        self._lost = lost
        self._told: set[tuple[Family, bytes]] = set()

    def get(self, family: Family, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of the keys; None for a key that is absent or unreadable."""
        try:
            return self._store.get(family, keys)
        except StoreError as error:
            _refuse_other(error)
        if len(keys) == 1:
            return [None]
        half = len(keys) // 2
        return self.get(family, keys[:half]) + self.get(family, keys[half:])

    def pages(self, family: Family, start: bytes = b"", end: bytes = layout.LAST_KEY) -> Iterator[list[Entry]]:
        """Yield all readable entries with start <= key < end, in pages."""
        limit = PAGE
        while start < end:
            page = self._page(family, start, end, limit)
            if page is None and limit > 1:
                limit //= 2
            elif page is None:
                after = self._behind(family, start, end)
                self._tell(family, start, after)
                start, limit = after, PAGE
            elif page:
                yield page
                start = page[-1][0] + b"\0"
                limit = min(PAGE, limit * 2) if len(page) == limit else PAGE
            else:
                return

    def _page(self, family: Family, start: bytes, end: bytes, limit: int) -> list[Entry] | None:
        """Read a page of entries; None if it is unreadable."""
        try:
            return self._store.scan(family, start, end, limit)
        except StoreError as error:
            _refuse_other(error)
            return None

    def _behind(self, family: Family, start: bytes, end: bytes) -> bytes:
        """Find the first key from which on the family can be read again; ``end`` if there is none."""
        low = int.from_bytes(start.ljust(KEY_BYTES, b"\0"), "big")
        most = int.from_bytes(end.ljust(KEY_BYTES, b"\0"), "big")
        step = 1
        while low + step < most and self._page(family, _key(low + step), end, 1) is None:
            step *= 2
        high = min(low + step, most)
        low += step // 2
        while low + 1 < high:
            middle = (low + high) // 2
            if self._page(family, _key(middle), end, 1) is None:
                low = middle
            else:
                high = middle
        return _key(high) if high < most else end

    def _tell(self, family: Family, start: bytes, after: bytes) -> None:
        # A later pass over the family may meet the same block again.
        if (family, after) not in self._told:
            self._told.add((family, after))
            self._lost(f"{family}: entries between the keys {_shown(start)} and {_shown(after)} can't be read")


def _key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


def _shown(key: bytes) -> str:
    return key.rstrip(b"\0")[:40].hex() or "0"


def _refuse_other(error: StoreError) -> None:
    if not is_damage(error):
        raise error
