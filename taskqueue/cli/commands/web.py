"""``taskqueue web``: serve dashboard, HTTP API and metrics of a daemon; manage the tokens of their users."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Literal, TypeVar

import click
from click.core import ParameterSource

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import address_option, key_for
from taskqueue.cli.output.json_output import json_lines_option
from taskqueue.terminal.lines import say
from taskqueue.web.options import DEFAULT_TOKENS
from taskqueue.web.roles import GRANTED, Role

Command = TypeVar("Command", bound=Callable[..., object])


def tokens_option(command: Command) -> Command:
    """Add the option --tokens to a command."""
    option = click.option(
        "--tokens",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar="TASKQUEUE_WEB_TOKENS",
        default=DEFAULT_TOKENS,
        show_default=True,
        help="File of tokens.",
        show_envvar=True,
    )
    return option(command)


@click.group()
def web() -> None:
    """Serve the dashboard, and manage its tokens.

    \b
    Example:
      taskqueue web start
      taskqueue web token add anna --role admin
    """


@web.group()
def token() -> None:
    """Create, list and revoke tokens.

    A token lets a user into the dashboard and the HTTP API, with a role: viewer looks; operator runs, pushes, retries,
    pauses; admin changes settings and deletes, too. A running web process obeys changes at once: a revoked token ends
    its user's sessions.

    \b
    Example:
      taskqueue web token add anna --role admin
      taskqueue web token list
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(GRANTED), required=True, help="Rights of the token.")
@click.option(
    "--expires", metavar="DURATION", type=times.some_seconds, help="Time until the token expires, such as 90d."
)
@tokens_option
def add(name: str, role: Literal["viewer", "operator", "admin"], expires: float | None, tokens: Path) -> None:
    """Create a token.

    The token is printed once; the file has only its digest. Users paste it into the sign-in page, programs send it as
    "Authorization: Bearer TOKEN".

    \b
    Example:
      taskqueue web token add anna --role admin
      taskqueue web token add prometheus --role viewer --expires 365d
    """
    from taskqueue.web.access.tokens import add_token

    say(add_token(tokens, name, role, time.time() + expires if expires else None))
    say(f"This is the token of {name}, {role}; it is shown this once.", err=True)


@token.command("list")
@json_lines_option
@tokens_option
def list_tokens(as_json: bool, tokens: Path) -> None:
    """List tokens, oldest first.

    \b
    Example:
      taskqueue web token list
    """
    from taskqueue.cli.output.json_output import print_lines
    from taskqueue.web.access.tokens import read_tokens

    read = read_tokens(tokens)
    found = read.tokens if read else ()
    if as_json:
        print_lines(
            {"name": each.name, "role": each.role, "created_at": each.created_at, "expires_at": each.expires_at}
            for each in found
        )
        return
    from taskqueue.cli.output.tables import bare_table, show
    from taskqueue.terminal.screen import Text

    table = bare_table(["name"], [], ["role", "made", "expires"])
    for each in found:
        table.add_row(*map(Text, (each.name, each.role, times.local(each.created_at), _end_of(each.expires_at))))
    show(table)


@token.command()
@click.argument("name")
@tokens_option
def remove(name: str, tokens: Path) -> None:
    """Revoke a token.

    Users who signed in with it are signed out.

    \b
    Example:
      taskqueue web token remove anna
    """
    from taskqueue.web.access.tokens import remove_token

    remove_token(tokens, name)
    say(f"{name} has no token any more.")


def _end_of(expires_at: float | None) -> str:
    if expires_at is None:
        return "never"
    return times.local(expires_at) + (" (expired)" if expires_at <= time.time() else "")


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
            click.BadParameter: there is no such role.
        """
        if isinstance(value, tuple):
            return value
        user, _, role = value.rpartition("=")
        for granted in GRANTED:
            if role == granted:
                return user, granted
        raise click.BadParameter(f'"{role}" is no role: {", ".join(GRANTED)}')


def access_options(command: Command) -> Command:
    """Add the options --tokens, --host, --trust-proxy, --proxy-header, --proxy-role and --root-path to a command."""
    options = (
        tokens_option,
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
            help="Role of a user of the proxy, or of all.  [default: viewer]",
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


BIND = "127.0.0.1:7401"
METRICS_PROJECTS = 50


class MissingExtra(click.ClickException):
    """A package of an extra that is not installed."""

    exit_code = 2


@web.command()
@address_option
@click.option("--bind", metavar="HOST:PORT", default=BIND, show_default=True, help="Address to listen at; port 0: any.")
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
@click.pass_context
def start(
    context: click.Context,
    daemon: str,
    key: Path | None,
    bind: str,
    tokens: Path,
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

    It is an ordinary client of the daemon, so it may run on another machine and end at any time. On loopback every user
    of this machine may do everything until there is a token; elsewhere a token is required, or a reverse proxy that
    names the user. All options but --bind may be set in the environment, as TASKQUEUE_WEB_HOST and so on. At /metrics
    the busiest projects have time series of their own (--metrics-projects); the others share one.

    \b
    Example:
      taskqueue web start
      taskqueue web start --daemon tcp://10.0.0.5:7400 --bind 127.0.0.1:8000
      taskqueue web token add anna --role admin
      taskqueue web start --bind 0.0.0.0:7401 --trust-proxy 10.0.0.2
    """
    try:
        import jinja2  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"{error.name} is not installed, which the page needs: pip install 'taskqueue-scheduler[web]'"
        ) from None
    from taskqueue.access.key_file import key_in
    from taskqueue.web.access.arrival import ROOT_WORDS, root_path_of
    from taskqueue.web.main import run
    from taskqueue.web.options import AccessOptions, WebOptions

    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise click.BadParameter(f'"{bind}" is no HOST:PORT, such as {BIND}', param_hint="--bind")
    if proxy_header and not proxies:
        raise click.UsageError("--proxy-header needs --trust-proxy: from anywhere else anybody could send it")
    if (root := root_path_of(root_path)) is None:
        raise click.BadParameter(f'"{root_path}" is not a path of {ROOT_WORDS}', param_hint="--root-path")
    access = AccessOptions(
        tokens=tokens,
        demands_tokens=context.get_parameter_source("tokens") is not ParameterSource.DEFAULT,
        hosts=hosts,
        proxies=proxies,
        proxy_header=proxy_header.lower(),
        proxy_roles=dict(proxy_roles),
        root_path=root,
    )
    name = f"web@{socket.gethostname()}"
    most = None if no_metrics else metrics_projects
    shown = key_in(sys.stdin.fileno()) if key_from_stdin else key_for(daemon, key)
    options = WebOptions(daemon, host.strip("[]"), int(port), name, access=access, metrics_projects=most, key=shown)
    return run(options, until_stdin_ends)
