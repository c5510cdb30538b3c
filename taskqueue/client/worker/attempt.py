"""Attempt at a task: the handler runs in a place, and its outcome is reported when the place is free.

    start ──► handler ──► stop, place free ──► report
      │          ├── many new tasks ──► a part of the report ──► handler
      │          └── told to end: its lease has ended ──► stop, place free ──► nothing, or a failure if it is in force
      └── too late for it ──► stop, place free ──► back

A worker adds its own facts of a task's fetch: its duration, and facts of the handler's exception. It does so for tasks
of slots only, whose pace follows them; other reports carry only facts given by the handler. Facts given by the handler
always win.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from math import inf

from msgspec import Struct

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.fetcher.intake import Intake
from taskqueue.client.tasks.fetched import REFUSALS, facts_of
from taskqueue.client.tasks.reports import failure_of, success_with
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.handler import Handler, kind_of, traceback_of
from taskqueue.client.worker.lease_watch import LeaseWatch, Run
from taskqueue.client.worker.lifespan import Lifespan
from taskqueue.client.worker.outcome import Drop, PassedOn, Retry, RunEnded, TooLate, is_failure
from taskqueue.client.worker.reporting import Reporting
from taskqueue.client.worker.worker_log import Ran, WorkerLog
from taskqueue.protocol.choices import ErrorKind
from taskqueue.protocol.values import NewTask, TaskReport
from taskqueue.texts.error_texts import kind_line

log = logging.getLogger("taskqueue.worker")


class Attempts(Struct, frozen=True):
    """All attempts of a worker while it serves.

    Attributes:
        time: clock of the loop; asking each time for the running loop takes longer than all that is done with it.
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
        """Run the handler on a task and send the report of its outcome.

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
        """Begin to watch the run, whose handler is about to be called."""
        this = asyncio.current_task()
        assert this is not None
        run = self.watch.begin(task, this, self.time())
        if self.extend > 1:
            run.kept_lease = self.client._kept_leases.keep(task, self.extend)
        return run

    def _stop(self, task: Task, running: Run) -> Ran:
        """End the run, whatever its outcome."""
        if running.kept_lease is not None:
            self.client._kept_leases.end(running.kept_lease)
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
        """Have a part of the new tasks of a run stored; see ``produced.Keep``."""
        first, running.kept = running.kept, running.kept + len(new)
        if not await self.reporting.keep(task, new, first):
            self.watch.end_stale(running)
            raise RunEnded

    async def _finished(self, task: Task, running: Run) -> TaskReport | None:
        """Return the report of the run; None if another process or the daemon decides about the task.

        Raises:
            RunEnded: the run was told to end.
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
        except BaseException as error:  # SystemExit, too: a handler that exits must not end the worker.
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
    """Make the report of a failure with the reason that the handler gave, whose first line becomes its kind."""
    try:
        reason = str(decision)
    except Exception:
        reason = kind_of(decision)
    again = decision.again if isinstance(decision, Retry) else None
    return failure_of(task, reason, retry_after, retry, kind_line(reason), decision.new, again)


def note_success(task: Task, began_at: float | None) -> None:
    """Record the facts of a fetch after its handler has returned.

    Args:
        began_at: time of the handler's call, by ``time.monotonic``; None: it was not called.
    """
    _note_seconds(task, began_at)


def note_decision(task: Task, began_at: float | None, decision: BaseException, status_code: int | None = None) -> None:
    """Record the facts of a fetch after ``Retry`` or ``Drop``, which may come from an error, and may have a status."""
    if status_code is not None:
        task.fetched(status_code)
    if began_at is not None:
        _note_error(task, decision, unknown=None)
    _note_seconds(task, began_at)


def note_failure(task: Task, began_at: float | None, error: BaseException) -> None:
    """Record the facts of a fetch after its handler has failed."""
    if began_at is not None:
        _note_error(task, error, unknown="other")
    _note_seconds(task, began_at)


def _note_seconds(task: Task, began_at: float | None) -> None:
    """Record the duration up to now, shortly before the report, so the fetch counts as begun at its start or later."""
    said = task.how_fetched
    if task.start_within is not None and began_at is not None and (said is None or said.seconds is None):
        task.fetched(seconds=time.monotonic() - (task.fetch_began_at or began_at))


def _note_error(task: Task, error: BaseException, unknown: ErrorKind | None) -> None:
    said = task.how_fetched
    if task.start_within is None or (said is not None and said.error_kind is not None):
        return
    if said is not None and said.status_code is not None:
        # There was an answer; an error after a good one was not the fetch's.
        if said.status_code >= REFUSALS:
            task.fetched(error_kind="http")
        return
    try:
        facts = facts_of(error)
        task.fetched(facts.status_code, facts.headers, error_kind=facts.kind or unknown)
    except Exception:  # Attributes of an exception may run a library's code.
        log.debug("event=unreadable-error error=%s", type(error).__name__, exc_info=True)
        task.fetched(error_kind=unknown)
