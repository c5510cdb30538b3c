"""``taskqueue web``: serve dashboard, HTTP API and metrics of a daemon."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

import click

from taskqueue.cli.input.daemon import address_option
from taskqueue.defaults import METRICS_PROJECTS, WEB_ADDRESS
from taskqueue.protocol.callers import USER_ROLES, Role

Command = TypeVar("Command", bound=Callable[..., object])


@click.group()
def web() -> None:
    """Serve the dashboard.

    \b
    Example:
      taskqueue web start
    """


Network = IPv4Network | IPv6Network


class NetworkType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Parameter type of addresses and networks, such as 10.0.0.0/8."""

    name = "address"

    def convert(self, value: str | Network, param: click.Parameter | None, ctx: click.Context | None) -> Network:
        """Parse an address or network.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            return ip_network(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}, such as 10.0.0.2 or 10.0.0.0/8") from None


class ProxyRoleType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """Parameter type of roles: of one user, such as anna=admin, or of all others, with the name ""."""

    name = "role"

    def convert(
        self, value: str | tuple[str, Role], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Role]:
        """Parse a user and a role.

        Raises:
            click.BadParameter: the role is unknown.
        """
        if isinstance(value, tuple):
            return value
        user, _, role = value.rpartition("=")
        for granted in USER_ROLES:
            if role == granted:
                return user, granted
        raise click.BadParameter(f'"{role}" is no role: {", ".join(USER_ROLES)}')


def access_options(command: Command) -> Command:
    """Add the options --host, --trust-proxy, --proxy-header, --proxy-role and --root-path to a command."""
    options = (
        click.option(
            "--host",
            "hosts",
            multiple=True,
            metavar="NAME",
            envvar="TASKQUEUE_WEB_HOST",
            help="Further host name of the page (repeatable).",
        ),
        click.option(
            "--trust-proxy",
            "proxies",
            multiple=True,
            metavar="ADDRESS",
            type=NetworkType(),
            envvar="TASKQUEUE_WEB_TRUST_PROXY",
            help="Reverse proxy, or its network (repeatable).",
        ),
        click.option(
            "--proxy-header",
            metavar="HEADER",
            default="",
            envvar="TASKQUEUE_WEB_PROXY_HEADER",
            help="Header in which the proxy names the user.",
        ),
        click.option(
            "--proxy-role",
            "proxy_roles",
            multiple=True,
            metavar="[USER=]ROLE",
            type=ProxyRoleType(),
            envvar="TASKQUEUE_WEB_PROXY_ROLE",
            help="Without keys: role of a user of the proxy, or of all.  [default: viewer]",
        ),
        click.option(
            "--root-path",
            metavar="PATH",
            default="",
            envvar="TASKQUEUE_WEB_ROOT_PATH",
            help="Path of the page at the proxy, such as /taskqueue.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


class MissingExtra(click.ClickException):
    """A package of an extra that is not installed."""

    exit_code = 2


@web.command()
@address_option
@click.option(
    "--bind", metavar="HOST:PORT", default=WEB_ADDRESS, show_default=True, help="Address to listen at; port 0: any."
)
@access_options
@click.option(
    "--metrics-projects",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=METRICS_PROJECTS,
    show_default=True,
    envvar="TASKQUEUE_WEB_METRICS_PROJECTS",
    help="Number of projects with time series of their own.",
)
@click.option("--no-metrics", is_flag=True, envvar="TASKQUEUE_WEB_NO_METRICS", help="No metrics.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="End of the process at the end of stdin.")
@click.option("--key-from-stdin", is_flag=True, hidden=True, help="Key in the first line of stdin.")
def start(
    daemon: str,
    key: str | None,
    bind: str,
    hosts: tuple[str, ...],
    proxies: tuple[Network, ...],
    proxy_header: str,
    proxy_roles: tuple[tuple[str, Role], ...],
    root_path: str,
    metrics_projects: int,
    no_metrics: bool,
    until_stdin_ends: bool,
    key_from_stdin: bool,
) -> int:
    """Serve dashboard, HTTP API and metrics.

    It is a client of the daemon, so it may run on another machine and end at any time. If the daemon has no keys, every
    user of this machine may do everything on loopback, and elsewhere a reverse proxy has to name the user. If it has
    keys, this process needs one of the role web, and each user a token. All options but --bind may be set in the
    environment, as TASKQUEUE_WEB_HOST and so on. At /metrics the busiest projects have time series of their own
    (--metrics-projects); the others share one.

    \b
    Example:
      taskqueue web start
      taskqueue web start --daemon tcp://10.0.0.5:7400 --bind 127.0.0.1:8000
      taskqueue web start --bind 0.0.0.0:7401 --key web.key
    """
    try:
        import jinja2  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"{error.name} is not installed, which the dashboard needs: pip install 'taskqueue-scheduler[web]'"
        ) from None
    from taskqueue.access.key_file import find_local_key, key_in
    from taskqueue.web.access.arrival import ROOT_WORDS, root_path_of
    from taskqueue.web.main import run
    from taskqueue.web.options import AccessOptions, WebOptions

    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise click.BadParameter(f'"{bind}" is not HOST:PORT, such as {WEB_ADDRESS}', param_hint="--bind")
    if proxy_header and not proxies:
        raise click.UsageError("--proxy-header needs --trust-proxy: from anywhere else anybody could send it")
    if (root := root_path_of(root_path)) is None:
        raise click.BadParameter(f'"{root_path}" is not a path of {ROOT_WORDS}', param_hint="--root-path")
    access = AccessOptions(
        hosts=hosts,
        proxies=proxies,
        proxy_header=proxy_header.lower(),
        proxy_roles=dict(proxy_roles),
        root_path=root,
    )
    name = f"web@{socket.gethostname()}"
    most = None if no_metrics else metrics_projects
    named = find_local_key(daemon) if key is None else key
    shown = key_in(sys.stdin.fileno()) if key_from_stdin else named or None
    options = WebOptions(daemon, host.strip("[]"), int(port), name, access=access, metrics_projects=most, key=shown)
    return run(options, until_stdin_ends)
