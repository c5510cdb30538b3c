"""RQ's ordinary client: ``Queue.enqueue`` and a pool of workers, with a fork for each job (``Worker``) or without."""

from __future__ import annotations

from functools import cache
from typing import Any

import redis
import rq

from benchmarks.builds import Build
from benchmarks.peers.ordinary import SLOTS, URL, Redis, note, script


def server(build: Build) -> Redis:
    return Redis()


def workers(url: str, setting: str, build: Build) -> list[list[str]]:
    """Return the commands; the setting is the class of the workers."""
    return [[script("rq"), "worker-pool", "-n", str(SLOTS), "-u", url, "-w", f"rq.worker.{setting}", "-q", "bench"]]


def push(taskid: str) -> object:
    return _queue().enqueue(note, taskid)


@cache
def _queue() -> Any:
    return rq.Queue("bench", connection=redis.Redis.from_url(URL))
