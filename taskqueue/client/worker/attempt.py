"""One attempt at a task: the handler runs in a slot, and what came of it is reported when that is free.

start ──► handler ──► stop, slot free ──► report
  │          ├── many new tasks ──► a part of the report ──► handler
  │          └── told to end: its lease is over ──► stop, slot free ──► nothing, or a failure if the lease is in force
  └── too late for it ──► stop, slot free ──► back
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf

from msgspec import Struct

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.intake import Intake
from taskqueue.client.tasks.reports import failure_of, success_with
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.fetch_notes import note_decision, note_failure, note_success
from taskqueue.client.worker.handler import Handler, kind_of, traceback_of
from taskqueue.client.worker.lease_watch import LeaseWatch, Run
from taskqueue.client.worker.lifespan import Lifespan
from taskqueue.client.worker.outcome import Drop, PassedOn, Retry, RunEnded, TooLate, is_failure
from taskqueue.client.worker.reporting import Reporting
from taskqueue.client.worker.worker_log import Ran, WorkerLog
from taskqueue.error_texts import kind_line
from taskqueue.protocol.fields import NewTask, TaskReport


class Attempts(Struct, frozen=True):
    """All of a worker while it serves.

    Attributes:
        time: of the loop; to ask each time which loop is running takes longer than all that is done with it.
        extend: leases that a task may have in all, one after the other; 1: its lease is not extended.
    """

    client: AsyncClient
    handler: Handler
    intake: Intake
    log: WorkerLog
    reporting: Reporting
    time: Callable[[], float]
    watch: LeaseWatch
    extend: float
    lifespan: Lifespan

    async def run(self, task: Task) -> None:
        """Run the handler on a task and let the report of what came of it leave.

        Raises:
            KeyboardInterrupt: the handler raised it; nothing is reported.
        """
        running = self._start(task)
        finished: TaskReport | None = None
        try:
            finished = await self._finished(task, running)
        except TooLate:
            pass
        except RunEnded as ended:
            if self.intake.holds(task):
                finished = failure_of(task, str(ended), None, retry=True)
        finally:
            ran = self._stop(task, running)
            if finished is None:
                self.log.ran(ran)
        if finished is not None:
            self.reporting.send(finished, ran, running.kept)
        elif running.outcome == "passed":
            await self.client.pass_on(task)

    def _start(self, task: Task) -> Run:
        """The handler is about to be called."""
        this = asyncio.current_task()
        assert this is not None
        run = self.watch.begin(task, this, self.time())
        if self.extend > 1:
            run.kept_lease = self.client.kept_leases.keep(task, self.extend)
        return run

    def _stop(self, task: Task, running: Run) -> Ran:
        """It has ended, whichever way."""
        if running.kept_lease is not None:
            self.client.kept_leases.end(running.kept_lease)
        now = self.time()
        seconds = now - running.began_at
        if running.outcome == "late":
            self.intake.give_back(task)
            self.lifespan.take_back()
        else:
            self.intake.end(task)
            self.lifespan.end(now)
        self.watch.end(running)
        return Ran(task, running.outcome, seconds, now)

    async def _keep(self, task: Task, running: Run, new: list[NewTask]) -> None:
        """Have a part of the new tasks of a run kept; see ``produced.Keep``."""
        first, running.kept = running.kept, running.kept + len(new)
        if not await self.reporting.keep(task, new, first):
            self.watch.end_stale(running)
            raise RunEnded

    async def _finished(self, task: Task, running: Run) -> TaskReport | None:
        """Return the report of the run; None if another process or the daemon has the last word.

        Raises:
            RunEnded: it was told to end.
        """
        around = self.handler.around(task)
        try:
            produced = await self.handler.run(task, around, running.code, partial(self._keep, task, running))
            note_success(task, around.began_at)
            finished = success_with(task, *produced)
        except Retry as retry:
            running.outcome = "retry"
            note_decision(task, around.began_at, retry, retry.status_code)
            return _as_decided(task, retry, retry.after, retry=True)
        except Drop as drop:
            running.outcome = "drop"
            note_decision(task, around.began_at, drop)
            return _as_decided(task, drop, None, retry=False)
        except PassedOn:
            running.outcome = "passed"
            return None
        except TooLate:
            running.outcome = "late"
            raise
        except BaseException as error:  # SystemExit, too: a handler that exits must not take the worker with it.
            if (running.hangs_at < inf or running.is_lost) and not isinstance(error, KeyboardInterrupt):
                running.outcome = "ended"
                raise RunEnded from error
            if not is_failure(error):
                running.outcome = "interrupted"
                raise
            self.log.failed(task, error)
            note_failure(task, around.began_at, error)
            return failure_of(task, traceback_of(error), None, retry=True, kind=kind_of(error))
        running.outcome = "done"
        return finished


def _as_decided(task: Task, decision: Retry | Drop, retry_after: float | None, *, retry: bool) -> TaskReport:
    """Report a failure by the reason that the handler gave, whose first line says what it is about."""
    try:
        reason = str(decision)
    except Exception:
        reason = kind_of(decision)
    again = decision.again if isinstance(decision, Retry) else None
    return failure_of(task, reason, retry_after, retry, kind_line(reason), decision.new, again)
