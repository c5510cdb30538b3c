"""Names on the command line, validated before anything is sent: projects, groups, tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from taskqueue.defaults import URL
from taskqueue.errors import RequestRejected, TaskQueueError
from taskqueue.protocol.choices import NAME, NAME_CHARS, NAME_WORDS

if TYPE_CHECKING:
    from taskqueue import Client

Command = TypeVar("Command", bound=Callable[..., object])

PROJECT_NAME: Final = re.compile(f"{NAME}{{1,{NAME_CHARS}}}")
RULE: Final = f"1 to {NAME_CHARS} {NAME_WORDS}"

COMPLETION_SECONDS: Final = 1.0
"""Seconds that a shell waits for names to complete."""


class NameType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Parameter type of names: of a project, or of the kind that ``name`` says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name unchanged.

        Raises:
            click.BadParameter: it is invalid as a name.
        """
        if not PROJECT_NAME.fullmatch(value):
            raise click.BadParameter(f'"{value}" is not a {self.name} name: {RULE}')
        return value


class ProjectNameType(NameType):
    """Parameter type of project names; a shell completes them with the daemon's."""

    def __init__(self) -> None:
        super().__init__("project")

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """List names that begin with ``incomplete``; none without an answer, since a shell can't show errors."""
        from taskqueue.cli.input.daemon import PROJECTS_PAGE, Daemon

        address = ctx.params.get("daemon") or os.environ.get("TASKQUEUE_DAEMON") or URL
        try:
            with Daemon(address, COMPLETION_SECONDS, ctx.params.get("key")).client() as client:
                page = client.projects.list(_just_below(incomplete), PROJECTS_PAGE).items
        except (TaskQueueError, OSError):
            return []
        names = [view.name for view in page if PROJECT_NAME.fullmatch(view.name)]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _just_below(beginning: str) -> str:
    """Text that sorts just before all names that begin with ``beginning``."""
    return f"{beginning[:-1]}{chr(ord(beginning[-1]) - 1)}\x7f" if beginning else ""


project_name: Final = ProjectNameType()
group_name: Final = NameType("group")


def projects_argument(command: Command) -> Command:
    """Add the argument [PROJECT]... to a command: ``projects``, none for all."""
    return click.argument("projects", metavar="[PROJECT]...", type=project_name, nargs=-1)(command)


def named_projects_argument(command: Command) -> Command:
    """Add the argument PROJECT... to a command: ``projects``, at least one."""
    return click.argument("projects", metavar="PROJECT...", type=project_name, nargs=-1, required=True)(command)


def group_option(command: Command) -> Command:
    """Add the option --group to a command; None if it is absent."""
    return click.option("--group", type=group_name, metavar="GROUP", help="Projects of this group.")(command)


def taskids_of(client: Client, project: str, names: Iterable[str]) -> list[str]:
    """Resolve names to taskids; the taskid of a URL is made as clients make it.

    A name without ``://``, such as ``data:,on_start`` or ``user-42``, may be a URL or a taskid. The daemon is asked for
    the task with this taskid, then for the task with this URL; if it knows neither, the name is a taskid.

    Raises:
        RequestRejected: there is no such project.
    """
    return [_taskid(client, project, name) for name in names]


def _taskid(client: Client, project: str, name: str) -> str:
    """Resolve a name, which may be a URL, to a taskid."""
    from taskqueue.client.tasks.new_task import default_taskid

    by_url = default_taskid(name)
    if "://" in name:
        return by_url
    return next((taskid for taskid in (name, by_url) if _is_known(client, project, taskid)), name)


def _is_known(client: Client, project: str, taskid: str) -> bool:
    from taskqueue.protocol.fields import MAX_TASKID_BYTES

    if len(taskid.encode()) > MAX_TASKID_BYTES:
        return False
    try:
        client.tasks.get(project, taskid)
    except RequestRejected as error:
        if error.code != "unknown-task":
            raise
        return False
    return True
