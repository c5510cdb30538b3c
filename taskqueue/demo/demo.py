"""The demo from start to end: choose the crawl, start the processes, watch, check the result, stop.

no crawl yet, or the last one finished   a new one: the project is deleted and created again, the start page pushed
the last one unfinished                  continues where it was, whatever ended it
unfinished, but of another site          a new one, and the output says so
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

import msgspec
from rich.console import Console

from taskqueue import Client
from taskqueue.demo import crawl_run as runs
from taskqueue.demo import services
from taskqueue.demo.crawl_run import Run
from taskqueue.demo.evidence import gather
from taskqueue.demo.monitor import CrawlMonitor, over
from taskqueue.demo.page import Site
from taskqueue.demo.processes import Processes, locked
from taskqueue.demo.progress_display import open_display
from taskqueue.demo.verdict import Claim, check_claims
from taskqueue.demo.walk_progress import show_walk
from taskqueue.demo.webserver import site_of
from taskqueue.errors import ConfigError, TaskQueueError
from taskqueue.terminal.screen import Text

INTERRUPTED = 130
"""Exit status of a program ended by Ctrl-C."""

NO_PAGE = "none: pip install 'taskqueue-scheduler[web]'"

Part = str | tuple[str, str]
"""A piece of text, with or without a style."""


class Options(NamedTuple):
    """Options of the demo.

    Attributes:
        once: exit when the crawl is finished.
        folder: of HTML pages to serve; None: the bundled site.
        data: folder for the store, logs and the like.
        rate: pages per second.
    """

    once: bool
    folder: Path | None
    data: Path
    rate: float


def run_demo(options: Options, console: Console) -> int:
    """Run the demo until it is interrupted or, with ``once``, until the crawl is finished.

    Returns:
        Exit status: 0; 1 if a claim about the crawl doesn't hold; 130 if it was interrupted before its end with
            ``once``.

    Raises:
        TaskQueueError: the demo can't run; the message says why.
    """
    site = _site(options.folder)
    options.data.mkdir(parents=True, exist_ok=True)
    with locked(options.data) as lock, _interruptible():
        return _Demo(options, console, site, Processes(options.data, lock)).run()


class _Demo:
    def __init__(self, options: Options, console: Console, site: Site, processes: Processes) -> None:
        self._options = options
        self._console = console
        self._site = site
        self._processes = processes
        self._pages = 0
        self._next_time = "it goes on where it was"

    def run(self) -> int:
        try:
            return self._crawl()
        except KeyboardInterrupt:
            self._say(f"\nStopping; started again, {self._next_time}.")
            return INTERRUPTED if self._options.once else 0
        finally:
            self._stop()

    def _crawl(self) -> int:
        before = runs.load(self._options.data)
        run = self._next_run(before)
        self._count_pages()
        site_url = self._start_site(run)
        with (
            closing(services.start_scheduler(self._processes, self._options.data, self._options.rate)) as looking,
            closing(services.patient_client(looking.url)) as client,
        ):
            self._begin(client, run, site_url)
            monitor = CrawlMonitor(looking, self._processes, self._console, self._pages)
            monitor.look()
            page_url = "" if self._options.once else services.start_web(self._processes, client.url)
            services.start_fetchers(self._processes, client.url)
            self._introduce(before, run, site_url, client.url, page_url, over(monitor.counts))
            return self._watch(monitor, client, run, site_url)

    def _count_pages(self) -> None:
        if self._options.folder:
            with show_walk(self._console, self._options.folder) as tell:
                self._site.expected(tell)
            self._say()
        self._pages = len(self._site.expected())

    def _next_run(self, before: Run | None) -> Run:
        if before and not before.is_finished and before.site == self._site_name():
            return msgspec.structs.replace(before, starts=before.starts + 1)
        return Run((before.number if before else 0) + 1, self._site_name(), services.free_port(services.SITE_PORT))

    def _site_name(self) -> str:
        return str(self._options.folder.resolve()) if self._options.folder else ""

    def _start_site(self, run: Run) -> str:
        data = self._options.data
        if run.starts == 1:
            runs.forget_access(data)
        elif services.free_port(run.port) != run.port:
            raise TaskQueueError(
                f"port {run.port}, where the pages of the unfinished crawl are served, is taken; "
                f"free it, or remove {data} to start over"
            )
        return services.start_site(self._processes, run.port, runs.access_log(data, run.starts), self._options.folder)

    def _begin(self, client: Client, run: Run, site_url: str) -> None:
        """Prepare the scheduler for a new crawl; an unfinished one is there already."""
        if run.starts == 1:
            client.projects.delete(services.PROJECT)
            client.projects.start(services.PROJECT)
            client.push(services.PROJECT, site_url)
        runs.save(self._options.data, run)

    def _watch(self, monitor: CrawlMonitor, client: Client, run: Run, site_url: str) -> int:
        hint = "Ctrl-C stops it; started again, it goes on. Try kill -9 with any pid, too."
        before = over(monitor.counts)
        with open_display(self._console, hint) as live:
            monitor.until_finished(live)
        seconds = time.monotonic() - monitor.started_at
        evidence = gather(monitor, client, self._site, site_url, run, self._options.data)
        runs.save(self._options.data, msgspec.structs.replace(run, finished_at=time.time()))
        self._next_time = "a new crawl begins"
        claims = check_claims(evidence)
        self._conclude(run, over(monitor.counts) - before, seconds, claims)
        if not self._options.once:
            self._stay(monitor, client, site_url)
        return 0 if all(claim.holds for claim in claims) else 1

    # ---------------------------------------------------------------------------------------- what is said

    def _say(self, *parts: Part) -> None:
        self._console.print(Text.assemble(*parts), highlight=False, soft_wrap=True)

    def _introduce(self, before: Run | None, run: Run, site_url: str, url: str, page_url: str, done: int) -> None:
        name = self._site_name() or "the bundled site"
        previously = _previously(before, run, done)
        self._say((f"Crawl {run.number}", "bold"), f": {name}, {self._pages} pages{previously}\n")
        self._say(f"  site        {site_url}")
        pids = [f"pid {self._processes.pid(name)}" for name in ("scheduler", *services.FETCHERS)]
        self._say(f"  scheduler   {url}, {pids[0]}")
        self._say(f"  fetchers    {', '.join(pids[1:])}; {services.CONCURRENCY} pages at once each")
        if not self._options.once:
            self._say(f"  page        {page_url or NO_PAGE}")
        self._say(f"  pace        {services.BURST} pages at once, then {self._options.rate:g} a second")
        self._say(f"  data        {self._options.data}: store, config, logs\n")

    def _conclude(self, run: Run, pages: int, seconds: float, claims: list[Claim]) -> None:
        speed = pages / seconds
        figures = f"{pages} pages in {seconds:.1f} s, {speed:.1f} pages/s"
        self._say((f"\nCrawl {run.number} is finished", "bold"), f": {figures}\n")
        for claim in claims:
            mark = ("✓", "green") if claim.holds else ("✗", "bold red")
            self._say("  ", mark, f" {claim.name:10} {claim.text}")

    def _stay(self, monitor: CrawlMonitor, client: Client, site_url: str) -> None:
        self._say("\nThe scheduler and the fetchers stay until Ctrl-C. In another terminal, try:\n")
        flag = "" if client.url.endswith(f":{services.SCHEDULER_PORT}") else f" --url {client.url}"
        self._say(f"  {_command()} status{flag}")
        self._say(f"  {_command()} task show {services.PROJECT} {site_url}{flag}")
        self._say(f"  {_command()} push {services.PROJECT} {site_url} --force-update{flag}\n")
        with open_display(self._console, f"Ctrl-C stops everything; started again, {self._next_time}.") as live:
            monitor.forever(live)

    def _stop(self) -> None:
        """Stop fetchers first, so that they can hand back their tasks; a second Ctrl-C kills everything."""
        try:
            self._processes.stop(services.FETCHERS)
            self._processes.stop_all()
        except KeyboardInterrupt:
            self._processes.kill_all()


def _command() -> str:
    """How to call the taskqueue command from here."""
    if shutil.which("taskqueue"):
        return "taskqueue"
    beside_python = os.path.join(os.path.dirname(sys.executable), "taskqueue")
    return min(beside_python, os.path.relpath(beside_python), key=len)


def _previously(before: Run | None, run: Run, done: int) -> str:
    if before is None:
        return ""
    if run.starts > 1:
        return f". It goes on where it was: {done} are done already"
    if before.is_finished:
        return f". Crawl {before.number} was finished, so this is a new one"
    return f". Crawl {before.number} was of another site and is dropped, so this is a new one"


def _site(folder: Path | None) -> Site:
    if folder and not (folder / "index.html").is_file():
        raise ConfigError(f"{folder}: no index.html there; name a folder of HTML pages")
    return site_of(folder)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGTERM and a closed terminal stop the demo as cleanly as Ctrl-C."""
    before = {name: signal.signal(name, _interrupt) for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
