"""``taskqueue top`` and ``taskqueue watch``: the daemon live, on a terminal and in lines."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.commands.status import SORTS
from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import PROJECTS_PAGE, Daemon, check_group, daemon_options
from taskqueue.cli.input.names import group_option
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.pulses import pulse_fields, pulse_line
from taskqueue.errors import RequestTimeout
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.cli.top.keys import Keys
    from taskqueue.cli.top.screen import Snapshot
    from taskqueue.cli.top.speeds import SpeedMeter
    from taskqueue.cli.top.view import View
    from taskqueue.protocol.choices import ProjectSort

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
    from taskqueue.cli.top.keys import Keys
    from taskqueue.cli.top.screen import render_screen, rows_that_fit
    from taskqueue.cli.top.speeds import SpeedMeter
    from taskqueue.cli.top.view import View
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
    from taskqueue.cli.top.screen import ALL, Snapshot

    projects, fetchers = view.projects, view.fetchers
    projects.seen = fetchers.seen = rows
    status = client.status(
        limit=rows, group=group, filter=projects.part, sort=projects.sort, skip=projects.skip, fetchers=0
    )
    those = client.fetchers.list(limit=rows, group=group, filter=fetchers.part, sort=fetchers.sort, skip=fetchers.skip)
    projects.found, fetchers.found = status.found, those.found
    speeds = watch.look(time.monotonic(), {ALL: status.totals} | {row.name: row.totals for row in status.projects})
    return Snapshot(status, those, speeds)
