"""Tasks of ordinary clients: each writes a line into a ledger, which shows that it was run, how often, and when.

    TASKQUEUE_BENCH_URL       the server
    TASKQUEUE_BENCH_LEDGER    the file: rows of taskid and epoch seconds, ROW_BYTES each

A module of an ordinary client has ``push(taskid)``, called by many threads, and ``workers(url, setting, build)``, the
commands of its workers; ``server(build)`` starts what both need.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from benchmarks.builds import Build
from benchmarks.peers.service import Service

URL: Final = os.environ.get("TASKQUEUE_BENCH_URL", "")
LEDGER: Final = os.environ.get("TASKQUEUE_BENCH_LEDGER", os.devnull)
ROOT: Final = Path(__file__).parents[2]
ROW_BYTES: Final = 32 + 1 + 17 + 1
SLOTS: Final = 16
"""Tasks that run at once, in all workers."""


class Running(Protocol):
    """Server that listens.

    Attributes:
        url: address for clients.
    """

    url: str

    @property
    def pid(self) -> int: ...


class Ordinary(Protocol):
    """Interface of a module of an ordinary client."""

    def server(self, build: Build) -> AbstractContextManager[Running]:
        """Start the server as its package does; ``build`` is that of taskqueue, if that is measured."""

    def workers(self, url: str, setting: str, build: Build) -> list[list[str]]:
        """Return commands of worker processes that run SLOTS tasks at once in all."""

    def push(self, taskid: str) -> object:
        """Push one task, and wait until it is accepted."""


class Row(NamedTuple):
    """Run of a task, in the ledger."""

    taskid: str
    at: float


def note(taskid: str) -> None:
    """Record that a task was run, in one atomic write."""
    os.write(_ledger(), b"%s %.6f\n" % (taskid.encode(), time.time()))


def rows(ledger: Path) -> list[Row]:
    """Read the runs so far."""
    lines = (line.split() for line in ledger.read_text().splitlines())
    return [Row(taskid, float(at)) for taskid, at in lines]


class Redis(Service):
    """Redis as its package starts it, snapshots included, in a private folder."""

    def __init__(self) -> None:
        super().__init__(["redis-server", "--bind", "127.0.0.1", "--port", "{port}", "--dir", "{folder}"], "")
        self.url = f"redis://{self.address}/0"


def script(name: str) -> str:
    """Return the path of a command that a package has installed beside this Python."""
    return str(Path(sys.executable).parent / name)


@cache
def _ledger() -> int:
    return os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
