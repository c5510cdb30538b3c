"""``taskqueue wait``: until a project has finished; for scripts that push a crawl and go on after it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from taskqueue.cli.input.daemon import TIMEOUT_SECONDS, Daemon, patience_option, url_option
from taskqueue.cli.input.names import project_name
from taskqueue.display.counts import tasks
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client

REFRESHES_A_SECOND = 4.0
"""Of the line that says so."""


@click.command()
@click.argument("project", type=project_name)
@patience_option
@url_option
def wait(project: str, patience: float | None, url: str) -> int:
    """Wait until a project has finished: until no task is left that has to end first.

    Recurring tasks that have run once are not waited for. A project with nothing to do has finished. The exit status is
    0 if it has finished, 1 if it has not within --timeout. A daemon that is restarted meanwhile is waited for.

    A task that has expired is waited for, too: that it has is seen when its turn comes, so not in a project that is
    stopped, paused or without fetchers.

    \b
    Example:
      taskqueue wait news
      taskqueue push news --file tasks.jsonl && taskqueue wait news && ./report
    """
    with Daemon(url, TIMEOUT_SECONDS).client() as client:
        finished = _watch(client, project, patience) if sys.stderr.isatty() else client.projects.wait(project, patience)
        if not finished:
            left = client.projects.show(project).unfinished
            say(f"taskqueue wait: {project} has not finished, {tasks(left)} to go", err=True)
    return 0 if finished else 1


def _watch(client: Client, project: str, patience: float | None) -> bool:
    """Wait with a line on the terminal that says how many tasks are left."""
    from taskqueue.terminal.screen import Screen, Text

    screen = Screen(err=True)
    with screen.status(Text(project), refresh_per_second=REFRESHES_A_SECOND) as line:
        finished = client.projects.wait(
            project, patience, lambda left: line.update(Text(f"{project}: {tasks(left)} to go"))
        )
    if finished:
        screen.print(Text(f"{project} has finished"))
    return finished
