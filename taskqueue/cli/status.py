"""``taskqueue status`` and ``taskqueue top``: the daemon as it is, once or live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.daemon import Daemon, full_status, reaches_daemon
from taskqueue.cli.names import takes_group
from taskqueue.cli.plain import print_object, takes_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from taskqueue.cli.tables import Speeds
    from taskqueue.core.replies import StatusReply
    from taskqueue.core.views import ProjectView, Totals

JSON_KEYS: Final = ("version", "epoch", "uptime_seconds", "counts", "totals", "projects", "fetchers", "shell")
"""What ``status --json`` prints besides the url; keys are added over time, never renamed."""

NO_PROJECTS: Final = "No projects yet. Make one: taskqueue project start NAME"
NO_FETCHERS_OF_GROUP: Final = "No fetcher asks for tasks of these."
NO_FETCHERS: Final = "No fetchers. Start one: taskqueue work MODULE:FUNCTION -p PROJECT"


@click.command()
@takes_json
@takes_group
@click.option("--verify", is_flag=True, help="Have the scheduler check its own invariants, too.")
@reaches_daemon
def status(as_json: bool, group: str | None, verify: bool, url: str, timeout: float) -> None:
    """Show the daemon's projects and fetchers; of a group, its projects and those who may take their tasks.

    \b
    Example:
      taskqueue status
      taskqueue status --group papers
      taskqueue status --json | jq '.projects[] | {name, ready: .counts.ready}'
    """
    with Daemon(url, timeout).client() as client:
        reply = full_status(client, group or "")
        problems = client.verify() if verify else []
    if problems:
        raise click.ClickException("an invariant is broken: " + "; ".join(problems))
    if as_json:
        print_object({"url": url} | {key: getattr(reply, key) for key in JSON_KEYS})
    else:
        from taskqueue.cli import tables

        tables.console().print(_drawn(url, reply, group))
    if verify:
        click.echo("All invariants hold.", err=as_json)


@click.command()
@takes_group
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two looks.",
)
@reaches_daemon
def top(interval: float, group: str | None, url: str, timeout: float) -> None:
    """Show projects and fetchers live, with tasks per second. Ctrl-C ends it.

    \b
    Example:
      taskqueue top --interval 2
    """
    from rich.live import Live

    from taskqueue.cli import tables

    console = tables.console()
    if not console.is_terminal:
        raise click.ClickException("top needs a terminal; use `taskqueue status`")
    watch = _Watch()
    with Daemon(url, timeout).client() as client:
        seen = _screen(url, full_status(client, group or ""), watch, group)
        with suppress(KeyboardInterrupt), Live(seen, console=console, auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(interval)
                live.update(_screen(url, full_status(client, group or ""), watch, group), refresh=True)


class _Watch:
    """Turns totals that are looked at now and then into speeds."""

    def __init__(self) -> None:
        self._at = 0.0
        self._totals: dict[str, Totals] = {}

    def look(self, at: float, views: Sequence[ProjectView]) -> dict[str, Speeds]:
        """Speeds since the last look, by project; at the first one there are none."""
        elapsed, before = at - self._at, self._totals
        self._at, self._totals = at, {view.name: view.totals for view in views}
        return {view.name: _speeds(before[view.name], view.totals, elapsed) for view in views if view.name in before}


def _speeds(before: Totals, now: Totals, elapsed: float) -> Speeds:
    from taskqueue.cli.tables import Speeds

    names = Speeds.__struct_fields__
    # Totals shrink when a project is deleted and made again; that is no speed.
    return Speeds(*(max(0, getattr(now, name) - getattr(before, name)) / elapsed for name in names))


def _screen(url: str, reply: StatusReply, watch: _Watch, group: str | None) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    speeds = watch.look(time.monotonic(), reply.projects)
    return Group(_drawn(url, reply, group, speeds), Text("\nCtrl-C ends", style="dim"))


def _drawn(url: str, reply: StatusReply, group: str | None, speeds: dict[str, Speeds] | None = None) -> RenderableType:
    """What there is to see: the daemon in one line, its projects, its fetchers."""
    from rich.console import Group

    from taskqueue.cli import tables
    from taskqueue.cli.times import duration

    head = f"{url}  taskqueue {reply.version}, up {duration(reply.uptime_seconds)}, epoch {reply.epoch}\n"
    projects: RenderableType = NO_PROJECTS
    if reply.projects:
        moving = tables.of_moving_projects(reply.projects, speeds) if speeds is not None else None
        projects = moving or tables.of_projects(reply.projects)
    nobody = NO_FETCHERS_OF_GROUP if group else NO_FETCHERS
    fetchers = tables.of_fetchers(reply.fetchers) if reply.fetchers else nobody
    paused = any(view.reason for view in reply.projects)
    pauses: list[RenderableType] = [tables.of_pauses(reply.projects), ""] if paused else []
    return Group(head, projects, "", *pauses, fetchers)
