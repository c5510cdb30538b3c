"""Options that say how commands reach the daemon and how long they wait; what to print when nobody answers.

Exit statuses of commands that wait for the end of a task or a flow are here, too, since both kinds name them.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.defaults import COMMAND_SECONDS, URL
from taskqueue.errors import RequestRejected, RequestTimeout, TaskQueueError
from taskqueue.protocol.insight import Why, WhyReply

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.choices import FetcherSort, ProjectSort
    from taskqueue.protocol.daemon import StatusReply
    from taskqueue.protocol.fetchers import FetcherView


Command = TypeVar("Command", bound=Callable[..., object])

CONNECT_SECONDS = 1.0
"""How long to wait for a connection at an address where nobody listens yet."""
REMEDY = "Start it with `taskqueue scheduler`, or name another address with --url or TASKQUEUE_URL"
PROJECTS_PAGE = 200
FETCHERS_PAGE = 500
"""Page sizes: the most that the daemon sends at once."""


class NoAnswer(TaskQueueError):
    """The daemon did not answer; the message has its address and how to start it."""


class Daemon(NamedTuple):
    """Address of the daemon, and the seconds that it may take to answer."""

    url: str
    timeout: float

    @contextmanager
    def client(self) -> Iterator[Client]:
        """A client of it.

        Raises:
            NoAnswer: it did not answer in time.
        """
        from taskqueue import Client

        # What it logs is said by the error in the end; without a handler it would be on stderr, too.
        logging.getLogger("taskqueue.client").addHandler(logging.NullHandler())
        with Client(self.url, timeout=self.timeout, name=_user_name(), connect_timeout=CONNECT_SECONDS) as client:
            try:
                yield client
            except RequestTimeout as error:
                raise NoAnswer(self._silence(error)) from None

    def _silence(self, error: RequestTimeout) -> str:
        if error.heard:
            return f"the daemon at {self.url} says: {error.why}"
        if error.why:
            return f"no answer from {self.url}: {error.why}. {REMEDY}"
        return f"no answer from {self.url} within {self.timeout:g} s. Is the daemon running there? {REMEDY}"


def _user_name() -> str:
    """Who is at the command line, such as ``anna@web1``, for the change log."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def why_of(client: Client, project: str) -> WhyReply | None:
    """Why nothing of a project is handed out; None: it has been deleted meanwhile."""
    try:
        return client.ask(Why(project=project))
    except RequestRejected:
        return None


def full_status(
    client: Client, group: str = "", *, part: str = "", sort: ProjectSort = "name", limit: int | None = None
) -> StatusReply:
    """The daemon's status without fetchers, with all matching projects, fetched page by page.

    Args:
        group: only projects of this group; empty: all.
        part: only projects whose names contain this; empty: all.
        limit: number of projects, at most; None: all.

    Raises:
        click.ClickException: no project belongs to the group.
    """
    reply = page = client.status(limit=_page_of(PROJECTS_PAGE, limit), group=group, filter=part, sort=sort, fetchers=0)
    names = {view.name for view in page.projects}
    skip = len(page.projects)
    while page.more and (limit is None or skip < limit):
        most = _page_of(PROJECTS_PAGE, limit, skip)
        if sort == "name":
            page = client.status(page.projects[-1].name, most, group, filter=part, fetchers=0)
        else:
            page = client.status("", most, group, filter=part, sort=sort, skip=skip, fetchers=0)
        fresh = [place for place, view in enumerate(page.projects) if view.name not in names]
        reply.projects += [page.projects[place] for place in fresh]
        reply.numbers += [page.numbers[place] for place in fresh if page.numbers]
        names.update(view.name for view in page.projects)
        skip += len(page.projects)
    if group and not part:
        check_group(group, reply.projects)
    return reply


def all_fetchers(
    client: Client,
    project: str = "",
    group: str = "",
    *,
    part: str = "",
    sort: FetcherSort = "name",
    limit: int | None = None,
) -> Iterator[FetcherView]:
    """Fetchers that may take tasks of the project or group, fetched page by page; arguments as in ``full_status``."""
    seen: set[str] = set()
    skip, more = 0, True
    while more and (limit is None or skip < limit):
        most = _page_of(FETCHERS_PAGE, limit, skip)
        page = client.fetchers.list(limit=most, project=project, group=group, filter=part, sort=sort, skip=skip)
        yield from (view for view in page.fetchers if view.session not in seen)
        seen.update(view.session for view in page.fetchers)
        skip, more = skip + len(page.fetchers), page.more


def _page_of(most: int, limit: int | None, skip: int = 0) -> int:
    return most if limit is None else min(most, limit - skip)


def check_group(group: str, members: Sequence[object]) -> None:
    """See that a group has members; what is said otherwise are the words of the daemon.

    Raises:
        click.ClickException: it has none.
    """
    if not members:
        raise click.ClickException(f'group: no project belongs to a group "{group}"')


def url_option(command: Command) -> Command:
    """Add the option --url to a command."""
    url = click.option(
        "--url",
        envvar="TASKQUEUE_URL",
        default=URL,
        show_default=True,
        show_envvar=True,
        callback=_address,
        help="The daemon's address.",
    )
    return url(command)


def _address(context: click.Context, option: click.Parameter, written: str) -> str:
    if written.startswith(("http:", "https:")):
        raise click.BadParameter(f'"{written}" is no address of a daemon, such as {URL}; --url-glob chooses tasks')
    return written


def patience_option(command: Command) -> Command:
    """Add the option --timeout to a command that waits for something: ``patience``, in seconds; None: for ever."""
    patience = click.option(
        "--timeout",
        "patience",
        metavar="AGE",
        type=times.seconds,
        default=None,
        help="Wait no longer than that, such as 90s, 5m or 2h; without it, for ever.",
    )
    return patience(command)


def daemon_options(command: Command) -> Command:
    """Add the options --url and --timeout to a command."""
    timeout = click.option(
        "--timeout",
        envvar="TASKQUEUE_TIMEOUT",
        type=times.some_seconds,
        metavar="AGE",
        default=f"{COMMAND_SECONDS:g}s",
        show_default=True,
        show_envvar=True,
        help="How long to wait for an answer.",
    )
    return url_option(timeout(command))


END_STATUSES: Final = {"success": 0, "failed": 3, "cancelled": 4}
"""By the state in which it ended."""

NOT_OVER_STATUS: Final = 1
"""If it has not ended in the time that it was given."""
