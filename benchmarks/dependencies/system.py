"""What the module of a system offers, and where it finds what it works on.

    TASKQUEUE_BENCH_URL       host:port of its server
    TASKQUEUE_BENCH_LEDGER    the file of what was run, see benchmarks.peers.ordinary
    TASKQUEUE_BENCH_FOLDER    for what it keeps
    TASKQUEUE_BENCH_SAFE      1: set up to survive, 0: as its manual begins
    TASKQUEUE_BENCH_GRAPH     kind and count, for those whose graph is a program

Wherever a system waits for a worker that fell silent, and lets that be set, it is set to SILENT_SECONDS.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

from benchmarks.dependencies.graphs import Kind

ADDRESS: Final = os.environ.get("TASKQUEUE_BENCH_URL", "127.0.0.1:1")
FOLDER: Final = Path(os.environ.get("TASKQUEUE_BENCH_FOLDER", os.devnull))
SAFE: Final = os.environ.get("TASKQUEUE_BENCH_SAFE") == "1"
GRAPH: Final = os.environ.get("TASKQUEUE_BENCH_GRAPH", "plain 0")

SILENT_SECONDS: Final = 10
BATCH: Final = 256
"""Tasks a call, for those that take many at once."""
LATER: Final = "later"
"""The queue of a star's children, which no worker takes from, so that they can be counted."""


class System(Protocol):
    """What runs tasks after others. Its module is loaded anew in each process.

    Attributes:
        NEEDS: commands that must be on PATH.
        BRINGS: its workers bring the graph, so there is nothing to submit, and they end with it.
    """

    NEEDS: tuple[str, ...]
    BRINGS: bool

    def prepare(self) -> None:
        """Make in FOLDER what its server wants to find."""

    def servers(self) -> list[list[str]]:
        """Commands of the processes that keep the tasks, which listen at ADDRESS."""

    def workers(self) -> list[list[str]]:
        """Commands of processes with SLOTS slots in all; empty: its servers run the tasks, too."""

    def submit(self, kind: Kind, count: int) -> str:
        """Hand in a graph; what the system says to that."""

    def released(self) -> int:
        """How many children of a star may run."""

    def states(self) -> str:
        """What the system says of the tasks of a cycle, some seconds later."""
