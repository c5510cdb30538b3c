"""``taskqueue config``: a first config file, and is a config file good?"""

from __future__ import annotations

from shlex import quote

import click

from taskqueue.terminal.lines import say, say_lines

FILE = "taskqueue.toml"


@click.group()
def config() -> None:
    """Write a config file, or check one.

    \b
    Example:
      taskqueue config init
      taskqueue config check taskqueue.toml
    """


@config.command()
@click.argument("file", type=click.Path(allow_dash=True), default=FILE)
def init(file: str) -> None:
    """Write a config file with every setting, its default, and a line that explains it.

    FILE is taskqueue.toml if none is named, and - is stdout. A file that is there already is left as it is.

    \b
    Example:
      taskqueue config init
      taskqueue scheduler -c taskqueue.toml
    """
    from taskqueue.server.config.config_file import shipped

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
    from taskqueue.server.config.config_file import load
    from taskqueue.server.limits import memory_budget

    read = load(file)
    memory_budget.check(read)
    projects = sorted(read.projects)
    plural = "" if len(projects) == 1 else "s"
    say(f"{file}: good, {len(projects)} project{plural}: {', '.join(projects) or 'none'}")
