"""``taskqueue scheduler``: the daemon, in this process, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import click


@click.command()
@click.option("-c", "--config", metavar="FILE", type=click.Path(), help="TOML file; without it, all defaults.")
@click.option("--bind", metavar="ADDRESS", help="Listen there, such as tcp://127.0.0.1:7400.")
@click.option("--store", metavar="DIR", type=click.Path(), help="Keep everything in this folder.")
@click.option(
    "--durability",
    type=click.Choice(["commit", "interval", "none"]),
    help="commit: what is acknowledged is on disk; interval: within 50 ms; none: when the system likes.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log each event of each task.")
def scheduler(config: str | None, bind: str | None, store: str | None, durability: str | None, verbose: bool) -> int:
    """Run the scheduler, the daemon that decides which task runs next.

    The options win over the config file. SIGHUP reads the file again; SIGTERM and Ctrl-C stop it. `taskqueue config
    init` writes a file with all settings and their defaults.

    \b
    Example:
      taskqueue scheduler -c taskqueue.toml
      taskqueue scheduler --bind tcp://127.0.0.1:7400 --store data
    """
    from taskqueue.server.main import run

    level = "debug" if verbose else None
    return run(config, bind=bind, store_path=store, durability=durability, log_level=level)
