"""``taskqueue scheduler``, ``reload``, ``stop``, ``config``, ``daemon``: run a daemon, signal it, set it up, show it.

The scheduler runs in this process, until SIGTERM or Ctrl-C. ``reload`` and ``stop`` signal the daemon that has a pid
file, and no other process. ``config`` writes a first config file, or checks one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from shlex import quote
from typing import TYPE_CHECKING, Final, TypeVar

import click

from taskqueue.cli.input import times
from taskqueue.cli.input.daemon import Daemon, daemon_options
from taskqueue.cli.output.json_output import json_option, print_object
from taskqueue.protocol.daemon import DaemonReply
from taskqueue.terminal.lines import say, say_lines

if TYPE_CHECKING:
    from taskqueue.protocol.daemon import DaemonPoint

Command = TypeVar("Command", bound=Callable[..., object])

WEB_ADDRESS = "127.0.0.1:7401"


@click.command()
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_CONFIG",
    help="TOML file; without it, all defaults.",
)
@click.option("--bind", metavar="ADDRESS", help="Listen there, such as tcp://127.0.0.1:7400.")
@click.option(
    "--store",
    metavar="DIR|URL",
    type=click.Path(),
    help="Keep everything in this folder or database (postgresql://…?schema=NAME).",
)
@click.option(
    "--durability",
    type=click.Choice(["commit", "interval", "none"]),
    help="commit: what is acknowledged is on disk; interval: within 50 ms; none: when the system likes.",
)
@click.option(
    "--web",
    metavar="[HOST:PORT]",
    is_flag=False,
    flag_value=WEB_ADDRESS,
    help=f"Serve the page there, too, in a process of its own; without a value at {WEB_ADDRESS}.",
)
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="Log from this level on.")
@click.option(
    "--pid-file",
    metavar="FILE",
    type=click.Path(),
    envvar="TASKQUEUE_PID_FILE",
    help="Say there which process this is, for `taskqueue reload` and `taskqueue stop`.",
)
@click.option(
    "--accept-damage", is_flag=True, help="Start on a store that has lost tasks by damage, without them, once."
)
@click.option("-v", "--verbose", is_flag=True, help="Log each event of each task: --log-level debug.")
def scheduler(
    config: str | None,
    bind: str | None,
    store: str | None,
    durability: str | None,
    web: str | None,
    log_level: str | None,
    pid_file: str | None,
    accept_damage: bool,
    verbose: bool,
) -> int:
    """Run the scheduler, the daemon that decides which task runs next.

    SIGHUP reads the config file again; SIGTERM and Ctrl-C stop it. `taskqueue config init` writes a file with all
    settings and their defaults.

    The environment wins over the file, and the options win over both. A variable is named like its option,
    TASKQUEUE_CONFIG, TASKQUEUE_BIND, TASKQUEUE_STORE, TASKQUEUE_DURABILITY, TASKQUEUE_WEB, TASKQUEUE_LOG_LEVEL,
    TASKQUEUE_PID_FILE, and for every other setting of [daemon], [store], [limits], [advanced] and [webhook] like
    section and key: TASKQUEUE_ADVANCED_QUEUE_BYTES="1 GiB".

    \b
    Example:
      taskqueue scheduler -c taskqueue.toml --pid-file taskqueue.pid
      taskqueue scheduler --bind tcp://127.0.0.1:7400 --store data
      taskqueue scheduler --store postgresql://taskqueue@db.example/crawl
      taskqueue scheduler --store 'postgresql://db.example/crawl?schema=news'
      taskqueue scheduler -c taskqueue.toml --web
      TASKQUEUE_BIND=tcp://0.0.0.0:7400 TASKQUEUE_STORE=/data taskqueue scheduler
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
        environ=os.environ,
        pid_path=pid_file,
        accept_damage=accept_damage,
    )


STOP_PATIENCE: Final = "60s"


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
    daemon that has the pid file is told; without one the exit status is 1.

    \b
    Example:
      taskqueue reload -c taskqueue.toml --pid-file taskqueue.pid
    """
    from taskqueue.server.config import load
    from taskqueue.server.pid_file import RunningDaemon

    load(config)
    with closing(RunningDaemon(pid_file)) as daemon:
        daemon.send(signal.SIGHUP)
        say(f"the daemon with pid {daemon.pid} reads its config again; its log says what came of it")


@click.command()
@click.option(
    "--timeout",
    type=times.seconds,
    metavar="AGE",
    default=STOP_PATIENCE,
    show_default=True,
    help="Wait at most so long for its end: 90s, 5m.",
)
@names_pid_file
def stop(pid_file: str, timeout: float) -> None:
    """Stop a daemon cleanly, as SIGTERM does, and wait until it has ended.

    Only the daemon that has the pid file is stopped. The exit status is 1 if there is none, or if it still runs after
    --timeout; it ends as soon as it can.

    \b
    Example:
      taskqueue stop --pid-file taskqueue.pid
    """
    from taskqueue.server.pid_file import RunningDaemon

    with closing(RunningDaemon(pid_file)) as daemon:
        daemon.send(signal.SIGTERM)
        if not daemon.ends_within(timeout):
            raise click.ClickException(
                f"the daemon with pid {daemon.pid} was told to stop, and runs after {timeout:g} s"
            )
        say(f"the daemon with pid {daemon.pid} has stopped")


CONFIG_FILE = "taskqueue.toml"


@click.group()
def config() -> None:
    """Write a config file, or check one.

    \b
    Example:
      taskqueue config init
      taskqueue config check taskqueue.toml
    """


@config.command()
@click.argument("file", type=click.Path(allow_dash=True), default=CONFIG_FILE)
def init(file: str) -> None:
    """Write a config file with every setting, its default, and a line that explains it.

    FILE is taskqueue.toml if none is named, and - is stdout. A file that is there already is left as it is.

    \b
    Example:
      taskqueue config init
      taskqueue scheduler -c taskqueue.toml
    """
    from taskqueue.server.config import shipped

    if file == "-":
        say_lines(shipped().removesuffix("\n"))
        return
    try:
        with open(file, "x", encoding="utf-8") as written:
            written.write(shipped())
    except FileExistsError:
        raise click.ClickException(f"{file} is there already, and stays as it is; name another file") from None
    say(f"{file}: written; `taskqueue scheduler -c {quote(file)}` starts a daemon with it")


@config.command()
@click.argument("file", type=click.Path())
def check(file: str) -> None:
    """Read a config file as the daemon would, and name everything that is wrong with it, one problem a line.

    \b
    Example:
      taskqueue config check taskqueue.toml
    """
    from taskqueue.server import limits
    from taskqueue.server.config import load

    read = load(file)
    limits.check_memory(read)
    projects = sorted(read.projects)
    plural = "" if len(projects) == 1 else "s"
    say(f"{file}: good, {len(projects)} project{plural}: {', '.join(projects) or 'none'}")


DAEMON_KEYS: Final = tuple(key for key in DaemonReply.__struct_fields__ if key not in ("v", "n"))
"""Keys that ``daemon --json`` prints, besides ``url``."""


@click.command()
@click.option("--history", is_flag=True, help="How it was over the last day, part by part.")
@click.option("--since", metavar="TIME", type=times.since, help="With --history: 1h, 2027-01-31T03:00. [default: 1d]")
@click.option("--until", metavar="TIME", type=times.since, help="With --history: 10m ago, or a time. [default: now]")
@json_option
@daemon_options
def daemon(history: bool, since: float | None, until: float | None, as_json: bool, url: str, timeout: float) -> None:
    """Show how the daemon itself is: its turns, its commits, its memory, its store.

    What is said of turns, commits, syncs, attempts and lateness is since the daemon has read its store; in JSON they
    are histograms: how many were how large.

    With --history, of each part of the last day: turns, commits and syncs, what was handed out, what was ready, and the
    slowest minutes in words. In JSON, each minute. A minute is complete when the daemon has
    something to do in a later one, and kept over restarts; one in which it did nothing has no figures.

    \b
    Example:
      taskqueue daemon
      taskqueue daemon --history
      taskqueue daemon --history --since 2h
      taskqueue daemon --history --json | jq '.history[-1]'
      taskqueue daemon --json | jq .histograms.commit_seconds
    """
    if not history and (since is not None or until is not None):
        raise click.UsageError("--since and --until are for --history")
    with Daemon(url, timeout).client() as client:
        if history:
            points = list(client.daemon_history(since=since, until=until))
            _show_history(url, points, as_json)
            return
        reply = client.daemon()
    if as_json:
        print_object({"url": url} | {key: getattr(reply, key) for key in DAEMON_KEYS})
        return
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.display.daemon import facts
    from taskqueue.terminal.screen import Screen, Text

    table = bare_table(["daemon"], [], [url])
    for head, told in facts(reply):
        table.add_row(Text(head), Text(told))
    Screen().print(table)


def _show_history(url: str, points: Sequence[DaemonPoint], as_json: bool) -> None:
    """Print the minutes: each in JSON, else in parts of the time, with the slowest ones in words."""
    if as_json:
        print_object({"url": url, "history": points})
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
