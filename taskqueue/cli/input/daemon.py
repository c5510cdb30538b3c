"""Options that say how commands reach the daemon and how long they wait; the error when no daemon answers.

The exit statuses of commands that wait are here, too, because several modules of commands use them.
"""

from __future__ import annotations

import getpass
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import click
from msgspec.structs import replace

from taskqueue.cli.input import times
from taskqueue.defaults import ANSWER_SECONDS, START_DAEMON, URL
from taskqueue.errors import RequestRejected, RequestTimeout, TaskQueueError, Unauthorised
from taskqueue.protocol.insight import Why, WhyReply

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.choices import FetcherSort, ProjectSort
    from taskqueue.protocol.daemon import StatusReply
    from taskqueue.protocol.fetchers import Fetcher
    from taskqueue.protocol.insight import StandingProject


Command = TypeVar("Command", bound=Callable[..., object])

CONNECT_SECONDS = 1.0
"""Seconds to wait for a connection at an address where no daemon listens yet."""
PROJECTS_PAGE = 200
FETCHERS_PAGE = 500
"""Page sizes: the most that the daemon sends at once."""


class NoAnswer(TaskQueueError):
    """The daemon did not answer; the message says its address and how to start it."""


class Daemon(NamedTuple):
    """Address of the daemon, seconds to wait for its answers, and the key to show it, as for ``Client``."""

    address: str
    timeout: float
    key: str | Path | None = None

    @contextmanager
    def client(self) -> Iterator[Client]:
        """Client of this daemon, closed at the end of the block.

        Raises:
            NoAnswer: it did not answer in time.
        """
        from taskqueue import Client

        # The error says in the end what the client logs; without a handler it would appear on stderr, too.
        logging.getLogger("taskqueue.client").addHandler(logging.NullHandler())
        with Client(
            self.address, timeout=self.timeout, name=_user_name(), connect_timeout=CONNECT_SECONDS, key=self.key
        ) as client:
            try:
                yield client
            except Unauthorised:
                raise
            except RequestTimeout as error:
                raise NoAnswer(self._silence(error)) from None

    def _silence(self, error: RequestTimeout) -> str:
        if error.heard:
            return f"the daemon at {self.address} says: {error.why}"
        if error.why:
            return f"no answer from {self.address}: {error.why}. {START_DAEMON}"
        return f"no answer from {self.address} within {self.timeout:g} s. Is the daemon running there? {START_DAEMON}"


def _user_name() -> str:
    """Name of the user at this machine, such as ``anna@web1``, for the log of changes."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in many containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def why_of(client: Client, project: str) -> WhyReply | None:
    """Reason why a project dispatches nothing; None if it has been deleted meanwhile."""
    try:
        return client._ask(Why(project=project))
    except RequestRejected:
        return None


def standing_still(client: Client) -> Iterator[StandingProject]:
    """Projects that have unfinished tasks and dispatch none, fetched page by page."""
    after, more = "", True
    while more:
        page = client._ask(Why(after=after))
        yield from page.projects
        after, more = page.next, bool(page.next)


def full_status(
    client: Client,
    group: str = "",
    *,
    names: Sequence[str] = (),
    part: str = "",
    sort: ProjectSort = "name",
    limit: int | None = None,
) -> StatusReply:
    """The daemon's status without fetchers, with all matching projects, fetched page by page.

    Args:
        group: only projects of this group; empty: all.
        names: only these projects; empty: all.
        part: only projects whose names contain this; empty: all.
        limit: number of projects, at most; None: all.

    Raises:
        click.ClickException: no project belongs to the group.
    """
    from taskqueue.protocol.daemon import StatusShow

    ask = partial(StatusShow, group=group, filter=part, fetchers=0, projects=[*names])
    first = page = client._ask(ask(limit=_page_of(PROJECTS_PAGE, limit), sort=sort))
    known, found, numbers = {view.name for view in page.projects}, [*page.projects], [*page.numbers]
    skip = len(page.projects)
    while page.more and (limit is None or skip < limit):
        most = _page_of(PROJECTS_PAGE, limit, skip)
        by_name = sort == "name"
        place = {"after": page.projects[-1].name} if by_name else {"sort": sort, "skip": skip}
        page = client._ask(ask(limit=most, **place))
        fresh = [place for place, view in enumerate(page.projects) if view.name not in known]
        found += [page.projects[place] for place in fresh]
        numbers += [page.numbers[place] for place in fresh if page.numbers]
        known.update(view.name for view in page.projects)
        skip += len(page.projects)
    if group and not part:
        check_group(group, found)
    return replace(first, projects=found, numbers=numbers)


def all_fetchers(
    client: Client,
    projects: Sequence[str] = (),
    group: str = "",
    *,
    part: str = "",
    sort: FetcherSort = "name",
    limit: int | None = None,
) -> Iterator[Fetcher]:
    """Fetchers that may take tasks of the projects or group, fetched page by page; arguments as in ``full_status``."""
    seen: set[str] = set()
    skip, more = 0, True
    while more and (limit is None or skip < limit):
        most = _page_of(FETCHERS_PAGE, limit, skip)
        page = client.fetchers.list(limit=most, projects=projects, group=group, filter=part, sort=sort, skip=skip)
        yield from (view for view in page.fetchers if view.session not in seen)
        seen.update(view.session for view in page.fetchers)
        skip, more = skip + len(page.fetchers), page.more


def _page_of(most: int, limit: int | None, skip: int = 0) -> int:
    return most if limit is None else min(most, limit - skip)


def check_group(group: str, members: Sequence[object]) -> None:
    """Check that a group has members; the error is worded as the daemon's.

    Raises:
        click.ClickException: it has none.
    """
    if not members:
        raise click.ClickException(f'group: no project belongs to a group "{group}"')


def daemon_options(command: Command) -> Command:
    """Add the options --daemon and --timeout to a command, which gets the ``daemon`` that they describe."""

    @click.option(
        "--timeout",
        envvar="TASKQUEUE_TIMEOUT",
        type=times.some_seconds,
        metavar="DURATION",
        default=f"{ANSWER_SECONDS:g}s",
        show_default=True,
        show_envvar=True,
        help="Longest wait for an answer.",
    )
    @wraps(command)
    def with_daemon(*args: object, daemon: str, key: str | None, timeout: float, **options: object) -> object:
        return command(*args, daemon=Daemon(daemon, timeout, key), **options)

    return address_option(cast("Command", with_daemon))


def waiting_options(command: Command) -> Command:
    """Add --daemon and --timeout to a command that waits for a project, task or flow to finish.

    It gets the ``daemon``, and ``patience``: the seconds of --timeout, ``inf`` if it is absent.
    """

    @click.option(
        "--timeout",
        "patience",
        metavar="DURATION",
        type=times.seconds,
        default=None,
        help="Longest wait for the end.  [default: no limit]",
    )
    @wraps(command)
    def with_daemon(*args: object, daemon: str, key: str | None, patience: float | None, **options: object) -> object:
        within = inf if patience is None else patience
        return command(*args, daemon=Daemon(daemon, ANSWER_SECONDS, key), patience=within, **options)

    return address_option(cast("Command", with_daemon))


def address_option(command: Command) -> Command:
    """Add the options --daemon and --key to a command: the address ``daemon``, and the key file ``key``."""
    address = click.option(
        "--daemon",
        metavar="ADDRESS",
        envvar="TASKQUEUE_DAEMON",
        default=URL,
        show_default=True,
        show_envvar=True,
        callback=_address,
        help="Address of the daemon.",
    )
    key = click.option(
        "--key",
        metavar="FILE",
        envvar="TASKQUEUE_KEY",
        type=click.Path(dir_okay=False),
        show_envvar=True,
        help="Key file, for a daemon with keys; empty: no key.",
    )
    return address(key(command))


def _address(context: click.Context, option: click.Parameter, written: str) -> str:
    if written.startswith(("http:", "https:")):
        raise click.BadParameter(f'"{written}" is not the address of a daemon, such as {URL}; --url-glob chooses tasks')
    return written


END_STATUSES: Final = {"success": 0, "failed": 3, "cancelled": 4}
"""Exit statuses of commands that wait, by the state in which the task or flow ended."""

NOT_OVER_STATUS: Final = 1
"""Exit status of commands that wait, if --timeout passed first."""
