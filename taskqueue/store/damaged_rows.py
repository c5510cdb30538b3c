"""Damaged rows of a database: reads skip them and commits set them aside, so that all other tasks go on.

A row is damaged if its checksum does not match, or if it, or a row that it needs, can't be decoded. Only a store in a
database has such rows: RocksDB's checksums cover whole blocks, and a block that does not match fails the read.

    read ──► unusable row ──► skipped ──► reported to the core ──► commit: deleted, and put into ``damaged``

| a damaged row of | becomes |
|---|---|
| an order, or one whose spec can't be used | set aside; its task counts as failed if it was live, and loses its URL |
| specs, history, results, failures, … | set aside; it counts as absent |
| ids, projects | left in place, unusable, so that the task or project is not taken for a new one |
| edges, flows, slots, reruns | fatal: the start or the turn raises Unreadable, since other rows depend on each |

A task whose order entry was set aside is in *limbo*: its record in ``ids`` still names the entry. The core sees it as
bare and finished, so that it is known, counted once, and can be restarted by a push. Only ``store repair`` resolves it
for good, because finding the task takes a scan of all records of its project.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from taskqueue.core.model.needs import Found, Needs, SetAside
from taskqueue.core.model.task import FAILED, LIVE, PROCESSING, Task, time_key
from taskqueue.errors import Unreadable
from taskqueue.store.contract import Batch, Entry, Family, Store
from taskqueue.store.records import layout
from taskqueue.store.records.reading import pages

T = TypeVar("T")


class DamagedRow(NamedTuple):
    """Damaged row with the ``reason``; ``value`` is empty if it was not read."""

    family: Family
    key: bytes
    value: bytes
    reason: str


class DamagedRows:
    """Rows that reads of one store skip, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Family, bytes], DamagedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DamagedRow]:
        return iter(self._rows.values())

    def note(self, row: DamagedRow) -> None:
        """Skip the row from now on."""
        self._rows.setdefault((row.family, row.key), row)

    def has(self, family: Family, key: bytes) -> bool:
        """Whether reads skip the row at a key."""
        return (family, key) in self._rows

    def without(self, family: Family, entries: list[Entry]) -> list[Entry]:
        """Return the entries that are not skipped."""
        if not self._rows:
            return entries
        return [entry for entry in entries if (family, entry[0]) not in self._rows]

    def forget(self, written: Mapping[Family, Collection[bytes]]) -> None:
        """Stop skipping rows with these keys, which have been rewritten or deleted."""
        for place in [place for place in self._rows if place[1] in written.get(place[0], ())]:
            del self._rows[place]

    def clear(self) -> None:
        """Stop skipping all rows, which have been removed."""
        self._rows.clear()


ROWS_MOST: Final = 10_000
"""Damaged rows that a daemon tolerates in the store and in one turn; with more it stops, so that an operator looks."""

KEPT_IN_PLACE: Final = frozenset((layout.IDS, layout.PROJECTS))

_SET_ASIDE: Final = frozenset((
    *layout.STATE_OF, layout.SPECS, layout.DEFERRED, layout.HISTORY, layout.RESULTS, layout.COUNTERS, layout.BUCKETS,
    layout.SESSIONS, layout.OUTCOMES, layout.OPERATIONS, layout.MEMBERS, layout.FAILURES, layout.LOG, layout.POINTS,
    layout.UNDO_ROWS,
))  # fmt: skip

_NO_SPEC: Final = "its spec is missing"


def damaged_key(family: Family, key: bytes) -> bytes:
    """Make the key in DAMAGED of a row that was set aside."""
    return family.encode() + b"\0" + key


def set_aside_at(key: bytes) -> tuple[Family, bytes]:
    """Split a key of DAMAGED into family and key of the row that was set aside."""
    family, _, rest = key.partition(b"\0")
    return family.decode(), rest


class Quarantine:
    """Filter that skips damaged rows of one store, and sets them aside.

    Attributes:
        is_tolerant: the store reports single damaged rows; others have checksums of their own, and need no quarantine.
        noted: rows found since the daemon last emptied this list, for the daemon log.
        kept: number of rows set aside in the store.
    """

    def __init__(self, store: Store, damaged: DamagedRows | None) -> None:
        self._store = store
        self._rows = damaged
        self.is_tolerant = damaged is not None
        self._delivered: set[tuple[Family, bytes]] = set()
        self._limbo: set[tuple[Family, bytes]] = set()
        self._told: set[tuple[Family, bytes]] = set()
        self.noted: list[DamagedRow] = []
        self.kept = 0

    def load(self) -> None:
        """Read which rows have been set aside.

        Raises:
            Unreadable: there are more than ROWS_MOST.
        """
        if self._rows is None:
            return
        for page in pages(self._store, layout.DAMAGED):
            for family, key in (set_aside_at(key) for key, _ in page):
                self._keep(family, key)
            if self.kept > ROWS_MOST:
                raise Unreadable([(layout.DAMAGED, page[0][0], f"more than {ROWS_MOST:,} damaged rows are set aside")])

    def read(self, look: Callable[[], T]) -> T:
        """Read the store by ``look``, skipping unusable rows; ``look`` may be called several times.

        Raises:
            Unreadable: a row can't be skipped, or there are too many.
        """
        while True:
            try:
                found = look()
            except Unreadable as error:
                self._pass_over(error)
            else:
                self._note()
                return found

    def lose_projects(self, numbers: Iterable[int]) -> None:
        """Note that the records of these projects are damaged or missing."""
        rows = self._rows
        if rows is None:
            return
        for number in numbers:
            rows.note(DamagedRow(layout.PROJECTS, layout.project_key(number), b"", "it is missing"))
        self._note()

    def orders(self) -> list[SetAside]:
        """Return the order entries to set aside, each once until it is written."""
        rows = [] if self._rows is None else [row for row in self._rows if row.family in layout.STATE_OF]
        new = [row for row in rows if (row.family, row.key) not in self._delivered]
        self._delivered.update((row.family, row.key) for row in new)
        return [_place(row) for row in new]

    def explain(self, needs: Needs, found: Found) -> None:
        """Mark in the answer which parts of the core's needs are damaged."""
        found.is_tolerant = True
        if self._limbo:
            _hide(found.tasks.values(), self._limbo)
            for page in found.pages.values():
                _hide(page.tasks, self._limbo)
        if not self._rows and not needs.whole and not needs.answered and not needs.pages:
            return
        self._miss_specs(needs, found)
        found.set_aside = self.orders()
        for row in self._rows or ():
            if row.family == layout.IDS:
                found.unreadable[layout.project_of(row.key), row.key[4:].decode(errors="replace")] = None

    def add_to(self, batch: Batch, set_aside: Iterable[SetAside]) -> None:
        """Move damaged rows to DAMAGED; order entries only if the core took them out and they are not rewritten."""
        taken = {(layout.ORDERS[each.state], layout.order_key(each.project, each.place)) for each in set_aside}
        for row in self._rows or ():
            if row.family not in _SET_ASIDE or (row.family in layout.STATE_OF and (row.family, row.key) not in taken):
                continue
            if any(key == row.key for key, _ in batch.puts.get(row.family, ())):
                continue
            batch.deletes.setdefault(row.family, []).append(row.key)
            value = layout.encode((row.value, row.reason))
            batch.puts.setdefault(layout.DAMAGED, []).append((damaged_key(row.family, row.key), value))
            self._keep(row.family, row.key)

    @property
    def has_rows(self) -> bool:
        """Whether there are rows to be set aside even if the turn writes nothing else."""
        return any(row.family in _SET_ASIDE and row.family not in layout.STATE_OF for row in self._rows or ())

    def written(self) -> None:
        """Forget all skipped rows after a commit; those still damaged are found again."""
        if self._rows:
            self._rows.clear()
            self._delivered.clear()

    def _keep(self, family: Family, key: bytes) -> None:
        self.kept += 1
        if family in layout.STATE_OF:
            self._limbo.add((family, key))

    def _pass_over(self, error: Unreadable) -> None:
        rows = self._rows
        if rows is None or any(rows.has(family, key) for family, key, _ in error.rows):
            raise error
        for family, key, reason in error.rows:
            value = self._store.get(family, [key])[0] if family in _SET_ASIDE else None
            rows.note(DamagedRow(family, key, value or b"", reason))
        self._note()

    def _note(self) -> None:
        """Note new rows for the daemon log.

        Raises:
            Unreadable: a row can't be skipped, or there are too many.
        """
        for row in self._rows or ():
            if (row.family, row.key) not in self._told:
                self._told.add((row.family, row.key))
                self.noted.append(row)
        rows: DamagedRows | tuple[()] = self._rows or ()
        fatal = [row for row in rows if row.family not in _SET_ASIDE and row.family not in KEPT_IN_PLACE]
        if fatal or len(self._told) > ROWS_MOST:
            raise Unreadable([(row.family, row.key, row.reason) for row in fatal or rows])

    def _miss_specs(self, needs: Needs, found: Found) -> None:
        """Note the places of tasks that should have been read with their specs, but have none."""
        asked = [*needs.whole, *((project, taskid) for project, taskid, _ in needs.answered)]
        tokens = {(project, taskid): token for project, taskid, token in needs.answered}
        whole = [task for ref in asked if (task := found.tasks.get(ref)) and tokens.get(ref, task.token) == task.token]
        whole += [task for ref, page in found.pages.items() if ref.whole for task in page.tasks]
        for task in whole:
            if task.spec is None and not task.bare and task.state != PROCESSING and self._rows is not None:
                family, key = layout.ORDERS[task.state], layout.order_key(task.project, task.key)
                value = self._store.get(family, [key])[0]
                self._rows.note(DamagedRow(family, key, value or b"", _NO_SPEC))
                _bare(task)
        self._note()


def _place(row: DamagedRow) -> SetAside:
    state, number = layout.STATE_OF[row.family], layout.project_of(row.key)
    place = int.from_bytes(row.key[len(layout.project_key(0)) :], "big")
    return SetAside(number, state, place, _is_apart(number, state, row.value), row.reason)


def _is_apart(number: int, state: int, value: bytes) -> bool:
    """Whether the project can finish while the task is live, as far as its record can be read."""
    if state not in LIVE:
        return False
    try:
        task = layout.decode_lease(number, value) if state == PROCESSING else layout.task_of(number, "", value)
    except layout.UNREADABLE:
        return False
    return task.apart


def _hide(tasks: Iterable[Task], limbo: Collection[tuple[Family, bytes]]) -> None:
    """Make tasks bare whose order entries have been set aside; the seq alone identifies a lease's."""
    for task in tasks:
        place = layout.ORDERS[task.state], layout.order_key(task.project, task.key)
        lease = layout.ORDERS[PROCESSING], layout.order_key(task.project, task.seq)
        if not task.bare and (place in limbo or (task.state in LIVE and lease in limbo)):
            _bare(task)


def _bare(task: Task) -> None:
    """Make a task bare and finished; it counts as failed if it was live."""
    if task.state in LIVE:
        task.state = task.kept_state = FAILED
        task.key = task.kept_key = time_key(task.lastcrawltime, task.seq)
    task.spec, task.bare = None, True
