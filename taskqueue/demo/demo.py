"""Demo from start to end: serve a site, start a daemon and two fetchers, watch the crawl, stop.

    site        served by a thread of the demo
    daemon      taskqueue daemon start --store data/demo/store, with --web if it stays and [web] is installed
    fetcher-1   taskqueue work taskqueue.demo.crawler:crawl demo
    fetcher-2   the same

The crawl's state is in the daemon's store. A file beside it identifies the crawl:

    no crawl yet, or the last one finished   a new crawl: the project is created anew, the start page pushed
    the last one unfinished                  continues, whatever ended it
    unfinished, but of another site          a new crawl, and the output says so

Progress is shown in place on a terminal, otherwise as a plain line a second.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from taskqueue import Client
from taskqueue.defaults import DAEMON_PORT, WEB_PORT
from taskqueue.demo.processes import Processes, locked
from taskqueue.demo.site import LOOPBACK, MISSING, bundled_pages, served
from taskqueue.errors import ConfigError, RequestTimeout, TaskQueueError
from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.values import TaskCounts
from taskqueue.terminal.screen import Text

BUNDLED = "the bundled site"
PROJECT = "demo"
FILE = "crawl.json"
BURST = 10
FETCHERS = ("fetcher-1", "fetcher-2")
CONCURRENCY = 8
"""Pages that each fetcher fetches at once."""

SITE_PORT = 7480
"""Preferred port; if it is taken, or that of daemon or dashboard, any free port is used instead."""

WEB_NEEDS = ("jinja2", "starlette", "uvicorn")

LOOK_SECONDS = 0.2
ANSWER_SECONDS = 1.0
"""Longest wait for an answer; the daemon may just have been killed, and the next request comes soon."""
PATIENCE_SECONDS = 30.0
"""Longest wait for the daemon's start and for changes on a busy machine."""

INTERRUPTED = 130
"""Exit status of a program ended by Ctrl-C."""


class Options(NamedTuple):
    """Options of the demo: ``folder`` is None for the bundled site, ``rate`` is in pages a second."""

    once: bool
    folder: Path | None
    data: Path
    rate: float


class Crawl(msgspec.Struct, frozen=True):
    """Crawl as stored between starts of the demo; the ``port`` of its site is in the URLs of all its tasks."""

    site: str
    port: int
    is_finished: bool = False


def run_demo(options: Options, console: Console) -> int:
    """Run the demo until it is interrupted or, with ``once``, until the crawl is finished.

    Returns:
        Exit status: 0, or 130 if ``once`` was set and the crawl was interrupted.

    Raises:
        TaskQueueError: the demo can't run; the message says why.
    """
    if options.folder and not (options.folder / "index.html").is_file():
        raise ConfigError(f"{options.folder}: no index.html there; name a folder of HTML pages")
    options.data.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # A closed terminal counts as Ctrl-C.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # Not under nohup.
            signal.signal(number, signal.default_int_handler)
    with locked(options.data) as lock, ExitStack() as stack:
        return _Demo(options, console, Processes(options.data, lock), stack).run()


class _Demo:
    def __init__(self, options: Options, console: Console, processes: Processes, stack: ExitStack) -> None:
        self._options = options
        self._console = console
        self._processes = processes
        self._stack = stack
        self._site = str(options.folder.resolve()) if options.folder else ""
        self._name = str(options.folder or BUNDLED)
        self._settings: dict[str, Setting] = {"rate": options.rate, "burst": BURST, "retry_delay": [2, 10, 60]}
        self._next_time = "it goes on where it was"

    def run(self) -> int:
        try:
            return self._crawl()
        except KeyboardInterrupt:
            self._say(f"\nStopping; started again, {self._next_time}.")
            return INTERRUPTED if self._options.once else 0
        finally:
            with suppress(KeyboardInterrupt):
                self._stop()

    def _crawl(self) -> int:
        before = last_crawl(self._options.data)
        goes_on = before is not None and before.site == self._site and not before.is_finished
        crawl = Crawl(self._site, self._serve(before.port if before and goes_on else 0))
        url, web = self._start_daemon()
        looking = self._stack.enter_context(Client(url, timeout=ANSWER_SECONDS, name="demo", key=""))
        self._await_project(looking)
        self._await_page(web)
        client = self._stack.enter_context(Client(url, timeout=PATIENCE_SECONDS, name="demo", key=""))
        start = f"http://{LOOPBACK}:{crawl.port}/"
        if not goes_on:
            client.projects.delete(PROJECT)
            client.projects.set(PROJECT, self._settings)
            client.push(PROJECT, start)
        # The daemon has acknowledged the first page, and no fetcher has started.
        save(self._options.data, crawl)
        done = over(client.projects.get(PROJECT).counts)
        work = ("taskqueue", "work", "taskqueue.demo.crawler:crawl", PROJECT, "-j", str(CONCURRENCY))
        for name in FETCHERS:
            self._processes.start(name, *work, "--daemon", url, "--key", "")
        self._introduce(start, url, web, _previously(before, goes_on, done))
        self._watch(looking, done)
        save(self._options.data, msgspec.structs.replace(crawl, is_finished=True))
        if not self._options.once:
            self._stay(looking, url, start)
        return 0

    # ------------------------------------------------------------------------------------------ what runs

    def _serve(self, port: int) -> int:
        """Serve the site at the port of the unfinished crawl, or at any port if it is 0."""
        log = self._stack.enter_context((self._options.data / "site.log").open("a" if port else "w", buffering=1))
        for wanted in (port,) if port else (SITE_PORT, 0):
            try:
                return self._stack.enter_context(served(self._options.folder, wanted, log))
            except OSError:
                continue
        raise TaskQueueError(
            f"port {port}, where the pages of the unfinished crawl are served, is taken; "
            f"free it, or remove {self._options.data} to start over"
        )

    def _start_daemon(self) -> tuple[str, str]:
        """Start the daemon; return its address, and HOST:PORT of its dashboard, empty if it has none."""
        url = f"tcp://{LOOPBACK}:{_free_port(DAEMON_PORT)}"
        has_page = not self._options.once and all(map(find_spec, WEB_NEEDS))
        web = f"{LOOPBACK}:{_free_port(WEB_PORT)}" if has_page else ""
        store = str(self._options.data / "store")
        page = ("--web", web) if web else ()
        self._processes.start("daemon", "taskqueue", "daemon", "start", "--bind", url, "--store", store, *page)
        return url, web

    def _await_project(self, looking: Client) -> None:
        """Create the project, or set the pace of an unfinished crawl, as soon as the daemon answers."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            with suppress(RequestTimeout):
                looking.projects.set(PROJECT, self._settings)
                return
            if self._processes.dead() or time.monotonic() > until:
                raise TaskQueueError(f"the daemon did not start: {self._processes.last_words('daemon')}")

    def _await_page(self, web: str) -> None:
        """Wait until the dashboard, if there is one, can be opened."""
        until = time.monotonic() + PATIENCE_SECONDS
        while web:
            with suppress(OSError), socket.create_connection((LOOPBACK, int(web.partition(":")[2]))):
                return
            if self._processes.dead() or time.monotonic() > until:
                raise TaskQueueError(f"the dashboard did not start: {self._processes.last_words('daemon')}")
            time.sleep(LOOK_SECONDS)

    def _watch(self, looking: Client, before: int) -> None:
        """Show the crawl until it is finished, then its summary."""
        hint = "Ctrl-C stops it; started again, it goes on. Try kill -9 with any pid, too."
        seconds, counts = self._show(looking, hint, is_finished)
        self._next_time = "a new crawl begins"
        pages = over(counts) - before
        now = f", {pages:,} of them now," if before else ""
        took = f"{seconds:.1f} s, {pages / seconds:.1f} a second"
        ended = f"{counts.success:,} success, {counts.failed:,} failed"
        self._say(f"\nCrawled {over(counts):,} pages of {self._name}{now} in {took}: {ended}.", "bold")

    def _show(self, looking: Client, hint: str, is_last: Callable[[TaskCounts], bool]) -> tuple[float, TaskCounts]:
        """Show the crawl until ``is_last`` holds, restarting processes that died."""
        began_at = time.monotonic()
        with Display(self._console, hint) as display:
            while True:
                for name, ending in self._processes.dead().items():
                    self._restart(name, ending)
                seconds = time.monotonic() - began_at
                if (counts := _counts(looking)) is not None:
                    display.show(seconds, counts)
                    if is_last(counts):
                        return seconds, counts
                time.sleep(LOOK_SECONDS)

    def _stay(self, looking: Client, url: str, start: str) -> None:
        command = _command()
        flag = "" if url.endswith(f":{DAEMON_PORT}") else f" --daemon {url}"
        self._say("The daemon and the fetchers stay until Ctrl-C. In another terminal, try:\n")
        self._say(f"  {command} status{flag}")
        self._say(f"  {command} task list {PROJECT} --state failed{flag}")
        self._say(f"  {command} push {PROJECT} {start} --force-update{flag}\n")
        self._show(looking, f"Ctrl-C stops everything; started again, {self._next_time}.", lambda counts: False)

    def _stop(self) -> None:
        """Stop fetchers first, so that they can hand back their tasks; a second Ctrl-C kills everything."""
        try:
            self._processes.stop(*FETCHERS)
            self._processes.stop("daemon")
        finally:
            self._processes.kill_all()

    # ------------------------------------------------------------------------------------------ what is said

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text.assemble((text, style)), highlight=False, soft_wrap=True)

    def _introduce(self, start: str, url: str, web: str, previously: str) -> None:
        pids = [f"pid {self._processes.pid(name)}" for name in ("daemon", *FETCHERS)]
        self._say(f"Crawling {self._name}{previously}\n", style="bold")
        about = "" if self._options.folder else f", {len(bundled_pages())} pages of which {MISSING} are missing"
        self._say(f"  site        {start}{about}")
        self._say(f"  daemon      {url}, {pids[0]}")
        self._say(f"  fetchers    {', '.join(pids[1:])}; {CONCURRENCY} pages at once each")
        if not self._options.once:
            page = f"http://{web}/" if web else "none: pip install 'taskqueue-scheduler[web]'"
            self._say(f"  dashboard   {page}")
        self._say(f"  pace        {BURST} pages at once, then {self._options.rate:g} a second")
        self._say(f"  data        {self._options.data}: store, logs\n")

    def _restart(self, name: str, ending: str) -> None:
        before = self._processes.pid(name)
        self._processes.restart(name)
        self._say(f"  {name} (pid {before}) {ending}: started again as pid {self._processes.pid(name)}")


def last_crawl(data: Path) -> Crawl | None:
    """Return the last crawl of a data folder; None if there was none.

    Raises:
        ConfigError: the file is invalid.
    """
    file = data / FILE
    try:
        return msgspec.json.decode(file.read_bytes(), type=Crawl)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise ConfigError(f"{file}: {error}; remove {data} to start over") from None


def save(data: Path, crawl: Crawl) -> None:
    """Save the crawl, replacing the file atomically."""
    fresh = data / f"{FILE}.new"
    fresh.write_bytes(msgspec.json.encode(crawl))
    os.replace(fresh, data / FILE)


def _previously(before: Crawl | None, goes_on: bool, done: int) -> str:
    if before is None:
        return ""
    if goes_on:
        return f". It goes on where it was: {done:,} pages are done already"
    if before.is_finished:
        return ". The last crawl was finished, so this is a new one"
    return f". The unfinished crawl of {before.site or BUNDLED} is dropped, so this is a new one"


def _counts(client: Client) -> TaskCounts | None:
    """Return the tasks of the crawl by state; None if the daemon doesn't answer."""
    try:
        return client.projects.get(PROJECT).counts
    except RequestTimeout:
        return None


def _free_port(wanted: int) -> int:
    """Return the wanted port of loopback if it is free, else a port that the system picks."""
    for port in (wanted, 0):
        with suppress(OSError), socket.create_server((LOOPBACK, port)) as probe:
            return int(probe.getsockname()[1])
    raise TaskQueueError(f"no free port on {LOOPBACK}")


def _command() -> str:
    """Return the shortest way to call the taskqueue command from here."""
    if shutil.which("taskqueue"):
        return "taskqueue"
    beside_python = os.path.join(os.path.dirname(sys.executable), "taskqueue")
    return min(beside_python, os.path.relpath(beside_python), key=len)


SPEED_SECONDS = 3.0
"""Seconds over which the speed is averaged."""
LINE_SECONDS = 1.0
SHOWN = ("ready", "delayed", "processing", "success", "failed")


class Display:
    """Progress of the crawl, shown while the block runs; on a terminal with a hint below."""

    def __init__(self, console: Console, hint: str) -> None:
        self._console = console
        self._hint = hint
        self._live = Live(console=console, refresh_per_second=8)
        self._seen: deque[tuple[float, int]] = deque()
        self._next_at = 0.0
        self._shown = TaskCounts()

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, seconds: float, counts: TaskCounts) -> None:
        """Show tasks by state, these seconds after the crawl began; plain lines come at most once per LINE_SECONDS."""
        states = ", ".join(f"{getattr(counts, state):,} {state}" for state in SHOWN)
        line = f"{states}; {self._speed(seconds, over(counts)):.1f} pages/s"
        if self._console.is_terminal:
            self._live.update(Group(_bar(seconds, counts), line, "", Text(self._hint, style="dim")))
        elif seconds >= self._next_at and counts != self._shown:
            self._next_at, self._shown = seconds + LINE_SECONDS, counts
            self._console.print(f"{seconds:6.1f} s  {line}", highlight=False, soft_wrap=True)

    def _speed(self, seconds: float, pages: int) -> float:
        self._seen.append((seconds, pages))
        while seconds - self._seen[0][0] > SPEED_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (pages - before) / (seconds - since) if seconds > since else 0.0


def _bar(seconds: float, counts: TaskCounts) -> Table:
    bar = Table.grid(padding=(0, 2, 0, 0))
    known = over(counts) + live(counts)
    far = ProgressBar(total=max(1, known), completed=over(counts), width=40)
    bar.add_row(far, f"{over(counts):,} of {known:,} known pages", f"{seconds:.1f} s")
    return bar


def over(counts: TaskCounts) -> int:
    """Count finished pages."""
    return sum(getattr(counts, state) for state in get_args(OverState))


def live(counts: TaskCounts) -> int:
    """Count known pages that are not finished."""
    return sum(getattr(counts, state) for state in get_args(LiveState))


def is_finished(counts: TaskCounts) -> bool:
    """Return whether all pages are finished. Links of a page are committed with its end, so none is ever missing."""
    return over(counts) > 0 and not live(counts)
