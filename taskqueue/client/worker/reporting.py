"""Reports of a worker's runs that the daemon has not answered yet.

send ──► unanswered ──► answered: the run counts with its outcome
             ├── refused: the task has failed, for that reason, which is reported in its place
             └── given up: its task is the caller's again

No coroutine waits for an answer: one for each would cost a fifteenth of a short run. Only a part of a report is
awaited, by its run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from taskqueue.client.asynchronous.client import AsyncClient
from taskqueue.client.tasks.outbox import Outgoing
from taskqueue.client.tasks.reports import Reported, part_of, refusal_of
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.worker_log import Ran, WorkerLog
from taskqueue.errors import ClientClosed, RequestTimeout
from taskqueue.protocol.values import NewTask, TaskReport

log = logging.getLogger("taskqueue.worker")


class Reporting:
    """All of a worker's reports while it serves.

    Args:
        client: sends them.
        log: counts each run when its report is answered.
    """

    def __init__(self, client: AsyncClient, log: WorkerLog) -> None:
        self._reports = client._single_reports
        self._outbox = client._outbox
        self._log = log
        self._unanswered: dict[Task, tuple[Outgoing, Ran]] = {}
        self._answered = asyncio.Event()

    async def keep(self, task: Task, new: list[NewTask], first: int) -> bool:
        """Store a part of the new tasks of a running task; False: its lease has ended.

        Args:
            first: number of new tasks before it.

        Raises:
            ClientError: the daemon refuses it, or does not answer.
        """
        said = await self._reports.ask(part_of(task, new))
        self._note(task, said, first)
        return said.outcome != "stale"

    def send(self, report: TaskReport, ran: Ran, first: int = 0) -> None:
        """Send the report of a run. If the daemon never counts it, the task's lease runs out and it is run again.

        Args:
            first: number of new tasks of the run that have been stored before.
        """
        self._send(report, ran, partial(self._finish, ran, first))

    def _send(self, report: TaskReport, ran: Ran, told: Callable[[Reported | Exception], None]) -> None:
        outgoing = self._outbox.report(report, told)
        if not outgoing.is_over:  # It is if the client was closed meanwhile.
            self._unanswered[ran.task] = (outgoing, ran)

    async def all_answered(self) -> None:
        """Wait until every report is answered."""
        while self._unanswered:
            self._answered.clear()
            await self._answered.wait()

    def give_up(self) -> list[Task]:
        """Stop waiting for answers; returns the tasks without one."""
        tasks = list(self._unanswered)
        for outgoing, ran in self._unanswered.values():
            outgoing.give_up()
            self._log.ran(ran._replace(outcome="unreported"))
        self._unanswered.clear()
        return tasks

    def _finish(self, ran: Ran, first: int, said: Reported | Exception) -> None:
        if isinstance(said, Reported):
            self._count(ran)
            self._note(ran.task, said, first)
        elif isinstance(said, RequestTimeout | ClientClosed):
            self._lose(ran, said)
        else:
            self._fail(ran, said)

    def _fail(self, ran: Ran, refusal: Exception) -> None:
        """Report a refused report's task as failed, for the reason of the refusal."""
        self._log.failed(ran.task, refusal)
        failed = ran._replace(outcome="failed")
        self._send(refusal_of(ran.task, refusal), failed, partial(self._finish_refused, failed))

    def _finish_refused(self, failed: Ran, said: Reported | Exception) -> None:
        """Record the last answer about a run whose report was refused: a smaller report is impossible."""
        if isinstance(said, Reported):
            self._count(failed)
            self._note(failed.task, said, 0)
        else:
            self._lose(failed, said)

    def _count(self, ran: Ran) -> None:
        self._unanswered.pop(ran.task, None)
        if not self._unanswered:
            self._answered.set()
        self._log.ran(ran)

    def _lose(self, ran: Ran, error: Exception) -> None:
        self._count(ran._replace(outcome="unreported"))
        warn_unreported(ran.task, error)

    def _note(self, task: Task, said: Reported, first: int) -> None:
        if said.outcome == "stale":
            self._log.stale(task)
        for index, reason in said.reasons.items():
            log.warning(
                "event=rejected project=%s taskid=%s new=%d reason=%r", task.project, task.taskid, first + index, reason
            )


def warn_unreported(task: Task, error: Exception) -> None:
    """Log that the outcome of a task is unknown."""
    log.warning("event=unreported project=%s taskid=%s reason=%r", task.project, task.taskid, str(error))
