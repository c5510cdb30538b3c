"""Waiting for a project, a task, an operation or a flow to end: requests that the daemon answers when that happens.

Each waits for WAIT_SECONDS and is repeated, so it survives a restart of the daemon. The daemon lets a session wait once
for one thing; callers of one client that wait for the same thing take turns, and each learns at once when it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from math import inf
from typing import Final, Literal, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from taskqueue.client.arguments import time_limit
from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.choices import OVER_STATES
from taskqueue.protocol.flows import Flow, FlowShow
from taskqueue.protocol.operations import OperationShow
from taskqueue.protocol.projects import GroupDo, ProjectWait, Remaining, WaitReply
from taskqueue.protocol.tasks import TaskReply, TaskShow, TaskWait
from taskqueue.protocol.values import Operation

T = TypeVar("T")

Thing = str | int | tuple[str, str] | tuple[Literal["task", "but retries"], str, str]
"""Object of a wait: a project, an operation, a flow by project and name, a task by project and taskid, or a project's
end apart from its retries.
"""

WAIT_SECONDS: Final = 30.0
"""Time that one request waits."""

PROGRESS_SECONDS: Final = 0.5
"""Time that one request waits if its caller wants to see progress."""


class LongPoll:
    """Waits of one client.

    They also wait for a daemon that is away; only the first answer has to come within the client's timeout.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._turns: WeakValueDictionary[Thing, asyncio.Lock] = WeakValueDictionary()

    async def finished(
        self,
        project: str,
        progress: Callable[[int], object] | None,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
        *,
        ignore_retries: bool = False,
        on_remaining: Callable[[Remaining], object] | None = None,
    ) -> bool:
        """Wait until a project has finished; False after ``timeout`` seconds (None: the client's timeout).

        A project that finished between two requests, and has new tasks already, is detected by its count of finishes.

        Args:
            on_remaining: called with the project's progress at first, and each WAIT_SECONDS; more often if there is
                ``progress``.
        """
        within = self._limit(timeout)
        seconds = PROGRESS_SECONDS if progress else WAIT_SECONDS
        first = reply = await self._wait(project, 0.0, ignore_retries=ignore_retries)
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._turn(_thing(project, ignore_retries)):
                while not reply.finished and reply.times == first.times:
                    _tell(progress, reply.unfinished)
                    if reply.remaining is not None:
                        _tell(on_remaining, reply.remaining)
                    reply = await self._wait(project, seconds, ignore_retries=ignore_retries)
        return reply.finished or reply.times > first.times

    async def standing(
        self,
        project: str,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
        *,
        ignore_retries: bool = False,
    ) -> AsyncGenerator[WaitReply, None]:
        """Iterate over the progress of a project, now and after each change, until it has finished.

        Ends after ``timeout`` seconds (None: the client's timeout) if it has not. The time limits each request, not the
        caller's work between two of them.
        """
        loop, within = asyncio.get_running_loop(), self._limit(timeout)
        ends_at = None if within is None else loop.time() + within
        first = told = await self._wait(project, 0.0, ignore_retries=ignore_retries)
        yield first
        while not told.finished and (ends_at is None or loop.time() < ends_at):
            try:
                async with asyncio.timeout_at(ends_at), self._turn(_thing(project, ignore_retries)):
                    reply = await self._wait(project, PROGRESS_SECONDS, ignore_retries=ignore_retries)
            except TimeoutError:
                return
            # Between two requests it may have finished, and have new tasks already.
            reply = replace(reply, finished=reply.finished or reply.times > first.times)
            if (reply.finished, reply.unfinished) != (told.finished, told.unfinished):
                yield reply
            told = reply

    async def task_over(
        self,
        project: str,
        taskid: str,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
    ) -> TaskReply:
        """Wait until a task has finished, or for ``timeout`` seconds (None: the client's timeout).

        Returns the task as it was last shown. If it runs again by then, this waits again.
        """
        within = self._limit(timeout)
        show = TaskShow(project=project, taskid=taskid)
        task = await self._exchange.ask(show)
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._turn(("task", project, taskid)):
                while task.state not in OVER_STATES:
                    wait = TaskWait(project=project, taskid=taskid, seconds=WAIT_SECONDS)
                    await self._exchange.ask(wait, inf)
                    task = await self._exchange.ask(show, inf)
        return task

    async def ended(
        self,
        operation: int,
        progress: Callable[[Operation], object] | None,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
    ) -> Operation:
        """Wait until an operation has ended, or for ``timeout`` seconds; returns its progress then.

        None: the client's timeout.
        """
        within = self._limit(timeout)
        view = await self.operation(operation, 0.0)
        _tell(progress, view)
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._turn(operation):
                while not view.ended_at:
                    view = await self.operation(operation, PROGRESS_SECONDS if progress else WAIT_SECONDS, inf)
                    _tell(progress, view)
        return view

    async def done(self, request: GroupDo) -> Operation:
        """Change several projects, and wait until each of them is changed."""
        view = (await self._exchange.ask(request)).operation
        return view if view.ended_at else await self.ended(view.id, None, inf)

    async def operation(self, operation: int, seconds: float, patience: float | None = None) -> Operation:
        """Return an operation's progress: when it has ended, or after ``seconds``."""
        return (await self._exchange.ask(OperationShow(id=operation, seconds=seconds), patience)).operation

    async def flow_ended(
        self,
        project: str,
        name: str,
        progress: Callable[[Flow], object] | None,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
    ) -> Flow:
        """Wait until a flow has ended, or for ``timeout`` seconds; returns its progress then.

        None: the client's timeout.
        """
        within = self._limit(timeout)
        view = await self.flow(project, name, 0.0)
        _tell(progress, view)
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._turn((project, name)):
                while not view.ended_at:
                    view = await self.flow(project, name, PROGRESS_SECONDS if progress else WAIT_SECONDS, inf)
                    _tell(progress, view)
        return view

    async def flow(self, project: str, name: str, seconds: float, patience: float | None = None) -> Flow:
        """Return a flow's progress: when it has ended, or after ``seconds``."""
        return (await self._exchange.ask(FlowShow(project=project, flow=name, seconds=seconds), patience)).flow

    async def _wait(self, project: str, seconds: float, *, ignore_retries: bool) -> WaitReply:
        request = ProjectWait(project=project, seconds=seconds, ignore_retries=ignore_retries)
        return await self._exchange.ask(request, inf if seconds else None)

    def _limit(self, timeout: float | None) -> float | None:
        """Return seconds in the form that ``asyncio.timeout`` takes."""
        return time_limit("timeout", self._exchange.patience if timeout is None else timeout)

    def _turn(self, thing: Thing) -> asyncio.Lock:
        """Return the lock that the waiting caller holds; it is forgotten when no caller does."""
        turn = self._turns.get(thing)
        if turn is None:
            turn = self._turns[thing] = asyncio.Lock()
        return turn


def _thing(project: str, ignore_retries: bool) -> Thing:
    return ("but retries", project, "") if ignore_retries else project


def _tell(progress: Callable[[T], object] | None, how_far: T) -> None:
    if progress is not None:
        progress(how_far)
