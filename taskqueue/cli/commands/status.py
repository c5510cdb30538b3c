"""``taskqueue status``, ``top`` and ``watch``: projects and fetchers once, live on a terminal, and in lines."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import click

from taskqueue.build_kind import build_kind
from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import (
    PROJECTS_PAGE,
    Daemon,
    all_fetchers,
    check_group,
    daemon_options,
    full_status,
    why_of,
)
from taskqueue.cli.input.names import group_option
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.insight import pulse_fields, pulse_line
from taskqueue.errors import RequestTimeout
from taskqueue.protocol.choices import ProjectSort
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskqueue import Client
    from taskqueue.cli.input.top_keys import Keys, View
    from taskqueue.cli.output.top_screen import Snapshot, SpeedMeter
    from taskqueue.protocol.daemon import StatusReply
    from taskqueue.protocol.fetchers import FetchersReply
    from taskqueue.protocol.values import Counts


JSON_KEYS: Final = ("version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell")
"""Keys that ``status --json`` prints, besides ``url``; later versions add some, and rename none."""

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

    from taskqueue.cli.output import fetcher_tables, project_tables
    from taskqueue.units import duration_text

    build = f"taskqueue {reply.version}, {build_kind(reply.compiled)}"
    head = f"{url}  {build}, up {duration_text(reply.uptime_seconds)}, epoch {reply.epoch}\n"
    projects: RenderableType = NONE_NAMED_SO if choice.part else NO_PROJECTS
    if reply.projects:
        projects = project_tables.of_projects(reply.projects, choice.sort, reply.numbers)
    parts = [head, projects] if has_room else [head, f"{NO_ROOM}\n", projects]
    if (left := reply.found - len(reply.projects)) > 0:
        parts.append(f"and {left:,} more")
    remaining = project_tables.of_remaining(reply.projects)
    parts += ["", remaining] if remaining.row_count else []
    paused = any(view.reason or view.paused_until for view in reply.projects)
    parts += ["", project_tables.of_pauses(reply.projects)] if paused else []
    parts += ["", *map(project_tables.of_still, still.sentences)] if still.sentences or still.has_more else []
    parts += ["which others stand still, and why: taskqueue why"] if still.has_more else []
    parts.append("")
    nobody = NO_FETCHERS_OF_GROUP if choice.group else NO_FETCHERS
    parts.append(fetcher_tables.of_fetchers(fetchers.fetchers) if fetchers.fetchers else nobody)
    parts += fetcher_tables.of_hung(fetchers.fetchers)
    if (left := fetchers.found - len(fetchers.fetchers)) > 0:
        parts.append(f"and {left:,} more: taskqueue fetchers")
    return Group(*parts)


INTERVAL_LEAST: Final = 0.1
BUSIEST: Final = "selected_5m"


@click.command()
@group_option
@click.option("--filter", "part", metavar="TEXT", default="", help="Only projects whose names contain it.")
@click.option(
    "--sort",
    metavar="WHAT",
    type=click.Choice(SORTS),
    default=BUSIEST,
    show_default=True,
    help="Projects with the most of it first, as in `taskqueue status`.",
)
@click.option("--limit", type=click.IntRange(min=1), default=PROJECTS_PAGE, help="So many rows, at most.")
@click.option(
    "--interval",
    type=times.some_seconds,
    metavar="AGE",
    default="1s",
    show_default=True,
    help="How long between two looks; at least 0.1s.",
)
@daemon_options
def top(interval: float, group: str | None, part: str, sort: ProjectSort, limit: int, url: str, timeout: float) -> None:
    """Show projects and fetchers live, with tasks per second: the busiest projects of the last five minutes first.

    \b
    Keys:
      q             end, as Ctrl-C does
      s, S          sort by something else, and back
      /             filter by a part of the names; Enter takes it, Escape drops it
      f             fetchers in place of projects, and back
      j, k, arrows  a row down or up; space, b or the page keys a screen; g, G to an end

    \b
    Example:
      taskqueue top
      taskqueue top --group papers --sort ready --interval 2
    """
    from rich.live import Live

    from taskqueue.cli.input.stdin import stdin_is_terminal
    from taskqueue.cli.input.top_keys import Keys, View
    from taskqueue.cli.output.top_screen import SpeedMeter, render_screen, rows_that_fit
    from taskqueue.terminal.screen import Screen

    console = Screen()
    if not (console.is_terminal and stdin_is_terminal()):
        raise click.ClickException("top needs a terminal; use `taskqueue status`")

    def rows() -> int:
        return min(limit, PROJECTS_PAGE, rows_that_fit(console.height))

    view, watch = View(sort, part), SpeedMeter()
    with Daemon(url, timeout).client() as client:
        seen = _look(client, view, watch, group or "", rows())
        if group and not part:
            check_group(group, seen.status.projects)
        live = Live(console=console, auto_refresh=False, screen=True)
        with suppress(KeyboardInterrupt, EOFError), Keys(sys.stdin.fileno()) as keys, live:
            while not view.ended:
                live.update(render_screen(url, seen, view, console.width, console.height), refresh=True)
                _obey(view, keys, max(interval, INTERVAL_LEAST))
                try:
                    seen = _look(client, view, watch, group or "", rows())
                except RequestTimeout:
                    seen = seen._replace(silent=f"no answer within {timeout:g} s; what is shown is older")


@click.command()
@json_lines_option
@daemon_options
def watch(as_json: bool, url: str, timeout: float) -> None:
    """Print a line of each project, and then of each that changes, when it does; Ctrl-C ends it.

    A project that changes all the time has a line four times a second at most. One that was deleted is told so; in JSON
    it has a name and `gone`. When the daemon was restarted all are told again.

    \b
    Example:
      taskqueue watch
      taskqueue watch --json | jq -r 'select(.state == "paused") | .name'
    """
    with Daemon(url, timeout).client() as client:
        for reply in client.projects.changes():
            if as_json:
                print_lines(
                    [*map(pulse_fields, reply.projects), *({"name": name, "gone": True} for name in reply.gone)]
                )
                continue
            for pulse in reply.projects:
                say(pulse_line(pulse))
            for name in reply.gone:
                say(f"{name}  deleted")


def _obey(view: View, keys: Keys, seconds: float) -> None:
    """Do what keys say, as soon as one is pressed; return then, or after so many seconds without any."""
    key = keys.next(seconds)
    while key:
        view.press(key)
        key = keys.next(0)


def _look(client: Client, view: View, watch: SpeedMeter, group: str, rows: int) -> Snapshot:
    """Ask for what the view shows: two requests, however many projects and fetchers there are."""
    from taskqueue.cli.output.top_screen import ALL, Snapshot

    projects, fetchers = view.projects, view.fetchers
    projects.seen = fetchers.seen = rows
    status = client.status(
        limit=rows, group=group, filter=projects.part, sort=projects.sort, skip=projects.skip, fetchers=0
    )
    those = client.fetchers.list(limit=rows, group=group, filter=fetchers.part, sort=fetchers.sort, skip=fetchers.skip)
    projects.found, fetchers.found = status.found, those.found
    speeds = watch.look(time.monotonic(), {ALL: status.totals} | {row.name: row.totals for row in status.projects})
    return Snapshot(status, those, speeds)
