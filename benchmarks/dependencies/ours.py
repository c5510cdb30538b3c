"""taskqueue: ``depends_on`` with the taskids of parents, ``push_many``, and Workers with an async handler."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Final

from benchmarks.dependencies.graphs import Kind, Node, graph, seconds_of
from benchmarks.dependencies.system import ADDRESS, BATCH, FOLDER, LATER, SILENT_SECONDS
from benchmarks.peers.ordinary import SLOTS, note, script
from taskqueue import Client, NewTask, Task, new_task

NEEDS: Final = ()
BRINGS: Final = False
URL: Final = f"tcp://{ADDRESS}"
PROCESSES: Final = 2
CONFIG: Final = f"""
[server]
log_level = "warning"
fetcher_timeout = {SILENT_SECONDS}
[projects.bench]
rate = inf
[projects.{LATER}]
rate = inf
"""


def prepare() -> None:
    """See ``System``."""
    Path(FOLDER, "taskqueue.toml").write_text(CONFIG)


def servers() -> list[list[str]]:
    """See ``System``."""
    command = [sys.executable, "-m", "taskqueue.cli.main", "scheduler", "-c", str(FOLDER / "taskqueue.toml")]
    return [[*command, "--bind", URL, "--store", str(FOLDER / "store")]]


def workers() -> list[list[str]]:
    """See ``System``."""
    command = [script("taskqueue"), "work", "benchmarks.dependencies.ours:run", "-p", "bench", "--url", URL]
    return [[*command, "-j", str(SLOTS // PROCESSES)]] * PROCESSES


def submit(kind: Kind, count: int) -> str:
    """See ``System``."""
    with Client(URL) as client:
        nodes = map(_made, graph(kind, count))
        if kind == "star":
            client.push_many("bench", [next(nodes)])
        pushed = client.push_many(LATER if kind == "star" else "bench", nodes, batch=BATCH)
    if pushed.rejected:
        raise ValueError(pushed.errors[0])
    return "accepted"


def released() -> int:
    """See ``System``."""
    with Client(URL) as client:
        return client.projects.show(LATER).counts.ready


def states() -> str:
    """See ``System``."""
    with Client(URL) as client:
        return ", ".join(client.tasks.show("bench", node.name).state for node in graph("cycle", 0))


def _made(node: Node) -> NewTask:
    parents = [("bench", parent) for parent in node.parents]
    return new_task(f"http://example.com/{node.name}", taskid=node.name, depends_on=parents)


async def run(task: Task) -> None:
    """The handler."""
    await asyncio.sleep(seconds_of(task.taskid))
    note(task.taskid)
