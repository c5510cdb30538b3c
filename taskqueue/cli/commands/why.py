"""``taskqueue why``: say why nothing is dispatched, of all projects, of one, or of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options, standing_still
from taskqueue.cli.input.names import project_name, taskids_of
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.protocol.choices import WhyCause
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client

SENTENCES_SHOWN: Final = 5
"""Projects of each cause whose sentence is shown, at most."""

CAUSES: Final[dict[WhyCause, str]] = {
    "daemon": "the daemon itself",
    "fetchers": "no fetcher that could take more",
    "stopped": "stopped",
    "paused": "paused",
    "hours": "outside active hours",
    "rate": "a rate of 0",
    "limits": "as many processing as allowed",
    "slots": "no slot may dispatch now",
    "memory": "the next tasks are being read from the store",
    "tasks": "no task is ready",
}
"""Headings, in the order in which they are shown."""


@click.command()
@click.argument("project", type=project_name, required=False)
@click.argument("task", metavar="[TASK]", required=False)
@json_option
@daemon_options
def why(project: str | None, task: str | None, as_json: bool, daemon: Daemon) -> None:
    """Say why nothing is dispatched.

    TASK is a taskid or URL. Without PROJECT, all projects are listed that have tasks and dispatch none, by cause.

    \b
    Example:
      taskqueue why
      taskqueue why news
      taskqueue why news https://example.com/
    """
    with daemon.client() as client:
        if project is None:
            _say_all(client, as_json)
            return
        taskid = taskids_of(client, project, [task])[0] if task else None
        sentence = client.why(project, taskid)
        such_as = "" if as_json or task else _blocked(client, project)
    if as_json:
        print_object({"project": project, "taskid": taskid, "sentence": sentence})
    else:
        say(sentence)
        if such_as:
            say(f"such as: {such_as}")


def _blocked(client: Client, project: str) -> str:
    """Describe what the first task waits for in a project whose tasks are all blocked; empty if there is none."""
    counts = client.projects.get(project).counts
    if not counts.blocked or counts.ready or counts.delayed or counts.processing:
        return ""
    blocked = client.tasks.list(project, "blocked", limit=1).items
    return client.why(project, blocked[0].taskid) if blocked else ""


def _say_all(client: Client, as_json: bool) -> None:
    """Print the projects that dispatch nothing, by cause."""
    found: dict[WhyCause, dict[str, str]] = {cause: {} for cause in CAUSES}
    for each in standing_still(client):
        found[each.cause][each.project] = each.sentence
    if as_json:
        print_object({cause: projects for cause, projects in found.items() if projects})
    else:
        _say_found(found)


def _say_found(found: dict[WhyCause, dict[str, str]]) -> None:
    for cause, projects in found.items():
        if projects:
            say(f"{CAUSES[cause]} ({len(projects)}):")
        for sentence in list(projects.values())[:SENTENCES_SHOWN]:
            say(f"  {sentence}")
        if len(projects) > SENTENCES_SHOWN:
            say(f"  and {', '.join(list(projects)[SENTENCES_SHOWN:])}")
    if not any(found.values()):
        say("Nothing stands still.")
