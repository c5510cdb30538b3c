"""Celery: a chord for each child that has parents; Redis as broker and for the results that chords count.

As its manual begins: a message is acknowledged before the task runs, and Redis writes snapshots. Set up to survive:
late acknowledgement, also when a process is lost, and Redis with its append-only file.
"""

from __future__ import annotations

from typing import Final

import redis
from celery import Celery, chain, chord, group

from benchmarks.dependencies import graphs
from benchmarks.dependencies.graphs import Kind, graph, name_of
from benchmarks.dependencies.system import ADDRESS, FOLDER, LATER, SAFE, SILENT_SECONDS
from benchmarks.peers.ordinary import SLOTS, script

NEEDS: Final = ("redis-server",)
BRINGS: Final = False
URL: Final = f"redis://{ADDRESS}/0"

app = Celery("bench", broker=URL, backend=URL)
app.conf.broker_transport_options = {
    "visibility_timeout": SILENT_SECONDS,
    "unacked_restore_interval": SILENT_SECONDS,
    "unacked_restore_throttle": 1,
}
app.conf.task_acks_late = app.conf.task_reject_on_worker_lost = SAFE
run = app.task(name="bench.run")(graphs.run)


def prepare() -> None:
    """See ``System``."""


def servers() -> list[list[str]]:
    """See ``System``."""
    host, port = ADDRESS.split(":")
    command = ["redis-server", "--bind", host, "--port", port, "--dir", str(FOLDER)]
    return [[*command, "--appendonly", "yes" if SAFE else "no"]]


def workers() -> list[list[str]]:
    """See ``System``."""
    return [[script("celery"), "-A", "benchmarks.dependencies.celery", "worker", "-c", str(SLOTS), "-l", "error"]]


def submit(kind: Kind, count: int) -> str:
    """See ``System``."""
    {"plain": _plain, "joins": _joins, "star": _star, "cycle": _cycle}[kind](count)
    return "accepted"


def released() -> int:
    """See ``System``."""
    return int(redis.Redis.from_url(URL).llen(LATER))


def states() -> str:
    """See ``System``."""
    return ""


def _plain(count: int) -> None:
    for node in graph("plain", count):
        run.delay(node.name)


def _joins(count: int) -> None:
    for node in graph("joins", count):
        if node.parents:
            chord([run.si(parent) for parent in node.parents])(run.si(node.name))


def _star(count: int) -> None:
    parent, *children = graph("star", count)
    chain(run.si(parent.name), group(run.si(child.name).set(queue=LATER) for child in children)).apply_async()


def _cycle(count: int) -> None:
    """A chord has no name by which it could be its own part: what a task calls at its success can."""
    one, other = run.si(name_of(0, "a")), run.si(name_of(0, "b"))
    one.link(other)
    other.link(one)
    one.apply_async()
