"""``taskqueue demo``: crawl a small site with a real daemon."""

from __future__ import annotations

from pathlib import Path

import click

RATE = 50.0


@click.command()
@click.option("--once", is_flag=True, help="End once the crawl has finished.")
@click.option(
    "--site",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of HTML pages to crawl, from its index.html.",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data/demo"),
    show_default=True,
    help="Folder of the store and the logs.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    default=RATE,
    show_default=True,
    help="Pages a second; inf is unlimited.",
)
def demo(once: bool, site: Path | None, data: Path, rate: float) -> int:
    """Crawl a small site and show it live.

    Starts a real daemon, a web site on loopback and two fetchers. Kill the daemon or a fetcher: it goes on. Ctrl-C
    stops them all; the next start goes on with an unfinished crawl.

    \b
    Example:
      taskqueue demo
      taskqueue demo --once --site /usr/share/doc/python3/html
    """

    from taskqueue.demo.demo import Options, run_demo
    from taskqueue.terminal.screen import Screen

    return run_demo(Options(once, site, data, rate), Screen())
