"""``taskqueue why``: the reason why nothing is handed out, in one sentence."""

from __future__ import annotations

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name, taskids_of
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.terminal.lines import say


@click.command()
@click.argument("project", type=project_name)
@click.argument("task", metavar="[TASKID|URL]", required=False)
@json_option
@daemon_options
def why(project: str, task: str | None, as_json: bool, url: str, timeout: float) -> None:
    """Say why nothing of a project, or not this task, is handed out.

    \b
    Example:
      taskqueue why news
      taskqueue why news https://example.com/
    """
    with Daemon(url, timeout).client() as client:
        taskid = taskids_of(client, project, [task])[0] if task else None
        sentence = client.why(project, taskid)
    if as_json:
        print_object({"project": project, "taskid": taskid, "sentence": sentence})
    else:
        say(sentence)
