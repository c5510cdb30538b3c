"""Starts the demo's services, each in a process of its own: site, scheduler, fetchers; and a client that watches.

    site        python http.server, loopback
    scheduler   taskqueue scheduler -c data/demo/taskqueue.toml
    fetcher-1   taskqueue work taskqueue.demo.crawler:crawl -p demo
    fetcher-2   the same
    web         taskqueue web, if the extra [web] is installed and the demo stays

The fetchers start last, when it is known which crawl this is.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from taskqueue import Client
from taskqueue.demo.processes import COMMAND, Processes
from taskqueue.demo.webserver import LOOPBACK
from taskqueue.errors import RequestTimeout, TaskQueueError

PROJECT = "demo"
BURST = 10
FETCHERS = ("fetcher-1", "fetcher-2")
CONCURRENCY = 8
"""Pages at once in each fetcher."""

SCHEDULER_PORT = 7400
WEB_PORT = 7401
SITE_PORT = 7480
"""Where it is served unless something else is there."""

WEB_NEEDS = ("jinja2", "starlette", "uvicorn")

START_SECONDS = 20.0
ANSWER_SECONDS = 1.0
"""How long a look waits for an answer; another one comes soon."""
PATIENCE_SECONDS = 30.0
"""How long what has to be done, or known, waits for one: the machine may be busy."""

CONFIG = """\
# Written by `taskqueue demo` at each start; `taskqueue config init` writes a file with all settings.

[server]
bind = {bind}
fetcher_timeout = 10

[store]
path = {store}

[projects.{project}]
rate = {rate}
burst = {burst}
retry_delay = [2, 10, 60]
"""


class Addresses(NamedTuple):
    """Addresses of the scheduler (ZeroMQ) and the site (HTTP)."""

    scheduler: str
    site: str


def free_port(wanted: int) -> int:
    """The wanted port of loopback if nobody listens there, else one that the system picks."""
    for port in (wanted, 0):
        with suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
            return int(probe.getsockname()[1])
    raise TaskQueueError(f"no free port on {LOOPBACK}")


def start_site(processes: Processes, port: int, log: Path, folder: Path | None) -> str:
    """Serve the site; returns the url of its start page.

    Raises:
        TaskQueueError: it did not start.
    """
    arguments = ["--port", str(port), "--log", str(log), *(["--folder", str(folder)] if folder else [])]
    processes.start("site", "taskqueue.demo.webserver:main", *arguments)
    _wait_for(lambda: _listens(port), processes)
    return f"http://{LOOPBACK}:{port}/"


def start_scheduler(processes: Processes, folder: Path, rate: float) -> Client:
    """Start the daemon; returns a client for looks once it answers.

    Raises:
        TaskQueueError: it did not start.
    """
    url = f"tcp://{LOOPBACK}:{free_port(SCHEDULER_PORT)}"
    config = folder / "taskqueue.toml"
    config.write_text(_config(url, folder.absolute() / "store", rate))
    processes.start("scheduler", COMMAND, "scheduler", "-c", str(config))
    client = Client(url, timeout=ANSWER_SECONDS, name="demo")
    try:
        _wait_for(lambda: _answers(client), processes)
    except BaseException:
        client.close()
        raise
    return client


def patient_client(url: str) -> Client:
    """One for what has to be done, or known."""
    return Client(url, timeout=PATIENCE_SECONDS, name="demo")


def start_web(processes: Processes, url: str) -> str:
    """Start the page of the scheduler at this address; returns the page's url, "" without what it needs.

    Raises:
        TaskQueueError: it did not start.
    """
    if any(find_spec(name) is None for name in WEB_NEEDS):
        return ""
    port = free_port(WEB_PORT)
    processes.start("web", COMMAND, "web", "--url", url, "--bind", f"{LOOPBACK}:{port}")
    _wait_for(lambda: _listens(port), processes)
    return f"http://{LOOPBACK}:{port}/"


def start_fetchers(processes: Processes, url: str) -> None:
    """Start two fetchers at the scheduler's address."""
    for name in FETCHERS:
        arguments = ("taskqueue.demo.crawler:crawl", "-p", PROJECT, "-j", str(CONCURRENCY), "--url", url)
        processes.start(name, COMMAND, "work", *arguments)


def _config(url: str, store: Path, rate: float) -> str:
    # A JSON string is a TOML string, too.
    quoted = json.dumps(str(store), ensure_ascii=False)
    return CONFIG.format(bind=json.dumps(url), store=quoted, project=PROJECT, rate=float(rate), burst=BURST)


def _wait_for(is_ready: Callable[[], bool], processes: Processes) -> None:
    until = time.monotonic() + START_SECONDS
    while not is_ready():
        for name in processes.dead():
            raise TaskQueueError(f"the {name} did not start: {processes.last_words(name)}")
        if time.monotonic() > until:
            raise TaskQueueError(f"no answer within {START_SECONDS:g} s; see {processes.log('scheduler')}")
        time.sleep(0.02)


def _listens(port: int) -> bool:
    try:
        socket.create_connection((LOOPBACK, port), timeout=ANSWER_SECONDS).close()
    except OSError:
        return False
    return True


def _answers(client: Client) -> bool:
    try:
        client.status()
    except RequestTimeout:
        return False
    return True
