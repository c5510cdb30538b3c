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
"""About the bytes of the taskids in a message: a daemon takes messages of 512 KiB at least."""


class AsyncTasks:
    """Tasks that were pushed before. What is done with all that a filter names is in ``client.operations``.

    Of more than 10,000 taskids, or 400 KiB of them, each so many are a change of their own.
    """

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll
        self._parents = ParentPages(exchange)

    async def get(self, project: str, taskid: str | None = None, *, url: str | None = None) -> TaskDetails:
        """One task, its body and last attempts included; named by its taskid, or by the url that it was made of."""
        return details_of(await self._exchange.ask(TaskShow(project=project, taskid=_named("get", taskid, url))))

    async def wait(
        self,
        project: str,
        taskid: str | None = None,
        *,
        url: str | None = None,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
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
        return details_of(await self._long_poll.task_over(project, _named("wait", taskid, url), timeout))

    async def parents(self, project: str, taskid: str) -> AsyncGenerator[Parent, None]:
        """What a task waits for, or has waited for, and what that has left behind; asked for page by page.

        A handler has it as ``task.parents()``.
        """
        async for parent in self._parents.all(project, taskid):
            yield parent

    async def children(self, project: str, taskid: str) -> AsyncGenerator[Child, None]:
        """Tasks that wait for a task, or have waited for it; asked for page by page.

        What is pushed meanwhile may be missing.
        """
        after, more = "", True
        while more:
            page = await self._exchange.ask(TaskChildren(project=project, taskid=taskid, after=after, limit=500))
            for view in page.children:
                yield view
            after, more = page.next, bool(page.next)

    async def retry(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """Run tasks now, whatever they wait for or ended as; per task ``done``, ``unknown``, ``ignored`` or ``bare``.

        ``bare``: its url and its body were dropped, as its project keeps such tasks no longer; push it with
        ``force_update``.
        """
        return await self._change(taskids, lambda some: TaskRetry(project=project, taskids=some))

    async def cancel(self, project: str, taskids: Iterable[str]) -> builtins.list[TaskOutcome]:
        """End tasks; per task ``done``, ``unknown`` or ``ignored``."""
        return await self._change(taskids, lambda some: TaskCancel(project=project, taskids=some))

    async def reprioritise(self, project: str, taskids: Iterable[str], priority: int) -> builtins.list[TaskOutcome]:
        """Give tasks another priority; per task ``done``, ``unknown``, or ``ignored``: it is over."""
        return await self._change(
            taskids,
            lambda some: TaskReprioritise(project=project, taskids=some, priority=priority),
        )

    async def rerun(self, project: str, taskid: str, *, scope: RerunScope = "task", dry_run: bool = False) -> Operation:
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
        return (await self._exchange.ask(Rerun(project=project, taskid=taskid, scope=scope, dry_run=dry_run))).operation

    async def _change(
        self, taskids: Iterable[str], request: Callable[[list[str]], Request[TasksReply]]
    ) -> builtins.list[TaskOutcome]:
        """Ask for the change of some tasks after the other; returns the outcomes of all."""
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
    ) -> AsyncGenerator[TaskRow, None]:
        """All tasks of a project in one state, in some or in any, as ``list`` has them, asked for page by page.

        What changes meanwhile may be missing, or come twice.
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
            )
            for row in page.items:
                yield row
            after, more = page.next, bool(page.next)


def _messages(taskids: Iterable[str]) -> Iterator[list[str]]:
    """The taskids of each message; of none there is one message, which the daemon may refuse.

    Raises:
        TypeError: they are one text.
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
    """The task, with its body and its result decoded."""
    return replace(without_envelope(TaskDetails, reply), body=decoded(reply.body), result=decoded(reply.result))


def _named(method: str, taskid: str | None, url: str | None) -> str:
    """The taskid of a task that is named by it, or by its url."""
    if taskid is not None:
        return taskid
    if url is None:
        raise ValueError(f"tasks.{method}: give taskid or url")
    return default_taskid(url)
