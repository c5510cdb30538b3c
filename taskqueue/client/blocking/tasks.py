"""The blocking twin of ``taskqueue.client.asynchronous.tasks``.

Made by ``python -m tools.blocking_client``; change that one.
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
    """Tasks that were pushed before. What is done with all that a filter names is in ``client.operations``.

    Of more than 10,000 taskids, or 400 KiB of them, each so many are a change of their own.
    """

    def __init__(self, background: Background, tasks: AsyncTasks) -> None:
        self._background = background
        self._client = tasks

    def get(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskDetails:
        """One task, its body and last attempts included; named by its taskid, or by the url that it was made of."""
        return self._background.run(self._client.get(project, taskid, url=url))

    def wait(
        self, project: str, taskid: str | None = None, *, url: str | None = None, timeout: float | None = inf
    ) -> TaskDetails:
        """Wait until a task is over, and return it as ``get`` does; its ``state`` says how it ended.

        A task that recurs is never over. The client's own timeout limits the first answer only: a daemon that goes away
        later is waited for.

        Args:
            url: names the task instead of the taskid, if that was made of it.
            timeout: seconds after which the task is returned that is not over; 0: only look; None: the client's;
                inf: wait for ever.

        Raises:
            RequestRejected: there is no such task, or it was dropped meanwhile.
        """
        return self._background.run(self._client.wait(project, taskid, url=url, timeout=timeout))

    def parents(self, project: str, taskid: str) -> Iterator[Parent]:
        """What a task waits for, or has waited for, and what that has left behind; asked for page by page.

        A handler has it as ``task.parents()``.
        """
        return self._background.iterate(self._client.parents(project, taskid))

    def children(self, project: str, taskid: str) -> Iterator[Child]:
        """Tasks that wait for a task, or have waited for it; asked for page by page.

        What is pushed meanwhile may be missing.
        """
        return self._background.iterate(self._client.children(project, taskid))

    def retry(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Run tasks now, whatever they wait for or ended as; per task ``done``, ``unknown``, ``ignored`` or ``bare``.

        ``bare``: its url and its body were dropped, as its project keeps such tasks no longer; push it with
        ``force_update``.
        """
        return self._background.run(self._client.retry(project, taskids))

    def cancel(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """End tasks; per task ``done``, ``unknown`` or ``ignored``."""
        return self._background.run(self._client.cancel(project, taskids))

    def reprioritise(self, project: str, taskids: Iterable[str], priority: int) -> builtins.list[TaskOutcome]:
        """Give tasks another priority; per task ``done``, ``unknown``, or ``ignored``: it is over."""
        return self._background.run(self._client.reprioritise(project, taskids, priority))

    def rerun(self, project: str, taskid: str, *, scope: RerunScope = "task", dry_run: bool = False) -> Operation:
        """Start to run a task again, and others with it, each once and in the order in which they depend on each other.

        It goes on in the daemon, whatever becomes of this client: see ``client.operations.wait``. Nothing is touched
        before it is known which tasks are meant; no task runs before all are reset.

        Args:
            scope: task: it alone; downstream: it and all tasks that depend on it, however far down; upstream-failed: it
                and those that it depends on, however far up but not behind a success, that failed or were cancelled;
                only-failed: of it and all that depend on it those that failed or were cancelled.
            dry_run: change nothing; once it has ended, its ``layers`` say which tasks.

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
    ) -> Page[TaskRow]:
        """A page of a project's tasks in a state, in the order of that state, with the errors of their last attempts.

        Args:
            state: one or several; None: all, one after the other: ready, delayed, processing, blocked, success, failed,
                cancelled. A page has tasks of one of them and, without a single ``state``, each task its own.
            url: a glob, such as ``http://site/news/*``; None is any. Each page looks at a bounded number of tasks, so
                it may have fewer than ``limit``, or none, and yet not be the last.
            error: a glob that the error of the last attempt matches; None is any. Not for what is processing.
            since: unix seconds, or an aware datetime: ended at that time or later or, if it is not over, last run.
            newest: what ended, or was handed out, last comes first; not for what is ready, delayed or blocked.
            after: the ``next`` of the page before, which is empty on the last one; empty: from the start.
            limit: 1 to 500.
            pushed_since, pushed_before: the same times: first came at that time or later, or before it. A task of which
                that is unknown, because it came before this was kept, is left out.

        Raises:
            ValueError: a time is a datetime without a zone.
            RequestRejected: there is no such project, or the state has no errors or can't be listed backwards.
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
    ) -> Iterator[TaskRow]:
        """All tasks of a project in one state, in some or in any, as ``list`` has them, asked for page by page.

        What changes meanwhile may be missing, or come twice.
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
            )
            yield from page.items
            after, more = (page.next, bool(page.next))
