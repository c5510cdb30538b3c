"""Procrastinate in the contest: jobs in PostgreSQL, pushed and run by Python.

    push   batch_defer_async of N jobs      one statement, WINDOW of them at once
    take   a job                            one statement and one commit, WORKERS of them at once
    done   a job, which is deleted          one statement and one commit, more of them at once

A job that is done is deleted (``delete_jobs``), so that the table stays small; until then, triggers record what
happens to it in a second table. Nothing is looked up before a push, nothing is paced, and finished jobs are forgotten.
The table is analysed once it has jobs, as it soon would be anyway; otherwise plans made for an empty one would stay.
The setting is ``synchronous_commit``.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final, Self

from benchmarks.contest import WINDOW, Load
from benchmarks.peers import postgres_server
from benchmarks.peers.postgres_server import Postgres

TASK: Final = "bench"
WORKERS: Final = 8
CONCURRENCY: Final = 4
"""Jobs at once per worker: a worker asks for one job after the other, and each waits for the disk."""


class Procrastinate(Postgres):
    """Database server with the package's tables."""

    def __enter__(self) -> Self:
        super().__enter__()
        asyncio.run(_make_tables(self.address))
        return self

    def check(self, load: Load) -> None:
        left = self.ask("select count(*) from procrastinate_jobs")
        if left != "0":
            raise SystemExit(f"procrastinate has {left} jobs left")


def unavailable() -> str:
    if why := postgres_server.unavailable():
        return why
    return "" if find_spec("procrastinate") else "the package procrastinate is not installed"


def serve(setting: str, core: str) -> Procrastinate:
    return Procrastinate([f"synchronous_commit={setting}"], core)


def produce(address: str, load: Load) -> dict[str, Any]:
    """Push all; bodies go as base64, since arguments are JSON."""
    batches = [
        [{"taskid": made.taskid, "url": made.url, "body": base64.b64encode(made.body).decode()} for made in batch]
        for batch in load.made()
    ]
    return asyncio.run(_produce(address, batches))


def fetch(address: str, load: Load) -> dict[str, Any]:
    return asyncio.run(_fetch(address, load))


async def _make_tables(address: str) -> None:
    async with _app(address, 1).open_async() as app:
        await app.schema_manager.apply_schema_async()


async def _produce(address: str, batches: list[list[dict[str, str]]]) -> dict[str, Any]:
    async with _app(address, WINDOW).open_async() as app:
        deferrer = app.configure_task(TASK)
        waiting: Iterator[list[dict[str, str]]] = iter(batches)

        async def push() -> int:
            return sum([len(await deferrer.batch_defer_async(*batch)) for batch in waiting])

        began_at = time.time()
        accepted = len(await deferrer.batch_defer_async(*next(waiting)))
        await app.connector.execute_query_async("analyze procrastinate_jobs")
        accepted += sum(await asyncio.gather(*(push() for _ in range(WINDOW))))
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "accepted": accepted}


async def _fetch(address: str, load: Load) -> dict[str, Any]:
    distinct: set[str] = set()
    finished, over = 0, asyncio.Event()
    # Each worker has one more connection, on which it listens.
    app = _app(address, WORKERS * (CONCURRENCY + 1))

    async def run(taskid: str, url: str, body: str) -> None:
        nonlocal finished
        distinct.add(taskid)
        finished += 1
        if finished == load.tasks:
            over.set()

    app.task(run, name=TASK)
    async with app.open_async():
        began_at = time.time()
        workers = [
            asyncio.create_task(
                app.run_worker_async(
                    concurrency=CONCURRENCY,
                    delete_jobs="always",
                    fetch_job_polling_interval=0.1,
                    install_signal_handlers=False,
                )
            )
            for _ in range(WORKERS)
        ]
        await over.wait()
        for worker in workers:
            worker.cancel()  # it waits until the rows of its running jobs are deleted
        await asyncio.gather(*workers, return_exceptions=True)
        ended_at = time.time()
    return {"began_at": began_at, "ended_at": ended_at, "finished": finished, "distinct": len(distinct)}


def _app(address: str, connections: int) -> Any:
    import procrastinate

    logging.getLogger("procrastinate").setLevel(logging.WARNING)
    return procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=address, min_size=connections, max_size=connections)
    )
