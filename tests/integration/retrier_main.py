"""Fetcher process: python -m tests.integration.retrier_main URL PROJECT RUNS RECORD

Fails each task RUNS times, with the client of the package. The task's body is the number of the run, from 0; each run
but the last reports a retry with the next number, every other one using up a retry, and each brings a new task of the
project ``children``. It writes

    start TASKID RUN              before it reports a run
    told TASKID RUN OUTCOME       when the report has been answered

A start without a told is a task that the fetcher held, or whose report was unanswered, when it was killed.
"""

from __future__ import annotations

import asyncio
import sys
from math import inf

from taskqueue import AsyncClient, Task, new_task
from tests.integration.line import Record, tell

CAPACITY = 50


async def main(url: str, project: str, runs: int, record: Record) -> None:
    async with AsyncClient(url, timeout=inf) as client, asyncio.TaskGroup() as reporting:
        async for task in client.stream([project], places=CAPACITY):
            record.write(f"start {task.taskid} {task.body['run']}")
            reporting.create_task(report(client, task, runs, record))


async def report(client: AsyncClient, task: Task, runs: int, record: Record) -> None:
    run = task.body["run"]
    child = new_task(f"{task.url}/{run}", taskid=f"{task.taskid}.{run}", project="children")
    if run + 1 < runs:
        said = await client.retry(task, "not yet", after=0.0, counts=not run % 2, body={"run": run + 1}, new=[child])
    else:
        said = await client.failed(task, "given up", retry=False, new=[child])
    record.write(f"told {task.taskid} {run} {said.outcome} {','.join(said.new)}")
    tell(1)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Record(sys.argv[4])))
