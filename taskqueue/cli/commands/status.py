"""``taskqueue status`` and ``top``: show projects and fetchers once, as they change, or live on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import click
from msgspec.structs import replace

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
from taskqueue.cli.input.names import group_option, projects_argument
from taskqueue.cli.output.json_output import json_option, print_lines, print_object
from taskqueue.display.insight import pulse_fields, pulse_line
from taskqueue.errors import RequestTimeout
from taskqueue.protocol.choices import ProjectSort
from taskqueue.terminal.lines import say
from taskqueue.this_process import build_kind

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskqueue import Client
    from taskqueue.cli.input.top_keys import Keys, View
    from taskqueue.cli.output.top_screen import Snapshot, SpeedMeter
    from taskqueue.protocol.daemon import StatusReply
    from taskqueue.protocol.fetchers import FetcherPage
    from taskqueue.protocol.values import TaskCounts


JSON_KEYS: Final = ("version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell")
"""Keys of ``status --json``, besides ``daemon``; later versions add keys and rename none."""

SORTS: Final = get_args(ProjectSort)

NO_PROJECTS: Final = "No projects yet. Make one: taskqueue project start NAME"
NONE_NAMED_SO: Final = "No project is named so."
NO_FETCHERS_OF_THESE: Final = "No fetcher asks for tasks of these."
NO_FETCHERS: Final = "No fetchers. Start one: taskqueue work MODULE:FUNCTION PROJECT"

NO_ROOM: Final = "The store's disk is nearly full: no tasks are accepted or dispatched. See `taskqueue daemon show`."

FETCHERS_SHOWN: Final = 20
"""Fetchers shown, the first by name; `taskqueue fetcher list` shows all."""

STILL_ASKED: Final = 20
"""Projects for which the daemon is asked why they dispatch nothing, at most."""

STILL_SHOWN: Final = 5

STILL_CAUSES: Final = ("hours", "rate", "fetchers")


class Choice(NamedTuple):
    """Choice of projects by arguments and options; ``names`` is empty for all."""

    names: tuple[str, ...]
    group: str
    part: str
    sort: ProjectSort
    limit: int | None


part_option: Final = click.option(
    "--filter", "part", metavar="TEXT", default="", help="Part of the names of the projects."
)
FOLLOWED_APART: Final = (
    "--follow shows a line for each project that changes, without --group, --filter, --sort or --limit"
)


@click.command()
@projects_argument
@json_option
@group_option
@part_option
@click.option(
    "--sort",
    metavar="WHAT",
    type=click.Choice(SORTS),
    default="name",
    show_default=True,
    help="Number that comes first where it is largest.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Number of projects, at most.")
@click.option("--follow", is_flag=True, help="A line for each project, and for each change.")
@daemon_options
def status(
    projects: tuple[str, ...],
    as_json: bool,
    group: str | None,
    part: str,
    sort: ProjectSort,
    limit: int | None,
    follow: bool,
    daemon: Daemon,
) -> None:
    """Show projects, counts and fetchers.

    With projects or a group, only fetchers that may take their tasks are shown. --sort takes a state (ready, delayed,
    processing, success, failed, cancelled), or an event of the last five minutes (new_5m, selected_5m, success_5m,
    failed_5m, retried_5m, timeout_5m).

    --follow prints a line for each project, and then for each change, until Ctrl-C; at most four lines a second per
    project. Deleted projects are reported; in JSON, an object per line, they have a name and `gone`. All projects are
    printed again after a restart of the daemon.

    \b
    Example:
      taskqueue status
      taskqueue status --sort selected_5m --limit 10
      taskqueue status --group papers --filter blog
      taskqueue status --json | jq '.projects[] | {name, ready: .counts.ready}'
      taskqueue status --follow news
      taskqueue status --follow --json | jq -r 'select(.state == "paused")'
    """
    choice = Choice(projects, group or "", part, sort, limit)
    if follow:
        if choice != Choice(projects, "", "", "name", None):
            raise click.UsageError(FOLLOWED_APART)
        _follow(daemon, projects, as_json)
        return
    with daemon.client() as client:
        reply = full_status(client, choice.group, names=projects, part=part, sort=sort, limit=limit)
        if as_json:
            reply = replace(reply, fetchers=list(all_fetchers(client, projects, choice.group)))
            print_object({"daemon": daemon.address} | {key: getattr(reply, key) for key in JSON_KEYS})
            return
        first = client.fetchers.list(limit=FETCHERS_SHOWN, group=choice.group, sort="name", projects=projects)
        still = _standing_still(client, reply)
    from taskqueue.terminal.screen import Screen

    Screen().print(_drawn(daemon.address, reply, first, choice, still))


def _follow(daemon: Daemon, names: Sequence[str], as_json: bool) -> None:
    """Print a line for each project, and then for each change, for ever.

    Raises:
        RequestRejected: a named project is unknown.
    """
    with daemon.client() as client:
        for name in names:
            client.projects.get(name)
        for reply in client.projects.watch():
            pulses = [pulse for pulse in reply.projects if not names or pulse.name in names]
            gone = [name for name in reply.gone if not names or name in names]
            if as_json:
                print_lines([*map(pulse_fields, pulses), *({"name": name, "gone": True} for name in gone)])
                continue
            for pulse in pulses:
                say(pulse_line(pulse))
            for name in gone:
                say(f"{name}  deleted")


class Still(NamedTuple):
    """Reasons why the first running projects with ready tasks dispatch nothing, and whether there may be more."""

    sentences: list[str]
    has_more: bool


def _standing_still(client: Client, status: StatusReply) -> Still:
    """Ask why projects dispatch nothing: their hours, their rate, their fetchers."""
    idle = [each.name for each in status.projects if each.state == "running" and _is_idle(each.counts)]
    found = (why_of(client, name) for name in idle[:STILL_ASKED])
    sentences = [reply.sentence for reply in found if reply is not None and reply.cause in STILL_CAUSES]
    return Still(sentences[:STILL_SHOWN], len(sentences) > STILL_SHOWN or len(idle) > STILL_ASKED)


def _is_idle(counts: TaskCounts) -> bool:
    return counts.ready > 0 and not counts.processing


def _drawn(address: str, reply: StatusReply, fetchers: FetcherPage, choice: Choice, still: Still) -> RenderableType:
    """Draw the daemon in one line, its projects, those that dispatch nothing, and its fetchers."""
    from rich.console import Group

    from taskqueue.cli.output import fetcher_tables, project_tables
    from taskqueue.texts.units import duration_text

    build = f"taskqueue {reply.version}, {build_kind(reply.compiled)}"
    head = f"{address}  {build}, up {duration_text(reply.uptime_seconds)}, epoch {reply.epoch}\n"
    projects: RenderableType = NONE_NAMED_SO if choice.part else NO_PROJECTS
    if reply.projects:
        projects = project_tables.of_projects(reply.projects, choice.sort, reply.numbers)
    parts = [head, projects] if reply.has_room else [head, f"{NO_ROOM}\n", projects]
    if (left := reply.found - len(reply.projects)) > 0:
        parts.append(f"and {left:,} more")
    remaining = project_tables.of_remaining(reply.projects)
    parts += ["", remaining] if remaining.row_count else []
    paused = any(view.reason or view.paused_until for view in reply.projects)
    parts += ["", project_tables.of_pauses(reply.projects)] if paused else []
    parts += ["", *map(project_tables.of_still, still.sentences)] if still.sentences or still.has_more else []
    parts += ["which others stand still, and why: taskqueue why"] if still.has_more else []
    parts.append("")
    without_fetchers = NO_FETCHERS_OF_THESE if choice.group or choice.names else NO_FETCHERS
    parts.append(fetcher_tables.of_fetchers(fetchers.fetchers) if fetchers.fetchers else without_fetchers)
    parts += fetcher_tables.of_hung(fetchers.fetchers)
    if (left := fetchers.found - len(fetchers.fetchers)) > 0:
        parts.append(f"and {left:,} more: taskqueue fetcher list")
    return Group(*parts)


INTERVAL_LEAST: Final = 0.1
BUSIEST: Final = "selected_5m"


@click.command()
@projects_argument
@group_option
@part_option
@click.option(
    "--sort",
    metavar="WHAT",
    type=click.Choice(SORTS),
    default=BUSIEST,
    show_default=True,
    help="Number that comes first where it is largest.",
)
@click.option("--limit", type=click.IntRange(min=1), default=PROJECTS_PAGE, help="Number of rows, at most.")
@click.option(
    "--interval",
    type=times.some_seconds,
    metavar="DURATION",
    default="1s",
    show_default=True,
    help="Time between two looks, at least 0.1s.",
)
@daemon_options
def top(
    projects: tuple[str, ...],
    interval: float,
    group: str | None,
    part: str,
    sort: ProjectSort,
    limit: int,
    daemon: Daemon,
) -> None:
    """Show projects and fetchers live.

    Shows tasks per second, the busiest projects of the last five minutes first; --sort as in `taskqueue status`.

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
    chosen = Choice(projects, group or "", part, sort, limit)
    with daemon.client() as client:
        seen = _look(client, view, watch, chosen, rows())
        if group and not part:
            check_group(group, seen.status.projects)
        live = Live(console=console, auto_refresh=False, screen=True)
        with suppress(KeyboardInterrupt, EOFError), Keys(sys.stdin.fileno()) as keys, live:
            while not view.ended:
                live.update(render_screen(daemon.address, seen, view, console.width, console.height), refresh=True)
                _obey(view, keys, max(interval, INTERVAL_LEAST))
                try:
                    seen = _look(client, view, watch, chosen, rows())
                except RequestTimeout:
                    seen = seen._replace(silent=f"no answer within {daemon.timeout:g} s; what is shown is older")


def _obey(view: View, keys: Keys, seconds: float) -> None:
    """Apply a pressed key to the view; return after a key, or after these seconds without one."""
    key = keys.next(seconds)
    while key:
        view.press(key)
        key = keys.next(0)


def _look(client: Client, view: View, watch: SpeedMeter, chosen: Choice, rows: int) -> Snapshot:
    """Fetch what the view shows, in two requests for any number of projects and fetchers."""
    from taskqueue.cli.output.top_screen import ALL, Snapshot
    from taskqueue.protocol.daemon import StatusShow

    projects, fetchers = view.projects, view.fetchers
    projects.seen = fetchers.seen = rows
    asked = StatusShow(
        limit=rows, group=chosen.group, filter=projects.part, sort=projects.sort, skip=projects.skip, fetchers=0,
        projects=[*chosen.names],
    )  # fmt: skip
    status = client._ask(asked)
    those = client.fetchers.list(
        limit=rows, group=chosen.group, filter=fetchers.part, sort=fetchers.sort, skip=fetchers.skip,
        projects=chosen.names,
    )  # fmt: skip
    projects.found, fetchers.found = status.found, those.found
    speeds = watch.look(time.monotonic(), {ALL: status.totals} | {row.name: row.totals for row in status.projects})
    return Snapshot(status, those, speeds)
