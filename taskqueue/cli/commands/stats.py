"""``taskqueue stats``: what happened to projects, over windows of time and over all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, check_group, daemon_options
from taskqueue.cli.input.names import group_option, project_name
from taskqueue.cli.output.json_output import json_option, print_object

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.protocol.insight import ProjectStats, Window
    from taskqueue.protocol.values import Totals
    from taskqueue.terminal.screen import Text

WINDOWS: Final = {"5m": "minutes", "1h": "hour", "1d": "day"}
"""By their names on the wire, the fields of ``Windows``."""

ALL: Final = "all"
DAY: Final = 24 * 3600
EVENTS: Final = ("new", "selected", "success", "failed", "retried", "timeout")
TIMES: Final = ("mean_seconds", "p95_seconds")
NAME: Final = "name"
SORTS: Final = (NAME, *EVENTS, *TIMES)
"""By which projects can be sorted; those with the most of the window come first."""


@click.command()
@click.argument("projects", metavar="[PROJECT...]", type=project_name, nargs=-1)
@group_option
@click.option("--window", type=click.Choice([*WINDOWS, ALL]), default="1h", show_default=True, help="Over which time.")
@click.option("--filter", "part", metavar="TEXT", default="", help="Only projects whose names contain it.")
@click.option("--sort", type=click.Choice(SORTS), default=NAME, show_default=True, help="The most of it first.")
@click.option("--limit", type=click.IntRange(min=1), help="So many projects, at most.")
@click.option("--history", is_flag=True, help="How it went, drawn over time, beside the same time before.")
@click.option("--since", metavar="TIME", type=times.since, help="With --history: 1h, 7d, 2027-01-31. [default: 1d]")
@json_option
@daemon_options
def stats(
    projects: tuple[str, ...],
    group: str | None,
    window: str,
    part: str,
    sort: str,
    limit: int | None,
    history: bool,
    since: float | None,
    as_json: bool,
    url: str,
    timeout: float,
) -> None:
    """Show what happened to projects in the last 5 minutes, hour or day, or since they were made.

    `selected` tasks were handed out. An attempt that ran out of time is also among failed or retried. `mean` and `p95`
    are seconds from hand-out to answer: on average, and what 19 of 20 attempts took at most (within 18 %).

    With --history, of all projects together unless some are named: known are the minutes of the last day, and the hours
    of the last 90 days. A minute is known when it is over.

    \b
    Example:
      taskqueue stats
      taskqueue stats news --window 5m
      taskqueue stats --window 1d --sort failed --limit 10
      taskqueue stats --history news --since 7d
      taskqueue stats --json | jq '.projects[] | {name, day: .windows["1d"]}'
    """
    if since is not None and not history:
        raise click.UsageError("--since is for --history; without it, --window chooses the time")
    with Daemon(url, timeout).client() as client:
        found = [project for project in _chosen(client, projects, group) if part.lower() in project.name.lower()]
    if sort != NAME:
        found.sort(key=lambda project: getattr(_over(project, window), sort, 0), reverse=True)
    found = found[:limit]
    if history:
        some = projects or group or part or limit
        _show_history(Daemon(url, timeout), [project.name for project in found] if some else [None], since, as_json)
        return
    if as_json:
        print_object({"projects": found})
        return
    from taskqueue.cli.output import tables

    tables.show(of_stats(found, window))


def _show_history(daemon: Daemon, names: Sequence[str | None], since: float | None, as_json: bool) -> None:
    """Print the history of these projects; None: of all together."""
    from taskqueue.cli.output.history_chart import Span, compare, fetch_history, history_table

    now = time.time()
    span = Span(min(since or now - DAY, now - 60), now)
    with daemon.client() as client:
        if as_json:
            print_object({"history": [fetch_history(client, name, span, now) for name in names]})
            return
        from taskqueue.terminal.screen import Screen

        for name in names:
            Screen().print(history_table(compare(client, name, span), span))


def _chosen(client: Client, names: Sequence[str], group: str | None) -> Iterator[ProjectStats]:
    """Those that are named, or all.

    Raises:
        click.ClickException: one of them isn't there, or the group has none.
    """
    found = {project.name: project for project in client.stats.all(group or "")}
    if group:
        check_group(group, list(found))
    for name in names:
        if name not in found:
            where = f' in group "{group}"' if group else ""
            raise click.ClickException(f'project "{name}" is unknown{where}; `taskqueue status` lists them')
    yield from (found[name] for name in names or found)


def of_stats(projects: Iterable[ProjectStats], window: str) -> Table:
    """A row a project. Fits into 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    durations = () if window == ALL else TIMES
    table = bare_table(["project"], [*EVENTS, *(name.partition("_")[0] for name in durations)])
    for project in projects:
        over = _over(project, window)
        table.add_row(Text(project.name), *_cells(over, EVENTS, "{:,}"), *_cells(over, durations, "{:,.1f}"))
    return table


def _over(project: ProjectStats, window: str) -> Totals | Window:
    over: Totals | Window = project.totals if window == ALL else getattr(project.windows, WINDOWS[window])
    return over


def _cells(over: Totals | Window, names: Iterable[str], shape: str) -> Iterator[Text]:
    """A quiet dot where there is nothing."""
    from taskqueue.terminal.screen import Text

    for name in names:
        value = getattr(over, name)
        yield Text(shape.format(value)) if value else Text("·", "dim")
