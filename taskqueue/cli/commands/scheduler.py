"""``taskqueue scheduler``: the daemon, in this process, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import os

import click

WEB = "127.0.0.1:7401"


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
    flag_value=WEB,
    help=f"Serve the page there, too, in a process of its own; without a value at {WEB}.",
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
    TASKQUEUE_PID_FILE, and for every other setting of [server], [store], [limits] and [webhook] like section and key:
    TASKQUEUE_LIMITS_MEMORY_BYTES="1 GiB".

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
