"""Luigi: ``requires``, a file for each task that is done, luigid as the central scheduler, and one run with SLOTS
processes. Whoever starts a run brings the graph.

As its manual begins: a run ends when nothing is left to it, and one that was killed is started again, once. Set up to
survive: it stays while others have tasks of its graph, and one that has ended too early is started again, as cron does.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import luigi

from benchmarks.dependencies import graphs
from benchmarks.dependencies.graphs import Kind, Node, graph
from benchmarks.dependencies.system import ADDRESS, FOLDER, GRAPH, SAFE, SILENT_SECONDS
from benchmarks.peers.ordinary import LEDGER, SLOTS, rows, script

NEEDS: Final = ()
BRINGS: Final = True
CONFIG: Final = FOLDER / "luigi.cfg"
CONFIGURED: Final = ("env", f"LUIGI_CONFIG_PATH={CONFIG}")
PARENTS: dict[str, Node] = {}
"""Of the graph that a run brings, by name; a run's processes are forks of it."""


class Task(luigi.Task):  # type: ignore[misc]
    """A task, which is done when its file is there."""

    name: Any = luigi.Parameter()

    def requires(self) -> list[Task]:
        """Its parents."""
        return [Task(name=parent) for parent in PARENTS[self.name].parents]

    def output(self) -> Any:
        """Its file."""
        return luigi.LocalTarget(FOLDER / "done" / self.name)

    def run(self) -> None:
        """See ``graphs.run``."""
        graphs.run(self.name)
        Path(self.output().path).touch()


def prepare() -> None:
    """See ``System``."""
    (FOLDER / "done").mkdir()
    waits = f"worker_disconnect_delay = {SILENT_SECONDS}\nretry_delay = {SILENT_SECONDS}\nprune_on_get_work = true\n"
    CONFIG.write_text(f"[scheduler]\n{waits}[worker]\nkeep_alive = {str(SAFE).lower()}\n")


def servers() -> list[list[str]]:
    """See ``System``."""
    host, port = ADDRESS.split(":")
    return [[*CONFIGURED, script("luigid"), "--address", host, "--port", port, "--state-path", str(FOLDER / "state")]]


def workers() -> list[list[str]]:
    """See ``System``."""
    return [[*CONFIGURED, sys.executable, "-m", "benchmarks.dependencies.luigi"]]


def submit(kind: Kind, count: int) -> str:
    """See ``System``. A run submits its graph."""
    return "accepted"


def released() -> int:
    """See ``System``. Nothing is written for a child: all of them may run when the first one does."""
    _, count = GRAPH.split()
    return int(count) if len(rows(Path(LEDGER))) > 1 else 0


def states() -> str:
    """See ``System``."""
    return ""


def main() -> None:
    """A run."""
    kind, count = GRAPH.split()
    PARENTS.update((node.name, node) for node in graph(kind, int(count)))  # type: ignore[arg-type]
    host, port = ADDRESS.split(":")
    luigi.build(
        [Task(name=name) for name in PARENTS],
        workers=SLOTS,
        scheduler_host=host,
        scheduler_port=int(port),
        log_level="WARNING",
    )


if __name__ == "__main__":
    main()
