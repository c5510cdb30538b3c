"""Cost of the dashboard: a daemon of 3,000 projects at full load, without browsers and with 200 of them.

    python -m benchmarks.web
    python -m benchmarks.web --browsers 20 --projects 300 --tasks 50000 --rounds 1

The daemon has a core for itself; the web process, the browsers, the producer and the fetcher share the other. The
figure to compare is the CPU of the daemon for one task, from its push to its ``done``, because the rate suffers from
the company. A real browser (Chromium, driven by Playwright) measures the time until something can be seen, while the
others watch and the load runs. The first seconds cost most, when the first page of 3,000 projects is read.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks import processes
from benchmarks.daemon import Daemon
from benchmarks.harness import Column, Ratio, Report, alternate, parser
from benchmarks.web.load import CONFIG, Load

COMMAND: Final = "python -m benchmarks.web"
CHROMIUM: Final = "/usr/bin/chromium"
COLUMNS: Final = [
    Column("speed", "lifecycles", "/s"),
    Column("cpu", "CPU of the daemon a lifecycle", "µs", 2),
    Column("web_cpu", "CPU of the web process", "% of a core", 1),
    Column("web_rss", "its memory", "MB", 1),
    Column("page", "the page", "kB", 1),
    Column("paint", "until something is seen", "ms"),
    Column("bytes", "a minute to a browser", "kB"),
    Column("events", "changes a minute", "", 0),
]
ALONE: Final = "without the page"
LOOKED_AT: Final = "with browsers"


def main() -> None:
    """Fill the daemon, then measure with and without browsers in turn."""
    options = parse()
    processes.stay_on("1")
    ratios = [Ratio("CPU of the daemon, with browsers against without", "cpu", LOOKED_AT, ALONE, "≤ 1.02")]
    report = Report("web", "The page", COMMAND, COLUMNS, ratios)
    with Daemon(CONFIG) as daemon:
        daemon.wait()
        load = Load(daemon.url, options.projects)
        load.run(options.projects * 32)
        for _, looked_at in alternate(options.rounds, [False, True]):
            if looked_at:
                report.add(LOOKED_AT, with_browsers(daemon, load, options))
            else:
                report.add(ALONE, measure(daemon, load, options.tasks))
    report.note(f"{options.browsers} browsers at the first page of {options.projects:,} projects.")
    report.finish(options)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--browsers", type=int, default=200)
    made.add_argument("--projects", type=int, default=3000)
    made.add_argument("--tasks", type=int, default=400_000, help="lifecycles of a measurement")
    return made.parse_args()


def measure(daemon: Daemon, load: Load, count: int) -> dict[str, float]:
    """Measure ``count`` lifecycles."""
    cpu = daemon.cpu_seconds()
    seconds = load.run(count)
    return {"speed": count / seconds, "cpu": (daemon.cpu_seconds() - cpu) / count * 1e6}


def with_browsers(daemon: Daemon, load: Load, options: argparse.Namespace) -> dict[str, float]:
    """Measure lifecycles while browsers watch, what the browsers receive, and the cost of the web process."""
    with web_process(daemon) as (web, url), browsers_at(url, options.browsers) as browsers:
        cpu, began_at = processes.cpu_seconds(web.pid), time.perf_counter()
        paints: list[float] = []
        painting = threading.Thread(target=lambda: paints.extend(paint(url)))
        painting.start()
        figures = measure(daemon, load, options.tasks)
        share = (processes.cpu_seconds(web.pid) - cpu) / (time.perf_counter() - began_at)
        painting.join()
        browsers.terminate()
        seen = processes.printed(browsers)
        figures |= {
            "web_cpu": share * 100,
            "web_rss": processes.rss_bytes(web.pid) / 1e6,
            "page": seen["page_bytes"] / 1e3,
            "bytes": seen["minute_bytes"] / 1e3,
            "events": seen["minute_events"],
        }
        return figures | ({"paint": paints[0]} if paints else {})


@contextmanager
def web_process(daemon: Daemon) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run ``taskqueue web start``; return it with the address of the dashboard."""
    port = processes.free_port()
    bind = f"127.0.0.1:{port}"
    command = [sys.executable, "-m", "taskqueue.cli.main", "web", "start", "--daemon", daemon.url, "--bind", bind]
    with (daemon.folder / "web.log").open("ab") as log:
        web = processes.start(command, "1", log)
    try:
        processes.wait_until_it_listens(web, port)
        yield web, f"http://{bind}/"
    finally:
        processes.stop(web)


@contextmanager
def browsers_at(url: str, count: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``count`` browsers, all of which have received the first change."""
    browsers = processes.start_module("benchmarks.web.browsers", ["--url", url, "--count", str(count)], "1")
    try:
        assert browsers.stdout is not None
        if browsers.stdout.readline() != b"ready\n":
            raise SystemExit("the browsers did not all receive the first change")
        yield browsers
    finally:
        browsers.kill()
        browsers.wait()


def paint(url: str) -> list[float]:
    """Measure milliseconds until a real browser has drawn something of the page; [] without a browser."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        return []
    with sync_playwright() as play:
        try:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        except Error:
            return []
        page = browser.new_page()
        page.goto(url, wait_until="load")
        script = "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"
        page.wait_for_function(f"{script}.length > 0")
        found: list[float] = page.evaluate(script)
        browser.close()
        return found


if __name__ == "__main__":
    main()
