"""``taskqueue config``: is a config file good?"""

from __future__ import annotations

import click


@click.group()
def config() -> None:
    """Check a config file.

    \b
    Example:
      taskqueue config check conf/taskqueue.toml
    """


@config.command()
@click.argument("file", type=click.Path())
def check(file: str) -> None:
    """Read a config file as the daemon would, and name everything that is wrong with it, one problem a line.

    \b
    Example:
      taskqueue config check conf/taskqueue.toml &&
        pkill -HUP -f 'taskqueue scheduler'
    """
    from taskqueue.server.config import load

    projects = sorted(load(file).projects)
    plural = "" if len(projects) == 1 else "s"
    click.echo(f"{file}: good, {len(projects)} project{plural}: {', '.join(projects) or 'none'}")
