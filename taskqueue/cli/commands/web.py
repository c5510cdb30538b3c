"""``taskqueue web``: the page, the HTTP interface and the metrics of a daemon."""

from __future__ import annotations

import socket

import click

from taskqueue.cli.input.daemon import url_option

BIND = "127.0.0.1:7401"


@click.group(invoke_without_command=True)
@url_option
@click.option("--bind", metavar="HOST:PORT", default=BIND, show_default=True, help="Listen there; port 0: a free one.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True, help="End when whoever started it has ended.")
@click.pass_context
def web(context: click.Context, url: str, bind: str, until_stdin_ends: bool) -> int | None:
    """Show a daemon in the browser, and let programs speak HTTP with it.

    It is an ordinary client of the daemon, so it may run on another machine, and end at any time.

    \b
    Example:
      taskqueue web
      taskqueue web --url tcp://10.0.0.5:7400 --bind 127.0.0.1:8000
    """
    if context.invoked_subcommand is not None:
        return None
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise click.ClickException(
            f"{error.name} is not installed, which the page needs: pip install 'taskqueue-scheduler[web]'"
        ) from None
    from taskqueue.web.main import run
    from taskqueue.web.options import WebOptions

    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise click.BadParameter(f'"{bind}" is no HOST:PORT, such as {BIND}', param_hint="--bind")
    return run(WebOptions(url, host.strip("[]"), int(port), f"web@{socket.gethostname()}"), until_stdin_ends)
