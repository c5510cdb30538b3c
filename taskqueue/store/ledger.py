"""Typed access to a store: everything that the core loads at start, looks up in a turn, and writes at its end.

    begin ──► (find, commit, commit, …, sync)* ──► stop ──► close
                     a crash ends it anywhere; begin on the same store goes on

``commit`` writes one atomic batch under this ledger's epoch; ``sync`` may run in another thread meanwhile. The
store is marked as cleanly stopped (``clean``) only between ``stop`` and the next ``begin``.

No decisions are made here, and nothing here depends on a particular engine.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, TypeVar

from taskqueue.core.model.chance import SECRET_BYTES
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
"""Entries read per scan where a whole family is read."""

FIRST_PROJECT: Final = 1
FIRST_ENTRY: Final = 1

_YES: Final = b"1"
_NO: Final = b"0"


EMPTY: Final = WriteSet()

COMPARED_MOST: Final = 1024
"""Projects whose records are compared with what was written last: those written most recently."""

COMPARED_BYTES: Final = 1024
"""A longer record, such as one with many overrides, is written each time; so all of these take a megabyte at most."""


class Ledger:
    """Typed reads and writes on one store, under one epoch.

    Attributes:
        quarantine: what becomes of damaged entries.
    """

    def __init__(self, store: Store, damaged: DamagedRows | None = None) -> None:
        """``damaged``: rows that reads of the store pass over; None: it has checksums of its own."""
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
            make_secret: returns that many unguessable bytes; called if the store has no secret yet.

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
        # Until something is kept, the times in the store are still those of the boot that it names.
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
        """Look up the needs of a turn; what the store does not have is absent from the result.

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
        """Write one turn's changes atomically; False if there are none, so that nothing was written.

        A project's record that is as it was written last is left out.

        Args:
            taken: rows of the store's inbox that the turn has taken up.

        Raises:
            Fenced: another scheduler has begun an epoch.
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
        """Leave out the records of projects that a turn has touched without a change that a crash must know.

        Numbers are never reused, so a record of a deleted project can't be taken for another's.
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
        """Make every commit so far survive a power cut; may be called in another thread.

        Raises:
            StoreError: it could not be synced.
        """
        self._store.sync()

    def write_nothing(self) -> None:
        """See whether writing is still allowed, and let the store delete some of what was dropped, as each write does.

        Raises:
            Fenced: another scheduler has begun an epoch.
            StoreError: that can't be known, or nothing can be written; begin again.
        """
        self._store.write(self._epoch, Batch())

    def levels(self) -> dict[int, list[int]]:
        """By level of the store, the bytes of each of its tables; empty if it has no tables. Costs 5 µs a table.

        Raises:
            StoreError: the store failed.
        """
        return self._store.levels()

    def log_bytes(self) -> int:
        """Bytes of the store's log; 0 if it has none of its own.

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
        """Write marks and sync them: after a power cut the store must not claim a clean stop that was followed by a
        start.
        """
        self._store.write(self._epoch, Batch(puts={META: list(marks.items())}))
        self._store.sync()

    def _without_lost_projects(self, loaded: Loaded) -> Loaded:
        """Leave out what belongs to projects whose records can't be used; all of it stays in the store for a repair.

        Raises:
            Unreadable: the number for the next project, flow or entry of the log is taken.
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
        """Every processing task, with its lease and the update that is deferred until the lease's end."""
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
        """Names of fetchers that get nothing; none in a store of before there were any."""
        (value,) = self._store.get(META, [layout.DRAINED_KEY])
        return [] if value is None else decode_record(META, layout.DRAINED_KEY, layout.decode_drained, value)

    def _failure(self, scan: Callable[[Family, bytes, bytes, int], list[tuple[bytes, bytes]]]) -> int:
        """The key of the first failure that a scan returns; 0 if there is none."""
        entries = scan(layout.FAILURES, b"", layout.LAST_KEY, 1)
        return failure_place(entries[0][0]) if entries else 0

    def _propagation(self, scan: Callable[[Family, bytes, bytes, int], list[tuple[bytes, bytes]]]) -> int:
        """The number of the first propagation that a scan returns; 0 if there is none."""
        entries = scan(layout.PROPAGATIONS, b"", layout.LAST_KEY, 1)
        return int.from_bytes(entries[0][0], "big") if entries else 0

    def _all(self, family: Family, decode: Callable[[bytes], T]) -> list[T]:
        return [decode_record(family, key, decode, value) for key, value in self._entries(family)]

    def _entries(self, family: Family) -> list[tuple[bytes, bytes]]:
        """All entries of a family, which must be a small one, page by page."""
        entries: list[tuple[bytes, bytes]] = []
        start = b""
        while page := self._store.scan(family, start, layout.LAST_KEY, PAGE):
            entries += page
            start = page[-1][0] + b"\0"
        return entries
