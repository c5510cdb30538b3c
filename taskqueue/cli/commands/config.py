"""``taskqueue config``: write a first config file, or check one."""

from __future__ import annotations

from shlex import quote

import click

from taskqueue.terminal.lines import say, say_lines

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
    """Write a config file.

    Writes every setting with its default and a line that explains it. FILE is taskqueue.toml by default; - is stdout.
    An existing file is not changed.

    \b
    Example:
      taskqueue config init
      taskqueue daemon start -c taskqueue.toml
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
    say(f"{file}: written; `taskqueue daemon start -c {quote(file)}` starts a daemon with it")


@config.command()
@click.argument("file", type=click.Path())
def check(file: str) -> None:
    """Check a config file.

    Reads it as the daemon would, and prints each problem with its line.

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
