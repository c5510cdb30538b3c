"""``taskqueue log``: list who changed what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import projects_argument
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.insight import CHANGE_COLUMNS
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.protocol.values import Change


@click.command()
@projects_argument
@click.option("--since", metavar="DURATION|TIME", type=times.past, help="Time of the oldest changes.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Number of changes, the newest."
)
@json_lines_option
@daemon_options
def log(projects: tuple[str, ...], since: float | None, limit: int, as_json: bool, daemon: Daemon) -> None:
    """Show who changed what.

    Lists changes of settings and states, deleted projects, cancelled tasks and reloads of the config, those of deleted
    projects included. The newest comes last, with the number of tasks that it changed or dropped. The last 100,000 are
    kept. Users of the command line are named user@host, programs by the name of their client; values of tables are not
    shown.

    \b
    Example:
      taskqueue log
      taskqueue log news --since 2d
    """
    with daemon.client() as client:
        found = list(islice(_newest_first(client, projects, since), limit + 1))
    shown = found[limit - 1 :: -1] if len(found) > limit else found[::-1]
    if as_json:
        print_lines(shown)
        return
    from taskqueue.cli.output import tables

    tables.show(of_log(shown))
    if len(found) > limit:
        say("There are older ones; --limit shows them.", err=True)


def _newest_first(client: Client, projects: Sequence[str], since: float | None) -> Iterator[Change]:
    """Fetch changes of these projects (none: all changes), each once."""
    logs = [client.log.iter(project, since=since) for project in set(projects)] or [client.log.iter(since=since)]
    last = 0
    for entry in merge(*logs, key=lambda entry: -entry.number):
        if entry.number != last:  # one change may be of several projects
            yield entry
        last = entry.number


def of_log(entries: Iterable[Change]) -> Table:
    """Make a table with a row per change: when, who, what; 80 columns."""
    from taskqueue.cli.output.tables import of_columns

    return of_columns(CHANGE_COLUMNS, entries, folded=("who", "change"))
