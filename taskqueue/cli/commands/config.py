"""``taskqueue config``: write a first config file, check one, or print those of Prometheus and Grafana."""

from __future__ import annotations

from importlib.resources import files
from shlex import quote

import click

from taskqueue.errors import SettingError
from taskqueue.terminal.lines import say, say_lines

CONFIG_FILE = "taskqueue.toml"


@click.group()
def config() -> None:
    """Write or check config files.

    \b
    Example:
      taskqueue config init
      taskqueue config check taskqueue.toml
      taskqueue config alerts > prometheus-alerts.yml
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
    from taskqueue.server.config import check_together, load, placed

    read = load(file)
    try:
        check_together(read)
        limits.check_memory(read)
    except SettingError as error:
        raise SettingError(placed(str(error), file, {})) from None
    projects = sorted(read.projects)
    plural = "" if len(projects) == 1 else "s"
    say(f"{file}: good, {len(projects)} project{plural}: {', '.join(projects) or 'none'}")


@config.command()
def board() -> None:
    """Print a dashboard for Grafana.

    Import it there under Dashboards, New, Import. It shows what Prometheus scrapes from the page.

    \b
    Example:
      taskqueue config board > taskqueue.json
    """
    _print("grafana-dashboard.json")


@config.command()
def alerts() -> None:
    """Print alerts for Prometheus.

    Name the file under rule_files of prometheus.yml.

    \b
    Example:
      taskqueue config alerts > prometheus-alerts.yml
    """
    _print("prometheus-alerts.yml")


def _print(name: str) -> None:
    say_lines(files("taskqueue.web").joinpath(name).read_text("utf-8").removesuffix("\n"))
