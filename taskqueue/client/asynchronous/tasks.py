"""``client.tasks``: tasks that the daemon knows, single ones and lists of them."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator
from math import inf
from typing import Final

from msgspec.structs import replace

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.tasks.new_task import as_text, default_taskid
from taskqueue.client.tasks.parents import ParentPages, decoded
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.client.tasks.pushes import check_several
from taskqueue.protocol.base import Request, without_envelope
from taskqueue.protocol.choices import RerunScope, TaskState
from taskqueue.protocol.fields import MAX_BATCH
from taskqueue.protocol.operations import Rerun
from taskqueue.protocol.tasks import (
    Child,
    Parent,
    TaskCancel,
    TaskChildren,
    TaskDetails,
    TaskList,
    TaskOutcome,
    TaskReply,
    TaskReprioritise,
    TaskRetry,
    TaskRow,
    TaskShow,
    TasksReply,
)
from taskqueue.protocol.values import Operation
from taskqueue.types import Page

NAMES_BYTES: Final = 400 << 10
"""Approximate bytes of taskids per message: a daemon accepts messages of at least 512 KiB."""


class AsyncTasks:
    """Tasks that were pushed before. ``client.operations`` changes all tasks that match a filter.

    More than 10,000 taskids, or 400 KiB of them, are sent in several messages, each of which is a change of its own.
    """

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll
        self._parents = ParentPages(exchange)

    async def get(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskDetails:
        """Return one task with its body and last attempts, named by its taskid, or by the URL that this was made of."""
        return details_of(await self._exchange.ask(TaskShow(project=project, taskid=_named("get", taskid, url))))

    async def wait(
        self,
        project: str,
        taskid: str | None = None,
        *,
        url: str | None = None,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
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
        return details_of(await self._long_poll.task_over(project, _named("wait", taskid, url), timeout))

    async def parents(self, project: str, taskid: str) -> AsyncGenerator[Parent, None]:
        """Iterate over the tasks that a task waits or waited for, with their results, asked for page by page.

        A handler has them as ``task.parents()``.
        """
        async for parent in self._parents.all(project, taskid):
            yield parent

    async def children(self, project: str, taskid: str) -> AsyncGenerator[Child, None]:
        """Iterate over the tasks that wait or waited for a task, asked for page by page.

        Tasks pushed meanwhile may be missing.
        """
        after, more = "", True
        while more:
            page = await self._exchange.ask(TaskChildren(project=project, taskid=taskid, after=after, limit=500))
            for view in page.children:
                yield view
            after, more = page.next, bool(page.next)

    async def retry(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Run tasks now, in any state; returns ``done``, ``unknown``, ``ignored`` or ``bare`` per task.

        ``bare``: the daemon no longer has the task's URL and body, because its project doesn't keep them; push it with
        ``force_update``.
        """
        return await self._change(taskids, lambda some: TaskRetry(project=project, taskids=some))

    async def cancel(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Cancel tasks; returns ``done``, ``unknown`` or ``ignored`` per task."""
        return await self._change(taskids, lambda some: TaskCancel(project=project, taskids=some))

    async def reprioritise(self, project: str, taskids: Iterable[str], priority: int) -> builtins.list[TaskOutcome]:
        """Change the priority of tasks; returns ``done``, ``unknown`` or ``ignored`` (it has finished) per task."""
        return await self._change(
            taskids,
            lambda some: TaskReprioritise(project=project, taskids=some, priority=priority),
        )

    async def rerun(self, project: str, taskid: str, *, scope: RerunScope = "task", dry_run: bool = False) -> Operation:
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
        return (await self._exchange.ask(Rerun(project=project, taskid=taskid, scope=scope, dry_run=dry_run))).operation

    async def _change(
        self, taskids: Iterable[str], request: Callable[[list[str]], Request[TasksReply]]
    ) -> builtins.list[TaskOutcome]:
        """Ask for the change, one message of taskids after the other; returns all outcomes."""
        outcomes: builtins.list[TaskOutcome] = []
        for some in _messages(taskids):
            outcomes += (await self._exchange.ask(request(some))).outcomes
        return outcomes

    async def list(
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
        request = TaskList(
            project=project,
            state=state if isinstance(state, str) else None,
            states=[] if state is None or isinstance(state, str) else list(state),
            url=url or "",
            error=error or "",
            since=unix_seconds_or_0("since", since),
            newest=newest,
            after=after,
            limit=limit,
            pushed_since=unix_seconds_or_0("pushed_since", pushed_since),
            pushed_before=unix_seconds_or_0("pushed_before", pushed_before),
            ignore_case=ignore_case,
            job=job,
        )
        reply = await self._exchange.ask(request)
        return Page(reply.tasks, reply.next)

    async def iter(
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
    ) -> AsyncGenerator[TaskRow, None]:
        """Iterate over all tasks of a project, filtered as in ``list``, asked for page by page.

        Tasks that change meanwhile may be missing, or come twice.
        """
        after, more = "", True
        while more:
            page = await self.list(
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
            for row in page.items:
                yield row
            after, more = page.next, bool(page.next)


def _messages(taskids: Iterable[str]) -> Iterator[list[str]]:
    """Divide taskids into messages; without any there is one empty message, which the daemon may refuse.

    Raises:
        TypeError: ``taskids`` is a single text.
    """
    check_several("taskids", taskids, "taskid")
    some: list[str] = []
    size = 0
    for taskid in taskids:
        if len(some) >= MAX_BATCH or size >= NAMES_BYTES:
            yield some
            some, size = [], 0
        some.append(taskid)
        size += 2 + len(as_text("taskids", taskid).encode())
    yield some


def details_of(reply: TaskReply) -> TaskDetails:
    """Return the task with its body and result decoded."""
    return replace(without_envelope(TaskDetails, reply), body=decoded(reply.body), result=decoded(reply.result))


def _named(method: str, taskid: str | None, url: str | None) -> str:
    """Return the taskid of a task that is named by it, or by its URL."""
    if taskid is not None:
        return taskid
    if url is None:
        raise ValueError(f"tasks.{method}: give taskid or URL")
    return default_taskid(url)
