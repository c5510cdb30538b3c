"""``taskqueue log``: who changed what."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.changes import HEADS, what, who
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue.protocol.insight import LogEntry


@click.command()
@click.option("--project", type=project_name, help="Changes of this project, also of one that was deleted.")
@click.option("--since", metavar="TIME", type=times.since, help="Since then: 1h, 2d, or 2027-01-31.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="The newest so many.")
@json_lines_option
@daemon_options
def log(project: str | None, since: float | None, limit: int, as_json: bool, url: str, timeout: float) -> None:
    """Show who changed what: settings, states, deleted projects, cancelled tasks, reloads of the config.

    The newest change comes last, with the number of tasks that it changed or dropped. The last 100,000 are kept. Who is
    at a command line is known by name, a program by the name of its client; the values of tables are not told.

    \b
    Example:
      taskqueue log
      taskqueue log --project news --since 2d
    """
    with Daemon(url, timeout).client() as client:
        found = list(islice(client.log.all(project, since=since), limit + 1))
    shown = found[limit - 1 :: -1] if len(found) > limit else found[::-1]
    if as_json:
        print_lines(shown)
        return
    from taskqueue.cli.output import tables

    tables.show(of_log(shown))
    if len(found) > limit:
        say("There are older ones; --limit shows them.", err=True)


def of_log(entries: Iterable[LogEntry]) -> Table:
    """A row a change: when, who, and what. Fits into 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    table = bare_table(HEADS[:1], [], HEADS[1:])
    for entry in entries:
        cells = (times.local(entry.at), who(entry), what(entry))
        table.add_row(*(Text(cell.strip()) for cell in cells))
    return table
