"""``taskqueue reload`` and ``taskqueue stop``: tell the daemon that has a pid file, and no other process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import closing
from typing import Final, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.terminal.lines import say

Command = TypeVar("Command", bound=Callable[..., object])

PATIENCE: Final = "60s"


def names_pid_file(command: Command) -> Command:
    """Give a command the option --pid-file, which it can't do without."""
    option = click.option(
        "--pid-file",
        metavar="FILE",
        type=click.Path(),
        envvar="TASKQUEUE_PID_FILE",
        required=True,
        help="The one that the daemon was started with; or TASKQUEUE_PID_FILE.",
    )
    return option(command)


@click.command()
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_CONFIG",
    help="Check this config file first; if it is bad, nothing is told.",
)
@names_pid_file
def reload(pid_file: str, config: str | None) -> None:
    """Have a daemon read its config file again, as SIGHUP does.

    Its log says what came of it: a file with a mistake is refused there, and the old settings stay in force. Only the
    daemon that has the pid file is told, and if there is none, nobody.

    \b
    Example:
      taskqueue reload -c taskqueue.toml --pid-file taskqueue.pid
    """
    from taskqueue.server.config.config_file import load
    from taskqueue.server.config.pid_file import RunningDaemon

    load(config)
    with closing(RunningDaemon(pid_file)) as daemon:
        daemon.send(signal.SIGHUP)
        say(f"the daemon with pid {daemon.pid} reads its config again; its log says what came of it")


@click.command()
@click.option(
    "--timeout",
    type=times.seconds,
    metavar="AGE",
    default=PATIENCE,
    show_default=True,
    help="Wait at most so long for its end: 90s, 5m.",
)
@names_pid_file
def stop(pid_file: str, timeout: float) -> None:
    """Stop a daemon cleanly, as SIGTERM does, and wait until it has ended.

    Only the daemon that has the pid file is stopped, and if there is none, nobody. The exit status is 1 if it still
    runs after --timeout; it ends as soon as it can.

    \b
    Example:
      taskqueue stop --pid-file taskqueue.pid
    """
    from taskqueue.server.config.pid_file import RunningDaemon

    with closing(RunningDaemon(pid_file)) as daemon:
        daemon.send(signal.SIGTERM)
        if not daemon.ends_within(timeout):
            raise click.ClickException(
                f"the daemon with pid {daemon.pid} was told to stop, and runs after {timeout:g} s"
            )
        say(f"the daemon with pid {daemon.pid} has stopped")
