"""How commands reach the daemon: its address, how long to wait, and the line to print when nobody answers."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from taskqueue.errors import RequestTimeout, TaskQueueError

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.core.replies import StatusReply
    from taskqueue.core.views import FetcherView, ProjectView

Command = TypeVar("Command", bound=Callable[..., object])

URL = "tcp://127.0.0.1:7400"
TIMEOUT_SECONDS = 5.0


class Silent(TaskQueueError):
    """The daemon did not answer. The message says where it was looked for and how to start it."""


class Daemon(NamedTuple):
    """Where the daemon is and how many seconds it may take to answer."""

    url: str
    timeout: float

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of it.

        Raises:
            Silent: it didn't answer in time.
        """
        from taskqueue import Client

        with Client(self.url, timeout=self.timeout, name=_whoever()) as client:
            try:
                yield client
            except RequestTimeout:
                raise Silent(self._silence()) from None

    def _silence(self) -> str:
        return (
            f"no answer from {self.url} within {self.timeout:g} s. Is the daemon running there? Start it with "
            "`taskqueue scheduler`, or name another address with --url or TASKQUEUE_URL"
        )


def _whoever() -> str:
    """Who is at the command line, such as ``anna@web1``, for the log of changes."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def full_status(client: Client, group: str = "") -> StatusReply:
    """The daemon's status with all projects, page by page; of a group, if one is named: its projects and fetchers.

    Raises:
        click.ClickException: no project belongs to the group.
    """
    reply = page = client.status(group=group)
    while page.more:
        page = client.status(after=page.projects[-1].name, group=group)
        reply.projects.extend(page.projects)
    if group:
        check_group(group, reply.projects)
        reply.fetchers = [view for view in reply.fetchers if _may_take(view, reply.projects)]
    return reply


def check_group(group: str, members: Sequence[object]) -> None:
    """See that a group has members; what is said otherwise are the words of the daemon.

    Raises:
        click.ClickException: it has none.
    """
    if not members:
        raise click.ClickException(f'group: no project belongs to a group "{group}"')


def _may_take(view: FetcherView, projects: Iterable[ProjectView]) -> bool:
    """It may ask for tasks of one of the projects; of a fetcher that asks for many only the first ones are known."""
    from taskqueue.core.views import SHOWN_WISHES

    asked = view.projects
    return asked is None or len(asked) >= SHOWN_WISHES or any(project.name in asked for project in projects)


def names_daemon(command: Command) -> Command:
    """Give a command the option --url."""
    url = click.option(
        "--url",
        envvar="TASKQUEUE_URL",
        default=URL,
        show_default=True,
        callback=_address,
        help="The daemon's address; or TASKQUEUE_URL.",
    )
    return url(command)


def _address(context: click.Context, option: click.Parameter, written: str) -> str:
    if written.startswith(("http:", "https:")):
        raise click.BadParameter(f'"{written}" is no address of a daemon, such as {URL}; --url-glob chooses tasks')
    return written


def reaches_daemon(command: Command) -> Command:
    """Give a command the options --url and --timeout."""
    timeout = click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=TIMEOUT_SECONDS,
        show_default=True,
        help="Seconds to wait for an answer.",
    )
    return names_daemon(timeout(command))
