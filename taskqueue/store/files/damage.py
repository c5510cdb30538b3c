"""Detect damage: read logs strictly, and compare them with the MANIFEST and the synced mark.

    mark      everything up to change 900 was synced
    MANIFEST  tables have changes up to 820; logs are needed from 000012.log on
    logs      000012.log 1 … 500, 000014.log 501 … 640

In this example 260 changes are lost, and the tables are ahead of the logs: some families lack changes that others have.

A torn tail beyond the mark is not damage: a power cut or a failed write leaves one. A gap beyond the mark is damage
unless it is explained: by a power cut (the machine has rebooted since), because a disk may keep later bytes without
earlier ones; or by a write of this process that failed a moment ago. Changes behind a gap are never replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from os.path import join
from time import localtime, strftime
from typing import BinaryIO, Final, NamedTuple

from msgspec import Struct, field

from taskqueue.store.files.folder import LOG, TABLE, Folder
from taskqueue.store.files.manifest import Manifest, read_manifest
from taskqueue.store.files.synced_mark import SyncedMark, read_mark
from taskqueue.store.files.write_log import Chain, Flaw, WriteLog, follow_chain, read_log
from taskqueue.store.records.format import META

NO_STORE: Final = "it has no family of a store: it is damaged, or another program's database"
SHOWN_FLAWS: Final = 10
TABLE_END: Final = ".sst"


class Damage(Struct):
    """Damage of a store's files.

    Attributes:
        flaws: damaged places, at most SHOWN_FLAWS.
        kept: number of the last change before the damage.
        known: number of the last change that is known to have existed.
        logs: names of all logs that are needed.
        stop: log and byte up to which logs may be replayed; None if none may be.
        is_unexplained: changes are lost that neither a power cut nor a failed write explains.
        tables_ahead: tables have changes after ``kept``, so that replaying logs up to there would leave families
            inconsistent; or something other than the logs is damaged.
        marked_at: unix seconds of the newest mark; 0 without a mark.
        more_flaws: number of places beyond ``flaws``.
        aside: folder of the original logs, if they were truncated.
        families: names by number, as logs refer to them.
    """

    flaws: list[Flaw]
    kept: int
    known: int
    logs: list[str]
    stop: tuple[str, int] | None
    is_unexplained: bool = True
    tables_ahead: bool = False
    marked_at: float = 0.0
    more_flaws: int = 0
    aside: str = ""
    families: dict[int, str] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        """Number of lost changes, at most."""
        return max(0, self.known - self.kept)

    def lines(self) -> list[str]:
        """Describe damage and loss in one line each."""
        when = f"; it was known to be whole at {_time(self.marked_at)}" if self.marked_at else ""
        if not self.known:
            return list(map(str, self.flaws)) + ([f"{self.more_flaws:,} further files"] if self.more_flaws else [])
        more = [f"{self.more_flaws:,} further places can't be read"] if self.more_flaws else []
        loss = f"lost: at most {self.lost:,} of the {self.known:,} changes that are known of{when}"
        return [*map(str, self.flaws), *more, loss]


def find_damage(path: str, boot_id: str, *, has_failed: bool = False) -> Damage | None:
    """Check a store that no other process has open; None if its logs are whole, or torn as a crash leaves them.

    Args:
        boot_id: identifies the current boot of the machine; empty if unknown.
        has_failed: a write of this process has failed, which explains gaps.

    Raises:
        StoreError: files are not RocksDB's, or the MANIFEST is of an unknown kind.
        OSError: a file can't be read.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(closing(Folder(path)))
        mark = read_mark(folder)
        names = folder.names()
        try:
            name = folder.manifest_name()
            manifest = stack.enter_context(folder.open(name))
        except FileNotFoundError as error:
            reason = f"{error.filename} is missing, although other files of a store exist"
            return _broken([Flaw(error.filename, 0, reason)]) if any(map(TABLE.fullmatch, names)) else None
        try:
            tables = {table: folder.size(table) for table in names if TABLE.fullmatch(table)}
            logs = {log: stack.enter_context(folder.open(log)) for log in names if LOG.fullmatch(log)}
        except FileNotFoundError:
            return None  # another process is using it
        explained = has_failed or _was_off(mark, boot_id)
        return check_files(Files(path, name, manifest, tables, logs), mark, explained=explained, has_failed=has_failed)


class Files(NamedTuple):
    """The files of a store.

    Attributes:
        path: folder of the store.
        name: file name of the MANIFEST.
        manifest: the MANIFEST, open, to be read from its start.
        tables: bytes of each table, by file name.
        logs: logs by file name, open, to be read from their starts.
    """

    path: str
    name: str
    manifest: BinaryIO
    tables: Mapping[str, int]
    logs: Mapping[str, BinaryIO]


def check_files(files: Files, mark: SyncedMark | None, *, explained: bool, has_failed: bool = False) -> Damage | None:
    """Check tables, MANIFEST and logs.

    Args:
        mark: the mark as it was before the files were opened.
        explained: a power cut explains gaps beyond the mark.
        has_failed: a write of this process has failed, and the mark covers all that it has synced.

    Raises:
        StoreError: the MANIFEST is of an unknown kind.
        OSError: a file can't be read.
    """
    manifest = read_manifest(join(files.path, files.name), files.manifest)
    flaws = list(_table_flaws(manifest, files.tables))
    if manifest.flaw is not None:
        flaws = [Flaw(files.name, *manifest.flaw)]
    elif mark is not None and mark.manifest == files.name and files.manifest.tell() < mark.manifest_bytes:
        reason = f"it ends here, but had {mark.manifest_bytes:,} bytes when the store was opened"
        flaws = [Flaw(files.name, files.manifest.tell(), reason)]
    if flaws:
        return _broken(flaws)
    needed = sorted((log for log in files.logs if number_of(log) >= manifest.first_log), key=number_of)
    logs = [read_log(log, files.logs[log]) for log in needed]
    if META not in manifest.families.values() and (manifest.tables or any(log.has_changes for log in logs)):
        # A start that was killed while it made the store leaves a store without families and without entries.
        return _broken([Flaw(files.name, files.manifest.tell(), NO_STORE)])
    known = {number for _, number in manifest.tables}
    strange = any(number_of(table) not in known for table in files.tables)
    return compare_logs(
        files.name, manifest, logs, mark, explained=explained, strange_tables=strange, has_failed=has_failed
    )


def _table_flaws(manifest: Manifest, tables: Mapping[str, int]) -> Iterator[Flaw]:
    sizes = {number_of(name): size for name, size in tables.items()}
    for (family, number), table in sorted(manifest.tables.items()):
        found, name = sizes.get(number), f"{number:06d}{TABLE_END}"
        of = f"a table of {manifest.families.get(family, family)}"
        if found is None:
            yield Flaw(name, 0, f"it is missing, {of}")
        elif found != table.file_bytes:
            yield Flaw(name, found, f"it ends here, but should have {table.file_bytes:,} bytes, {of}")


def _broken(flaws: list[Flaw]) -> Damage:
    """Make damage that truncating logs can't repair."""
    shown, more = flaws[:SHOWN_FLAWS], len(flaws[SHOWN_FLAWS:])
    return Damage(flaws=shown, more_flaws=more, kept=0, known=0, logs=[], stop=None, tables_ahead=True)


def compare_logs(
    name: str,
    manifest: Manifest,
    logs: Sequence[WriteLog],
    mark: SyncedMark | None,
    *,
    explained: bool,
    strange_tables: bool = False,
    has_failed: bool = False,
) -> Damage | None:
    """Compare the changes in logs with those that the MANIFEST and the mark say they have.

    Args:
        name: file name of the MANIFEST.
        logs: logs in the order of their numbers.
        explained: a power cut explains gaps beyond the mark.
        strange_tables: some tables are not in the MANIFEST, so the MANIFEST may be the damaged file.
        has_failed: a write of this process has failed, and the mark covers all that it has synced.
    """
    chain = follow_chain(logs)
    beginning = _missing_beginning(name, manifest, logs, chain, mark, has_failed=has_failed)
    last = manifest.last_seq if chain.first is None else chain.last
    marked = 0 if mark is None else mark.seq
    if beginning is None and last >= marked and not chain.has_gap:
        return None
    kept, stop, flaws = last, chain.stop, chain.flaws
    ahead = manifest.largest_seq > kept
    if beginning is not None or chain.first is None:
        kept, stop = manifest.largest_seq, None
        ahead = _has_uneven_tables(name, manifest, mark) or strange_tables
    if beginning is not None and not any(flaw.name == beginning.name for flaw in flaws):
        flaws = [beginning, *flaws]
    if not flaws:
        end = logs[-1] if logs else WriteLog(f"{manifest.first_log:06d}.log", manifest.first_log, [], 0)
        flaws = [Flaw(end.name, end.size, f"it ends with change {last:,}, but {marked:,} was synced")]
    return Damage(
        flaws=flaws[:SHOWN_FLAWS],
        more_flaws=len(flaws[SHOWN_FLAWS:]),
        kept=kept,
        known=max(chain.known, manifest.last_seq, marked),
        logs=[log.name for log in logs],
        stop=None if stop is None else (stop[0].name, stop[1]),
        is_unexplained=beginning is not None or last < marked or ahead or not explained,
        tables_ahead=ahead,
        marked_at=0.0 if mark is None else mark.at,
        families=manifest.families,
    )


def _has_uneven_tables(name: str, manifest: Manifest, mark: SyncedMark | None) -> bool:
    """Whether some families have tables newer than the opening, and others may not: an opening flushes all logs."""
    if mark is not None and mark.manifest == name:
        return manifest.largest_seq > mark.opened_seq
    return bool(manifest.tables) and any(number > manifest.first_log for number in manifest.log_numbers.values())


def number_of(name: str) -> int:
    """Parse the number in the file name of a log or a table."""
    return int(name.partition(".")[0])


def _missing_beginning(
    name: str, manifest: Manifest, logs: Sequence[WriteLog], chain: Chain, mark: SyncedMark | None, *, has_failed: bool
) -> Flaw | None:
    """Make a flaw if the first needed log is missing or empty; None if it is there.

    A log that another one follows had something in it, unless the first write after an opening failed: on a full disk
    RocksDB then begins another log, and leaves both empty.

    Logs are deleted oldest first, and the MANIFEST says up to which one. Right after an opening it names the number
    after the last old log, which need not have a file; the mark of that opening names the log that was begun then.
    """
    there = logs[0].number if logs else None
    if mark is not None and mark.manifest == name:
        needed = max(manifest.first_log, mark.first_log)
        if there is None or there > needed:
            return Flaw(f"{needed:06d}.log", 0, "it is missing")
        had_changes = mark.seq > mark.opened_seq
        followed = len(logs) > 1 and (had_changes or not has_failed)
        if chain.first is None and (followed or (there == mark.first_log and had_changes)):
            return Flaw(logs[0].name, 0, "it has lost its content")
    if chain.first is not None and chain.first > manifest.last_seq + 1:
        missing = f"changes {manifest.last_seq + 1:,} to {chain.first - 1:,} are missing before it"
        return Flaw(logs[0].name, 0, missing)
    return None


def _was_off(mark: SyncedMark | None, boot_id: str) -> bool:
    return mark is not None and bool(mark.boot_id) and bool(boot_id) and mark.boot_id != boot_id


def _time(at: float) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", localtime(at))
