"""Huey's ordinary client: a called task, and a consumer with threads.

Two consumers of eight threads, one a core as the others have, did 0.64 of its rate (0.29 to 0.92 in three rounds).
"""

from __future__ import annotations

from huey import RedisHuey

from benchmarks.builds import Build
from benchmarks.peers.ordinary import SLOTS, URL, Redis, note, script

queue = RedisHuey("bench", url=URL or "redis://127.0.0.1:1/0")
run = queue.task()(note)


def server(build: Build) -> Redis:
    return Redis()


def workers(url: str, setting: str, build: Build) -> list[list[str]]:
    return [[script("huey_consumer"), "benchmarks.peers.huey.queue", "-w", str(SLOTS), "-k", "thread", "-q"]]


def push(taskid: str) -> object:
    return run(taskid)
