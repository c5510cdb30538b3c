"""``taskqueue cron``: list, set and remove the entries that push a task, or submit a flow, again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name, projects_argument
from taskqueue.cli.input.settings import json_of
from taskqueue.cli.input.stdin import STDIN
from taskqueue.cli.input.times import local
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.projects import CronEntry, Project


FOR_GRAPHS: Final = ("overlap", "after_failure", "keep_flows")
"""Parameters that only an entry with a graph takes."""


@click.group()
def cron() -> None:
    """List, set and remove cron entries.

    An entry is a task, or a graph of tasks, that the daemon makes again and again. The config may have entries, too:
    [projects.NAME.cron.ENTRY].

    \b
    Example:
      taskqueue cron set news daily --cron '0 3 * * *' --zone Europe/Berlin
      taskqueue cron set shop night --cron '0 3 * * *' --flow nightly.toml
    """


@cron.command("list")
@projects_argument
@json_lines_option
@daemon_options
def list_entries(projects: tuple[str, ...], as_json: bool, daemon: Daemon) -> None:
    """List cron entries and their next ticks.

    Times are local to this machine. A tick is skipped while the task of the last one is unfinished; of a graph, see
    --overlap of `taskqueue cron set`. Below the table stand the graphs of which ticks wait, or of which the last tick
    was skipped, and why.

    \b
    Example:
      taskqueue cron list news
    """
    with daemon.client() as client:
        views = [*map(client.projects.get, projects)] if projects else list(client.projects.iter())
    if as_json:
        print_lines(_entries(views))
        return
    from taskqueue.cli.output import project_tables, tables

    tables.show(project_tables.of_cron(views))
    for line in project_tables.cron_lines(views):
        say(line)


def _entries(views: Iterable[Project]) -> Iterator[dict[str, object]]:
    """Yield each entry with its project and its setting."""
    for view in views:
        entries = view.settings.get("cron")
        for entry in view.cron:
            setting = entries.get(entry.entry) if isinstance(entries, dict) else None
            yield {"project": view.name, **as_plain(entry), "setting": setting}


@cron.command("set")
@click.argument("project", type=project_name)
@click.argument("entry")
@click.option("--cron", metavar="CRON", default="", help="Cron expression of the ticks.")
@click.option("--every", metavar="DURATION", default="", help="Time from one tick to the next.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone of --cron, such as Europe/Berlin.")
@click.option(
    "--missed",
    type=click.Choice(["skip", "once"]),
    default="skip",
    show_default=True,
    help="Ticks missed while the daemon was down.",
)
@click.option("--url", default="", help="URL of the task; {tick} is the tick's unix seconds.")
@click.option("--taskid", default="", help="Taskid of the task, also with {tick}.")
@click.option("--priority", type=int, default=0, help="Priority of the task; larger runs first.")
@click.option("--body", metavar="JSON", help="Body of the task, also with {tick}.")
@click.option("--flow", "file", type=click.Path(), metavar="FILE|-", help="Graph of tasks, as of `flow submit`.")
@click.option(
    "--overlap",
    type=click.Choice(["skip", "wait", "both"]),
    show_default="skip",
    help="Ticks while an earlier flow is unfinished.",
)
@click.option(
    "--after-failure",
    type=click.Choice(["run", "skip"]),
    show_default="run",
    help="Ticks after a flow that failed.",
)
@click.option(
    "--keep-flows",
    type=click.IntRange(1, 100),
    show_default="10",
    help="Ended flows that are remembered.",
)
@daemon_options
def set_entry(
    project: str, entry: str, url: str, body: str | None, file: str | None, daemon: Daemon, **said: Any
) -> None:
    """Create or replace a cron entry.

    Applies at once and until `remove`, and wins over an entry of this name in the config. A taskid with {tick} makes a
    new task each time; otherwise one task runs again and again.

    With --flow each tick submits the tasks of the file as a flow, called ENTRY-TICK after the tick's unix seconds. A
    task's taskid is ENTRY-TICK.NAME, or its own, which needs {tick}. `after` names tasks of the file only. While an
    earlier flow of the entry is unfinished, a tick is skipped, waits, or runs beside it (--overlap).

    \b
    Example:
      taskqueue cron set news daily --cron '0 3 * * *' --zone Europe/Berlin
      taskqueue cron set news front --every 5m --url https://example.com/
      taskqueue cron set news index --every 1h --body '{"save": {"page": 1}}'
      taskqueue cron set shop night --every 1d --flow nightly.toml --overlap wait
    """
    if bool(said["cron"]) == bool(said["every"]):
        raise click.UsageError("say when with --cron, or how often with --every")
    if file is None and (given := [name for name in FOR_GRAPHS if said[name] is not None]):
        raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --flow")
    if file is not None and (url or said["taskid"] or said["priority"] or body is not None):
        raise click.UsageError("--flow goes without --url, --taskid, --priority and --body: each task has its own")
    sent = json_of("--body", body) if body is not None else None
    tasks = _graph(file) if file is not None else None
    with daemon.client() as client:
        client.projects.get(project)  # The daemon would make one that is unknown, after a slip of the pen.
        made = client.cron.set(project, entry, url=url, body=sent, tasks=tasks, **said)
    say(f"{project}: {entry} {_next(made)}")


def _graph(file: str) -> dict[str, dict[str, Any]]:
    """Read the tasks of a flow file, as an entry has them."""
    from taskqueue.cli.input.flow_file import parse, text_of

    name = "stdin" if file == STDIN else file
    return parse(name, text_of(file)).for_cron()


@cron.command()
@click.argument("project", type=project_name)
@click.argument("entry")
@daemon_options
def remove(project: str, entry: str, daemon: Daemon) -> None:
    """Remove a cron entry made by set.

    An entry of this name in the config applies again.

    \b
    Example:
      taskqueue cron remove news daily
    """
    with daemon.client() as client:
        client.cron.remove(project, entry)
        left = next((each for each in client.cron.list(project) if each.entry == entry), None)
    say(f"{project}: {entry} {_next(left)}")


def _next(entry: CronEntry | None) -> str:
    """Describe the next tick: ``runs next at …``, or ``removed`` without an entry."""
    if entry is None:
        return "removed"
    return f"runs next at {local(entry.next_at)}" if entry.next_at else "never runs"
