"""``client.operations``: changes of all tasks that match a filter, and their undos; reruns of a task and relatives."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from math import inf

from taskqueue.client.arguments import checked_seconds
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.long_poll import LongPoll
from taskqueue.client.tasks.push_options import Moment, unix_seconds_or_0
from taskqueue.protocol.choices import TaskState
from taskqueue.protocol.operations import Bulk, OperationCancel, OperationList, OperationUndo
from taskqueue.protocol.values import BulkAction, Operation, TaskFilter


class AsyncOperations:
    """Operations, which run in the daemon even if the client that started them goes away."""

    def __init__(self, exchange: Exchange, long_poll: LongPoll) -> None:
        self._exchange = exchange
        self._long_poll = long_poll

    async def start(
        self,
        action: BulkAction,
        *,
        project: str | None = None,
        group: str = "",
        states: Iterable[TaskState] = (),
        url: str = "",
        error: str = "",
        until: Moment | None = None,
        since: Moment | None = None,
        priority: int = 0,
        exetime: Moment | None = None,
        delay: float | None = None,
        dry_run: bool = False,
        pushed_since: Moment | None = None,
        pushed_before: Moment | None = None,
        ignore_case: bool = False,
        job: str = "",
    ) -> Operation:
        """Start an operation on all tasks of a project, or of a group, that match every condition given here.

        It runs in the daemon, even if this client goes away: see ``wait``. Tasks pushed after its start are left alone.

        Args:
            action: retry: run now, with all retries; cancel: end; reprioritise: set ``priority``; reschedule: delay
                until ``exetime``, or by ``delay``.
            project, group: project, or group of projects, whose tasks are meant; give one of them.
            states: tasks in one of these states; empty: those that the action makes sense for (retry: failed only).
            url: glob that the URL matches.
            error: glob that the error of the last attempt matches.
            until: unix seconds, or an aware datetime: tasks that finished, or last ran, before that; None: at any time.
            since: likewise, tasks that finished, or last ran, at that time or later.
            priority: new priority, for reprioritise.
            exetime: unix seconds, or an aware datetime; None: now.
            delay: seconds from the arrival of this request at the daemon; overrides ``exetime``.
            dry_run: change nothing, only count.
            pushed_since, pushed_before: times as above: tasks first pushed at that time or later, or before it. Tasks
                without that time, which came before the daemon recorded it, are left out.
            ignore_case: letters of either case match ``url`` and ``error``.
            job: name of a job: its tasks; empty: any.

        Raises:
            ValueError: a time is a datetime without a time zone.
            RequestRejected: neither or both of project and group are given, or the action makes no sense for a state.
        """
        chosen = TaskFilter(
            list(states),
            url,
            error,
            before=unix_seconds_or_0("until", until),
            since=unix_seconds_or_0("since", since),
            pushed_since=unix_seconds_or_0("pushed_since", pushed_since),
            pushed_before=unix_seconds_or_0("pushed_before", pushed_before),
            ignore_case=ignore_case,
            job=job,
        )
        request = Bulk(
            action=action,
            project=project,
            group=group,
            filter=chosen,
            priority=priority,
            exetime=unix_seconds_or_0("exetime", exetime),
            delay=delay,
            dry_run=dry_run,
        )
        return (await self._exchange.ask(request)).operation

    async def cancel(self, id: int) -> Operation:
        """End an operation. Its changes so far stay, and tasks that a rerun has reset run.

        Raises:
            RequestRejected: the operation is unknown, or has ended.
        """
        return (await self._exchange.ask(OperationCancel(id=id))).operation

    async def undo(self, id: int) -> Operation:
        """Start an operation that takes back what a retry, cancel, reprioritise or reschedule of many tasks did.

        Tasks that something else has changed since stay as they are. Tasks that were running come back ready. ``undo``
        of the returned operation counts what came back and names what did not: see ``wait``.

        Raises:
            RequestRejected: the operation is unknown, still runs, or can't be undone (any more); the reason says why.
        """
        return (await self._exchange.ask(OperationUndo(id=id))).operation

    async def get(self, id: int, seconds: float = 0.0) -> Operation:
        """Return the progress of an operation: at its end, or after ``seconds`` (0 to 60), whichever comes first.

        Args:
            id: id or ``number`` of the operation; all methods with an ``id`` take both.
        """
        patience = self._exchange.patience + checked_seconds("seconds", seconds)
        return await self._long_poll.operation(id, seconds, patience)

    async def wait(
        self,
        id: int,
        progress: Callable[[Operation], object] | None = None,
        timeout: float | None = inf,  # noqa: ASYNC109 - ends without an error
    ) -> Operation:
        """Wait until an operation has ended; returns its progress then, or after ``timeout`` seconds.

        Without an end, ``ended_at`` is 0.

        Args:
            progress: called with the operation's progress, now, twice a second, and at the end; it must not wait,
                because the client itself calls it.
            timeout: seconds to wait; None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return await self._long_poll.ended(id, progress, timeout)

    async def list(self) -> builtins.list[Operation]:
        """Return the operations under way and the last 100 that have ended, newest first."""
        return (await self._exchange.ask(OperationList())).operations
