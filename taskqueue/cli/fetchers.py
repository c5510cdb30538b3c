"""``taskqueue fetchers``: who runs the tasks, and whether somebody is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.daemon import Daemon, check_group, reaches_daemon
from taskqueue.cli.names import project_name, takes_group
from taskqueue.cli.plain import print_lines, takes_json_lines

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.core.requests import FetcherSort
    from taskqueue.core.views import FetcherView

SORTS: Final = ("name", "holds", "capacity", "oldest", "done", "failed", "silent")
PAGE: Final = 500
"""Most that the daemon lists at once."""


@click.command()
@click.option("-p", "--project", type=project_name, metavar="PROJECT", help="Who may take its tasks.")
@takes_group
@click.option("--filter", "part", metavar="TEXT", default="", help="Only those whose name or address contains it.")
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Which come first.")
@click.option("--limit", type=click.IntRange(min=1), help="So many, at most.")
@takes_json_lines
@reaches_daemon
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
    """List fetchers: what each holds of how much it takes, since when the oldest of it, what came of its attempts since
    the daemon's start, since when it is silent, where it is, and whose tasks it wants.

    One whose oldest task is old is stuck, or at a slow site; `taskqueue task list --state processing` has the tasks.
    `--sort oldest` has those first that have held a task for longest, `silent` those that have not been heard for
    longest; other numbers come largest first.

    \b
    Example:
      taskqueue fetchers --sort oldest --limit 10
      taskqueue fetchers -p news --json | jq 'select(.failed > .done) | .name'
    """
    with Daemon(url, timeout).client() as client:
        if group:
            check_group(group, client.status(limit=1, group=group, fetchers=0).projects)
        found = _found(client, project or "", group or "", part, sort, limit)
        if as_json:
            print_lines(found)
            return
        from taskqueue.cli import tables

        tables.show(tables.of_fetchers(found))


def _found(
    client: Client, project: str, group: str, part: str, sort: FetcherSort, limit: int | None
) -> Iterator[FetcherView]:
    """Each once, though they move from page to page."""
    seen: set[str] = set()
    skip, more = 0, True
    while more and (limit is None or skip < limit):
        most = PAGE if limit is None else min(PAGE, limit - skip)
        page = client.fetchers(limit=most, project=project, group=group, filter=part, sort=sort, skip=skip)
        yield from (view for view in page.fetchers if view.session not in seen)
        seen.update(view.session for view in page.fetchers)
        skip, more = skip + len(page.fetchers), page.more
