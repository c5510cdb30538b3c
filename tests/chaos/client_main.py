"""Producer or fetcher process with ``taskqueue.AsyncClient``, with the arguments and records of its twins.

    python -m tests.chaos.client_main producer URL PROJECT NAME COUNT RECORD     see tests/integration/producer_main.py
    python -m tests.chaos.client_main fetcher URL PROJECT CAPACITY RECORD SEED   see tests/integration/fetcher_main.py

The twins speak the protocol themselves and repeat after 0.2 s of silence; here the pauses are those of the real client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from math import inf

from taskqueue import AsyncClient, Task
from tests.integration.line import Record, tell
from tests.integration.producer_main import BATCH

SELECT_SECONDS = 0.5
"""Time that a fetcher waits for tasks before it checks whether it is to end."""


async def produce(url: str, project: str, name: str, count: int, record: Record) -> None:
    """Push COUNT tasks in batches, one after the other."""
    async with AsyncClient(url, timeout=inf) as client:
        for start in range(0, count, BATCH):
            taskids = [f"{name}-{index}" for index in range(start, min(start + BATCH, count))]
            pushed = await client.push_many(
                project, [{"taskid": each, "url": f"http://site/{each}", "body": os.urandom(300)} for each in taskids]
            )
            assert not pushed.rejected, pushed.errors
            record.write(*(f"{each} 0 pushed" for each in taskids))


async def fetch(url: str, project: str, capacity: int, record: Record) -> None:
    """Take tasks and report them done, until SIGTERM."""
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    session = f"client-{os.getpid()}"
    async with AsyncClient(url, timeout=inf) as client:
        while not leaving.is_set():
            tasks = await client.select(capacity, projects=[project], timeout=SELECT_SECONDS)
            if tasks:
                record.write(*(f"start {task.taskid} {task.token} {session}" for task in tasks))
                tell(sum(await asyncio.gather(*(report(client, task, record) for task in tasks))))


async def report(client: AsyncClient, task: Task, record: Record) -> bool:
    """Report a task done, and record the daemon's answer; return whether it counted."""
    reported = await client.done(task)
    record.write(f"done {task.taskid} {reported.outcome}")
    return reported.outcome == "done"


if __name__ == "__main__":
    logging.getLogger("taskqueue.client").setLevel(logging.ERROR)  # the absence of the store is intended
    kind, address, to, *rest = sys.argv[1:]
    if kind == "producer":
        asyncio.run(produce(address, to, rest[0], int(rest[1]), Record(rest[2])))
    else:
        asyncio.run(fetch(address, to, int(rest[0]), Record(rest[1])))
