"""``taskqueue flow rerun``: run a task again, and others with it."""

from __future__ import annotations

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name, taskids_of
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.display.operations import rerun_lines
from taskqueue.protocol.choices import RerunScope
from taskqueue.terminal.lines import say


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
