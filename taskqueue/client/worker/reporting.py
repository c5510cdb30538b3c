"""Reports of a worker's runs that the daemon has not answered yet.

send ──► unanswered ──► answered: what the daemon did not take is logged
             └── given up: its task is the caller's again

No coroutine waits for an answer: to go on with one for each costs a fifteenth of a short run.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from taskqueue.client.connection.batching import Batching
from taskqueue.client.connection.told_answer import ToldAnswer
from taskqueue.client.tasks.reports import Reported, failure_of
from taskqueue.client.tasks.task import Task
from taskqueue.client.worker.worker_log import WorkerLog
from taskqueue.errors import ClientError, MessageTooLarge
from taskqueue.protocol.fields import TaskReport

log = logging.getLogger("taskqueue.worker")


class Reporting:
    """All of a worker's reports while it serves.

    Args:
        reports: of its client.
        log: told of what the daemon did not count.
    """

    def __init__(self, reports: Batching[TaskReport, Reported], log: WorkerLog) -> None:
        self._reports = reports
        self._log = log
        self._unanswered: dict[Task, ToldAnswer[Reported]] = {}
        self._answered = asyncio.Event()

    def send(self, task: Task, report: TaskReport) -> None:
        """Let it leave. If it is not counted, the task's lease runs out and somebody runs it again."""
        try:
            self._unanswered[task] = self._reports.tell(report, partial(self._told, task, report))
        except ClientError as error:
            warn_unreported(task, error)

    @property
    def unanswered(self) -> int:
        """How many have no answer yet."""
        return len(self._unanswered)

    async def fewer_than(self, limit: int) -> None:
        """Wait until so few have no answer yet."""
        while len(self._unanswered) >= limit:
            self._answered.clear()
            await self._answered.wait()

    def give_up(self) -> list[Task]:
        """Wait for no answer any more; returns the tasks of those that have none."""
        tasks = list(self._unanswered)
        for answer in self._unanswered.values():
            answer.give_up()
        self._unanswered.clear()
        self._reports.forget()
        return tasks

    def _told(self, task: Task, report: TaskReport, said: Reported | Exception) -> None:
        del self._unanswered[task]
        self._answered.set()
        if isinstance(said, Reported):
            self._note(task, said)
        elif isinstance(said, MessageTooLarge) and report.ok:
            self._log.failed(task, said)
            self.send(task, failure_of(task, str(said), None, retry=True))
        else:
            warn_unreported(task, said)

    def _note(self, task: Task, said: Reported) -> None:
        if said.outcome == "stale":
            self._log.stale(task)
        for index, reason in said.reasons.items():
            log.warning(
                "event=rejected project=%s taskid=%s new=%d reason=%r", task.project, task.taskid, index, reason
            )


def warn_unreported(task: Task, error: Exception) -> None:
    """Nobody knows what became of a task."""
    log.warning("event=unreported project=%s taskid=%s reason=%r", task.project, task.taskid, str(error))
