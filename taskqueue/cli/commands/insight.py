"""``taskqueue stats``, ``failures``, ``why``, ``log``: what happened, what failed, why nothing moves, who changed what.

``stats --history`` draws how fast projects were, beside the same time before:

    points of minutes or hours ──spread evenly over their time──► CELLS parts of the time ──► ▁▂▅█▇▃
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import click
from msgspec import Struct

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, check_group, daemon_options, why_of
from taskqueue.cli.input.names import group_option, project_name, taskids_of
from taskqueue.cli.input.times import ago, local
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.insight import CHANGE_COLUMNS, NAMELESS_GROUPS, share
from taskqueue.display.json_values import without_envelope
from taskqueue.display.projects import ALL, WINDOWS
from taskqueue.protocol.choices import Resolution, WhyCause
from taskqueue.protocol.insight import Point
from taskqueue.protocol.values import Counts, Totals
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.protocol.choices import FailuresBy
    from taskqueue.protocol.insight import FailuresReply, ProjectStats, Window
    from taskqueue.protocol.values import LogEntry
    from taskqueue.terminal.screen import Text


DAY: Final = 24 * 3600
EVENTS: Final = Totals.__struct_fields__
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
    """Statistics of the named projects, or of all if none is named.

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


CELLS: Final = 40
BARS: Final = "▁▂▃▄▅▆▇█"
CHARTED_EVENTS: Final = ("new", "success", "failed", "retried")
"""Events that are drawn, if there are any."""

MINUTES_KEPT: Final = 24 * 3600.0 + 60
"""Seconds for which the daemon keeps minutes; older times are fetched by hours."""

TOGETHER: Final = "all projects"


class Span(NamedTuple):
    """A time span in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


class ProjectHistory(Struct):
    """Events of a project in a time span (None: of all projects together), in points of one ``every`` each."""

    project: str | None
    every: Resolution
    points: list[Point]


class Comparison(NamedTuple):
    """Events now and in the span before."""

    now: ProjectHistory
    before: ProjectHistory


def fetch_history(client: Client, project: str | None, span: Span, now: float) -> ProjectHistory:
    """Events in a time span: by minutes as long as these are kept, else by hours."""
    every: Resolution = "minute" if now - span.start <= MINUTES_KEPT else "hour"
    return ProjectHistory(project, every, list(client.history.all(project, every, since=span.start, until=span.end)))


def compare(client: Client, project: str | None, span: Span) -> Comparison:
    """Events in a span that ends now, and in the span of the same length before it."""
    return Comparison(
        fetch_history(client, project, span, span.end), fetch_history(client, project, earlier(span), span.end)
    )


def earlier(span: Span) -> Span:
    """The span of the same length before this one."""
    return Span(span.start - span.seconds, span.start)


# ------------------------------------------------------------------------------------------------ drawing


def history_table(compared: Comparison, span: Span) -> Table:
    """Per kind of event a row of bars with its numbers, and below it one of the span before. In 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.units import duration_text

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
    """A number of events, evenly spread over a span."""

    span: Span
    number: float


def _events(history: ProjectHistory, name: str, now: float) -> Iterator[EventCount]:
    """Counts of one kind of event; the last hour ends now."""
    seconds = 60 if history.every == "minute" else 3600
    for point in history.points:
        end = min(point.at + seconds, now)
        if point.at < end:
            yield EventCount(Span(point.at, end), getattr(point, name))


def cells(events: Iterable[EventCount], span: Span, number: int = CELLS) -> list[float]:
    """Number of events in each of ``number`` equal parts of a span."""
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
    """One bar per count, the highest for ``most``; a blank for 0."""
    return "".join(BARS[min(int(count / most * len(BARS)), len(BARS) - 1)] if count else " " for count in counts)


def change(now: float, before: float) -> str:
    """``+12 %``; empty if there was nothing before."""
    return f"{(now - before) / before * 100:+,.0f} %" if before else ""


# ------------------------------------------------------------------------------------------------ failures

GROUPS_SHOWN: Final = 20


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
@click.option("--limit", type=click.IntRange(1, 1000), default=GROUPS_SHOWN, show_default=True, help="Rows, at most.")
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
            group.name or NAMELESS_GROUPS.get(by, ""),
            ago(group.last_at),
            " ".join(such_as) or NAMELESS_GROUPS["error"],
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


# ------------------------------------------------------------------------------------------------ why

ASKED_MOST: Final = 1000
"""Projects that are asked about, one after the other: a second, at 1 ms each."""

SENTENCES_SHOWN: Final = 5
"""Projects of each cause of which the sentence is shown."""

MOVING: Final = ("none", "pace", "overdue")
"""Causes of projects that hand out as fast as they may, or are about to."""

CAUSES: Final[dict[WhyCause, str]] = {
    "": "an older daemon, which says no cause",
    "daemon": "the daemon itself",
    "fetchers": "no fetcher that could take more",
    "stopped": "stopped",
    "paused": "paused",
    "hours": "out of active hours",
    "rate": "a rate of 0",
    "limits": "as many processing as may be at once",
    "slots": "no slot may go on now",
    "memory": "the next tasks are being read from the store",
    "tasks": "no task is ready",
}
"""Headings, in the order in which they are shown."""


@click.command()
@click.argument("project", type=project_name, required=False)
@click.argument("task", metavar="[TASKID|URL]", required=False)
@json_option
@daemon_options
def why(project: str | None, task: str | None, as_json: bool, url: str, timeout: float) -> None:
    """Say why nothing is handed out, or not this task.

    Without PROJECT: of each project with tasks that does not move, by cause.

    \b
    Example:
      taskqueue why
      taskqueue why news
      taskqueue why news https://example.com/
    """
    with Daemon(url, timeout).client() as client:
        if project is None:
            _say_all(client, as_json)
            return
        taskid = taskids_of(client, project, [task])[0] if task else None
        sentence = client.why(project, taskid)
        such_as = "" if as_json or task else _blocked(client, project)
    if as_json:
        print_object({"project": project, "taskid": taskid, "sentence": sentence})
    else:
        say(sentence)
        if such_as:
            say(f"such as: {such_as}")


def _blocked(client: Client, project: str) -> str:
    """What the first task of a project waits for, all of whose tasks are blocked; empty: there is none."""
    counts = client.projects.show(project).counts
    if not counts.blocked or counts.ready or counts.delayed or counts.processing:
        return ""
    blocked = client.tasks.list(project, "blocked", limit=1).tasks
    return client.why(project, blocked[0].taskid) if blocked else ""


def _say_all(client: Client, as_json: bool) -> None:
    """Say which projects do not move, by cause."""
    names = [view.name for view in client.projects.all() if _is_live(view.counts)]
    found: dict[WhyCause, dict[str, str]] = {cause: {} for cause in CAUSES}
    for name in names[:ASKED_MOST]:
        reply = why_of(client, name)
        if reply is not None and reply.cause not in MOVING:
            found[reply.cause][name] = reply.sentence
    if as_json:
        print_object({cause: projects for cause, projects in found.items() if projects})
    else:
        _say_found(found, len(names))


def _is_live(counts: Counts) -> bool:
    return any((counts.ready, counts.delayed, counts.processing, counts.blocked))


def _say_found(found: dict[WhyCause, dict[str, str]], live: int) -> None:
    for cause, projects in found.items():
        if projects:
            say(f"{CAUSES[cause]} ({len(projects)}):")
        for sentence in list(projects.values())[:SENTENCES_SHOWN]:
            say(f"  {sentence}")
        if len(projects) > SENTENCES_SHOWN:
            say(f"  and {', '.join(list(projects)[SENTENCES_SHOWN:])}")
    if not any(found.values()):
        say("Nothing stands still." if live else "No project has a task to run.")
    if live > ASKED_MOST:
        say(f"{live - ASKED_MOST:,} more projects have tasks; ask of them one by one")


# ------------------------------------------------------------------------------------------------ log


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
    from taskqueue.cli.output.tables import of_columns

    return of_columns(CHANGE_COLUMNS, entries, folded=("who", "change"))
