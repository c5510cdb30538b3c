"""``taskqueue flow``: submit graphs of tasks that wait for each other; show, wait for, cancel and rerun them.

A flow is named ``nightly``, or ``shop/nightly`` where several projects have one of that name.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from taskqueue.cli.input.daemon import (
    END_STATUSES,
    NOT_OVER_STATUS,
    Daemon,
    daemon_options,
    patience_option,
    url_option,
)
from taskqueue.cli.input.names import PROJECT_NAME, NameType, project_name, taskids_of
from taskqueue.cli.input.stdin import STDIN, opened
from taskqueue.cli.output.json_output import json_lines_option, json_option, print_lines, print_object
from taskqueue.defaults import COMMAND_SECONDS
from taskqueue.display.counts import tasks
from taskqueue.display.json_values import as_plain
from taskqueue.display.operations import rerun_lines
from taskqueue.protocol.choices import RerunScope
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.cli.input.flow_file import FlowFile
    from taskqueue.protocol.flows import FlowTaskView, FlowView


class FlowRef(NamedTuple):
    """A flow that is named; ``project`` is empty if that was not said."""

    project: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}/{self.name}" if self.project else self.name

    def found(self, client: Client) -> FlowRef:
        """The flow with its project, looked for among all flows if that was not said.

        Raises:
            click.ClickException: there is none of that name, or more than one.
        """
        if self.project:
            return self
        found = [FlowRef(view.project, view.flow) for view in client.flows.all() if view.flow == self.name]
        if len(found) > 1:
            raise click.ClickException(f"several projects have a flow {self.name}: say {' or '.join(map(str, found))}")
        if not found:
            raise click.ClickException(f"no project has a flow {self.name}; `taskqueue flow list` lists them")
        return found[0]


def flow_ref(written: str) -> FlowRef:
    """Read the name of a flow, with or without its project.

    Raises:
        click.BadParameter: it can't be the name of one.
    """
    project, slash, name = written.rpartition("/")
    if not PROJECT_NAME.fullmatch(name) or (slash and not PROJECT_NAME.fullmatch(project)):
        raise click.BadParameter(f'"{written}" cannot be the name of a flow; write NAME or PROJECT/NAME')
    return FlowRef(project, name)


REFRESHES_A_SECOND: Final = 4.0


@click.group()
def flow() -> None:
    """Submit graphs of tasks that wait for each other; show, wait for and cancel them.

    A flow is named NAME, or PROJECT/NAME where several projects have one of that name.

    \b
    Example:
      taskqueue flow submit nightly.toml
      taskqueue flow show nightly
      taskqueue flow wait nightly && ./report
    """


@flow.command()
@click.argument("file", type=click.Path(), metavar="FILE|-")
@click.option(
    "-p", "--project", type=project_name, metavar="PROJECT", help="That it belongs to, whatever the file says."
)
@click.option("--name", type=NameType("flow"), metavar="NAME", help="Of the flow, whatever the file says.")
@click.option("--reuse", is_flag=True, help="Take tasks in, as they are, that the daemon knows already.")
@click.option("--dry-run", is_flag=True, help="Only read the file, and show the graph.")
@click.option("--any", "any_scheme", is_flag=True, help="Take urls of every scheme, not only http, https and data.")
@json_option
@daemon_options
def submit(
    file: str,
    project: str | None,
    name: str | None,
    reuse: bool,
    dry_run: bool,
    any_scheme: bool,
    as_json: bool,
    url: str,
    timeout: float,
) -> None:
    """Submit the flow of a file, TOML or JSON: all of it is accepted, or nothing. - is stdin.

    A task is a table: [tasks.NAME] with its url, with `after`, a list of the names of those that it waits for, and with
    whatever a line of `taskqueue push --file` may say. Its taskid is its name, unless it says another. Above them
    stand `project`, `flow`, the name of the flow (else it has one by chance), and [defaults] for all of the tasks.

    \b
    Example:
      taskqueue flow submit nightly.toml --dry-run
      ./plan --json | taskqueue flow submit - --project shop --name nightly
    """
    from taskqueue.cli.input.flow_file import parse

    said = parse("stdin" if file == STDIN else file, _text(file), any_scheme=any_scheme)
    belongs_to = project or said.project
    if not belongs_to:
        raise click.UsageError(f'{said.name} says no project; say `project = "…"` there, or --project here')
    if dry_run:
        _show_planned(said, FlowRef(belongs_to, name or said.flow or "flow"), as_json)
        return
    with Daemon(url, timeout).client() as client:
        made = client.flow(belongs_to, name or said.flow)
        said.describe(made.task)
        with _bar(made.size) as progress:
            view = made.submit(reuse=reuse, progress=progress)
    if as_json:
        print_object(view)
    else:
        say(f"{view.project}/{view.flow}: {tasks(view.tasks)} accepted")


def _text(file: str) -> str:
    try:
        with opened(file) as octets:
            return octets.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.ClickException(f"{'stdin' if file == STDIN else file}: not utf-8: {error}") from None


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], object] | None]:
    """Show how many tasks have been staged by a bar on stderr, if that is a terminal."""
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
@click.argument("project", type=project_name, required=False)
@json_lines_option
@daemon_options
def list_flows(project: str | None, as_json: bool, url: str, timeout: float) -> None:
    """List flows, of a project or of all, the newest first.

    \b
    Example:
      taskqueue flow list
      taskqueue flow list shop --json | jq -r 'select(.state == "failed") | .flow'
    """
    with Daemon(url, timeout).client() as client:
        views = sorted(client.flows.all(project or ""), key=lambda view: -view.began_at)
    if as_json:
        print_lines(views)
        return
    from taskqueue.cli.output import flow_tables, tables

    tables.show(flow_tables.of_flows(views))


@flow.command()
@click.argument("name", type=flow_ref)
@click.option("--tasks", "each", is_flag=True, help="A row for each task, however many there are.")
@json_option
@daemon_options
def show(name: FlowRef, each: bool, as_json: bool, url: str, timeout: float) -> None:
    """Show a flow: its tasks in layers, how far they are, and its critical path.

    Tasks of a layer never wait for each other. Of a flow with more than 50 tasks there is a row a layer, or for several
    of them. The critical path is the chain of tasks, each of which waited for the one before, that took longest
    together: with any number of fetchers the flow would have taken that long.

    \b
    Example:
      taskqueue flow show nightly
      taskqueue flow show shop/nightly --tasks | grep failed
    """
    from taskqueue.cli.output.flow_tables import TASKS_SHOWN, picture

    with Daemon(url, timeout).client() as client:
        found = name.found(client)
        view = client.flows.show(*found)
        if as_json:
            print_object(_for_programs(view, client.flows.tasks(*found)))
            return
        shown = picture(view, client.flows.tasks(*found), sys.maxsize if each else TASKS_SHOWN)
    from taskqueue.cli.output.flow_tables import draw

    draw(shown, time.time())


def _for_programs(view: FlowView, members: Iterable[FlowTaskView]) -> dict[str, object]:
    """A flow with its tasks, its layers, and its critical path; the latter two name tasks by their indices."""
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


def _show_planned(said: FlowFile, planned: FlowRef, as_json: bool) -> None:
    """Show the graph of a file as it would be submitted."""
    from taskqueue.cli.output.flow_tables import draw, picture
    from taskqueue.client.tasks.new_flow import FlowPlan
    from taskqueue.protocol.flows import FlowView
    from taskqueue.protocol.values import Counts

    plan = FlowPlan(*planned)
    said.describe(plan.add)
    view = FlowView(plan.project, plan.name, "staged", len(plan.tasks), Counts())
    if as_json:
        print_object(_for_programs(view, plan.views()))
    else:
        draw(picture(view, plan.views()), time.time())


@flow.command()
@click.argument("name", type=flow_ref)
@patience_option
@json_option
@url_option
def wait(name: FlowRef, patience: float | None, as_json: bool, url: str) -> int:
    """Wait until a flow has ended. The exit status says how.

    It is 0 if all of its tasks succeeded, 3 if one failed, 4 if one was cancelled and none failed, 1 if it has not
    ended within --timeout. A daemon that is restarted meanwhile is waited for.

    \b
    Example:
      taskqueue flow wait nightly --timeout 2h || taskqueue flow show nightly
    """
    with Daemon(url, COMMAND_SECONDS).client() as client:
        found = name.found(client)
        view = _watch(client, found, patience) if sys.stderr.isatty() else client.flows.wait(*found, timeout=patience)
    if as_json:
        print_object(view)
    elif not view.ended_at:
        say(f"taskqueue flow wait: {found} has not ended, {_told(view)}", err=True)
    elif view.state != "success":
        say(f"taskqueue flow wait: {found}: {view.state}, {_told(view)}", err=True)
    return END_STATUSES[view.state] if view.ended_at else NOT_OVER_STATUS


def _watch(client: Client, found: FlowRef, patience: float | None) -> FlowView:
    """Wait with a line on the terminal that says how far it is."""
    from taskqueue.terminal.screen import Screen, Text

    screen = Screen(err=True)
    with screen.status(Text(str(found)), refresh_per_second=REFRESHES_A_SECOND) as line:
        view = client.flows.wait(*found, lambda view: line.update(Text(f"{found}: {_told(view)}")), patience)
    if view.state == "success":
        screen.print(Text(f"{found}: {view.state}, {_told(view)}"))
    return view


def _told(view: FlowView) -> str:
    """``7 of 9 tasks over (1 failed)``."""
    counts = view.counts
    over = counts.success + counts.failed + counts.cancelled
    bad = {"failed": counts.failed, "cancelled": counts.cancelled}
    told = ", ".join(f"{count:,} {state}" for state, count in bad.items() if count)
    return f"{over:,} of {tasks(view.tasks)} over" + (f" ({told})" if told else "")


@click.command()
@click.argument("project", type=project_name)
@click.argument("task", metavar="TASKID|URL")
@click.option(
    "--downstream", "scopes", flag_value="downstream", multiple=True,
    help="And all tasks that depend on it, however far down.",
)  # fmt: skip
@click.option(
    "--upstream-failed", "scopes", flag_value="upstream-failed", multiple=True,
    help="And those of the tasks that it depends on, however far up, that failed or were cancelled; "
    "what lies behind a success is not looked at.",
)  # fmt: skip
@click.option(
    "--only-failed", "scopes", flag_value="only-failed", multiple=True,
    help="Of it and all tasks that depend on it, however far down, those that failed or were cancelled.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only say which ones, in layers.")
@click.option("--no-wait", is_flag=True, help="Print the operation's id at once; see `taskqueue operation`.")
@json_option
@daemon_options
def rerun(
    project: str,
    task: str,
    scopes: tuple[RerunScope, ...],
    dry_run: bool,
    no_wait: bool,
    as_json: bool,
    url: str,
    timeout: float,
) -> None:
    """Run a task again, each that goes with it once, and after all of these that it waits for.

    Without an option that says more, it runs alone. What it depends on stays as it is. What is processing is taken from
    its fetcher, and runs again in its place. Returns when all are reset; they run then. Ctrl-C only stops waiting.

    \b
    Example:
      taskqueue flow rerun shop prices --downstream --dry-run
      taskqueue flow rerun shop prices --downstream
    """
    if len(scopes) > 1:
        raise click.UsageError("choose one of --downstream, --upstream-failed and --only-failed")
    with Daemon(url, timeout).client() as client:
        taskid = taskids_of(client, project, [task])[0]
        view = client.operations.rerun(project, taskid, scope=scopes[0] if scopes else "task", dry_run=dry_run)
        if not no_wait:
            view = client.operations.wait(view.id)
    if as_json:
        print_object(view)
    elif no_wait:
        say(str(view.id))
    else:
        for line in rerun_lines(view):
            say(line)


@flow.command()
@click.argument("name", type=flow_ref)
@json_option
@daemon_options
def cancel(name: FlowRef, as_json: bool, url: str, timeout: float) -> None:
    """End the tasks of a flow that are not over; of one that is not submitted yet, drop what was staged.

    The answer of whoever is processing one of them will not count. Tasks outside of the flow that wait for these see
    them as failed.

    \b
    Example:
      taskqueue flow cancel nightly
    """
    with Daemon(url, timeout).client() as client:
        found = name.found(client)
        view = client.flows.cancel(*found)
    if as_json:
        print_object(view)
    elif view.state == "staged":
        say(f"{found}: dropped")
    elif view.ended_at:
        say(f"{found}: {view.state}, {_told(view)}")
    else:
        say(f"{found}: those that are not over are being cancelled; {_told(view)}")


flow.add_command(rerun)
