"""taskqueue's ordinary client: the blocking ``Client.push``, one task a call, and Workers with an async handler."""

from __future__ import annotations

from functools import cache

from benchmarks.builds import Build
from benchmarks.daemon import Daemon
from benchmarks.peers.ordinary import SLOTS, URL, note
from taskqueue import Client, Task

CONFIG = """
[daemon]
log_level = "warning"
[projects.bench]
rate = inf
"""
PROCESSES = 2


def server(build: Build) -> Daemon:
    return Daemon(CONFIG, core="", python=build.python)


def workers(url: str, setting: str, build: Build) -> list[list[str]]:
    options = ["benchmarks.peers.client:run", "-j", str(SLOTS // PROCESSES), "--daemon", url]
    return [[*build.command("taskqueue"), "work", *options]] * PROCESSES


def push(taskid: str) -> object:
    return _client().push("bench", f"http://example.com/{taskid}", taskid=taskid)


async def run(task: Task) -> None:
    """Record the task."""
    note(task.taskid)


@cache
def _client() -> Client:
    return Client(URL)
