"""The blocking twin of ``taskqueue.client.asynchronous.cron``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from taskqueue.client.asynchronous.cron import AsyncCron
from taskqueue.client.connection.background import Background
from taskqueue.protocol.projects import ProjectView


class BlockingCron:
    """Jobs of projects. They are a setting of theirs, so ``projects.show`` has them, and when each runs next."""

    def __init__(self, background: Background, cron: AsyncCron) -> None:
        self._background = background
        self._client = cron

    def set(
        self,
        project: str,
        job: str,
        *,
        cron: str = "",
        every: str = "",
        zone: str = "UTC",
        missed: Literal["skip", "once"] = "skip",
        url: str = "",
        taskid: str = "",
        fetch: Mapping[str, Any] | None = None,
        process: Mapping[str, Any] | None = None,
        save: Any = None,
        body: Any = None,
        priority: int = 0,
        retries: int | None = None,
        age: float | None = None,
        timeout: float | None = None,
    ) -> ProjectView:
        """Have a task pushed again and again, with ``force_update``; a job of that name is replaced.

        Args:
            cron: a cron expression, read in ``zone``; or
            every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC).
            missed: what to do about runs missed while the daemon was down: skip them, or run once.
            url, taskid: of the task; empty: made from the job's name. ``{tick}`` stands for the run's unix seconds.
            fetch, process, save, body, priority, retries, age, timeout: of the task, as in ``new_task``.
        """
        return self._background.run(
            self._client.set(
                project,
                job,
                cron=cron,
                every=every,
                zone=zone,
                missed=missed,
                url=url,
                taskid=taskid,
                fetch=fetch,
                process=process,
                save=save,
                body=body,
                priority=priority,
                retries=retries,
                age=age,
                timeout=timeout,
            )
        )

    def remove(self, project: str, job: str) -> ProjectView:
        """Forget a job that ``set`` made, or its changes to one of the config."""
        return self._background.run(self._client.remove(project, job))
