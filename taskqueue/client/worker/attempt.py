"""One attempt at a task: the handler runs in a slot, what came of it is reported, and the slot is free in between.

start ──► handler ──► stop, slot free ──► report ──► counted
  └── too late for it ──► stop, slot free ──► back
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from msgspec import Struct

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.task_supply import TaskSupply
from taskqueue.client.tasks.reports import Reported, failure_of, success_of
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.fetch_notes import note_decision, note_failure, note_success
from taskqueue.client.worker.handler import Handler, traceback_of
from taskqueue.client.worker.outcome import Drop, PassedOn, Retry, TooLate, is_failure
from taskqueue.client.worker.worker_log import WorkerLog
from taskqueue.errors import ClientError, MessageTooLarge
from taskqueue.protocol.fields import TaskReport

EXTEND_AT: Final = 2 / 3
"""Part of a lease after which it is extended, if it is to be."""

log = logging.getLogger("taskqueue.worker")


class Running(Struct):
    """What is known of a run.

    Attributes:
        began_at: by the loop's clock.
        extending: extends its lease; None: nothing does.
        outcome: one of those that a WorkerLog counts.
    """

    began_at: float
    extending: asyncio.Task[None] | None
    outcome: str = "failed"


class Attempts(Struct, frozen=True):
    """All of a worker while it serves.

    Attributes:
        slots: one of them is taken before each attempt.
        extend: the lease of a task that is still running after EXTEND_AT of it, again and again.
    """

    client: AsyncClient
    handler: Handler
    supply: TaskSupply
    slots: asyncio.Semaphore
    log: WorkerLog
    extend: bool

    async def run(self, task: Task) -> None:
        """Run the handler on a task and report what came of it.

        Raises:
            KeyboardInterrupt: the handler raised it; nothing is reported.
        """
        running = self._start(task)
        try:
            finished = await self._finished(task, running)
        except TooLate:
            return
        finally:
            self._stop(task, running)
        if finished is None:
            await self.client.pass_on(task)
            return
        try:
            await self._report(task, finished)
        except MessageTooLarge as error:
            self.log.failed(task, error)
            await self._report(task, failure_of(task, str(error), None, retry=True))

    def _start(self, task: Task) -> Running:
        """The handler is about to be called."""
        loop = asyncio.get_running_loop()
        self.supply.start(task)
        return Running(loop.time(), loop.create_task(_extend(self.client, task)) if self.extend else None)

    def _stop(self, task: Task, running: Running) -> None:
        """It has ended, whichever way: its slot is free."""
        if running.extending is not None:
            running.extending.cancel()
        now = asyncio.get_running_loop().time()
        seconds = now - running.began_at
        if running.outcome == "late":
            self.supply.give_back(task)
        else:
            self.supply.stop(task, seconds, now)
        self.log.ran(task, running.outcome, seconds, now)
        self.slots.release()

    async def _finished(self, task: Task, running: Running) -> TaskReport | None:
        """What to report; None: somebody else does."""
        around = self.handler.around(task)
        try:
            produced = await self.handler.run(task, around)
            note_success(task, around.began_at)
            finished = success_of(task, *produced)
        except Retry as retry:
            running.outcome = "retry"
            note_decision(task, around.began_at, retry, retry.status_code)
            return failure_of(task, str(retry), retry.after, retry=True)
        except Drop as drop:
            running.outcome = "drop"
            note_decision(task, around.began_at, drop)
            return failure_of(task, str(drop), None, retry=False)
        except PassedOn:
            running.outcome = "passed"
            return None
        except TooLate:
            running.outcome = "late"
            raise
        except BaseException as error:  # SystemExit, too: a handler that exits must not take the worker with it.
            if not is_failure(error):
                raise
            self.log.failed(task, error)
            note_failure(task, around.began_at, error)
            return failure_of(task, traceback_of(error), None, retry=True)
        running.outcome = "done"
        return finished

    async def _report(self, task: Task, finished: TaskReport) -> None:
        """Wait for a report to be counted. If it isn't, the task's lease runs out and somebody runs it again."""
        try:
            self._tell(task, await self.client.single_reports.ask(finished))
        except MessageTooLarge:
            raise
        except ClientError as error:
            warn_unreported(task, error)

    def _tell(self, task: Task, finish: Reported) -> None:
        if finish.outcome == "stale":
            self.log.stale(task)
        for index, reason in finish.reasons.items():
            log.warning(
                "event=rejected project=%s taskid=%s new=%d reason=%r", task.project, task.taskid, index, reason
            )


def warn_unreported(task: Task, error: ClientError) -> None:
    """Nobody knows what became of a task."""
    log.warning("event=unreported project=%s taskid=%s reason=%r", task.project, task.taskid, str(error))


async def _extend(client: AsyncClient, task: Task) -> None:
    """Extend a task's lease until cancelled, or until it is not ours any more."""
    held = True
    while held:
        await asyncio.sleep(task.timeout * EXTEND_AT)
        held = await client.extend(task)
