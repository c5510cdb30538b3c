"""Damaged rows of a database: reads pass over them, and they are set aside, so that all other tasks go on.

A row is damaged if its checksum does not match, or if it, or what it needs, can't be decoded. Only a store in a
database has any: RocksDB's own checksums are of whole blocks, and a block that does not match is an error of the read.

    read ──► a row can't be used ──► passed over ──► told to the core ──► commit: deleted, and put into ``damaged``

| a damaged row of | becomes |
|---|---|
| an order, or one whose spec can't be used | set aside; its task counts as failed, or as over, without a url |
| specs, history, results, failures, … | set aside; it is as if it were not there |
| ids, projects | left where it is, so that nobody takes the task or the project for a new one; it can't be used |
| edges, flows, slots, reruns | nothing: the start or the turn ends as Unreadable, since others depend on each |

A task whose place in its order was set aside is in *limbo*: its record in ``ids`` says where it was. It is shown to the
core as bare and over, so that it is known, counted once, and can be restarted by a push. ``store repair`` ends it for
good: only a look at all records of its project tells which task it is.
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
    """A row; ``reason`` says what is wrong with it. ``value`` is empty if it was not read."""

    family: Family
    key: bytes
    value: bytes
    reason: str


class DamagedRows:
    """The rows that reads of one store pass over, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Family, bytes], DamagedRow] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[DamagedRow]:
        return iter(self._rows.values())

    def note(self, row: DamagedRow) -> None:
        """Pass over the row from now on."""
        self._rows.setdefault((row.family, row.key), row)

    def has(self, family: Family, key: bytes) -> bool:
        """Whether the row at a key is passed over."""
        return (family, key) in self._rows

    def without(self, family: Family, entries: list[Entry]) -> list[Entry]:
        """The entries that are not passed over."""
        if not self._rows:
            return entries
        return [entry for entry in entries if (family, entry[0]) not in self._rows]

    def forget(self, written: Mapping[Family, Collection[bytes]]) -> None:
        """Read rows with these keys again: they have been written anew, or deleted."""
        for place in [place for place in self._rows if place[1] in written.get(place[0], ())]:
            del self._rows[place]

    def clear(self) -> None:
        """Pass over none any more: they have been removed."""
        self._rows.clear()


ROWS_MOST: Final = 10_000
"""Damaged rows with which a daemon goes on, in the store and in one turn; more end it, since a person has to look."""

STATE_OF: Final[dict[Family, int]] = {family: state for state, family in layout.ORDERS.items()}

KEPT_IN_PLACE: Final = frozenset((layout.IDS, layout.PROJECTS))

_SET_ASIDE: Final = frozenset((
    *STATE_OF, layout.SPECS, layout.DEFERRED, layout.HISTORY, layout.RESULTS, layout.COUNTERS, layout.BUCKETS,
    layout.SESSIONS, layout.OUTCOMES, layout.OPERATIONS, layout.MEMBERS, layout.FAILURES, layout.LOG, layout.POINTS,
))  # fmt: skip

_NO_SPEC: Final = "its spec is missing"


def damaged_key(family: Family, key: bytes) -> bytes:
    """The key in DAMAGED of a row that was set aside."""
    return family.encode() + b"\0" + key


def set_aside_at(key: bytes) -> tuple[Family, bytes]:
    """Family and key of the row that was set aside under a key of DAMAGED."""
    family, _, rest = key.partition(b"\0")
    return family.decode(), rest


class Quarantine:
    """Passes over damaged rows of one store, and sets them aside.

    Attributes:
        is_tolerant: the store tells of single damaged rows; any other one has checksums of its own, and needs nothing
            of this.
        noted: rows that were found since this was emptied last, for the log.
        kept: number of rows that are set aside.
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
        """Read what has been set aside.

        Raises:
            Unreadable: it is more than a daemon goes on with.
        """
        if self._rows is None:
            return
        for page in pages(self._store, layout.DAMAGED):
            for family, key in (set_aside_at(key) for key, _ in page):
                self._keep(family, key)
            if self.kept > ROWS_MOST:
                raise Unreadable([(layout.DAMAGED, page[0][0], f"more than {ROWS_MOST:,} rows are set aside")])

    def read(self, look: Callable[[], T]) -> T:
        """The result of a look at the store that passes over rows that can't be used; it may be made several times.

        Raises:
            Unreadable: a row can't be passed over, or they are too many.
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
        """Note that the records of these projects are damaged, or gone."""
        rows = self._rows
        if rows is None:
            return
        for number in numbers:
            rows.note(DamagedRow(layout.PROJECTS, layout.project_key(number), b"", "it is missing"))
        self._note()

    def orders(self) -> list[SetAside]:
        """Places in orders that are to be set aside, each once until it is written."""
        rows = [] if self._rows is None else [row for row in self._rows if row.family in STATE_OF]
        new = [row for row in rows if (row.family, row.key) not in self._delivered]
        self._delivered.update((row.family, row.key) for row in new)
        return [_place(row) for row in new]

    def explain(self, needs: Needs, found: Found) -> None:
        """Tell the core what is damaged of what it has asked for."""
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
        """Move damaged rows; of orders those that the core has taken out, unless the batch writes them anew."""
        taken = {(layout.ORDERS[each.state], layout.order_key(each.project, each.place)) for each in set_aside}
        for row in self._rows or ():
            if row.family not in _SET_ASIDE or (row.family in STATE_OF and (row.family, row.key) not in taken):
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
        return any(row.family in _SET_ASIDE and row.family not in STATE_OF for row in self._rows or ())

    def written(self) -> None:
        """The batch has been written: what is damaged still will be met again."""
        if self._rows:
            self._rows.clear()
            self._delivered.clear()

    def _keep(self, family: Family, key: bytes) -> None:
        self.kept += 1
        if family in STATE_OF:
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
        """Note new rows for the log.

        Raises:
            Unreadable: one of them can't be passed over, or they are too many.
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
        """Tasks that were to be read with their specs, and have none: their places are to be set aside, too."""
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
    state, number = STATE_OF[row.family], layout.project_of(row.key)
    place = int.from_bytes(row.key[len(layout.project_key(0)) :], "big")
    return SetAside(number, state, place, _is_apart(number, state, row.value), row.reason)


def _is_apart(number: int, state: int, value: bytes) -> bool:
    """Whether the project can be finished while the task is live, as far as its record can be read."""
    if state not in LIVE:
        return False
    try:
        task = layout.decode_lease(number, value) if state == PROCESSING else layout.task_of(number, "", value)
    except layout.UNREADABLE:
        return False
    return task.apart


def _hide(tasks: Iterable[Task], limbo: Collection[tuple[Family, bytes]]) -> None:
    """Make looked-up tasks bare whose places have been set aside; a lease's is told by the seq alone."""
    for task in tasks:
        place = layout.ORDERS[task.state], layout.order_key(task.project, task.key)
        lease = layout.ORDERS[PROCESSING], layout.order_key(task.project, task.seq)
        if not task.bare and (place in limbo or (task.state in LIVE and lease in limbo)):
            _bare(task)


def _bare(task: Task) -> None:
    """Make a looked-up task what it counts as from now on: over and bare, as failed if it was live."""
    if task.state in LIVE:
        task.state = task.kept_state = FAILED
        task.key = task.kept_key = time_key(task.lastcrawltime, task.seq)
    task.spec, task.bare = None, True
