"""``taskqueue failures``: count failures by error, host, fetcher or project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import projects_argument
from taskqueue.cli.input.times import ago, local
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.insight import NAMELESS_GROUPS, share
from taskqueue.display.json_values import without_envelope
from taskqueue.protocol.insight import FailureGroup, Failures
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.protocol.choices import FailuresBy

GROUPS_SHOWN: Final = 20
GROUPS_MOST: Final = 1000
"""Groups of one reply of the daemon."""


@click.command()
@projects_argument
@click.option(
    "--by", type=click.Choice(["error", "host", "fetcher", "project"]), default="error", show_default=True,
    help="Common trait of the failures of a row.",
)  # fmt: skip
@click.option(
    "--since", type=times.past, default="1h", show_default=True, metavar="DURATION|TIME",
    help="Time of the oldest failures.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=GROUPS_SHOWN, show_default=True, help="Number of rows, at most."
)
@json_option
@daemon_options
def failures(
    projects: tuple[str, ...], by: FailuresBy, since: float, limit: int, as_json: bool, daemon: Daemon
) -> None:
    """Show failures by error, host or fetcher.

    Counts failed attempts, timeouts included, whether or not the task is retried: with the default retries a task fails
    for good only after hours. The daemon keeps failures for seven days, a million at most.

    Errors that differ only in ids, URLs and numbers (other than a status such as 503) are counted together. Each row
    shows its last failure; `taskqueue task list PROJECT --state failed` lists the tasks.

    \b
    Example:
      taskqueue failures
      taskqueue failures news --by host --since 2d
      taskqueue failures --by fetcher --since '2027-01-31 02:00' --limit 5
      taskqueue failures --by host --json | jq -r '.groups[].name'
    """
    with daemon.client() as client:
        found = _failures(client, projects, by, since, limit)
    if as_json:
        print_object(without_envelope(found))
        return
    from taskqueue.cli.output import tables

    tables.show(of_failures(found, by))
    if found.groups:
        say(_summary(found, since), err=True)


def _failures(client: Client, projects: Sequence[str], by: FailuresBy, since: float, limit: int) -> Failures:
    """Fetch failures of these projects (none: all), largest groups first."""
    if len(projects) < 2:
        return client.failures(*projects, by=by, since=since, limit=limit)
    replies = [client.failures(project, by=by, since=since, limit=GROUPS_MOST) for project in set(projects)]
    groups: dict[str, FailureGroup] = {}
    for group in (group for reply in replies for group in reply.groups):
        groups[group.name] = _together(groups[group.name], group) if group.name in groups else group
    cut_off = sum(reply.count - len(reply.groups) for reply in replies)
    largest = sorted(groups.values(), key=lambda group: -group.failures)[:limit]
    oldest = min(reply.since for reply in replies)
    return Failures(
        since=oldest,
        failures=sum(reply.failures for reply in replies),
        count=len(groups) + cut_off,
        groups=largest,
    )


def _together(one: FailureGroup, other: FailureGroup) -> FailureGroup:
    """Merge two groups, keeping the later of their last failures."""
    last = one if one.last_at >= other.last_at else other
    first_at = min(one.first_at, other.first_at)
    return replace(last, failures=one.failures + other.failures, first_at=first_at)


def of_failures(found: Failures, by: FailuresBy) -> Table:
    """Make a table with a row per group: failures, share of all, time and text of the last one."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    table = bare_table([], ["failures", "share"], [by, "last", "such as"])
    for group in found.groups:
        such_as = (group.project, group.host) if by == "error" else (group.error,)
        cells = (
            f"{group.failures:,}",
            share(group.failures, found.failures),
            group.name or NAMELESS_GROUPS.get(by, ""),
            ago(group.last_at),
            " ".join(such_as) or NAMELESS_GROUPS["error"],
        )
        table.add_row(*map(Text, cells))
    return table


def _summary(found: Failures, since: float) -> str:
    """Describe the number of failures, and how many are not shown."""
    attempts = "1 failed attempt" if found.failures == 1 else f"{found.failures:,} failed attempts"
    kept = f" (the oldest that is kept is of {local(found.since)})" if found.since > since else ""
    hidden = found.count - len(found.groups)
    more = f" There are {hidden:,} more rows; --limit shows them." if hidden > 0 else ""
    return f"{attempts} since {local(since)}{kept}.{more}"
