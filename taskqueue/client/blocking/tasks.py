"""Blocking twin of ``taskqueue.client.asynchronous.tasks``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Iterator
from math import inf

from taskqueue.client.asynchronous.tasks import AsyncTasks
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import RerunScope, TaskState
from taskqueue.protocol.tasks import (
    Child,
    Parent,
    TaskDetails,
    TaskOutcome,
    TaskRow,
)
from taskqueue.protocol.values import Operation
from taskqueue.types import Page


class BlockingTasks:
    """Tasks that were pushed before. ``client.operations`` changes all tasks that match a filter.

    More than 10,000 taskids, or 400 KiB of them, are sent in several messages, each of which is a change of its own.
    """

    def __init__(self, background: Background, tasks: AsyncTasks) -> None:
        self._background = background
        self._client = tasks

    def get(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskDetails:
        """Return one task with its body and last attempts, named by its taskid, or by the URL that this was made of."""
        return self._background.run(self._client.get(project, taskid, url=url))

    def wait(
        self, project: str, taskid: str | None = None, *, url: str | None = None, timeout: float | None = inf
    ) -> TaskDetails:
        """Wait until a task is finished, and return it as ``get`` does; its ``state`` is the outcome.

        A recurring task never finishes. The client's own timeout limits the first answer only: this waits for a daemon
        that goes away later.

        Args:
            url: URL that the taskid was made of, instead of the taskid.
            timeout: seconds after which the unfinished task is returned; 0: only check; None: the client's; inf: wait
                for ever.

        Raises:
            RequestRejected: the task is unknown, or was dropped meanwhile.
        """
        return self._background.run(self._client.wait(project, taskid, url=url, timeout=timeout))

    def parents(self, project: str, taskid: str) -> Iterator[Parent]:
        """Iterate over the tasks that a task waits or waited for, with their results, asked for page by page.

        A handler has them as ``task.parents()``.
        """
        return self._background.iterate(self._client.parents(project, taskid))

    def children(self, project: str, taskid: str) -> Iterator[Child]:
        """Iterate over the tasks that wait or waited for a task, asked for page by page.

        Tasks pushed meanwhile may be missing.
        """
        return self._background.iterate(self._client.children(project, taskid))

    def retry(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Run tasks now, in any state; returns ``done``, ``unknown``, ``ignored`` or ``bare`` per task.

        ``bare``: the daemon no longer has the task's URL and body, because its project doesn't keep them; push it with
        ``force_update``.
        """
        return self._background.run(self._client.retry(project, taskids))

    def cancel(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Cancel tasks; returns ``done``, ``unknown`` or ``ignored`` per task."""
        return self._background.run(self._client.cancel(project, taskids))

    def reprioritise(self, project: str, taskids: Iterable[str], priority: int) -> builtins.list[TaskOutcome]:
        """Change the priority of tasks; returns ``done``, ``unknown`` or ``ignored`` (it has finished) per task."""
        return self._background.run(self._client.reprioritise(project, taskids, priority))

    def rerun(self, project: str, taskid: str, *, scope: RerunScope = "task", dry_run: bool = False) -> Operation:
        """Start to run a task and related ones again, each once and in the order of their dependencies.

        The rerun goes on in the daemon even if this client goes away: see ``client.operations.wait``. The daemon first
        finds all tasks that are meant, then resets them, and runs none before all are reset.

        Args:
            scope: task: the task alone; downstream: with all tasks that depend on it, directly or not; upstream-failed:
                with those that it depends on, directly or not but not beyond a success, that failed or were cancelled;
                only-failed: those of the task and all that depend on it that failed or were cancelled.
            dry_run: change nothing; when the operation has ended, its ``layers`` list the tasks.

        Raises:
            RequestRejected: the project or the task is unknown.
        """
        return self._background.run(self._client.rerun(project, taskid, scope=scope, dry_run=dry_run))

    def list(
        self,
        project: str,
        state: TaskState | Collection[TaskState] | None = None,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
        after: str = "",
        limit: int = 100,
        pushed_since: Moment | None = None,
        pushed_before: Moment | None = None,
        ignore_case: bool = False,
        job: str = "",
    ) -> Page[TaskRow]:
        """Return a page of a project's tasks, in the order of their state, with the errors of their last attempts.

        Args:
            state: one or several; None: all, one after the other: ready, delayed, processing, blocked, success, failed,
                cancelled. A page has tasks of one state only; without a single ``state``, each row names its own.
            url: glob that the URL matches, such as ``http://site/news/*``; None: any. The daemon scans a bounded number
                of tasks per page, so a page may have fewer than ``limit``, or none, and yet not be the last.
            error: glob that the error of the last attempt matches; None: any. Not for processing tasks.
            since: unix seconds, or an aware datetime: tasks that finished, or if unfinished last ran, at that time or
                later.
            newest: list the tasks that finished, or were dispatched, last first; not for ready, delayed or blocked
                tasks.
            after: the ``next`` of the page before, which is empty on the last one; empty: from the start.
            limit: tasks per page, 1 to 500.
            pushed_since, pushed_before: times likewise: tasks first pushed at that time or later, or before it. Tasks
                without that time, which came before the daemon recorded it, are left out.
            ignore_case: letters of either case match ``url`` and ``error``.
            job: name of a job: its tasks; empty: any.

        Raises:
            ValueError: a time is a datetime without a time zone.
            RequestRejected: the project is unknown, or the state has no errors or can't be listed backwards.
        """
        return self._background.run(
            self._client.list(
                project,
                state,
                url=url,
                error=error,
                since=since,
                newest=newest,
                after=after,
                limit=limit,
                pushed_since=pushed_since,
                pushed_before=pushed_before,
                ignore_case=ignore_case,
                job=job,
            )
        )

    def iter(
        self,
        project: str,
        state: TaskState | Collection[TaskState] | None = None,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
        pushed_since: Moment | None = None,
        pushed_before: Moment | None = None,
        ignore_case: bool = False,
        job: str = "",
    ) -> Iterator[TaskRow]:
        """Iterate over all tasks of a project, filtered as in ``list``, asked for page by page.

        Tasks that change meanwhile may be missing, or come twice.
        """
        after, more = ("", True)
        while more:
            page = self.list(
                project,
                state,
                url=url,
                error=error,
                since=since,
                newest=newest,
                after=after,
                limit=500,
                pushed_since=pushed_since,
                pushed_before=pushed_before,
                ignore_case=ignore_case,
                job=job,
            )
            yield from page.items
            after, more = (page.next, bool(page.next))
