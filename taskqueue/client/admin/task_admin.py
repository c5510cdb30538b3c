"""The part of AsyncClient that is about tasks that are known: single ones, lists of them, all that a filter names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable

from taskqueue.client.admin.long_poll import LongPoll
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.identity import default_taskid
from taskqueue.client.tasks.push_options import Moment, unix_seconds
from taskqueue.protocol.choices import FailuresBy, StateName
from taskqueue.protocol.replies import (
    FailuresReply,
    OperationReply,
    OperationsReply,
    TaskListReply,
    TaskReply,
    TasksReply,
)
from taskqueue.protocol.requests import (
    Bulk,
    BulkAction,
    Failures,
    OperationList,
    TaskCancel,
    TaskFilter,
    TaskList,
    TaskRetry,
    TaskShow,
)
from taskqueue.protocol.views import OperationView, TaskRow


class TaskAdmin:
    """Methods of AsyncClient, which gives it the attributes."""

    _exchange: Exchange
    _waiting: LongPoll
    timeout: float

    # ------------------------------------------------------------------------------------ tasks by name

    async def show_task(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskReply:
        """One task, its body and last attempts included; named by its taskid, or by the url that it was made of."""
        if taskid is None:
            if url is None:
                raise ValueError("show_task: give taskid or url")
            taskid = default_taskid(url)
        return await self._exchange.ask(TaskShow(session="", n=0, project=project, taskid=taskid), TaskReply)

    async def retry_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """Run tasks now, whatever they wait for or ended as; per task ``done``, ``unknown``, ``ignored`` or ``bare``.

        ``bare``: its url and its body were dropped, as its project keeps such tasks no longer; push it with
        ``force_update``.
        """
        request = TaskRetry(session="", n=0, project=project, taskids=list(taskids))
        return list((await self._exchange.ask(request, TasksReply)).outcomes)

    async def cancel_tasks(self, project: str, taskids: Iterable[str]) -> list[str]:
        """End tasks; per task ``done``, ``unknown`` or ``ignored``."""
        request = TaskCancel(session="", n=0, project=project, taskids=list(taskids))
        return list((await self._exchange.ask(request, TasksReply)).outcomes)

    # ------------------------------------------------------------------------------------ lists

    async def task_list(
        self,
        project: str,
        state: StateName,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
        after: str = "",
        limit: int = 100,
    ) -> TaskListReply:
        """A page of a project's tasks in one state, in the order of that state, with the errors of their last attempts.

        Args:
            url: a glob, such as ``http://site/news/*``; None is any. Each page looks at a bounded number of tasks, so
                it may have fewer than ``limit``, or none, and yet not be the last.
            error: a glob that the error of the last attempt matches; None is any. Not for what is processing.
            since: unix seconds, or an aware datetime: ended at that time or later or, if it is not over, last run.
            newest: what ended, or was handed out, last comes first; not for what is ready or delayed.
            after: the ``next`` of the page before, which is empty on the last one; empty: from the start.
            limit: 1 to 500.

        Raises:
            ValueError: since is a datetime without a zone.
            RequestRejected: there is no such project, or the state has no errors or can't be listed backwards.
        """
        request = TaskList(
            session="",
            n=0,
            project=project,
            state=state,
            url=url or "",
            error=error or "",
            since=0.0 if since is None else unix_seconds("since", since),
            newest=newest,
            after=after,
            limit=limit,
        )
        return await self._exchange.ask(request, TaskListReply)

    async def all_tasks(
        self,
        project: str,
        state: StateName,
        *,
        url: str | None = None,
        error: str | None = None,
        since: Moment | None = None,
        newest: bool = False,
    ) -> AsyncGenerator[TaskRow, None]:
        """All of them, asked for page by page; what changes meanwhile may be missing, or come twice."""
        after, more = "", True
        while more:
            page = await self.task_list(
                project, state, url=url, error=error, since=since, newest=newest, after=after, limit=500
            )
            for row in page.tasks:
                yield row
            after, more = page.next, bool(page.next)

    # ------------------------------------------------------------------------------------ what failed

    async def failures(
        self,
        project: str | None = None,
        *,
        by: FailuresBy = "error",
        since: Moment | None = None,
        limit: int = 100,
    ) -> FailuresReply:
        """What failed, counted by what failures have in common: each failed attempt, whatever became of its task.

        The daemon has those of the last seven days, a million at most, and looks at 100,000 in well under a second.

        Args:
            project: None: all of them.
            by: error: kinds of errors, which differ in more than numbers, ids and urls; host of the url; fetcher;
                project.
            since: unix seconds, or an aware datetime: ended at that time or later; None: all that are kept.
            limit: 1 to 1,000 groups, those with the most failures.

        Raises:
            ValueError: since is a datetime without a zone.
            RequestRejected: there is no such project, or too many ask at once.
        """
        start = 0.0 if since is None else unix_seconds("since", since)
        request = Failures(session="", n=0, project=project, by=by, since=start, limit=limit)
        return await self._exchange.ask(request, FailuresReply)

    # ------------------------------------------------------------------------------------ many at once

    async def bulk(
        self,
        action: BulkAction,
        *,
        project: str | None = None,
        group: str = "",
        states: Iterable[StateName] = (),
        url: str = "",
        error: str = "",
        before: float = 0.0,
        priority: int = 0,
        exetime: Moment | None = None,
        delay: float | None = None,
        dry_run: bool = False,
    ) -> OperationView:
        """Start an operation on all tasks of a project, or of a group, that everything said here is true of.

        It goes on in the daemon, whatever becomes of this client: see ``wait_operation``. Tasks that are pushed after
        its start are not met.

        Args:
            action: retry: run now, with all retries; cancel: end; reprioritise: give ``priority``; reschedule: let wait
                until ``exetime``, or for ``delay``.
            states: in one of these; empty: those that the action makes sense for (retry: failed only).
            url: a glob that the url matches.
            error: a glob that the error of the last attempt matches.
            before: unix seconds: over, or last run, before that.
            exetime: unix seconds, or an aware datetime; None is now.
            delay: seconds from the arrival of this at the daemon; wins over exetime.
            dry_run: change nothing, only count.

        Raises:
            ValueError: exetime is a datetime without a zone.
            RequestRejected: neither or both of project and group are given, or the action makes no sense for a state.
        """
        chosen = TaskFilter(list(states), url, error, before)
        request = Bulk(
            session="",
            n=0,
            action=action,
            project=project,
            group=group,
            filter=chosen,
            priority=priority,
            exetime=0.0 if exetime is None else unix_seconds("exetime", exetime),
            delay=delay,
            dry_run=dry_run,
        )
        return (await self._exchange.ask(request, OperationReply)).operation

    async def operation(self, id: int, seconds: float = 0.0) -> OperationView:
        """How far an operation is: when it has ended, or after so many seconds (to 60), whichever comes first."""
        return await self._waiting.operation(id, seconds, self.timeout + seconds)

    async def wait_operation(
        self,
        id: int,
        progress: Callable[[OperationView], object] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - ends without an error
    ) -> OperationView:
        """Wait until an operation has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included.
            timeout: None: for ever, also for a daemon that goes away meanwhile.
        """
        return await self._waiting.ended(id, progress, timeout)

    async def operations(self) -> list[OperationView]:
        """The operations under way and the last 100 that have ended, the newest first."""
        return (await self._exchange.ask(OperationList(session="", n=0), OperationsReply)).operations
