"""``taskqueue daemon``: run, stop, reload, show and verify a daemon.

``start`` runs in this process, until SIGTERM or Ctrl-C. ``reload`` and ``stop`` signal the daemon that has a pid file,
and no other process.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.defaults import WEB_ADDRESS
from taskqueue.protocol.daemon import DaemonStatus
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue.protocol.daemon import DaemonPoint

Command = TypeVar("Command", bound=Callable[..., object])


@click.group()
def daemon() -> None:
    """Run, stop, show and verify a daemon.

    \b
    Example:
      taskqueue daemon start -c taskqueue.toml --pid-file taskqueue.pid
      taskqueue daemon show
      taskqueue daemon stop --pid-file taskqueue.pid
    """


@daemon.command()
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_CONFIG",
    help="Config file in TOML.  [default: all defaults]",
)
@click.option(
    "--bind",
    metavar="ADDRESS",
    multiple=True,
    help="Address to listen at, by tcp or ipc (repeatable).",
)
@click.option(
    "--store",
    metavar="DIR|URL",
    type=click.Path(),
    help="Folder or database of the store (postgresql://…).",
)
@click.option(
    "--durability",
    type=click.Choice(["commit", "interval", "none"]),
    help="Moment of the sync: before a reply, within 50 ms, never.",
)
@click.option(
    "--web",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=WEB_ADDRESS,
    help="Address of the dashboard, in a process of its own.",
)
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Least level of the daemon log."
)
@click.option(
    "--pid-file",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_PID_FILE",
    help="File for the process id, for `stop` and `reload`.",
)
@click.option("--insecure", is_flag=True, help="Listen beyond this machine without keys.")
@click.option("--accept-damage", is_flag=True, help="Start once without tasks that damage has destroyed.")
@click.option("-v", "--verbose", is_flag=True, help="Same as --log-level debug.")
def start(
    config: str | None,
    bind: tuple[str, ...],
    store: str | None,
    durability: str | None,
    web: str | None,
    log_level: str | None,
    pid_file: str | None,
    insecure: bool,
    accept_damage: bool,
    verbose: bool,
) -> int:
    """Run the daemon.

    Runs in this process until Ctrl-C or SIGTERM. `taskqueue scheduler` is the same command. SIGHUP reads the config
    file again. `taskqueue config init` writes a file with all settings and their defaults.

    The environment wins over the file, and the options win over both. A variable is named like its option,
    TASKQUEUE_CONFIG, TASKQUEUE_BIND, TASKQUEUE_STORE, TASKQUEUE_DURABILITY, TASKQUEUE_WEB, TASKQUEUE_LOG_LEVEL,
    TASKQUEUE_PID_FILE, and for every other setting of [daemon], [store], [limits], [advanced] and [webhook] like
    section and key: TASKQUEUE_ADVANCED_QUEUE_BYTES="1 GiB".

    \b
    Example:
      taskqueue daemon start -c taskqueue.toml --pid-file taskqueue.pid
      taskqueue daemon start --bind tcp://127.0.0.1:7400 --store data
      taskqueue daemon start --bind tcp://127.0.0.1:7400 --bind ipc://socket
      taskqueue daemon start --store postgresql://taskqueue@db.example/crawl
      taskqueue daemon start --store 'postgresql://db.example/crawl?schema=news'
      taskqueue daemon start -c taskqueue.toml --web
      TASKQUEUE_STORE=/data taskqueue daemon start
    """
    from taskqueue.server.main import run

    level = "debug" if verbose else log_level
    return run(
        config,
        bind=bind,
        store_path=store,
        durability=durability,
        web=web,
        log_level=level,
        insecure=insecure,
        environ=os.environ,
        pid_path=pid_file,
        accept_damage=accept_damage,
    )


STOP_PATIENCE: Final = "60s"


def names_pid_file(command: Command) -> Command:
    """Add the required option --pid-file to a command."""
    option = click.option(
        "--pid-file",
        metavar="FILE",
        type=click.Path(),
        envvar="TASKQUEUE_PID_FILE",
        required=True,
        show_envvar=True,
        help="File with the daemon's process id.",
    )
    return option(command)


@daemon.command()
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_CONFIG",
    help="Config file to check before anything is sent.",
)
@names_pid_file
def reload(pid_file: str, config: str | None) -> None:
    """Read the config file again.

    The daemon with this pid file reads it, as after SIGHUP, and its log says the result: a file with a mistake is
    refused, and the old settings stay in force. The exit status is 1 if no daemon runs.

    \b
    Example:
      taskqueue daemon reload -c taskqueue.toml --pid-file taskqueue.pid
    """
    from taskqueue.server.config import load
    from taskqueue.server.pid_file import RunningDaemon

    load(config)
    with closing(RunningDaemon(pid_file)) as running:
        running.send(signal.SIGHUP)
        say(f"the daemon with pid {running.pid} reads its config again; its log says what came of it")


@daemon.command()
@click.option(
    "--timeout",
    type=times.seconds,
    metavar="DURATION",
    default=STOP_PATIENCE,
    show_default=True,
    help="Longest wait for the end.",
)
@names_pid_file
def stop(pid_file: str, timeout: float) -> None:
    """Stop a daemon and wait for its end.

    The daemon with this pid file stops cleanly, as after SIGTERM. The exit status is 1 if there is none, or if it still
    runs after --timeout; it then stops as soon as it can.

    \b
    Example:
      taskqueue daemon stop --pid-file taskqueue.pid
    """
    from taskqueue.server.pid_file import RunningDaemon

    with closing(RunningDaemon(pid_file)) as running:
        running.send(signal.SIGTERM)
        if not running.ends_within(timeout):
            raise click.ClickException(
                f"the daemon with pid {running.pid} was told to stop, and runs after {timeout:g} s"
            )
        say(f"the daemon with pid {running.pid} has stopped")


DAEMON_KEYS: Final = tuple(key for key in DaemonStatus.__struct_fields__ if key not in ("v", "n"))
"""Keys of ``daemon show --json``, besides ``daemon``."""


@daemon.command()
@click.option("--history", is_flag=True, help="Figures over the last day, part by part.")
@click.option("--since", metavar="DURATION|TIME", type=times.past, help="Start of --history.  [default: 1d]")
@click.option("--until", metavar="DURATION|TIME", type=times.past, help="End of --history.  [default: now]")
@json_option
@daemon_options
def show(history: bool, since: float | None, until: float | None, as_json: bool, daemon: Daemon) -> None:
    """Show turns, commits, memory and store.

    Turns, commits, syncs, attempts and lateness are counted since the daemon opened its store; in JSON they are
    histograms.

    --history shows the last day in parts: turns, commits, syncs, dispatched and ready tasks, and the slowest minutes in
    words; in JSON, every minute. A minute is complete once the daemon does something in a later one, and survives
    restarts; an idle minute has no figures.

    \b
    Example:
      taskqueue daemon show
      taskqueue daemon show --history
      taskqueue daemon show --history --since 2h
      taskqueue daemon show --history --json | jq '.history[-1]'
      taskqueue daemon show --json | jq .histograms.commit_seconds
    """
    if not history and (since is not None or until is not None):
        raise click.UsageError("--since and --until are for --history")
    with daemon.client() as client:
        if history:
            points = list(client.daemon.history(since=since, until=until))
            _show_history(daemon.address, points, as_json)
            return
        reply = client.daemon.show()
    if as_json:
        print_object({"daemon": daemon.address} | {key: getattr(reply, key) for key in DAEMON_KEYS})
        return
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.display.daemon import facts
    from taskqueue.terminal.screen import Screen, Text

    table = bare_table(["daemon"], [], [daemon.address])
    for head, told in facts(reply):
        table.add_row(Text(head), Text(told))
    Screen().print(table)


def _show_history(address: str, points: Sequence[DaemonPoint], as_json: bool) -> None:
    """Print minutes: each of them in JSON, else parts of the time, with the slowest minutes in words."""
    if as_json:
        print_object({"daemon": address, "history": points})
        return
    from taskqueue.cli.output.tables import of_columns
    from taskqueue.display import daemon as words
    from taskqueue.terminal.screen import Screen

    if not points:
        say(words.NO_MINUTES)
        return
    Screen().print(of_columns(words.HISTORY_COLUMNS, words.history_parts(points), when=times.clock))
    say(words.HISTORY_EXPLAINED)
    say("The slowest minutes:")
    for point in words.slowest_minutes(points):
        say(f"{times.clock(point.at)}  {words.minute_sentence(point)}")
    for point in words.read_again(points):
        say(f"{times.clock(point.at)}  The daemon started, or read its store again (epoch {point.epoch}).")


@daemon.command()
@json_option
@daemon_options
def verify(as_json: bool, daemon: Daemon) -> int:
    """Check the daemon's invariants now.

    The daemon checks its state in memory; the exit status is 1 if something does not agree. `taskqueue store check`
    checks the store on disk.

    \b
    Example:
      taskqueue daemon verify
    """
    with daemon.client() as client:
        problems = client.daemon.verify()
    if as_json:
        print_object({"daemon": daemon.address, "problems": problems})
    elif problems:
        raise click.ClickException("an invariant is broken: " + "; ".join(problems))
    else:
        say("All invariants hold.")
    return 1 if problems else 0
