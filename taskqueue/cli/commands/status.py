"""``taskqueue status`` and ``taskqueue daemon``: what the daemon has, and how it is itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import click

from taskqueue.build_kind import build_kind
from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, all_fetchers, daemon_options, full_status, why_of
from taskqueue.cli.input.names import group_option
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.protocol.choices import ProjectSort
from taskqueue.protocol.daemon import DaemonReply
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskqueue.client.blocking.client import Client
    from taskqueue.protocol.daemon import DaemonPoint, StatusReply
    from taskqueue.protocol.fetchers import FetchersReply
    from taskqueue.protocol.values import Counts

JSON_KEYS: Final = ("version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell")
"""What ``status --json`` prints besides the url; keys are added over time, never renamed."""

DAEMON_KEYS: Final = tuple(key for key in DaemonReply.__struct_fields__ if key not in ("v", "n"))
"""What ``daemon --json`` prints besides the url."""

SORTS: Final = get_args(ProjectSort)

NO_PROJECTS: Final = "No projects yet. Make one: taskqueue project start NAME"
NONE_NAMED_SO: Final = "No project is named so."
NO_FETCHERS_OF_GROUP: Final = "No fetcher asks for tasks of these."
NO_FETCHERS: Final = "No fetchers. Start one: taskqueue work MODULE:FUNCTION -p PROJECT"

NO_ROOM: Final = "The disk of the store is nearly full: no tasks are taken or handed out. See `taskqueue daemon`."

FETCHERS_SHOWN: Final = 20
"""To people: the first ones by name; `taskqueue fetchers` has all."""


STILL_ASKED: Final = 20
"""Projects of which the daemon is asked why nothing of them is processed, at most."""

STILL_SHOWN: Final = 5

STILL_CAUSES: Final = ("hours", "rate", "fetchers")


class Choice(NamedTuple):
    """Which projects, as the options say it."""

    group: str
    part: str
    sort: ProjectSort
    limit: int | None


@click.command()
@json_option
@group_option
@click.option("--filter", "part", metavar="TEXT", default="", help="Only projects whose names contain it.")
@click.option(
    "--sort",
    metavar="WHAT",
    type=click.Choice(SORTS),
    default="name",
    show_default=True,
    help="Projects with the most of it first: ready, delayed, processing, success, failed or cancelled tasks; or, of "
    "the last five minutes, new_5m, selected_5m, success_5m, failed_5m, retried_5m, timeout_5m.",
)
@click.option("--limit", type=click.IntRange(min=1), help="So many projects, at most.")
@click.option("--verify", is_flag=True, help="Have the scheduler check its own invariants, too.")
@daemon_options
def status(
    as_json: bool,
    group: str | None,
    part: str,
    sort: ProjectSort,
    limit: int | None,
    verify: bool,
    url: str,
    timeout: float,
) -> None:
    """Show the daemon's projects and fetchers; of a group, its projects and those who may take their tasks.

    \b
    Example:
      taskqueue status
      taskqueue status --sort selected_5m --limit 10
      taskqueue status --group papers --filter blog
      taskqueue status --json | jq '.projects[] | {name, ready: .counts.ready}'
    """
    choice = Choice(group or "", part, sort, limit)
    with Daemon(url, timeout).client() as client:
        reply = full_status(client, choice.group, part=part, sort=sort, limit=limit)
        if as_json:
            reply.fetchers = list(all_fetchers(client, group=choice.group))
        first = None if as_json else client.fetchers.list(limit=FETCHERS_SHOWN, group=choice.group, sort="name")
        still = Still([], has_more=False) if as_json else _standing_still(client, reply)
        problems = client.verify() if verify else []
        has_room = as_json or client.daemon().has_room
    if problems:
        raise click.ClickException("an invariant is broken: " + "; ".join(problems))
    if first is None:
        print_object({"url": url} | {key: getattr(reply, key) for key in JSON_KEYS})
    else:
        from taskqueue.terminal.screen import Screen

        Screen().print(_drawn(url, reply, first, choice, still, has_room))
    if verify:
        say("All invariants hold.", err=as_json)


@click.command()
@click.option("--history", is_flag=True, help="How it was over the last day, part by part.")
@click.option("--since", metavar="TIME", type=times.since, help="With --history: 1h, 2027-01-31T03:00. [default: 1d]")
@click.option("--until", metavar="TIME", type=times.since, help="With --history: 10m ago, or a time. [default: now]")
@json_option
@daemon_options
def daemon(history: bool, since: float | None, until: float | None, as_json: bool, url: str, timeout: float) -> None:
    """Show how the daemon itself is: its turns, its commits, its memory, its store.

    What is said of turns, commits, syncs, attempts and lateness is since the daemon has read its store; in JSON they
    are histograms: how many were how large.

    With --history, of each part of the last day: turns, commits and syncs, what was handed out, what was ready, and the
    slowest minutes in words. In JSON, each minute. A minute is complete when the daemon has
    something to do in a later one, and kept over restarts; one in which it did nothing has no figures.

    \b
    Example:
      taskqueue daemon
      taskqueue daemon --history
      taskqueue daemon --history --since 2h
      taskqueue daemon --history --json | jq '.history[-1]'
      taskqueue daemon --json | jq .histograms.commit_seconds
    """
    if not history and (since is not None or until is not None):
        raise click.UsageError("--since and --until are for --history")
    with Daemon(url, timeout).client() as client:
        if history:
            points = list(client.daemon_history(since=since, until=until))
            _show_history(url, points, as_json)
            return
        reply = client.daemon()
    if as_json:
        print_object({"url": url} | {key: getattr(reply, key) for key in DAEMON_KEYS})
        return
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.display.daemon import facts
    from taskqueue.terminal.screen import Screen, Text

    table = bare_table(["daemon"], [], [url])
    for head, told in facts(reply):
        table.add_row(Text(head), Text(told))
    Screen().print(table)


def _show_history(url: str, points: Sequence[DaemonPoint], as_json: bool) -> None:
    """Print the minutes: each in JSON, else in parts of the time, with the slowest ones in words."""
    if as_json:
        print_object({"url": url, "history": points})
        return
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.display import daemon_history as told
    from taskqueue.terminal.screen import Screen, Text

    if not points:
        say(told.NO_MINUTES)
        return
    table = bare_table(["from"], [column.head for column in told.COLUMNS])
    for part in told.parts(points):
        table.add_row(times.clock(part.at), *(Text(column.told(part)) for column in told.COLUMNS))
    Screen().print(table)
    say(told.EXPLAINED)
    say("The slowest minutes:")
    for point in told.slowest(points):
        say(f"{times.clock(point.at)}  {told.sentence(point)}")
    for point in told.read_again(points):
        say(f"{times.clock(point.at)}  The daemon started, or read its store again (epoch {point.epoch}).")


class Still(NamedTuple):
    """Why running projects with ready tasks hand out nothing, of the first ones, and whether there may be more."""

    sentences: list[str]
    has_more: bool


def _standing_still(client: Client, status: StatusReply) -> Still:
    """Ask why projects hand out nothing: their hours, their rate, their fetchers."""
    idle = [each.name for each in status.projects if each.state == "running" and _is_idle(each.counts)]
    found = (why_of(client, name) for name in idle[:STILL_ASKED])
    sentences = [reply.sentence for reply in found if reply is not None and reply.cause in STILL_CAUSES]
    return Still(sentences[:STILL_SHOWN], len(sentences) > STILL_SHOWN or len(idle) > STILL_ASKED)


def _is_idle(counts: Counts) -> bool:
    return counts.ready > 0 and not counts.processing


def _drawn(
    url: str, reply: StatusReply, fetchers: FetchersReply, choice: Choice, still: Still, has_room: bool
) -> RenderableType:
    """Draw the daemon in one line, its projects and which of them stand still, and its fetchers."""
    from rich.console import Group

    from taskqueue.cli.output import tables
    from taskqueue.units import duration_text

    build = f"taskqueue {reply.version}, {build_kind(reply.compiled)}"
    head = f"{url}  {build}, up {duration_text(reply.uptime_seconds)}, epoch {reply.epoch}\n"
    projects: RenderableType = NONE_NAMED_SO if choice.part else NO_PROJECTS
    if reply.projects:
        projects = tables.of_projects(reply.projects, choice.sort, reply.numbers)
    parts = [head, projects] if has_room else [head, f"{NO_ROOM}\n", projects]
    if (left := reply.found - len(reply.projects)) > 0:
        parts.append(f"and {left:,} more")
    remaining = tables.of_remaining(reply.projects)
    parts += ["", remaining] if remaining.row_count else []
    paused = any(view.reason or view.paused_until for view in reply.projects)
    parts += ["", tables.of_pauses(reply.projects)] if paused else []
    parts += ["", *map(tables.of_still, still.sentences)] if still.sentences or still.has_more else []
    parts += ["which others stand still, and why: taskqueue why"] if still.has_more else []
    parts.append("")
    nobody = NO_FETCHERS_OF_GROUP if choice.group else NO_FETCHERS
    parts.append(tables.of_fetchers(fetchers.fetchers) if fetchers.fetchers else nobody)
    parts += tables.of_hung(fetchers.fetchers)
    if (left := fetchers.found - len(fetchers.fetchers)) > 0:
        parts.append(f"and {left:,} more: taskqueue fetchers")
    return Group(*parts)
