"""``taskqueue fetchers``: who runs the tasks, and whether somebody is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input.daemon import Daemon, all_fetchers, check_group, daemon_options
from taskqueue.cli.input.names import group_option, project_name
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.choices import FetcherSort

SORTS: Final = ("name", "holds", "capacity", "hung", "oldest", "done", "failed", "silent")


@click.command()
@click.option("-p", "--project", type=project_name, metavar="PROJECT", help="Who may take its tasks.")
@group_option
@click.option("--filter", "part", metavar="TEXT", default="", help="Only those whose name or address contains it.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Which come first.")
@click.option("--limit", type=click.IntRange(min=1), help="So many, at most.")
@json_lines_option
@daemon_options
def fetchers(
    project: str | None,
    group: str | None,
    part: str,
    sort: FetcherSort,
    limit: int | None,
    as_json: bool,
    url: str,
    timeout: float,
) -> None:
    """List fetchers: whether each is draining, what it holds of how much it takes, how many of its places hang, since
    when the oldest of what it holds, what came of its attempts since the daemon's start, since when it is silent, its
    priority, where it is, and whose tasks it wants.

    One whose oldest task is old is stuck, or at a slow site; `taskqueue task list --state processing` has the tasks.
    A place hangs while a handler runs whose lease is over; below the table it says which task it is.
    `--sort oldest` has those first that have held a task for longest, `hung` those with the place that has hung for
    longest, `silent` those that have not been heard for longest; other numbers come largest first.

    \b
    Example:
      taskqueue fetchers --sort oldest --limit 10
      taskqueue fetchers -p news --json | jq 'select(.failed > .done) | .name'
    """
    with Daemon(url, timeout).client() as client:
        if group:
            check_group(group, client.status(limit=1, group=group, fetchers=0).projects)
        found = all_fetchers(client, project or "", group or "", part=part, sort=sort, limit=limit)
        if as_json:
            print_lines(found)
            return
        from taskqueue.cli.output import tables

        tables.show_fetchers(list(found))
        away = [] if project or group or part else client.fetchers.list(limit=1).away
        if away:
            say(f"drained, and not connected: {', '.join(away)}")
