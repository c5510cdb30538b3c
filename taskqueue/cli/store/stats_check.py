"""``taskqueue store stats`` and ``check``: a store's statistics, and its consistency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

import click

from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.cli.store.opening import open_reader, open_snapshot, where
from taskqueue.cli.store.target import StoreTarget, progress_bar, store_options
from taskqueue.display.counts import tasks
from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say
from taskqueue.units import size_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from taskqueue.store.damaged_rows import DamagedRows
    from taskqueue.store.postgres.database_snapshot import DatabaseSnapshot
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore
    from taskqueue.store.tools.findings import Findings
    from taskqueue.store.tools.project_sizes import Sizes
    from taskqueue.store.tools.store_stats import CacheStats, DatabaseStats, SizedReader, StoreStats
    from taskqueue.terminal.screen import Text


@click.command()
@click.option("--by", type=click.Choice(["project"]), help="About how much of the disk each project takes.")
@json_option
@store_options
def stats(target: StoreTarget, by: str | None, as_json: bool) -> None:
    """Show what a store has: tasks by project and state, bytes by family and level, and whether its cache will do.

    Tasks are exact, keys are estimated. `log` is what is in the log and in the memory of a running daemon, but not in
    tables yet. To look known tasks up quickly, half of store.cache has to hold the indexes and filters of all ids; if
    it is too short for that, it is said.

    Of a store in a database: tasks by project and state, and the estimated rows and the bytes of its tables.

    With --by project: about what each project takes on disk, estimated from some of its tasks in each state. `bodies`
    are urls and bodies, `ids` what makes tasks known, `queues` their places among others, `history` how they ran.

    \b
    Example:
      taskqueue store stats -c taskqueue.toml
      taskqueue store stats --by project
      taskqueue store stats --json | jq .cache
    """
    if by is not None:
        _show_sizes(target, as_json)
    elif target.url:
        _show_database(target, as_json)
    else:
        _show_folder(target, as_json)


def _show_folder(target: StoreTarget, as_json: bool) -> None:
    from taskqueue.store.rocksdb.read_only import ReadOnlyStore
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
    from taskqueue.store.tools.project_sizes import sizes_of

    with closing(open_reader(target)) as reader:
        sizes = sizes_of(reader)
    if as_json:
        print_object(sizes)
        return
    from taskqueue.terminal.screen import Screen

    Screen().print(_sizes(sizes))


@click.command()
@click.option("--show", metavar="N", type=click.IntRange(min=0), default=100, show_default=True, help="Problems shown.")
@store_options
def check(target: StoreTarget, show: int) -> int:
    """Check that the files of a store are whole, and that all that it has agrees: each task with its entry in the order
    of its state and with its spec, each entry with its task, the counts of the projects with both. The files of a
    database are its own affair; there each row is compared with its checksum, as the daemon does when it reads it.

    Says what is damaged or does not agree, a line each, and what to do or what was expected; then the exit status is 1.
    Looks at the store as it is when the command begins. Needs little memory, and about 4 s of CPU for a million tasks;
    five times as much, at most, if something does not agree.

    \b
    Example:
      taskqueue store check
      taskqueue store check --store /backups/monday
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
        say(f"{where(target)}: what the store says of itself is damaged; nothing else was looked at", err=True)
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
    looked = f"{path}: looked at {findings.entries:,} entries of {tasks(findings.tasks)}"
    if not findings.found:
        say(f"{looked}: all agree")
        return 0
    rest = findings.found - len(findings.problems)
    more = f", {rest:,} more than shown" if rest else ""
    say(f"{looked}: {findings.found:,} do not agree{more}", err=True)
    return 1


def _opened(target: StoreTarget, damaged: DamagedRows, findings: Findings) -> ReadOnlyStore | DatabaseSnapshot:
    """A view of the store; what a database has outside of families has been looked at."""
    if not target.url:
        return open_reader(target)
    snapshot = open_snapshot(target, damaged)
    if said := snapshot.damage():
        findings.note("schedulers", "", "", b"", said)
    return snapshot


def _damaged(target: StoreTarget, lines: list[str]) -> int:
    for line in lines:
        say(line)
    say(f"{target.path}: the store is damaged; whether its entries agree was not looked at", err=True)
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
