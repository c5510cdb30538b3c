"""Typed access to a store: all that the core loads at start, looks up in a turn, and writes at its end.

    begin ──► (find, commit, commit, …, sync)* ──► stop ──► close
                     after a crash anywhere, begin on the same store goes on

``commit`` writes one atomic batch under this ledger's epoch; ``sync`` may run in another thread meanwhile. The
store is marked as cleanly stopped (``clean``) only between ``stop`` and the next ``begin``.

Nothing here makes decisions or depends on a particular engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, TypeVar

from taskqueue.core.model.hashes import SECRET_BYTES
from taskqueue.core.model.history import SECONDS
from taskqueue.core.model.needs import Found, Needs
from taskqueue.core.model.records import Loaded, WriteSet
from taskqueue.core.model.task import PROCESSING, Task
from taskqueue.store.batch import batch_of
from taskqueue.store.contract import Batch, Entry, Family, Store, Taken
from taskqueue.store.damaged_rows import DamagedRows, Quarantine
from taskqueue.store.lookup import find
from taskqueue.store.records import layout
from taskqueue.store.records.flows import decode_flow
from taskqueue.store.records.format import META
from taskqueue.store.records.insight import failure_place, load_daemon_minutes, load_slices
from taskqueue.store.records.reading import decode_record, raise_unreadable, stored_number
from taskqueue.store.records.tasks import SUCCESSES, moved_success_attempts

T = TypeVar("T")

PAGE: Final = 4096
"""Entries per scan when a whole family is read."""

FIRST_PROJECT: Final = 1
FIRST_ENTRY: Final = 1

_YES: Final = b"1"
_NO: Final = b"0"


EMPTY: Final = WriteSet()

COMPARED_MOST: Final = 1024
"""Most recently written projects whose records are compared before the next write."""

COMPARED_BYTES: Final = 1024
"""Size of the longest record that is compared; longer ones, with many overrides, are written each time.

So the compared records take at most a megabyte.
"""


class Ledger:
    """Typed reads and writes on one store, under one epoch.

    Attributes:
        quarantine: skips damaged entries and sets them aside.
    """

    def __init__(self, store: Store, damaged: DamagedRows | None = None) -> None:
        """Make a ledger on a store.

        Args:
            damaged: rows that reads of the store skip; None if the store has checksums of its own.
        """
        self._store = store
        self.quarantine = Quarantine(store, damaged)
        self._epoch = 0
        self._boot = b""
        self._projects: dict[bytes, bytes] = {}

    def begin(self, boot_id: str, make_secret: Callable[[int], bytes] = secrets.token_bytes) -> Loaded:
        """Begin an epoch, which fences every earlier one, and read what the core needs to start.

        Costs a sync, and reads that grow with projects, sessions and leases, not with tasks.

        Args:
            boot_id: identifies the current boot of the machine; boot-clock times stored under another one are ignored.
            make_secret: returns the given number of unguessable bytes; called if the store has no secret yet.

        Raises:
            StoreError: the store failed.
            Unreadable: a record can't be decoded.
        """
        self._projects.clear()
        self._epoch = self._store.begin()
        boot, clean, secret = self._store.get(META, [layout.BOOT_KEY, layout.CLEAN_KEY, layout.SECRET_KEY])
        if secret is None or len(secret) != SECRET_BYTES:
            secret = make_secret(SECRET_BYTES)
        self._mark({layout.CLEAN_KEY: _NO, layout.SECRET_KEY: secret})
        # Until the first commit, the times in the store are still those of the boot that it names.
        self._boot = boot_id.encode() if boot != boot_id.encode() else b""
        self.quarantine.load()
        loaded = self.quarantine.read(
            lambda: self._load(same_boot=boot == boot_id.encode(), clean=clean != _NO, secret=secret)
        )
        loaded.set_aside = self.quarantine.orders()
        return self._without_lost_projects(loaded)

    def _load(self, *, same_boot: bool, clean: bool, secret: bytes) -> Loaded:
        return Loaded(
            epoch=self._epoch,
            same_boot=same_boot,
            clean=clean,
            secret=secret,
            projects=self._all(layout.PROJECTS, layout.decode_project),
            leased=self._leased(),
            sessions=self._all(layout.SESSIONS, layout.decode_session),
            next_project=stored_number(self._store, layout.NEXT_PROJECT_KEY, FIRST_PROJECT),
            counters={
                layout.project_of(key): decode_record(layout.COUNTERS, key, layout.decode_counters, value)
                for key, value in self._entries(layout.COUNTERS)
            },
            buckets=self._all(layout.BUCKETS, layout.decode_bucket),
            operations=self._all(layout.OPERATIONS, layout.decode_operation),
            members={
                layout.operation_of(key): decode_record(layout.MEMBERS, key, layout.decode_members, value)
                for key, value in self._entries(layout.MEMBERS)
            },
            first_failure=self._failure(self._store.scan),
            last_failure=self._failure(self._store.scan_back),
            history={resolution: load_slices(self._store, resolution) for resolution in SECONDS},
            daemon_minutes=load_daemon_minutes(self._store),
            first_propagation=self._propagation(self._store.scan),
            last_propagation=self._propagation(self._store.scan_back),
            next_log=stored_number(self._store, layout.NEXT_LOG_KEY, FIRST_ENTRY),
            drained=self._drained(),
            flows=self._all(layout.FLOWS, decode_flow),
            next_flow=stored_number(self._store, layout.NEXT_FLOW_KEY, FIRST_ENTRY),
        )

    def find(self, needs: Needs) -> Found:
        """Look up the needs of a turn; things that the store does not have are absent from the result.

        Raises:
            StoreError: the store failed.
            Unreadable: a record can't be decoded.
        """
        if not self.quarantine.is_tolerant:
            return find(self._store, needs)
        found = self.quarantine.read(lambda: find(self._store, needs))
        self.quarantine.explain(needs, found)
        return found

    def commit(self, writes: WriteSet, taken: Taken | None = None) -> bool:
        """Write one turn's changes atomically; return False, writing nothing, if there are none.

        Project records that equal the last written ones are left out.

        Args:
            taken: rows of the store's inbox that the turn has taken.

        Raises:
            Fenced: another daemon has begun an epoch.
            StoreError: the batch could not be written; begin again.
            Corrupt: the changes contradict each other.
        """
        is_tolerant = self.quarantine.is_tolerant
        has_damage = is_tolerant and self.quarantine.has_rows
        if writes == EMPTY and taken is None and not has_damage:
            return False
        batch = batch_of(writes)
        batch.taken = taken
        if writes.projects:
            self._leave_out_unchanged(batch)
            if not (batch.puts or batch.deletes or batch.drops or taken or has_damage):
                return False
        if SUCCESSES in batch.deletes:
            moved = self.quarantine.read(lambda: moved_success_attempts(self._store, writes))
            if moved:
                batch.puts[layout.HISTORY].extend(moved)
        if is_tolerant:
            self.quarantine.add_to(batch, writes.set_aside)
        if self._boot:
            batch.puts.setdefault(META, []).append((layout.BOOT_KEY, self._boot))
        self._store.write(self._epoch, batch)
        if is_tolerant:
            self.quarantine.written()
        self._boot = b""
        return True

    def _leave_out_unchanged(self, batch: Batch) -> None:
        """Leave out project records that equal the last written ones.

        Numbers are never reused, so a deleted project's record can't be taken for another's.
        """
        written, records = self._projects, batch.puts[layout.PROJECTS]
        changed: list[Entry] = []
        for entry in records:
            number, record = entry
            if written.pop(number, None) != record:
                changed.append(entry)
            if len(record) <= COMPARED_BYTES:
                written[number] = record
        if changed:
            batch.puts[layout.PROJECTS] = changed
        else:
            del batch.puts[layout.PROJECTS]
        while len(written) > COMPARED_MOST:
            del written[next(iter(written))]

    def sync(self) -> None:
        """Make all commits so far survive a power cut; may be called in another thread.

        Raises:
            StoreError: they could not be synced.
        """
        self._store.sync()

    def write_nothing(self) -> None:
        """Check that writing is still allowed, and let the store delete some dropped entries, as each write does.

        Raises:
            Fenced: another daemon has begun an epoch.
            StoreError: the store can't tell, or can't be written; begin again.
        """
        self._store.write(self._epoch, Batch())

    def levels(self) -> dict[int, list[int]]:
        """Return the bytes of each of the store's tables, by level; empty without tables. Costs 5 µs a table.

        Raises:
            StoreError: the store failed.
        """
        return self._store.levels()

    def log_bytes(self) -> int:
        """Return the bytes of the store's write-ahead log; 0 if it has none of its own.

        Raises:
            StoreError: the store failed.
        """
        return self._store.log_bytes()

    def stop(self) -> None:
        """Mark the store as cleanly stopped, and sync.

        Raises:
            StoreError: the mark could not be written; the next start then treats this as a crash, which loses nothing.
        """
        self._mark({layout.CLEAN_KEY: _YES})

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    def _mark(self, marks: dict[bytes, bytes]) -> None:
        """Write marks and sync them.

        Without the sync, after a power cut the store could claim a clean stop although a start followed it.
        """
        self._store.write(self._epoch, Batch(puts={META: list(marks.items())}))
        self._store.sync()

    def _without_lost_projects(self, loaded: Loaded) -> Loaded:
        """Leave out everything of projects whose records can't be used; it stays in the store for a repair.

        Raises:
            Unreadable: the number for the next project, flow or log entry is taken.
        """
        if not self.quarantine.is_tolerant:
            return loaded
        known = {record.number for record in loaded.projects}
        named = {*loaded.counters, *(task.project for task in loaded.leased)}
        if lost := sorted(named - known):
            self.quarantine.lose_projects(lost)
            loaded.leased = [task for task in loaded.leased if task.project in known]
            loaded.counters = {number: each for number, each in loaded.counters.items() if number in known}
        if known and loaded.next_project <= max(known):
            raise_unreadable(META, layout.NEXT_PROJECT_KEY, f"it is {loaded.next_project}, and {max(known)} is taken")
        for key, family, number in (
            (layout.NEXT_LOG_KEY, layout.LOG, loaded.next_log),
            (layout.NEXT_FLOW_KEY, layout.FLOWS, loaded.next_flow),
        ):
            last = self._store.scan_back(family, b"", layout.LAST_KEY, 1)
            if last and int.from_bytes(last[0][0], "big") >= number:
                raise_unreadable(META, key, f"it is {number}, which is taken")
        loaded.flows = [record for record in loaded.flows if record.project in known]
        return loaded

    def _leased(self) -> list[Task]:
        """Load all processing tasks, with their leases and deferred updates."""
        family = layout.ORDERS[PROCESSING]
        entries = self._entries(family)
        projects = [decode_record(family, key, layout.project_of, key) for key, _ in entries]
        leased = [
            decode_record(family, key, layout.decode_lease, project, value)
            for project, (key, value) in zip(projects, entries, strict=True)
        ]
        keys = [layout.spec_key_of(key) for key, _ in entries]
        for task, key, value in zip(leased, keys, self._store.get(layout.DEFERRED, keys), strict=True):
            if value is not None and task.lease is not None:
                task.lease.deferred = decode_record(layout.DEFERRED, key, layout.decode_deferred, value)
                task.kept_deferred = True
        return leased

    def _drained(self) -> list[str]:
        """Load the names of drained fetchers; none in a store from before draining existed."""
        (value,) = self._store.get(META, [layout.DRAINED_KEY])
        return [] if value is None else decode_record(META, layout.DRAINED_KEY, layout.decode_drained, value)

    def _failure(self, scan: Callable[[Family, bytes, bytes, int], list[tuple[bytes, bytes]]]) -> int:
        entries = scan(layout.FAILURES, b"", layout.LAST_KEY, 1)
        return failure_place(entries[0][0]) if entries else 0

    def _propagation(self, scan: Callable[[Family, bytes, bytes, int], list[tuple[bytes, bytes]]]) -> int:
        entries = scan(layout.PROPAGATIONS, b"", layout.LAST_KEY, 1)
        return int.from_bytes(entries[0][0], "big") if entries else 0

    def _all(self, family: Family, decode: Callable[[bytes], T]) -> list[T]:
        return [decode_record(family, key, decode, value) for key, value in self._entries(family)]

    def _entries(self, family: Family) -> list[tuple[bytes, bytes]]:
        """Read all entries of a family, which must be small, page by page."""
        entries: list[tuple[bytes, bytes]] = []
        start = b""
        while page := self._store.scan(family, start, layout.LAST_KEY, PAGE):
            entries += page
            start = page[-1][0] + b"\0"
        return entries
