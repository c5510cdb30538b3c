"""Bugs in writing, copying and restoring the store."""

from __future__ import annotations

import fcntl
import os
from typing import Any, Final

from taskqueue.server.store_opener import StoreOpener
from taskqueue.store.contract import Batch
from taskqueue.store.files import file_snapshot, folder, log_recovery
from taskqueue.store.files.file_snapshot import FileSnapshot
from taskqueue.store.files.synced_mark import SyncedMarkWriter
from taskqueue.store.ledger import Ledger
from taskqueue.store.postgres import postgres_store
from taskqueue.store.postgres.tables import make_tables
from taskqueue.store.records import epochs, layout
from taskqueue.store.records.format import META
from taskqueue.store.rocksdb import engine, rocks_store
from taskqueue.store.rocksdb.rocks_store import RocksStore
from taskqueue.store.tools import backup, fingerprints
from tests.mutants.mutant import Mutant, Replace

FINGERPRINTS: Final = "unit/store/tools/test_fingerprints.py"
DAMAGES: Final = f"{FINGERPRINTS}::test_the_problems_of_a_damaged_store_are_those_of_looking_each_task_up"
EXCHANGED: Final = f"{FINGERPRINTS}::test_two_entries_that_were_exchanged_are_named"
SOUND: Final = f"{FINGERPRINTS}::test_of_a_sound_store_only_what_is_leased_or_has_failed_is_looked_up"


def _never_synced(replace: Replace) -> None:
    def sync(self: RocksStore) -> None:
        with engine.translated_errors(self._path, "sync"):
            self._db.flush_wal(False)

    replace(RocksStore, "sync", sync)


def _clean_mark_not_synced(replace: Replace) -> None:
    def stop(self: Ledger) -> None:
        self._store.write(self._epoch, Batch(puts={META: [(layout.CLEAN_KEY, b"1")]}))

    replace(Ledger, "stop", stop)


def _mark_of_an_unclean_end_not_synced(replace: Replace) -> None:
    def mark(self: Ledger, marks: dict[bytes, bytes]) -> None:
        self._store.write(self._epoch, Batch(puts={META: list(marks.items())}))

    replace(Ledger, "_mark", mark)


def _restore_skips_one_epoch(replace: Replace) -> None:
    replace(epochs, "SKIPPED_EPOCHS", 1)


def _restored_store_believes_its_boot(replace: Replace) -> None:
    replace(epochs, "BOOT_KEY", b"another key")


def _copy_not_synced(replace: Replace) -> None:
    replace(file_snapshot, "os", _Without(os, "fsync"))


def _name_not_synced(replace: Replace) -> None:
    replace(backup, "sync_folder", lambda folder: None)


def _copies_while_files_change(replace: Replace) -> None:
    def try_hold(self: FileSnapshot) -> bool:
        original(self)
        return bool(self._manifest)

    original = replace(FileSnapshot, "_try_hold", try_hold)


def _restored_over_a_live_store(replace: Replace) -> None:
    replace(fcntl, "lockf", lambda *args: None)


def _place_not_given_back(replace: Replace) -> None:
    def take(partial: str, path: str, aside: str | None) -> None:
        if aside is not None and os.path.exists(path):
            os.rename(path, aside)
        os.rename(partial, path)

    replace(backup, "_take_place", take)


def _broken_scan_taken_for_its_end(replace: Replace) -> None:
    replace(engine, "_go_behind", lambda cursor, entries, start, backwards: None)


def _puts_before_deletes(replace: Replace) -> None:
    def native(self: RocksStore, batch: Batch) -> Any:
        from rocksdict import WriteBatch

        filled = WriteBatch(raw_mode=True)
        for family, entries in batch.puts.items():
            for key, value in entries:
                filled.put(key, value, self._handles[family])
        for family, start, end in batch.drops:
            filled.delete_range(start, end, self._handles[family])
        for family, keys in batch.deletes.items():
            for key in keys:
                filled.delete(key, self._handles[family])
        return filled

    replace(RocksStore, "_native", native)


def _mark_ahead_of_its_sync(replace: Replace) -> None:
    def sync(self: RocksStore) -> None:
        with engine.translated_errors(self._path, "sync"):
            self._db.flush_wal(True)
            seq = self._db.latest_sequence_number()
        if self._marker is not None:
            self._marker.advance(seq)

    replace(RocksStore, "sync", sync)


def _mark_left_where_it_was(replace: Replace) -> None:
    replace(SyncedMarkWriter, "advance", lambda self, seq: None)


def _accepted_damage_skips_nothing(replace: Replace) -> None:
    replace(rocks_store, "skip_epochs", lambda store, path: None)


def _damage_forgotten_when_cut_off(replace: Replace) -> None:
    class NoMarker:
        def __init__(self, *args: Any) -> None: ...
        def sync(self) -> None: ...
        def close(self) -> None: ...

    replace(log_recovery, "SyncedMarkWriter", NoMarker)


def _links_followed(replace: Replace) -> None:
    replace(folder, "_KINDS", {})


def _fence_compares_the_epoch_only(replace: Replace) -> None:
    def fence_sql(schema: str) -> str:
        return str(original(schema)).replace("and turn = $2::int8", "and $2::int8 >= 0")

    original = replace(postgres_store, "fence_sql", fence_sql)


def _look_does_not_ask_the_fence(replace: Replace) -> None:
    def look_sql(schema: str) -> str:
        return "select 1 where $1::int8 + $2::int8 >= 0 and $3::bytea is not null"

    replace(postgres_store, "look_sql", look_sql)


def _dropped_schema_made_anew(replace: Replace) -> None:
    replace(postgres_store, "find_tables", make_tables)


def _emptied_folder_made_anew(replace: Replace) -> None:
    replace(StoreOpener, "_refuse_gone", lambda self, path: None)


class _Without:
    """Module with one function that does nothing."""

    def __init__(self, module: Any, name: str) -> None:
        self._module = module
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return (lambda *args: None) if name == self._name else getattr(self._module, name)


DATABASE: Final = "integration/test_database.py"
OPENER: Final = "unit/server/test_store_opener.py"


def _results_agree_always(replace: Replace) -> None:
    replace(fingerprints._Sums, "agree", property(lambda self: (self.said, self.taskids) == (self.found, self.specs)))


def _pairs_hashed_as_tuples(replace: Replace) -> None:
    replace(fingerprints, "_hashed", lambda places, taskids: sum(map(hash, zip(places, taskids, strict=True))))


def _every_store_doubted(replace: Replace) -> None:
    replace(fingerprints._Sums, "agree", property(lambda self: False))


MUTANTS: Final = (
    Mutant(
        "the fence of a database compares the epoch only",
        _fence_compares_the_epoch_only,
        (
            f"{DATABASE}::test_a_database_that_has_lost_the_last_turns_of_an_epoch_is_noticed_by_the_next_write_sync_and_look",
        ),
    ),
    Mutant(
        "a look into the inbox does not ask the fence",
        _look_does_not_ask_the_fence,
        (
            f"{DATABASE}::test_a_database_that_has_lost_the_last_turns_of_an_epoch_is_noticed_by_the_next_write_sync_and_look",
        ),
    ),
    Mutant(
        "a schema that was dropped is made anew",
        _dropped_schema_made_anew,
        (f"{DATABASE}::test_a_store_whose_schema_is_gone_is_not_made_anew_by_the_process_that_had_it",),
    ),
    Mutant(
        "a folder that was emptied gets a new store",
        _emptied_folder_made_anew,
        (f"{OPENER}::test_a_folder_that_is_gone_is_not_made_anew_by_the_process_that_had_its_store",),
    ),
    Mutant(
        "nothing is ever synced",
        _never_synced,
        (
            "integration/test_acknowledging.py::test_with_commit_an_answer_leaves_after_a_sync_that_began_after_its_turns_last_write",
        ),
    ),
    Mutant(
        "restore skips 1 epoch",
        _restore_skips_one_epoch,
        ("unit/store/tools/test_backup.py::test_a_restored_store_begins_above_those_that_a_lost_store_may_have_used",),
    ),
    Mutant(
        "a restored store believes its boot clock",
        _restored_store_believes_its_boot,
        ("unit/store/tools/test_backup.py::test_a_restored_store_does_not_believe_its_clocks_and_buckets",),
    ),
    Mutant(
        "a copy is not synced",
        _copy_not_synced,
        ("unit/store/tools/test_backup.py::test_a_copy_is_on_the_disk_before_it_has_its_name_and_its_name_after_that",),
    ),
    Mutant(
        "the name of a copy is not synced",
        _name_not_synced,
        (
            "unit/store/tools/test_backup.py::test_a_copy_is_on_the_disk_before_it_has_its_name_and_its_name_after_that",
            "unit/store/tools/test_backup.py::test_a_restored_store_is_on_the_disk_before_it_has_its_place_and_its_name_after_that",
        ),
    ),
    Mutant(
        "files are held that do not belong together",
        _copies_while_files_change,
        ("unit/store/tools/test_backup.py::test_files_that_change_while_they_are_being_held_are_held_anew",),
    ),
    Mutant(
        "a store is restored over one that is in use",
        _restored_over_a_live_store,
        ("integration/test_store_commands.py::test_what_needs_the_store_alone_says_that_a_daemon_has_it",),
    ),
    Mutant(
        "a store that could not be replaced stays aside",
        _place_not_given_back,
        ("unit/store/tools/test_backup.py::test_a_store_whose_place_can_not_be_taken_gets_it_back",),
    ),
    Mutant(
        "a scan that can't be read on is taken for its end",
        _broken_scan_taken_for_its_end,
        ("contract/test_store.py::test_a_scan_that_can_not_be_read_on_is_an_error_and_no_end_and_holds_nothing",),
    ),
    Mutant(
        "in a batch deletes win over puts",
        _puts_before_deletes,
        ("contract/test_store.py::test_in_a_batch_puts_win_over_deletes_and_over_drops",),
    ),
    Mutant(
        "the clean mark is not synced",
        _clean_mark_not_synced,
        ("unit/store/test_ledger.py::test_an_orderly_end_is_known_after_a_power_cut",),
    ),
    Mutant(
        "the mark of an unclean end is not synced",
        _mark_of_an_unclean_end_not_synced,
        (
            "integration/test_acknowledging.py::test_at_a_start_nothing_leaves_before_its_epoch_and_the_mark_of_an_unclean_end_are_synced",
        ),
    ),
    Mutant(
        "the mark is ahead of what is synced",
        _mark_ahead_of_its_sync,
        ("integration/test_acknowledging.py::test_the_mark_is_never_ahead_of_what_is_synced",),
    ),
    Mutant(
        "the mark stays where it was",
        _mark_left_where_it_was,
        (
            "unit/store/files/test_synced_mark.py::test_a_sync_moves_the_mark_to_all_that_was_written_and_a_write_does_not",
            "unit/store/files/test_log_recovery.py::test_nothing_explains_the_loss_of_what_was_safe",
        ),
    ),
    Mutant(
        "accepted damage skips no epochs",
        _accepted_damage_skips_nothing,
        ("unit/store/files/test_log_recovery.py::test_damage_is_refused_until_it_is_accepted",),
    ),
    Mutant(
        "damage is forgotten when its acceptance is cut off",
        _damage_forgotten_when_cut_off,
        (
            "unit/store/files/test_log_recovery.py::test_damage_that_no_mark_told_of_has_to_be_accepted_again_if_it_was_cut_off",
        ),
    ),
    Mutant(
        "links out of the folder of a store are followed",
        _links_followed,
        ("unit/cli/test_foreign_store.py::test_a_link_to_a_file_outside_is_not_followed",),
    ),
    Mutant("a quick check does not compare results", _results_agree_always, (DAMAGES,)),
    Mutant("a quick check does not see two parts exchanged", _pairs_hashed_as_tuples, (EXCHANGED,)),
    Mutant("a quick check doubts every store", _every_store_doubted, (SOUND,)),
)
