"""``client.cron``: tasks that the daemon pushes by itself, again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from taskqueue.client.asynchronous.projects import AsyncProjects
from taskqueue.client.tasks.new_task import body_of
from taskqueue.protocol.projects import ProjectView


class AsyncCron:
    """Jobs of projects. They are a setting of theirs, so ``projects.show`` has them, and when each runs next."""

    def __init__(self, projects: AsyncProjects) -> None:
        self._projects = projects

    async def set(
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
        timeout: float | None = None,  # noqa: ASYNC109 - the task's, not the call's
    ) -> ProjectView:
        """Have a task pushed again and again, with ``force_update``; a job of that name is replaced.

        Args:
            cron: a cron expression, read in ``zone``; or
            every: such as "90s", "5m", "12h" or "1d": at the multiples of that since 1970 (UTC).
            missed: what to do about runs missed while the daemon was down: skip them, or run once.
            url, taskid: of the task; empty: made from the job's name. ``{tick}`` stands for the run's unix seconds.
            fetch, process, save, body, priority, retries, age, timeout: of the task, as in ``new_task``.
        """
        task = {
            "url": url,
            "taskid": taskid,
            "priority": priority,
            "retries": retries,
            "age": age,
            "timeout": timeout,
            "body": body_of(fetch, process, save, body),
        }
        when = {"cron": cron, "every": every, "zone": zone, "missed": missed}
        return await self._projects.set(project, {"cron": {job: when | {"task": task}}})

    async def remove(self, project: str, job: str) -> ProjectView:
        """Forget a job that ``set`` made, or its changes to one of the config."""
        return await self._projects.unset(project, [f"cron.{job}"])
