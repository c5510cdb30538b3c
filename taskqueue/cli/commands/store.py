"""``taskqueue store``: show, check, make and repair a store; ``store_copies`` copies and moves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from os.path import isdir
from typing import TYPE_CHECKING

import click

from taskqueue.cli.commands.store_copies import backup, compact, export, import_store, restore
from taskqueue.cli.input.store import (
    StoreTarget,
    database_of,
    make_if_absent,
    named_store,
    names_database,
    open_reader,
    open_snapshot,
    open_store,
    progress_bar,
    store_argument,
    store_options,
    where,
)
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.counts import projects, tasks
from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say, say_lines
from taskqueue.texts.units import size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from taskqueue.store.damaged_rows import DamagedRows
    from taskqueue.store.postgres.postgres_snapshot import DatabaseSnapshot
    from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
    from taskqueue.store.tools.findings import Findings
    from taskqueue.store.tools.store_stats import CacheStats, DatabaseStats, SizedReader, Sizes, StoreStats
    from taskqueue.terminal.screen import Text


@click.command()
@click.option("--by", type=click.Choice(["project"]), help="Estimated disk space by project.")
@json_option
@store_argument
def show(target: StoreTarget, by: str | None, as_json: bool) -> None:
    """Show tasks, sizes and levels.

    Shows tasks by project and state, bytes by family and level, and whether the cache is large enough.

    Tasks are exact, keys are estimated. `log` is what is not in tables yet: the write-ahead log and a running daemon's
    memory. To look known tasks up quickly, half of store.cache has to hold the indexes and filters of all ids; the
    command warns if it can't.

    For a database it shows tasks by project and state, and estimated rows and bytes of its tables.

    With --by project it estimates each project's size on disk from a sample of its tasks in each state. `bodies` are
    URLs and bodies, `ids` make tasks known, `queues` are their places in orders, `history` is how they ran.

    \b
    Example:
      taskqueue store show -c taskqueue.toml
      taskqueue store show --by project
      taskqueue store show --json | jq .cache
    """
    if by is not None:
        _show_sizes(target, as_json)
    elif target.url:
        _show_database(target, as_json)
    else:
        _show_folder(target, as_json)


def _show_folder(target: StoreTarget, as_json: bool) -> None:
    from taskqueue.store.rocksdb.rocks_snapshot import ReadOnlyStore
    from taskqueue.store.tools.store_stats import read_stats

    with closing(ReadOnlyStore(target.path)) as reader:
        figures = read_stats(reader, target.cache_bytes)
    if as_json:
        plain = as_plain(figures)
        plain["cache"]["is_short"] = figures.cache.is_short
        print_object(plain)
        return
    _print(_drawn(figures))


def _show_database(target: StoreTarget, as_json: bool) -> None:
    from taskqueue.store.tools.store_stats import read_database_stats

    with closing(open_snapshot(target)) as reader:
        figures = read_database_stats(reader)
    if as_json:
        print_object(figures)
        return
    _print(_drawn_database(figures))


def _print(parts: Iterator[RenderableType]) -> None:
    from taskqueue.terminal.screen import Screen

    for part in parts:
        Screen().print(part)


def _show_sizes(target: StoreTarget, as_json: bool) -> None:
    from taskqueue.store.tools.store_stats import sizes_of

    with closing(open_reader(target)) as reader:
        sizes = sizes_of(reader)
    if as_json:
        print_object(sizes)
        return
    from taskqueue.terminal.screen import Screen

    Screen().print(_sizes(sizes))


@click.command()
@click.option(
    "--show",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Number of problems, at most.",
)
@store_argument
def check(target: StoreTarget, show: int) -> int:
    """Check files and records.

    Checks that files are whole and their contents agree: each task with its entry in the order of its state and with
    its spec, each entry with its task, and the projects' counts with both. In a database each row is compared with its
    checksum instead, as the daemon does when it reads it.

    Prints a line per finding, with what to do or what was expected; then the exit status is 1. The check sees the store
    as it was when the command began. It needs little memory, and about 4 s of CPU per million tasks; at most five times
    as much if something does not agree.

    \b
    Example:
      taskqueue store check
      taskqueue store check /backups/monday
    """
    if target.url:
        return _check_entries(target, show)
    from taskqueue.store.files.integrity import damage_of, findings_of

    damage = damage_of(target.path)
    if damage is not None:
        return _damaged(target, findings_of(target.path, damage))
    return _check_entries(target, show)


def _check_entries(target: StoreTarget, show: int) -> int:
    from taskqueue.errors import FormatError, PassingError, StoreError, Unreadable
    from taskqueue.store.damaged_rows import DamagedRows
    from taskqueue.store.files.integrity import is_damage, table_finding
    from taskqueue.store.tools.consistency import check as check_store
    from taskqueue.store.tools.findings import Findings

    findings, damaged = Findings(most=show), DamagedRows()
    try:
        with (
            closing(_opened(target, damaged, findings)) as reader,
            progress_bar("entries", _entries(reader)) as progress,
        ):
            path = reader.path
            check_store(reader, findings, progress, damaged)
    except Unreadable as error:
        say(str(error))
        say(f"{where(target)}: what the store says of itself is damaged; nothing else was checked", err=True)
        return 1
    except (PassingError, FormatError):
        raise
    except StoreError as error:
        if not is_damage(error):
            raise
        findings.note_unreadable(error)
    if findings.unreadable:
        return _damaged(target, [table_finding(target.path, error) for error in findings.unreadable])
    for problem in findings.problems:
        say(str(problem))
    looked = f"{path}: checked {findings.entries:,} entries of {tasks(findings.tasks)}"
    if not findings.found:
        say(f"{looked}: all agree")
        return 0
    rest = findings.found - len(findings.problems)
    more = f", {rest:,} more than shown" if rest else ""
    say(f"{looked}: {findings.found:,} do not agree{more}", err=True)
    return 1


def _opened(target: StoreTarget, damaged: DamagedRows, findings: Findings) -> ReadOnlyStore | DatabaseSnapshot:
    """Open a view of the store, and check what a database has outside of families."""
    if not target.url:
        return open_reader(target)
    snapshot = open_snapshot(target, damaged)
    if said := snapshot.damage():
        findings.note("schedulers", "", "", b"", said)
    return snapshot


def _damaged(target: StoreTarget, lines: list[str]) -> int:
    for line in lines:
        say(line)
    say(f"{target.path}: the store is damaged; whether its entries agree was not checked", err=True)
    return 1


def _entries(reader: SizedReader) -> int:
    """Estimated number of entries."""
    from taskqueue.store.records.layout import FAMILIES

    return sum(map(reader.keys, FAMILIES))


# ---------------------------------------------------------------------------------------------- tables of stats


def _drawn(figures: StoreStats) -> Iterator[RenderableType]:
    from taskqueue.terminal.screen import Text

    yield Text(
        f"{figures.path}: {tasks(figures.tasks)}, {size_text(figures.file_bytes)} on disk "
        f"({size_text(figures.log_bytes)} of it log), format {figures.format}, epoch {figures.epoch}"
    )
    yield ""
    yield _projects(figures) if figures.projects else "No projects."
    yield ""
    yield _families(figures)
    yield ""
    if figures.levels:
        yield _levels(figures)
        yield ""
    yield _cache(figures.cache)


def _drawn_database(figures: DatabaseStats) -> Iterator[RenderableType]:
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    yield Text(
        f"{figures.path}: {tasks(figures.tasks)}, {size_text(figures.table_bytes)} in the database, "
        f"format {figures.format}, epoch {figures.epoch}"
    )
    yield ""
    yield _projects(figures) if figures.projects else "No projects."
    yield ""
    table = bare_table(["family"], ["keys", "size"])
    for family in figures.families:
        table.add_row(Text(family.name), f"{family.keys:,}", size_text(family.table_bytes))
    yield table


def _projects(figures: StoreStats | DatabaseStats) -> Table:
    from taskqueue.cli.output.tables import STATES, bare_table
    from taskqueue.terminal.screen import Text

    table = bare_table(["project", "state"], STATES)
    for project in figures.projects:
        table.add_row(Text(project.name), project.state, *(f"{getattr(project.counts, name):,}" for name in STATES))
    return table


def _sizes(sizes: Sizes) -> Table:
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.store.records import layout
    from taskqueue.terminal.screen import Text

    parts = {"bodies": (layout.SPECS,), "ids": (layout.IDS,), "queues": tuple(layout.ORDERS.values())}
    parts["history"] = (layout.HISTORY,)
    table = bare_table(["project"], ["tasks", "on disk", "a task", *parts])
    for project in sizes.projects:
        of_parts = [sum(project.families.get(name, 0) for name in names) for names in parts.values()]
        a_task = size_text(project.size_bytes // project.tasks) if project.tasks else ""
        table.add_row(
            Text(project.name), f"{project.tasks:,}", size_text(project.size_bytes), a_task, *map(size_text, of_parts)
        )
    table.add_row(Text("of no project", "dim"), "", size_text(sizes.shared_bytes))
    return table


def _families(figures: StoreStats) -> Table:
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    table = bare_table(["family"], ["keys", "tables", "log"])
    for family in figures.families:
        table.add_row(Text(family.name), f"{family.keys:,}", size_text(family.table_bytes), size_text(family.log_bytes))
    return table


def _levels(figures: StoreStats) -> Table:
    from taskqueue.cli.output.tables import bare_table

    table = bare_table(["level"], ["tables", "size"])
    for level in figures.levels:
        table.add_row(str(level.level), f"{level.tables:,}", size_text(level.table_bytes))
    return table


def _cache(cache: CacheStats) -> Text:
    from taskqueue.terminal.screen import Text

    if not cache.id_bytes:
        return Text(
            f"cache: {size_text(cache.configured_bytes)}; what an id needs of it is known when ids are in tables"
        )
    needs = f"index and filter of an id take {cache.id_bytes:.1f} B, so that {size_text(cache.needed_bytes)} do for all"
    if cache.is_short:
        return Text(
            f"The cache is too short for the ids: {needs}, store.cache is {size_text(cache.configured_bytes)}. "
            "Looking up known tasks reads them anew each time, which is ten times slower.",
            "yellow",
        )
    rest = f"the ids themselves, {size_text(cache.table_bytes)}, should fit into the system's file cache"
    return Text(f"cache: {size_text(cache.configured_bytes)}, enough for the ids: {needs}; {rest}")


# ------------------------------------------------------------------------------------------------ init, repair


@click.command()
@click.option("--print-sql", is_flag=True, help="SQL statements only; nothing is created.")
@store_options
def init(target: StoreTarget, print_sql: bool) -> None:
    """Create an empty store.

    A daemon makes its store by itself when it starts. This command is for a database in which the daemon's role may not
    make tables.

    --print-sql prints the statements that make the schema, its tables and the rights that a daemon needs, without
    connecting. Running them again changes nothing.

    \b
    Example:
      taskqueue store init --store postgresql://owner@db.example/crawl
      taskqueue store init --print-sql -c taskqueue.toml | psql -U owner crawl
    """
    if print_sql:
        _print_sql(target)
    else:
        is_new = make_if_absent(target)
        if is_new:
            open_store(target).close()
        say(f"{where(target)}: {'made an empty store' if is_new else 'there is a store already; nothing was changed'}")


def _print_sql(target: StoreTarget) -> None:
    if not target.url:
        raise click.ClickException(
            f"{target.path}: the store is in a folder, which needs no SQL; name a database by store.url or --store"
        )
    database = database_of(target)
    from taskqueue.store.postgres.views import script

    say_lines(script(database.schema))


@click.command()
@click.argument("damaged", metavar="FROM", type=click.Path())
@click.argument("to", metavar="[TO]", type=click.Path(), required=False, default="")
def repair(damaged: str, to: str) -> int:
    """Save what a damaged store still has.

    The daemon must be stopped. From a folder a new store is made in TO, and FROM is not changed. A database, with FROM
    as its URL and without TO, is repaired in place.

    Each task gets one state: processing tasks become ready, and a task that is only partly readable becomes ready
    rather than lost. What can't be saved is listed, and the exit status is 1. Attempts, leases and operations are not
    copied. The new store skips 1,024 epochs, so that no token is given twice. It needs as much space as the old one.

    In a database sound rows stay as they are. An unfinished task with a damaged part fails with the reason "damaged"; a
    finished one stays as it was. Repairs are listed, with exit status 1 if there were any; a second run finds none.

    \b
    Example:
      taskqueue store repair data/store data/repaired
      taskqueue store repair postgresql://taskqueue@db.example/crawl
      taskqueue daemon start --store data/repaired
    """
    from taskqueue.calendar import Calendar
    from taskqueue.server.clock import Clock
    from taskqueue.store.tools.rocks_repair import repair as repair_store

    if to and (names_database(damaged) or names_database(to)):
        raise click.BadParameter("a database is repaired where it is; name its URL alone.", param_hint="'TO'")
    if names_database(damaged):
        return _mend(damaged)
    if not to:
        raise click.BadParameter("name the folder that gets what can be saved.", param_hint="'TO'")
    if not isdir(damaged):
        raise click.BadParameter(f"there is no folder {damaged!r}.", param_hint="'FROM'")
    with progress_bar("tasks") as progress:
        repaired = repair_store(damaged, to, Clock().now().boot, Calendar(), progress)
    for line in repaired.lost:
        say(f"lost: {line.removeprefix('lost: ')}")
    if repaired.found > len(repaired.lost):
        say(f"lost: {repaired.found - len(repaired.lost):,} more than shown")
    say(f"{to}: saved {tasks(repaired.tasks)}, {projects(repaired.projects)}; its next epoch is {repaired.epoch + 1}")
    return 1 if repaired.found else 0


def _mend(url: str) -> int:
    """Repair a store in a database."""
    from taskqueue.server.clock import Clock

    database = database_of(named_store(url))
    from taskqueue.store.postgres.fence import refuse_second_writer
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.tools.postgres_repair import mend, mend_fence

    refuse_second_writer(database)
    lines = mend_fence(database)
    with closing(PostgresStore(database)) as store, progress_bar("entries") as progress:
        mended = mend(store, Clock().now().wall, progress)
    for line in [*lines, *mended.lines]:
        say(line)
    if mended.found > len(mended.lines):
        say(f"{mended.found - len(mended.lines):,} more than shown")
    found = len(lines) + mended.found
    done = f"mended {found:,} places; {tasks(mended.failed)} ended as failed" if found else "all is sound"
    say(f"{database.where}: {done}")
    return 1 if found else 0


@click.group()
def store() -> None:
    """Show, check, copy and repair a store.

    These commands work on the store's folder or database, named by STORE, --store or the config. show, check, backup
    and export change nothing and may be used while a daemon runs; compact, restore, import and repair need the daemon
    stopped. compact and restore are for folders only.

    \b
    Example:
      taskqueue store show -c taskqueue.toml
      taskqueue store check data/store
      taskqueue store backup /backups/monday
      taskqueue store init --store postgresql://db.example/crawl
    """
    # Stores, backups and exports have bodies, proxy passwords and session ids in them.
    click.get_current_context().call_on_close(partial(os.umask, os.umask(0o077)))


for command in (init, show, check, compact, backup, restore, export, import_store, repair):
    store.add_command(command)
