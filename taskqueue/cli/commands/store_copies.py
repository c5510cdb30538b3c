"""``taskqueue store backup``, ``restore``, ``compact``, ``export``, ``import``: copies and exports of a store.

An export is a store, or some of its projects, as lines of JSON or as MessagePack.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from os.path import abspath, basename, dirname, exists
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

import click

from taskqueue.cli.input.names import projects_argument
from taskqueue.cli.input.stdin import opened
from taskqueue.cli.input.store import (
    StoreTarget,
    make_if_absent,
    open_reader,
    open_snapshot,
    open_store,
    progress_bar,
    refuse_database,
    store_argument,
    store_options,
    where,
)
from taskqueue.cli.output.json_output import visible_json
from taskqueue.display.counts import projects, tasks
from taskqueue.protocol.choices import STATES
from taskqueue.terminal.lines import say
from taskqueue.texts.units import size_text

if TYPE_CHECKING:
    from taskqueue.core.model.records import ProjectRecord
    from taskqueue.store.contract import StoreReader
    from taskqueue.store.tools.export_format import ExportFormat
    from taskqueue.store.tools.importer import KnownTasks


@click.command()
@click.argument("place", metavar="DIR", type=click.Path())
@store_options
def backup(target: StoreTarget, place: str) -> None:
    """Copy a store; the daemon may run.

    The folder must be empty or absent. The copy has everything that was acknowledged before the command began; it is
    made whole or not at all. On the same file system it takes almost no time and space, because unchanging files are
    linked, not copied: it then protects from mistakes, not from a broken disk.

    Back up a database by its own means, such as pg_dump, which save everything. This command exports it, as it was when
    the command began, to a new file DIR, without attempts, leases and operations; `taskqueue store import DIR` reads it
    into any store.

    \b
    Example:
      taskqueue store backup /backups/monday -c taskqueue.toml
      taskqueue store backup monday.msgpack --store postgresql://db.example/crawl
    """
    if target.url:
        _export_database(target, place)
    else:
        _copy_folder(target, place)


def _export_database(target: StoreTarget, file: str) -> None:
    from taskqueue.store.tools.store_stats import read_database_stats

    refuse_database("backup", "name a file for the export", file)
    with closing(open_snapshot(target)) as reader, _new_file(file) as output:
        write_export(reader, output, format_of(file))
        figures = read_database_stats(reader)
    size = size_text(os.stat(file).st_size)
    say(
        f"{file}: {tasks(figures.tasks)}, {size}, an export of {figures.path}, "
        "which `taskqueue store import` brings into any store"
    )
    say("How tasks ran, leases and operations are not in it; a backup of the database, such as by pg_dump, has them.")


@contextmanager
def _new_file(name: str) -> Iterator[IO[bytes]]:
    """Open a new file that gets its name when it is complete; the name must not exist yet."""
    if exists(name):
        raise click.ClickException(f"{name}: is there already; an export needs a file of its own")
    with NamedTemporaryFile(prefix=f"{basename(name)}.partial-", dir=dirname(abspath(name)), delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.rename(file.name, name)
        except BaseException:
            os.unlink(file.name)
            raise


def _copy_folder(target: StoreTarget, folder: str) -> None:
    from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
    from taskqueue.store.tools.backup import back_up
    from taskqueue.store.tools.store_stats import read_stats

    with progress_bar("copying"):
        copied = back_up(target.path, folder)
    with closing(ReadOnlyStore(folder)) as reader:
        figures = read_stats(reader, target.cache_bytes)
    say(f"{folder}: {tasks(figures.tasks)}, {size_text(copied)}, epoch {figures.epoch}")


@click.command()
@click.argument("copy", metavar="BACKUP", type=click.Path())
@click.option("--replace", is_flag=True, help="Move of the store that is there to DIR.replaced.")
@store_options
def restore(target: StoreTarget, copy: str, replace: bool) -> None:
    """Replace a store by a backup.

    The store is in a folder. The daemon must be stopped; the backup is not changed.

    The daemon forgets what happened since the backup: tasks run again, and reports of fetchers for tasks dispatched
    since are stale. The store skips 1,024 epochs, so that no token is given twice, even if the lost store has been
    started that often since. Never start the replaced store beside the new one.

    \b
    Example:
      taskqueue store restore /backups/monday
      taskqueue store restore /backups/monday --replace -c taskqueue.toml
    """
    from taskqueue.store.tools import backup

    refuse_database(
        "restore",
        "restore the database by its own means, such as pg_restore, and have it skip epochs as "
        "docs/howto/postgresql.md says, or bring an export into an empty schema by `taskqueue store import FILE`",
        target.url, copy,
    )  # fmt: skip
    aside = _free(f"{target.path}.replaced") if replace else None
    moves = aside is not None and exists(target.path)
    epoch = backup.restore(copy, target.path, aside)
    say(f"{target.path}: restored from {copy}; its next epoch is {epoch + 1}")
    if moves:
        say(f"{aside}: the store that was there")


@click.command()
@store_argument
def compact(target: StoreTarget) -> None:
    """Reclaim the space of deleted records.

    Merges all tables of the store, leaving out what was overwritten or deleted. The daemon must be stopped.

    RocksDB does this by itself, little by little; the command does it at once, after very many tasks were dropped. It
    needs as much free space as the store takes, for a while.

    \b
    Example:
      taskqueue store compact -c taskqueue.toml
    """
    from taskqueue.store.rocksdb.rocks_store import RocksStore

    refuse_database(
        "compact",
        "it removes dead rows by itself; `vacuum full` on the tables of its schema gives their room back at once",
        target.url,
    )
    before = _file_bytes(target.path)  # which also sees that there is a store, because opening one would make it
    with closing(RocksStore(target.path, cache_bytes=target.cache_bytes)) as store, progress_bar("compacting"):
        store.compact()
    say(f"{target.path}: {size_text(before)} before, {size_text(_file_bytes(target.path))} now")


def _file_bytes(path: str) -> int:
    from taskqueue.store.files.file_snapshot import FileSnapshot

    with closing(FileSnapshot(path)) as snapshot:
        return snapshot.file_bytes


def _free(name: str) -> str:
    return name if not exists(name) else next(other for n in count(2) if not exists(other := f"{name}-{n}"))


@click.command()
@projects_argument
@click.option(
    "--state",
    "states",
    metavar="STATE",
    type=click.Choice(STATES),
    multiple=True,
    help="State of the tasks (repeatable).",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.File("wb", atomic=True),
    default="-",
    help="File of the export.  [default: stdout]",
)
@click.option(
    "--format", "named", type=click.Choice(["json", "msgpack"]), help="Format, whatever the name of the file says."
)
@store_options
def export(
    target: StoreTarget, projects: tuple[str, ...], states: tuple[str, ...], output: IO[bytes], named: str | None
) -> None:
    """Write tasks as JSON lines or msgpack.

    The daemon may run meanwhile.

    Writes what another store needs to go on: URL, state, schedule, body and attempts of all tasks, finished ones
    included, and, without --state, the history by the minute and the hour. Leases and flows are left out. The first
    line names the format and the projects, the last one counts the tasks.

    If the name of FILE ends in .msgpack, MessagePack maps are written instead: faster, smaller, and with bodies as
    unchanged bytes.

    \b
    Example:
      taskqueue store export -o crawl.jsonl
      taskqueue store export -o crawl.msgpack
      taskqueue store export news --state failed | jq -r .url
    """
    from taskqueue.store.tools.export_format import JSON, MESSAGEPACK

    form = format_of(str(getattr(output, "name", ""))) if named is None else MESSAGEPACK if named == "msgpack" else JSON
    if form is MESSAGEPACK and output.isatty():
        raise click.UsageError("MessagePack is nothing for a terminal; name a file with -o")
    with closing(open_reader(target)) as reader:
        write_export(reader, output, form, projects, states)


def format_of(file: str) -> ExportFormat:
    """Choose the format of an export by its file's name."""
    from taskqueue.cli.input.packed_tasks import SUFFIX
    from taskqueue.store.tools.export_format import JSON, MESSAGEPACK

    return MESSAGEPACK if file.endswith(SUFFIX) else JSON


def write_export(
    reader: StoreReader, output: IO[bytes], form: ExportFormat, names: Sequence[str] = (), states: Sequence[str] = ()
) -> None:
    """Write an export of all projects and states, or of the given ones.

    Raises:
        click.ClickException: a project does not exist.
        StoreError: the store can't be read.
        OSError: the output can't be written.
    """
    from taskqueue.core.model.task import STATE_NAMES
    from taskqueue.store.tools.export_format import JSON
    from taskqueue.store.tools.exporter import History, export_lines

    wanted = [STATE_NAMES.index(name) for name in states or STATES]
    history: History = "none" if states else "projects" if names else "all"
    with progress_bar("tasks") as progress:
        for done, line in enumerate(export_lines(reader, _records(reader, names), wanted, form, history=history)):
            output.write((visible_json(line) if form is JSON else line) + form.end)
            progress(done)


@click.command("import")
@click.argument("file", type=click.Path())
@click.option("--merge", is_flag=True, help="Import of new tasks into projects that have tasks.")
@store_options
def import_store(target: StoreTarget, file: str, merge: bool) -> None:
    """Read an export into a store.

    The export may have either format; - is stdin. The daemon must be stopped. A missing store is made, and the command
    says so. Missing projects are made with their settings; existing ones keep theirs. Known tasks stay as they are.
    Processing tasks become ready. To complete an interrupted import, repeat it with --merge.

    \b
    Example:
      taskqueue store import crawl.jsonl --store /srv/taskqueue/store
      taskqueue store import crawl.msgpack --store postgresql://db.example/crawl
      taskqueue store import crawl.jsonl --store 'postgresql:///crawl?schema=news'
    """
    from taskqueue.calendar import Calendar
    from taskqueue.cli.input.export_file import parts_of
    from taskqueue.server.clock import Clock
    from taskqueue.store.tools.export_format import detect_format
    from taskqueue.store.tools.importer import ImportCounts, import_lines

    brought = ImportCounts()
    with opened(file) as lines:
        is_new = make_if_absent(target)
        with closing(open_store(target)) as store, progress_bar("tasks") as progress:
            form = detect_format(lines.peek(1))
            parts = parts_of(lines, form, target.message_bytes)
            if_known: KnownTasks = "skip" if merge else "refuse"
            for brought in import_lines(store, parts, if_known, Clock().now().boot, Calendar(), form):
                progress(brought.new + brought.known)
    rest = f", {tasks(brought.known)} known already" if brought.known else ""
    place = f"{where(target)}, a new store" if is_new else where(target)
    say(f"{place}: brought in {tasks(brought.new)}, made {projects(brought.projects)}{rest}")


def _records(reader: StoreReader, names: Sequence[str]) -> list[ProjectRecord]:
    """Records of the named projects, or of all.

    Raises:
        click.ClickException: a project does not exist.
    """
    from taskqueue.store.tools.store_stats import project_records

    known = {record.name: record for record in project_records(reader)}
    for name in names:
        if name not in known:
            raise click.ClickException(f'project "{name}" is unknown')
    return [known[name] for name in names or known]
