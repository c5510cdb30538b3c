"""``taskqueue stats``: show attempts and times of projects, or how far a job is.

``stats --history`` draws how fast projects were, beside the same time before:

    points of minutes or hours ──spread evenly over their time──► CELLS parts of the time ──► ▁▂▅█▇▃
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from msgspec import Struct
from msgspec.structs import astuple

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, check_group, daemon_options
from taskqueue.cli.input.names import group_option, projects_argument
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.projects import ALL, WINDOWS
from taskqueue.protocol.choices import STATES, Resolution
from taskqueue.protocol.insight import HistoryPoint
from taskqueue.protocol.values import EventTotals, TaskCounts
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.protocol.insight import ProjectStats, Window
    from taskqueue.terminal.screen import Text


DAY: Final = 24 * 3600
USUAL: Final = "1h"
"""Period without ``--window``."""
EVENTS: Final = EventTotals.__struct_fields__
TIMES: Final = ("mean_seconds", "p95_seconds")
NAME: Final = "name"
SORTS: Final = (NAME, *EVENTS, *TIMES)
"""Orders of projects; those with the largest number in the window come first."""


@click.command()
@projects_argument
@group_option
@click.option("--window", type=click.Choice([*WINDOWS, ALL]), help=f"Period, up to now.  [default: {USUAL}]")
@click.option("--filter", "part", metavar="TEXT", default="", help="Part of the names of the projects.")
@click.option(
    "--sort",
    type=click.Choice(SORTS),
    default=NAME,
    show_default=True,
    help="Number that comes first where it is largest.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Number of projects, at most.")
@click.option("--history", is_flag=True, help="Bars over time, beside those of the time before.")
@click.option("--since", metavar="DURATION|TIME", type=times.past, help="Start of --history.  [default: 1d]")
@click.option("--job", metavar="NAME", help="Job whose tasks are counted, by state.")
@json_option
@daemon_options
def stats(
    projects: tuple[str, ...],
    group: str | None,
    window: str | None,
    part: str,
    sort: str,
    limit: int | None,
    history: bool,
    since: float | None,
    job: str | None,
    as_json: bool,
    daemon: Daemon,
) -> None:
    """Show attempts and times by period.

    The period is the last 5 minutes, hour or day, or all since projects were made. `selected` tasks were dispatched. A
    timeout also counts as failed or retried. `mean` and `p95` are seconds from dispatch to report: the average, and the
    time within which 19 of 20 attempts ended (within 18 %).

    --history shows all projects together, or the named ones, by the minute for the last day and by the hour for the
    last 90 days. A minute is known once it has passed.

    --job counts the tasks that came by that job, now, by state.

    \b
    Example:
      taskqueue stats
      taskqueue stats news --window 5m
      taskqueue stats --window 1d --sort failed --limit 10
      taskqueue stats --history news --since 7d
      taskqueue stats news --job monday
      taskqueue stats --json | jq '.projects[] | {name, day: .windows["1d"]}'
    """
    if since is not None and not history:
        raise click.UsageError("--since is for --history; without it, --window chooses the time")
    for option, value in (("--history", history), ("--window", window), ("--sort", sort != NAME)):
        if job and value:
            raise click.UsageError(f"say --job or {option}, not both: a job's tasks are counted as they are now")
    window = window or USUAL
    with daemon.client() as client:
        found = [project for project in _chosen(client, projects, group) if part.lower() in project.name.lower()]
        if job:
            counts = {project.name: client.stats.job(project.name, job) for project in found[:limit]}
            _show_job(job, counts, as_json)
            return
    if sort != NAME:
        found.sort(key=lambda project: getattr(_over(project, window), sort, 0), reverse=True)
    found = found[:limit]
    if history:
        some = projects or group or part or limit
        _show_history(daemon, [project.name for project in found] if some else [None], since, as_json)
        return
    if as_json:
        print_object({"projects": found})
        return
    from taskqueue.cli.output import tables

    tables.show(of_stats(found, window))


def _show_job(job: str, counts: Mapping[str, TaskCounts], as_json: bool) -> None:
    """Print how many tasks of a job each project has, by state; without --json projects without any are left out."""
    if as_json:
        print_object({"job": job, "projects": [{"name": name, "counts": of} for name, of in counts.items()]})
        return
    from taskqueue.cli.output import tables

    some = {name: of for name, of in counts.items() if any(astuple(of))}
    if not some:
        say(f'No task has job "{job}".', err=True)
        return
    table = tables.bare_table(["project"], STATES)
    for name, of in some.items():
        table.add_row(name, *_cells(of, STATES, "{:,}"))
    tables.show(table)


def _show_history(daemon: Daemon, names: Sequence[str | None], since: float | None, as_json: bool) -> None:
    """Print the history of these projects; None stands for all together."""

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
    """Fetch statistics of the named projects, or of all if none is named.

    Raises:
        click.ClickException: a project is unknown, or the group has no members.
    """
    found = {project.name: project for project in client.stats.iter(group or "")}
    if group:
        check_group(group, list(found))
    for name in names:
        if name not in found:
            where = f' in group "{group}"' if group else ""
            raise click.ClickException(f'project "{name}" is unknown{where}; `taskqueue status` lists them')
    yield from (found[name] for name in names or found)


def of_stats(projects: Iterable[ProjectStats], window: str) -> Table:
    """Make a table with a row per project; 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.terminal.screen import Text

    durations = () if window == ALL else TIMES
    table = bare_table(["project"], [*EVENTS, *(name.partition("_")[0] for name in durations)])
    for project in projects:
        over = _over(project, window)
        table.add_row(Text(project.name), *_cells(over, EVENTS, "{:,}"), *_cells(over, durations, "{:,.1f}"))
    return table


def _over(project: ProjectStats, window: str) -> EventTotals | Window:
    over: EventTotals | Window = project.totals if window == ALL else getattr(project.windows, WINDOWS[window])
    return over


def _cells(over: EventTotals | Window | TaskCounts, names: Iterable[str], shape: str) -> Iterator[Text]:
    """Format numbers, with a dim dot for 0."""
    from taskqueue.terminal.screen import Text

    for name in names:
        value = getattr(over, name)
        yield Text(shape.format(value)) if value else Text("·", "dim")


CELLS: Final = 40
BARS: Final = "▁▂▃▄▅▆▇█"
CHARTED_EVENTS: Final = ("new", "success", "failed", "retried")
"""Events that are drawn, those without any left out."""

MINUTES_KEPT: Final = 24 * 3600.0 + 60
"""Seconds for which the daemon keeps minutes; older events are fetched by the hour."""

TOGETHER: Final = "all projects"


class Span(NamedTuple):
    """Time span in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Length of the span in seconds."""
        return self.end - self.start


class ProjectHistory(Struct):
    """Events of a project (None: of all together) in a time span, in points of ``every`` seconds."""

    project: str | None
    every: Resolution
    points: list[HistoryPoint]


class Comparison(NamedTuple):
    """Events in a span, and in the span of the same length before it."""

    now: ProjectHistory
    before: ProjectHistory


def fetch_history(client: Client, project: str | None, span: Span, now: float) -> ProjectHistory:
    """Fetch events in a time span, by the minute while minutes are kept, else by the hour."""
    every: Resolution = "minute" if now - span.start <= MINUTES_KEPT else "hour"
    return ProjectHistory(project, every, list(client.stats.history(project, every, since=span.start, until=span.end)))


def compare(client: Client, project: str | None, span: Span) -> Comparison:
    """Fetch the events of a span that ends now and of the span before it."""
    return Comparison(
        fetch_history(client, project, span, span.end), fetch_history(client, project, earlier(span), span.end)
    )


def earlier(span: Span) -> Span:
    """Return the span of the same length before this one."""
    return Span(span.start - span.seconds, span.start)


# ------------------------------------------------------------------------------------------------ drawing


def history_table(compared: Comparison, span: Span) -> Table:
    """Make a table with a row of bars per kind of event, and below it one of the span before; 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.texts.units import duration_text

    length = duration_text(span.seconds)
    table = bare_table(["", f"the last {length}"], ["in all", "/min", "change"])
    table.title, table.title_justify, table.title_style = compared.now.project or TOGETHER, "left", "bold"
    for name in CHARTED_EVENTS:
        counts = cells(_events(compared.now, name, span.end), span)
        before = cells(_events(compared.before, name, span.end), earlier(span))
        if any(counts) or any(before) or name == "success":
            most = max(*counts, *before)
            table.add_row(*_row(name, counts, most, span), change(sum(counts), sum(before)))
            table.add_row(*_row("before", before, most, span, "dim"))
    return table


def _row(name: str, counts: Sequence[float], most: float, span: Span, style: str = "") -> Iterator[Text]:
    from taskqueue.terminal.screen import Text

    count = sum(counts)
    numbers = f"{count:,.0f}", f"{count * 60 / span.seconds:,.1f}"
    yield from (Text(cell, style) for cell in (name, bars(counts, most), *numbers))


class EventCount(NamedTuple):
    """Number of events, evenly spread over a span."""

    span: Span
    number: float


def _events(history: ProjectHistory, name: str, now: float) -> Iterator[EventCount]:
    """Yield counts of one kind of event; the last hour ends now."""
    seconds = 60 if history.every == "minute" else 3600
    for point in history.points:
        end = min(point.at + seconds, now)
        if point.at < end:
            yield EventCount(Span(point.at, end), getattr(point, name))


def cells(events: Iterable[EventCount], span: Span, number: int = CELLS) -> list[float]:
    """Count events in each of ``number`` equal parts of a span."""
    width = span.seconds / number
    found = [0.0] * number
    for (start, end), number_of in events:
        first = max(0, int((start - span.start) // width))
        last = min(number - 1, int((end - span.start) // width))
        for cell in range(first, last + 1):
            part = span.start + cell * width
            inside = min(end, part + width) - max(start, part)
            found[cell] += number_of * max(0.0, inside) / (end - start)
    return found


def bars(counts: Sequence[float], most: float) -> str:
    """Draw a bar per count, the highest for ``most``; a blank for 0."""
    return "".join(BARS[min(int(count / most * len(BARS)), len(BARS) - 1)] if count else " " for count in counts)


def change(now: float, before: float) -> str:
    """Format a change: ``+12 %``; empty if there was nothing before."""
    return f"{(now - before) / before * 100:+,.0f} %" if before else ""
