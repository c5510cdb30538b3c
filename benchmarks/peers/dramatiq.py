"""Dramatiq's ordinary client: ``send`` and two processes of eight threads, which is its default on two cores."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.builds import Build
from benchmarks.peers.ordinary import SLOTS, URL, Redis, note, script

PROCESSES = 2

if URL:
    dramatiq.set_broker(RedisBroker(url=URL))
    run = dramatiq.actor(note, queue_name="bench")


def server(build: Build) -> Redis:
    return Redis()


def workers(url: str, setting: str, build: Build) -> list[list[str]]:
    shape = ["-p", str(PROCESSES), "-t", str(SLOTS // PROCESSES)]
    return [[script("dramatiq"), *shape, "benchmarks.peers.dramatiq"]]


def push(taskid: str) -> object:
    return run.send(taskid)
