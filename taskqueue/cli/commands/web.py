"""``taskqueue web``: the page, the HTTP interface and the metrics of a daemon."""

from __future__ import annotations

import socket
from pathlib import Path

import click
from click.core import ParameterSource

from taskqueue.cli.input.daemon import url_option
from taskqueue.cli.web.access_options import Network, access_options
from taskqueue.cli.web.token import token
from taskqueue.web.roles import Role

BIND = "127.0.0.1:7401"
METRICS_PROJECTS = 50


class MissingExtra(click.ClickException):
    """A package of an extra is not installed."""

    exit_code = 2


@click.group(invoke_without_command=True)
@url_option
@click.option("--bind", metavar="HOST:PORT", default=BIND, show_default=True, help="Listen there; port 0: a free one.")
@access_options
@click.option(
    "--metrics-projects",
    metavar="N",
    type=click.IntRange(0, 1000),
    default=METRICS_PROJECTS,
    show_default=True,
    envvar="TASKQUEUE_WEB_METRICS_PROJECTS",
    help="At /metrics the N busiest projects have time series of their own; the others share one.",
)
@click.option("--no-metrics", is_flag=True, envvar="TASKQUEUE_WEB_NO_METRICS", help="Nothing is at /metrics.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="End when whoever started it has ended.")
@click.pass_context
def web(
    context: click.Context,
    url: str,
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
) -> int | None:
    """Show a daemon in the browser, and let programs speak HTTP with it.

    It is an ordinary client of the daemon, so it may run on another machine, and end at any time. On loopback
    everybody on this machine may do everything, until there is a token; elsewhere it demands one, or a reverse proxy
    that says who asks. Options but --bind and --url may stand in the environment, as TASKQUEUE_WEB_HOST and so on.

    \b
    Example:
      taskqueue web
      taskqueue web --url tcp://10.0.0.5:7400 --bind 127.0.0.1:8000
      taskqueue web token add anna --role admin
      taskqueue web --bind 0.0.0.0:7401 --host tq.example --trust-proxy 10.0.0.2
    """
    if context.invoked_subcommand is not None:
        return None
    try:
        import jinja2  # noqa: F401
        import prometheus_client  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtra(
            f"{error.name} is not installed, which the page needs: pip install 'taskqueue-scheduler[web]'"
        ) from None
    from taskqueue.web.access.root_path import WORDS, root_path_of
    from taskqueue.web.main import run
    from taskqueue.web.options import AccessOptions, WebOptions

    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise click.BadParameter(f'"{bind}" is no HOST:PORT, such as {BIND}', param_hint="--bind")
    if proxy_header and not proxies:
        raise click.UsageError("--proxy-header needs --trust-proxy: from anywhere else anybody could send it")
    if (root := root_path_of(root_path)) is None:
        raise click.BadParameter(f'"{root_path}" is not a path of {WORDS}', param_hint="--root-path")
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
    options = WebOptions(url, host.strip("[]"), int(port), name, access=access, metrics_projects=most)
    return run(options, until_stdin_ends)


web.add_command(token)
