"""Celery's ordinary client: ``delay`` and a worker with a pool of processes; no results are kept."""

from __future__ import annotations

from celery import Celery

from benchmarks.builds import Build
from benchmarks.peers.ordinary import URL, Redis, note, script

app = Celery("bench", broker=URL or None)
run = app.task(name="bench.run")(note)


def server(build: Build) -> Redis:
    return Redis()


def workers(url: str, setting: str, build: Build) -> list[list[str]]:
    """Return the commands; the setting is the size of the pool, by default one process per core."""
    return [[script("celery"), "-A", "benchmarks.peers.celery", "worker", "-c", setting, "-l", "error"]]


def push(taskid: str) -> object:
    return run.delay(taskid)
