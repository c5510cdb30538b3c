"""``taskqueue cron``: jobs that push a task again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.input.names import project_name
from taskqueue.cli.input.settings import json_of
from taskqueue.cli.output.json_output import json_lines_option, print_lines
from taskqueue.display.json_values import as_plain
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.projects import ProjectView


@click.group()
def cron() -> None:
    """List, set and remove cron jobs: tasks that the scheduler pushes by itself, again and again.

    Jobs stand in the config, too, as [projects.NAME.cron.JOB].

    \b
    Example:
      taskqueue cron set news daily --cron '0 3 * * *' --zone Europe/Berlin
    """


@cron.command("list")
@click.argument("project", type=project_name, required=False)
@json_lines_option
@daemon_options
def list_jobs(project: str | None, as_json: bool, url: str, timeout: float) -> None:
    """List the jobs of a project, or of all, with their next runs in the time of this machine.

    A run is skipped when the task of the last one is still live.

    \b
    Example:
      taskqueue cron list news
    """
    with Daemon(url, timeout).client() as client:
        views = [client.projects.show(project)] if project else list(client.projects.all())
    if as_json:
        print_lines(_told(views))
        return
    from taskqueue.cli.output import tables

    tables.show(tables.of_cron(views))


def _told(views: Iterable[ProjectView]) -> Iterator[dict[str, object]]:
    """Each job with its project, and with the setting that says what it does."""
    for view in views:
        jobs = view.settings.get("cron")
        for job in view.cron:
            setting = jobs.get(job.job) if isinstance(jobs, dict) else None
            yield {"project": view.name, **as_plain(job), "setting": setting}


@cron.command("set")
@click.argument("project", type=project_name)
@click.argument("job")
@click.option("--cron", metavar="CRON", default="", help="When, as a cron expression.")
@click.option("--every", metavar="AGE", default="", help="Or how often: 90s, 5m, 12h, 1d.")
@click.option("--zone", default="UTC", show_default=True, help="Of the cron expression, such as Europe/Berlin.")
@click.option(
    "--missed",
    type=click.Choice(["skip", "once"]),
    default="skip",
    show_default=True,
    help="Runs missed while the daemon was down: none, or one for all.",
)
@click.option("--task-url", default="", help="Of the task; {tick} in it stands for the unix seconds of the run.")
@click.option("--taskid", default="", help="Of the task; {tick}, too. Without it, one task runs again and again.")
@click.option("--priority", type=int, default=0, help="Larger first.")
@click.option("--body", metavar="JSON", help="Sent along with the task.")
@daemon_options
def set_job(project: str, job: str, task_url: str, body: str | None, url: str, timeout: float, **said: Any) -> None:
    """Make or replace a job, at once and for good; it wins over one of that name in the config.

    \b
    Example:
      taskqueue cron set news daily --cron '0 3 * * *' --zone Europe/Berlin
      taskqueue cron set news front --every 5m --task-url https://example.com/
      taskqueue cron set news index --every 1h --body '{"save": {"page": 1}}'
    """
    if bool(said["cron"]) == bool(said["every"]):
        raise click.UsageError("say when with --cron, or how often with --every")
    sent = json_of("--body", body) if body is not None else None
    with Daemon(url, timeout).client() as client:
        client.projects.show(project)  # The daemon would make one that is unknown, after a slip of the pen.
        view = client.cron.set(project, job, url=task_url, body=sent, **said)
    say(f"{project}: {job} {_next(view, job)}")


@cron.command()
@click.argument("project", type=project_name)
@click.argument("job")
@daemon_options
def remove(project: str, job: str, url: str, timeout: float) -> None:
    """Remove a job that `set` made; one of that name in the config holds again.

    \b
    Example:
      taskqueue cron remove news daily
    """
    with Daemon(url, timeout).client() as client:
        view = client.cron.remove(project, job)
    say(f"{project}: {job} {_next(view, job)}")


def _next(view: ProjectView, job: str) -> str:
    """``runs next at …``; ``removed`` if it is not there."""
    from taskqueue.cli.input.times import local

    for found in view.cron:
        if found.job == job:
            return f"runs next at {local(found.next_at)}" if found.next_at else "never runs"
    return "removed"
