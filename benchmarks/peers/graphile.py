"""Graphile Worker in the contest: jobs in PostgreSQL, fetched by Node, with its local queue and batched completion.

    push   add_jobs([...])                                          N jobs a call, WINDOW calls at once
    take   a local queue of WINDOW × N jobs, 24 of them at once     one statement each time that it is empty
    done   all jobs that have ended since the last time             one statement

Options are those of the project's published figures; producer and fetcher are ``graphile.js``. PostgreSQL is
the server that has a core for itself; all else that the package does, it does in the fetcher. The setting is
``synchronous_commit``: ``on`` or ``off``, which may lose what was committed in the last 0.6 s. Nothing is looked up
before a push, nothing is paced, and nothing is known of what is done.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final, Self

from benchmarks.contest import WINDOW, Load
from benchmarks.peers import postgres_server
from benchmarks.peers.postgres_server import Postgres, run
from benchmarks.peers.service import not_on_path

SCRIPT: Final = Path(__file__).with_suffix(".js")


class Graphile(Postgres):
    """Database server with the package's tables."""

    def __enter__(self) -> Self:
        super().__enter__()
        node("schema", self.address)
        return self

    def check(self, load: Load) -> None:
        left = self.ask("select count(*) from graphile_worker.jobs")
        if left != "0":
            raise SystemExit(f"graphile worker has {left} jobs left")


def unavailable() -> str:
    if why := postgres_server.unavailable() or not_on_path("node"):
        return why
    found = subprocess.run(["node", "-e", "require.resolve('graphile-worker')"], check=False, stderr=subprocess.DEVNULL)
    return "the package graphile-worker is not in NODE_PATH" if found.returncode else ""


def serve(setting: str, core: str) -> Graphile:
    return Graphile([f"synchronous_commit={setting}"], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    return node("produce", address, *load, WINDOW)


def fetch(address: str, load: Load) -> dict[str, Any]:
    return node("fetch", address, *load, WINDOW)


def node(*arguments: str | int) -> dict[str, Any]:
    """Run the script; return its result."""
    result: dict[str, Any] = json.loads(run(["node", str(SCRIPT), *map(str, arguments)]))
    return result
