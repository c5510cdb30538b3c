"""The options of ``taskqueue web`` that say who is let in."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeVar

import click

from taskqueue.cli.web.token import tokens_option
from taskqueue.web.roles import GRANTED, Role

Command = TypeVar("Command", bound=Callable[..., object])

Network = IPv4Network | IPv6Network


class NetworkType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """An address, or a network as in 10.0.0.0/8."""

    name = "address"

    def convert(self, value: str | Network, param: click.Parameter | None, ctx: click.Context | None) -> Network:
        """The network.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            return ip_network(value)
        except ValueError as error:
            raise click.BadParameter(f"{error}, such as 10.0.0.2 or 10.0.0.0/8") from None


class ProxyRoleType(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 only
    """A role, of one user, as in anna=admin, or of all others, whose name is ""."""

    name = "role"

    def convert(
        self, value: str | tuple[str, Role], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Role]:
        """The user and the role.

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
            help="A further name of the page.",
        ),
        click.option(
            "--trust-proxy",
            "proxies",
            multiple=True,
            metavar="ADDRESS",
            type=NetworkType(),
            envvar="TASKQUEUE_WEB_TRUST_PROXY",
            help="A reverse proxy, or its network, whose X-Forwarded headers count.",
        ),
        click.option(
            "--proxy-header",
            metavar="HEADER",
            default="",
            envvar="TASKQUEUE_WEB_PROXY_HEADER",
            help="Where it says who asks.",
        ),
        click.option(
            "--proxy-role",
            "proxy_roles",
            multiple=True,
            metavar="[USER=]ROLE",
            type=ProxyRoleType(),
            envvar="TASKQUEUE_WEB_PROXY_ROLE",
            help="What those may do, or one of them: viewer (without this), operator or admin.",
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
