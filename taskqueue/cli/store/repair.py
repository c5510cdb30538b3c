"""``taskqueue store repair``: what can be saved of a damaged store."""

from __future__ import annotations

from contextlib import closing
from os.path import isdir

import click

from taskqueue.cli.store.opening import database_of
from taskqueue.cli.store.target import named_store, names_database, progress_bar
from taskqueue.display.counts import projects, tasks
from taskqueue.terminal.lines import say


@click.command()
@click.argument("damaged", metavar="FROM", type=click.Path())
@click.argument("to", metavar="[TO]", type=click.Path(), required=False, default="")
def repair(damaged: str, to: str) -> int:
    """Save what can be read of a damaged store. The daemon must be stopped. Of a store in a folder a new one is made
    in TO, and FROM is not changed. A store in a database, FROM being its url, is mended where it is, without TO.

    Each task gets one place: what was processing is ready again, and a task of which only a part is left is ready
    rather than lost. What can't be saved is listed, and then the exit status is 1. How tasks ran, leases and operations
    stay behind. The new store skips 1,024 epochs, so that no token is given twice. Needs as much room as the store.

    In a database everything that is sound stays as it is. A live task of which a part is damaged ends as failed, with
    the reason "damaged"; one that was over stays what it was. What was done is listed, with exit status 1 if anything
    was; running it again lists nothing.

    \b
    Example:
      taskqueue store repair data/store data/repaired
      taskqueue store repair postgresql://taskqueue@db.example/crawl
      taskqueue scheduler --store data/repaired
    """
    from taskqueue.calendar import Calendar
    from taskqueue.server.clock import Clock
    from taskqueue.store.repair.repair import repair as repair_store

    if to and (names_database(damaged) or names_database(to)):
        raise click.BadParameter("a database is repaired where it is; name its url alone.", param_hint="'TO'")
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
    """Mend a store in a database."""
    from taskqueue.server.clock import Clock

    database = database_of(named_store(url))
    from taskqueue.store.postgres.postgres_store import PostgresStore
    from taskqueue.store.postgres.writers import refuse_second_writer
    from taskqueue.store.repair.database_repair import mend, mend_fence

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
