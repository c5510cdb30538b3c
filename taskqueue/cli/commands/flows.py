"""``taskqueue flow``: submit graphs of tasks that wait for each other; show, wait for and cancel them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input.daemon import (
    END_STATUSES,
    NOT_OVER_STATUS,
    Daemon,
    daemon_options,
    waiting_options,
)
from taskqueue.cli.input.names import NameType, project_name, projects_argument
from taskqueue.cli.input.stdin import STDIN
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.display.counts import tasks
from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.cli.input.flow_file import FlowFile
    from taskqueue.client.tasks.new_flow import FlowPlan
    from taskqueue.protocol.flows import Flow, FlowTaskStatus


flow_name: Final = NameType("flow")


REFRESHES_A_SECOND: Final = 4.0


@click.group()
def flow() -> None:
    """Submit, show, wait for and cancel flows.

    A flow is a graph of tasks of a project that wait for each other.

    \b
    Example:
      taskqueue flow submit shop nightly.toml
      taskqueue flow show shop nightly
      taskqueue flow wait shop nightly && ./report
    """


@flow.command()
@click.argument("project", type=project_name)
@click.argument("file", type=click.Path(), metavar="FILE|-")
@click.option("--name", type=flow_name, metavar="FLOW", help="Name of the flow, whatever the file says.")
@click.option("--reuse", is_flag=True, help="Known tasks become part of the flow as they are.")
@click.option("--dry-run", is_flag=True, help="A picture of the graph only; nothing is sent.")
@click.option("--any-scheme", is_flag=True, help="URLs of every scheme, not only http, https and data.")
@json_option
@daemon_options
def submit(
    project: str,
    file: str,
    name: str | None,
    reuse: bool,
    dry_run: bool,
    any_scheme: bool,
    as_json: bool,
    daemon: Daemon,
) -> None:
    """Submit a graph of tasks from a file.

    The file is TOML or JSON; - is stdin. The flow is accepted whole or not at all. A task is a table [tasks.NAME] with
    its URL, `after` (a list of names of tasks that it waits for), and any other key of a line of `taskqueue push
    --file`. Its taskid is its name, unless it has one of its own. Above the tasks may stand `flow`, the name of the
    flow (random by default), and [defaults] for all tasks.

    \b
    Example:
      taskqueue flow submit shop nightly.toml --dry-run
      ./plan --json | taskqueue flow submit shop - --name nightly
    """
    from taskqueue.cli.input.flow_file import parse, text_of
    from taskqueue.client.tasks.new_flow import FlowPlan

    said = parse("stdin" if file == STDIN else file, text_of(file), any_scheme=any_scheme)
    if dry_run:
        _show_planned(said, FlowPlan(project, name or said.flow or "flow"), as_json)
        return
    with daemon.client() as client:
        made = client.flow(project, name or said.flow)
        said.describe(made.task)
        with _bar(made.size) as progress:
            view = made.submit(reuse=reuse, progress=progress)
    if as_json:
        print_object(view)
    else:
        say(f"{view.project}/{view.flow}: {tasks(view.tasks)} accepted")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], object] | None]:
    """Show the number of staged tasks as a bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from taskqueue.terminal.screen import Screen

    columns = (BarColumn(), TextColumn("{task.completed:,} of {task.total:,} tasks staged"), TimeElapsedColumn())
    with Progress(*columns, console=Screen(err=True), transient=True) as bar:
        row = bar.add_task("", total=total)
        yield lambda staged: bar.update(row, completed=staged)


@flow.command("list")
@projects_argument
@click.option("--cron", metavar="NAME", help="Flows of this cron entry, each in a row.")
@json_lines_option
@daemon_options
def list_flows(projects: tuple[str, ...], cron: str | None, as_json: bool, daemon: Daemon) -> None:
    """List flows, newest first.

    The flows of a cron entry share a row: the newest one, and how many more there are.

    \b
    Example:
      taskqueue flow list
      taskqueue flow list shop --cron night
      taskqueue flow list shop --json | jq -r 'select(.state == "failed") | .flow'
    """
    with daemon.client() as client:
        found = chain.from_iterable(map(client.flows.iter, set(projects) or [""]))
        views = sorted((view for view in found if cron in (None, view.cron)), key=lambda view: -view.began_at)
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import flow_tables, tables

    tables.show(flow_tables.of_groups(views) if cron is None else flow_tables.of_flows(views))


@flow.command()
@click.argument("project", type=project_name)
@click.argument("name", metavar="FLOW", type=flow_name)
@click.option("--tasks", "each", is_flag=True, help="A row for each task, however many there are.")
@json_option
@daemon_options
def show(project: str, name: str, each: bool, as_json: bool, daemon: Daemon) -> None:
    """Show layers, progress, critical path.

    Tasks of a layer never wait for each other. A flow of more than 50 tasks is shown by layers, one or several to a
    row. The critical path is the chain of dependent tasks that took longest in all: no number of fetchers would have
    made the flow faster.

    \b
    Example:
      taskqueue flow show shop nightly
      taskqueue flow show shop nightly --tasks | grep failed
    """
    from taskqueue.cli.output.flow_tables import TASKS_SHOWN, picture

    with daemon.client() as client:
        view = client.flows.get(project, name)
        if as_json:
            print_object(_for_programs(view, client.flows.iter_tasks(project, name)))
            return
        shown = picture(view, client.flows.iter_tasks(project, name), sys.maxsize if each else TASKS_SHOWN)
    from taskqueue.cli.output.flow_tables import draw

    draw(shown, time.time())


def _for_programs(view: Flow, members: Iterable[FlowTaskStatus]) -> dict[str, object]:
    """Flow with its tasks, layers and critical path; layers and path name tasks by their indices."""
    from taskqueue.display.flows import FlowGraph

    graph, known = FlowGraph(), list(members)
    for task in known:
        graph.add((parent for parent in task.depends_on if isinstance(parent, int)), task.state, task.seconds)
    inside: list[list[int]] = [[] for _ in graph.layers]
    for index, layer in enumerate(graph.layer_of):
        inside[layer].append(index)
    layers = [{"states": states, "members": each} for states, each in zip(graph.layers, inside, strict=True)]
    path = {"seconds": graph.critical_seconds, "members": graph.critical_path()}
    return {**as_plain(view), "members": known, "layers": layers, "critical_path": path}


def _show_planned(said: FlowFile, plan: FlowPlan, as_json: bool) -> None:
    """Show the graph of a file as it would be submitted."""
    from taskqueue.cli.output.flow_tables import draw, picture
    from taskqueue.protocol.flows import Flow
    from taskqueue.protocol.values import TaskCounts

    said.describe(plan.add)
    view = Flow(plan.project, plan.name, "staged", len(plan.tasks), TaskCounts())
    if as_json:
        print_object(_for_programs(view, plan.views()))
    else:
        draw(picture(view, plan.views()), time.time())


@flow.command()
@click.argument("project", type=project_name)
@click.argument("name", metavar="FLOW", type=flow_name)
@json_option
@waiting_options
def wait(project: str, name: str, patience: float, as_json: bool, daemon: Daemon) -> int:
    """Wait until a flow has ended.

    The exit status is 0 if all tasks succeeded, 3 if one failed, 4 if one was cancelled and none failed, 1 after
    --timeout. The wait continues while the daemon restarts.

    \b
    Example:
      taskqueue flow wait shop nightly --timeout 2h || ./alarm
    """
    with daemon.client() as client:
        if sys.stderr.isatty():
            view = _watch(client, project, name, patience)
        else:
            view = client.flows.wait(project, name, timeout=patience)
    if as_json:
        print_object(view)
    elif not view.ended_at:
        say(f"taskqueue flow wait: {project}/{name} has not ended, {_progress_text(view)}", err=True)
    elif view.state != "success":
        say(f"taskqueue flow wait: {project}/{name}: {view.state}, {_progress_text(view)}", err=True)
    return END_STATUSES[view.state] if view.ended_at else NOT_OVER_STATUS


def _watch(client: Client, project: str, name: str, patience: float) -> Flow:
    """Wait with a progress line on the terminal."""
    from taskqueue.terminal.screen import Screen, Text

    screen, found = Screen(err=True), f"{project}/{name}"
    with screen.status(Text(found), refresh_per_second=REFRESHES_A_SECOND) as line:
        view = client.flows.wait(
            project, name, lambda view: line.update(Text(f"{found}: {_progress_text(view)}")), patience
        )
    if view.state == "success":
        screen.print(Text(f"{found}: {view.state}, {_progress_text(view)}"))
    return view


def _progress_text(view: Flow) -> str:
    """Describe the progress: ``7 of 9 tasks finished (1 failed)``."""
    counts = view.counts
    over = counts.success + counts.failed + counts.cancelled
    bad = {"failed": counts.failed, "cancelled": counts.cancelled}
    ends = ", ".join(f"{count:,} {state}" for state, count in bad.items() if count)
    return f"{over:,} of {tasks(view.tasks)} finished" + (f" ({ends})" if ends else "")


@flow.command()
@click.argument("project", type=project_name)
@click.argument("name", metavar="FLOW", type=flow_name)
@json_option
@daemon_options
def cancel(project: str, name: str, as_json: bool, daemon: Daemon) -> None:
    """Cancel the unfinished tasks of a flow.

    Staged tasks of a flow that is not submitted yet are dropped. Fetchers that run tasks of the flow go on, but their
    reports are ignored. Tasks outside of the flow that wait for its tasks see them as failed.

    A failed flow of a cron entry is then cancelled, so that the entry with after_failure = "skip" runs again.

    \b
    Example:
      taskqueue flow cancel shop nightly
    """
    with daemon.client() as client:
        view = client.flows.cancel(project, name)
    if as_json:
        print_object(view)
    elif view.state == "staged":
        say(f"{project}/{name}: dropped")
    elif view.ended_at:
        say(f"{project}/{name}: {view.state}, {_progress_text(view)}")
    else:
        say(f"{project}/{name}: unfinished tasks are being cancelled; {_progress_text(view)}")
