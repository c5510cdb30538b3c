"""``taskqueue project``: list, set up, pause, stop and delete projects."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from taskqueue.cli.daemon import Daemon, full_status, reaches_daemon
from taskqueue.cli.names import project_name
from taskqueue.cli.settings import in_words, parse

if TYPE_CHECKING:
    from taskqueue.core.replies import ProjectView
    from taskqueue.core.requests import Action


@click.group()
def project() -> None:
    """List, set up, pause, stop and delete projects.

    \b
    Example:
      taskqueue project start news
      taskqueue project set news rate=5 burst=10
    """


@project.command("list")
@reaches_daemon
def list_projects(url: str, timeout: float) -> None:
    """List all projects with their counts.

    \b
    Example:
      taskqueue project list
    """
    from taskqueue.cli import tables

    with Daemon(url, timeout).client() as client:
        views = full_status(client).projects
    tables.console().print(tables.of_projects(views))


@project.command()
@click.argument("name", type=project_name)
@reaches_daemon
def show(name: str, url: str, timeout: float) -> None:
    """Show a project: its counts, and its settings with where they come from.

    \b
    Example:
      taskqueue project show news
    """
    from taskqueue.cli import tables

    with Daemon(url, timeout).client() as client:
        view = client.project(name)
    console = tables.console()
    console.print(tables.of_projects([view]), "", tables.of_settings(view), sep="\n")


@project.command("set")
@click.argument("name", type=project_name)
@click.argument("settings", nargs=-1, required=True, metavar="SETTING=VALUE...")
@reaches_daemon
def set_settings(name: str, settings: tuple[str, ...], url: str, timeout: float) -> None:
    """Change settings of a project, at once and for good; they win over the config file until `unset`.

    A project that doesn't exist is made. Times are seconds, a list is written with commas, inf is unlimited.

    \b
    Example:
      taskqueue project set news rate=5 burst=10 retry_delay=30,60,3600
    """
    said = parse(settings)
    with Daemon(url, timeout).client() as client:
        view = client.project_set(name, said)
    _tell_settings(view)


@project.command()
@click.argument("name", type=project_name)
@click.argument("keys", nargs=-1)
@reaches_daemon
def unset(name: str, keys: tuple[str, ...], url: str, timeout: float) -> None:
    """Take back what `set` said of these settings (none named: of all); the config file holds again.

    \b
    Example:
      taskqueue project unset news rate burst
    """
    with Daemon(url, timeout).client() as client:
        view = client.project_unset(name, keys)
    _tell_settings(view)


def _add_action(action: Action, what: str, result: str) -> None:
    """Add the command for an action that needs nothing but the project's name; ``result`` is what it says then."""

    @project.command(action, help=f"{what}\n\n\b\nExample:\n  taskqueue project {action} news")
    @click.argument("name", type=project_name)
    @reaches_daemon
    def act(name: str, url: str, timeout: float) -> None:
        with Daemon(url, timeout).client() as client:
            client.project_do(name, action)
        click.echo(f"{name}: {result}")


_add_action("pause", "Hand out no more tasks of a project until `resume`; new ones are still taken.", "paused")
_add_action("resume", "Hand out tasks of a paused project again.", "running")
_add_action("stop", "Stop a project until `start`: it keeps and takes tasks, and hands out none.", "stopped")
_add_action("start", "Start a stopped project, or make a new one.", "running")


@project.command()
@click.argument("name", type=project_name)
@click.option("--yes", is_flag=True, help="Don't ask.")
@reaches_daemon
def delete(name: str, yes: bool, url: str, timeout: float) -> None:
    """Delete a project with all its tasks, for ever.

    \b
    Example:
      taskqueue project delete news --yes
    """
    with Daemon(url, timeout).client() as client:
        view = client.project(name)
        if not yes:
            _ask(view)
        client.project_do(name, "delete")
    click.echo(f"{name}: deleted")


def _ask(view: ProjectView) -> None:
    """Raises unless somebody says yes."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is here to ask; say --yes to delete")
    counts = view.counts
    live, over = counts.ready + counts.delayed + counts.processing, counts.success + counts.failed + counts.cancelled
    if not click.confirm(f"Delete {view.name}, with {live:,} tasks to do and {over:,} that are over?"):
        raise click.ClickException(f"{view.name}: not deleted")


def _tell_settings(view: ProjectView) -> None:
    click.echo(f"{view.name}: {in_words(view.settings)}")
