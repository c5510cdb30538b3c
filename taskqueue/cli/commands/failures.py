"""``taskqueue failures``: what failed lately, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.input.times import ago, local
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.failures import NAMELESS, share
from taskqueue.display.json_values import without_envelope
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue.protocol.choices import FailuresBy
    from taskqueue.protocol.insight import FailuresReply

GROUPS: Final = 20


@click.command()
@click.argument("project", type=project_name, required=False)
@click.option(
    "--by", type=click.Choice(["error", "host", "fetcher", "project"]), default="error", show_default=True,
    help="What is counted together.",
)  # fmt: skip
@click.option(
    "--since", type=times.since, default="1h", show_default=True, metavar="AGE|TIME",
    help="Failed so long ago at most (90s, 5m, 12h, 2d), or at that time or later.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1, 1000), default=GROUPS, show_default=True, help="Rows, at most.")
@json_option
@daemon_options
def failures(
    project: str | None, by: FailuresBy, since: float, limit: int, as_json: bool, url: str, timeout: float
) -> None:
    """Show what failed lately, and why, of all projects or of one.

    Counted are failed attempts, timeouts among them, whatever became of their tasks: with the default retries a task
    has failed for good only after hours. The daemon has those of the last seven days, a million at most.

    Errors are counted together that differ only in numbers (but for those such as 503), ids and urls. Beside each row
    is what its last failure was like; `taskqueue task list PROJECT --state failed` has the tasks.

    \b
    Example:
      taskqueue failures
      taskqueue failures news --by host --since 2d
      taskqueue failures --by fetcher --since '2027-01-31 02:00' --limit 5
      taskqueue failures --by host --json | jq -r '.groups[].name'
    """
    with Daemon(url, timeout).client() as client:
        found = client.tasks.failures(project, by=by, since=since, limit=limit)
    if as_json:
        print_object(without_envelope(found))
        return
    from taskqueue.cli.output import tables

    tables.show(of_failures(found, by))
    if found.groups:
        say(_summary(found, since), err=True)


def of_failures(found: FailuresReply, by: FailuresBy) -> Table:
    """A row a group: how many failures, which part of all, when and what the last one was."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    table = bare_table([], ["failures", "share"], [by, "last", "such as"])
    for group in found.groups:
        such_as = (group.project, group.host) if by == "error" else (group.error,)
        cells = (
            f"{group.failures:,}",
            share(group.failures, found.failures),
            group.name or NAMELESS.get(by, ""),
            ago(group.last_at),
            " ".join(such_as) or NAMELESS["error"],
        )
        table.add_row(*map(Text, cells))
    return table


def _summary(found: FailuresReply, since: float) -> str:
    """How many there are in all, and what of that is not shown."""
    attempts = "1 failed attempt" if found.failures == 1 else f"{found.failures:,} failed attempts"
    kept = f" (the oldest that is kept is of {local(found.since)})" if found.since > since else ""
    hidden = found.count - len(found.groups)
    more = f" There are {hidden:,} more rows; --limit shows them." if hidden > 0 else ""
    return f"{attempts} since {local(since)}{kept}.{more}"
