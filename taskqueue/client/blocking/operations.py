"""The blocking twin of ``taskqueue.client.asynchronous.operations``.

Made by ``python -m tools.blocking_client``; change that one.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from math import inf

from taskqueue.client.asynchronous.operations import AsyncOperations
from taskqueue.client.connection.background import Background
from taskqueue.client.tasks.push_options import Moment
from taskqueue.protocol.choices import TaskState
from taskqueue.protocol.values import BulkAction, Operation


class BlockingOperations:
    """Operations go on in the daemon, whatever becomes of the client that started them."""

    def __init__(self, background: Background, operations: AsyncOperations) -> None:
        self._background = background
        self._client = operations

    def start(
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
    ) -> Operation:
        """Start an operation on all tasks of a project, or of a group, that everything said here is true of.

        It goes on in the daemon, whatever becomes of this client: see ``wait``. Tasks that are pushed after
        its start are not met.

        Args:
            action: retry: run now, with all retries; cancel: end; reprioritise: give ``priority``; reschedule: let wait
                until ``exetime``, or for ``delay``.
            states: in one of these; empty: those that the action makes sense for (retry: failed only).
            url: a glob that the url matches.
            error: a glob that the error of the last attempt matches.
            until: unix seconds, or an aware datetime: over, or last run, before that; None: at any time.
            since: the same of those that are over, or were last run, at that time or later.
            exetime: unix seconds, or an aware datetime; None is now.
            delay: seconds from the arrival of this at the daemon; wins over exetime.
            dry_run: change nothing, only count.
            pushed_since, pushed_before: times as above: first came at that time or later, or before it. A task of which
                that is unknown, because it came before this was kept, is left out.

        Raises:
            ValueError: a time is a datetime without a zone.
            RequestRejected: neither or both of project and group are given, or the action makes no sense for a state.
        """
        return self._background.run(
            self._client.start(
                action,
                project=project,
                group=group,
                states=states,
                url=url,
                error=error,
                until=until,
                since=since,
                priority=priority,
                exetime=exetime,
                delay=delay,
                dry_run=dry_run,
                pushed_since=pushed_since,
                pushed_before=pushed_before,
            )
        )

    def cancel(self, id: int) -> Operation:
        """End an operation; what it has changed stays changed, and what a rerun has reset runs.

        Raises:
            RequestRejected: it is unknown, or has ended.
        """
        return self._background.run(self._client.cancel(id))

    def get(self, id: int, seconds: float = 0.0) -> Operation:
        """How far an operation is: when it has ended, or after so many seconds (to 60), whichever comes first.

        Args:
            id: or ``number``, in all methods that take one.
        """
        return self._background.run(self._client.get(id, seconds))

    def wait(
        self, id: int, progress: Callable[[Operation], object] | None = None, timeout: float | None = inf
    ) -> Operation:
        """Wait until an operation has ended; returns how it stands then, or (``ended_at`` 0) after ``timeout`` seconds.

        Args:
            progress: called with how it stands, now and twice a second, the end included; it must not wait, because the
                client itself calls it.
            timeout: None: the client's; inf: for ever, also for a daemon that goes away meanwhile.
        """
        return self._background.run(self._client.wait(id, progress, timeout))

    def list(self) -> builtins.list[Operation]:
        """The operations under way and the last 100 that have ended, the newest first."""
        return self._background.run(self._client.list())
