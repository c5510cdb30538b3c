"""RQ: ``depends_on`` with the ids of jobs, ``enqueue_many``, and a pool of workers that fork for each job.

As its manual begins: a job is tried once, and Redis writes snapshots. Set up to survive: a job has three retries, and
Redis an append-only file. A worker that fell silent is missed after a minute, which RQ does not let be set.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from typing import Any, Final

import redis
import rq

from benchmarks.dependencies import celery, graphs
from benchmarks.dependencies.graphs import Kind, Node, graph
from benchmarks.dependencies.system import ADDRESS, BATCH, LATER, SAFE, SILENT_SECONDS
from benchmarks.peers.ordinary import SLOTS, script

NEEDS: Final = ("redis-server",)
BRINGS: Final = False
URL: Final = f"redis://{ADDRESS}/0"
TTL_MORE_SECONDS: Final = 15
"""By which a worker's ttl is longer than its wait for a job."""
RETRY: Final = rq.Retry(max=3) if SAFE else None


class Watchful(rq.Worker):  # type: ignore[misc]
    """The default worker, which looks for jobs that were left behind each SILENT_SECONDS instead of each ten minutes,
    also while there is nothing to do."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        waits = {"maintenance_interval": SILENT_SECONDS, "worker_ttl": SILENT_SECONDS + TTL_MORE_SECONDS}
        super().__init__(*arguments, **{**options, **waits})


def prepare() -> None:
    """See ``System``."""


def servers() -> list[list[str]]:
    """See ``System``."""
    return celery.servers()


def workers() -> list[list[str]]:
    """See ``System``."""
    pool = [script("rq"), "worker-pool", "-n", str(SLOTS), "-u", URL, "-q"]
    return [[*pool, "-w", "benchmarks.dependencies.rq.Watchful", "bench"]]


def submit(kind: Kind, count: int) -> str:
    """See ``System``."""
    nodes = graph(kind, count)
    if kind in ("star", "cycle"):
        _enqueue("bench", [next(nodes)])
    while batch := list(islice(nodes, BATCH)):
        _enqueue(LATER if kind == "star" else "bench", batch)
    return "accepted"


def released() -> int:
    """See ``System``."""
    return int(_queue(LATER).count)


def states() -> str:
    """See ``System``."""
    jobs = [rq.job.Job.fetch(node.name, connection=_redis()) for node in graph("cycle", 0)]
    return ", ".join(job.get_status().value for job in jobs)


def _enqueue(name: str, nodes: list[Node]) -> None:
    queue = _queue(name)
    queue.enqueue_many(
        queue.prepare_data(
            graphs.run, (node.name,), job_id=node.name, depends_on=list(node.parents) or None, retry=RETRY
        )
        for node in nodes
    )


@cache
def _queue(name: str) -> Any:
    return rq.Queue(name, connection=_redis())


@cache
def _redis() -> Any:
    return redis.Redis.from_url(URL)
