"""Check in one pass over each family whether all tasks of a store agree, without looking any of them up.

    ids ────────┬──► entries ◄── ready, delayed, blocked, success, failed, cancelled, leases
                ├──► specs   ◄── specs
                └──► results ◄── results

In a sound store both sides have the same set of facts: the place of each record, the taskid of each spec. A set is
compared by its *fingerprint*, the sum of the hashes of its elements in any order; two different sets have the same
fingerprint once in 2**64 (M. Bellare, D. Micciancio: A New Paradigm for Collision-Free Hashing, 1997: AdHash). Reading
and hashing an entry takes a fifth of the time of a look-up.

It names no problem. Anything wrong or unknown is a *doubt*, and then ``consistency`` looks each entry up. So this check
may accept less than ``consistency``, but never more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import concat
from typing import Final

from msgspec import Struct, field

from taskqueue.core.model.task import (
    ATTEMPTS_KEPT,
    BLOCKED,
    DELAYED,
    LIVE,
    OVER,
    READY,
    STATE_NAMES,
    STATES,
    SUCCESS,
    WAITING,
    Task,
)
from taskqueue.core.state import EPOCH_SHIFT
from taskqueue.store.contract import Entry, Family
from taskqueue.store.records import layout
from taskqueue.store.records.layout import (
    AWAITED,
    DATED,
    HAS_RESULT,
    IN_SLOT,
    PROJECT_BYTES,
    PUT_OFF,
    RETRIED_AT,
    STATE_MASK,
)
from taskqueue.store.records.stored_values import decode_lease_value, decode_spec_value
from taskqueue.store.tools.findings import Checked, Tally, is_cleared
from taskqueue.store.tools.relations import EdgeCheck, FlowCheck, SlotCheck

Look = Callable[[Sequence[Entry]], None]

_SLOT_BYTES: Final = 5
_SUCCESS_BYTES: Final = 6
"""Bytes before the taskid of a success with its attempt."""

_RETRY_FLAGS: Final = layout.HELD_BACK | layout.APART

_PLACE: Final = slice(layout.RECORD.size - 16, layout.RECORD.size)


def _plain_size(mark: int) -> int:
    """Return the bytes of an undated record without itag that begins with this byte; 0 for other records.

    Other records have links, are blocked, or are not records.
    """
    if mark & STATE_MASK not in STATES or mark & STATE_MASK == BLOCKED or mark & ~(STATE_MASK | IN_SLOT | HAS_RESULT):
        return 0
    return layout.RECORD.size + (_SLOT_BYTES if mark & IN_SLOT else 0)


_DATE_BYTES: Final = layout.DATED_RECORD.size - layout.RECORD.size

_PLAIN_SIZES: Final = tuple(map(_plain_size, range(256)))
"""Sizes of the most common records by first byte; their fields are read at fixed offsets, without decoding the task."""


class Doubt(Exception):
    """Entries of the store may not agree."""


class _Sums(Struct):
    """Fingerprints of a project.

    Attributes:
        said: places and their tasks according to ids, by state.
        found: places and their tasks in the orders, by state.
        taskids, specs: seqs with taskids, from ids and leases, and from specs.
        with_result, results: keys of tasks that have a result, and of results.
    """

    said: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    found: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    taskids: int = 0
    specs: int = 0
    with_result: int = 0
    results: int = 0

    @property
    def agree(self) -> bool:
        """Whether both sides of each pair are equal."""
        return (self.said, self.taskids, self.with_result) == (self.found, self.specs, self.results)


class Fingerprints:
    """Fingerprints of the families of tasks, fed by pages; call ``finish`` after all. Any method raises Doubt."""

    def __init__(self, checked: Checked, edges: EdgeCheck, flows: FlowCheck, slots: SlotCheck) -> None:
        self._store = checked.store
        self._tallies = checked.tallies
        self._edges = edges
        self._flows = flows
        self._slots = slots
        self._future = (checked.epoch + 1 << EPOCH_SHIFT).to_bytes(layout.SEQ_BYTES, "big")
        self._sums: dict[int, _Sums] = {number: _Sums() for number in checked.tallies}

    def looks(self) -> dict[Family, Look]:
        """Return the function that reads the pages of each family of tasks."""
        orders = {layout.ORDERS[state]: partial(self._waiting, state) for state in WAITING}
        ends = {layout.ORDERS[state]: partial(self._over, state) for state in OVER}
        others = {layout.IDS: self._ids, layout.SPECS: self._specs}
        return {**orders, **ends, **others, layout.HISTORY: self._history, layout.RESULTS: self._results}

    def finish(self) -> None:
        """Compare both sides of all projects."""
        for number, sums in self._sums.items():
            _expect(sums.agree)
            tally = self._tallies[number]
            tally.results = tally.with_result

    # ------------------------------------------------------------------------------------------ orders

    def _waiting(self, state: int, page: Sequence[Entry]) -> None:
        """Hash waiting tasks; their records contain their places, so nothing else has to be compared."""
        if state == READY:
            self._slots.tasks(page)
        for project, entries in _by_project(page):
            tally, sums = self._of(project)
            records = [record for _, record in entries]
            _expect([key[PROJECT_BYTES:] for key, _ in entries] == [record[_PLACE] for record in records])
            sums.found[state] += sum(map(hash, records))
            tally.places[state] += len(records)
            tally.unfinished += len(records) - sum([record[1] & layout.APART != 0 for record in records])
            if state == DELAYED:
                tally.held_back += sum([record[1] & _RETRY_FLAGS == layout.HELD_BACK for record in records])

    def leases(self, page: Sequence[Entry]) -> None:
        """Count the former places in leased tasks' records as found; all else of leases was looked up."""
        leased = [(key, decode_lease_value(value).taskid.encode()) for key, value in page]
        records = self._store.get(layout.IDS, [key[:PROJECT_BYTES] + taskid for key, taskid in leased])
        for (key, taskid), record in zip(leased, records, strict=True):
            _, sums = self._of(layout.project_of(key))
            if record is None:
                sums.taskids += _hashed([key[-layout.SEQ_BYTES :]], [taskid])
            else:
                sums.found[record[0] & STATE_MASK] += hash(record)

    def _over(self, state: int, page: Sequence[Entry]) -> None:
        read = _taskids_of_successes if state == SUCCESS else _taskids_of_failures
        for project, entries in _by_project(page):
            tally, sums = self._of(project)
            taskids = read([value for _, value in entries])
            sums.found[state] += _hashed([key[PROJECT_BYTES:] for key, _ in entries], taskids)
            tally.places[state] += len(entries)

    # ------------------------------------------------------------------------------------------ ids

    def _ids(self, page: Sequence[Entry]) -> None:
        for project, entries in _by_project(page):
            tally, _ = self._of(project)
            by_mark: dict[int, list[Entry]] = {}
            for entry in entries:
                record = entry[1]
                mark = record[0]
                size = len(record)
                if size > RETRIED_AT and record[RETRIED_AT] & DATED:
                    size -= _DATE_BYTES
                if size != _PLAIN_SIZES[mark] or record[RETRIED_AT] & PUT_OFF or record[1] & layout.BARE:
                    self._marked(tally, *entry)
                elif mark in by_mark:
                    by_mark[mark].append(entry)
                else:
                    by_mark[mark] = [entry]
            for mark, alike in by_mark.items():
                self._plain(tally, mark, alike)

    def _plain(self, tally: Tally, mark: int, entries: list[Entry]) -> None:
        """Hash tasks that have only a state, a slot and a result."""
        places = [record[_PLACE] for _, record in entries]
        state = mark & STATE_MASK
        seqs = [layout.seq_bytes_of(place) if state == READY else place[-layout.SEQ_BYTES :] for place in places]
        if state in LIVE and int.from_bytes(min(seqs), "big") <= tally.record.cleared:
            for entry in entries:
                self._marked(tally, *entry)
            return
        taskids = [key[PROJECT_BYTES:] for key, _ in entries]
        _expect_text(taskids)
        _expect(max(seqs) < self._future)
        sums = self._sums[tally.record.number]
        sums.said[state] += sum(hash(record) for _, record in entries) if state in LIVE else _hashed(places, taskids)
        sums.taskids += _hashed(seqs, taskids)
        tally.ids += len(entries)
        if mark & HAS_RESULT:
            sums.with_result += sum(hash(key) for key, _ in entries)
            tally.with_result += len(entries)

    def _marked(self, tally: Tally, key: bytes, record: bytes) -> None:
        """Hash any task."""
        if record == AWAITED:
            self._edges.awaited(key)
            return
        task = layout.task_at(key, record)
        sums, taskid = self._sums[tally.record.number], key[PROJECT_BYTES:]
        if task.has_result:
            sums.with_result += hash(key)
        if not task.bare:
            sums.taskids += _hashed([layout.seq_bytes_of(record[_PLACE])], [taskid])
        if is_cleared(task, tally.record.cleared):
            tally.left += 1
            return
        self._count(tally, task)
        if task.state in LIVE:
            sums.said[task.state] += hash(record)
        elif not task.bare:
            sums.said[task.state] += _hashed([record[_PLACE]], [taskid])

    def _count(self, tally: Tally, task: Task) -> None:
        _expect(task.seq < int.from_bytes(self._future, "big"))
        _expect(not task.bare or task.state in OVER)
        _expect(task.state != BLOCKED or (task.links is not None and task.links.missing > 0))
        self._flows.count(task)
        tally.count_record(task)

    # ------------------------------------------------------------------------------------------ by seq, by taskid

    def _specs(self, page: Sequence[Entry]) -> None:
        for project, entries in _by_project(page):
            tally, sums = self._of(project)
            taskids = [decode_spec_value(value).taskid.encode() for _, value in entries]
            sums.specs += _hashed([key[PROJECT_BYTES:] for key, _ in entries], taskids)
            tally.specs += len(entries)

    def _history(self, page: Sequence[Entry]) -> None:
        """Look up each task once, however many attempts it has."""
        for key, value in page:
            layout.taskid_of_attempt(key)
            layout.decode_attempt(value)
        _expect(all(key[-1] < ATTEMPTS_KEPT for key, _ in page))
        tasks = dict.fromkeys([key[:PROJECT_BYTES] + key[PROJECT_BYTES + 1 : -1] for key, _ in page])
        for record in self._store.get(layout.IDS, list(tasks)):
            _expect(record is not None and record != AWAITED and not record[1] & layout.BARE)
        for project, _ in _by_project(page):
            self._of(project)

    def _results(self, page: Sequence[Entry]) -> None:
        for project, entries in _by_project(page):
            _, sums = self._of(project)
            for _, value in entries:
                layout.decode_result(value)
            sums.results += sum(hash(key) for key, _ in entries)

    def _of(self, project: int) -> tuple[Tally, _Sums]:
        if project not in self._tallies:
            raise Doubt
        return self._tallies[project], self._sums[project]


def _by_project(page: Sequence[Entry]) -> Iterator[tuple[int, Sequence[Entry]]]:
    """Split the page into parts of one project each."""
    start = 0
    while start < len(page):
        prefix = page[start][0][:PROJECT_BYTES]
        end = len(page)
        if page[-1][0][:PROJECT_BYTES] != prefix:
            end = bisect_right(page, prefix, start, key=lambda entry: entry[0][:PROJECT_BYTES])
        yield layout.project_of(prefix), page[start:end]
        start = end


def _hashed(places: Sequence[bytes], taskids: Sequence[bytes]) -> int:
    """Compute the fingerprint of pairs; all places are of the same length.

    Tuples are not hashed: their hash is so nearly a sum that exchanging the second parts of two pairs leaves it
    unchanged in 30 % of the cases.
    """
    return sum(map(hash, map(concat, places, taskids)))


def _taskids_of_successes(values: Sequence[bytes]) -> list[bytes]:
    """Decode the taskids in the order of successes, and check that each is readable."""
    whole = [value for value in values if layout.has_attempt(value)]
    _expect(min(map(len, whole), default=_SUCCESS_BYTES) >= _SUCCESS_BYTES)
    _expect_text([value[_SUCCESS_BYTES + value[1] :] for value in whole])  # names of fetchers
    if len(whole) == len(values):
        return [value[_SUCCESS_BYTES : _SUCCESS_BYTES + value[1]] for value in values]
    return _taskids_of_failures(values)


def _taskids_of_failures(values: Sequence[bytes]) -> list[bytes]:
    """Decode the taskids in another order of finished tasks, and check that each is readable."""
    for value in values:
        layout.error_at(value)
    return [layout.taskid_at(value) for value in values]


def _expect_text(texts: Sequence[bytes]) -> None:
    """Check that each text is UTF-8; joining them by ASCII keeps a cut character invalid."""
    b"\n".join(texts).decode()


def _expect(is_so: bool) -> None:
    if not is_so:
        raise Doubt
