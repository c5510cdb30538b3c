"""``taskqueue store repair``: what can be saved of a damaged store."""

from __future__ import annotations

from os.path import isdir

import click

from taskqueue.cli.store.opening import refuse_database
from taskqueue.cli.store.target import progress_bar
from taskqueue.display.counts import projects, tasks
from taskqueue.terminal.lines import say


@click.command()
@click.argument("damaged", metavar="FROM", type=click.Path())
@click.argument("to", metavar="TO", type=click.Path())
def repair(damaged: str, to: str) -> int:
    """Save what can be read of a damaged store into a new one. The daemon must be stopped; FROM is not changed.

    Each task gets one place: what was processing is ready again, and a task of which only a part is left is ready
    rather than lost. What can't be saved is listed, and then the exit status is 1. How tasks ran, leases and operations
    stay behind. The new store skips 1,024 epochs, so that no token is given twice. Needs as much room as the store.

    \b
    Example:
      taskqueue store repair data/store data/repaired
      taskqueue scheduler --store data/repaired
    """
    from taskqueue.calendar import Calendar
    from taskqueue.server.clock import Clock
    from taskqueue.store.repair.repair import repair as repair_store

    refuse_database(
        "repair",
        "restore the database from a backup; what can be read of a store, `taskqueue store export` brings to another",
        damaged, to,
    )  # fmt: skip
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
