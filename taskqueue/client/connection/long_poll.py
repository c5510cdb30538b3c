"""Waiting for a project to finish, a task, an operation or a flow to end: requests that are answered when that happens.

Each is asked for WAIT_SECONDS at a time, again and again, so it does not matter whether the daemon was restarted
meanwhile. The daemon lets a session wait once for one thing; callers of one client that wait for the same take turns,
and each learns at once when it has happened.
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
"""What is waited for: a project, an operation, a flow by project and name, a task by project and taskid, or a project's
end but for its retries.
"""

WAIT_SECONDS: Final = 30.0
"""That one request waits for."""

PROGRESS_SECONDS: Final = 0.5
"""That one request waits for while somebody wants to see how far it is."""


class LongPoll:
    """Waits for things, through an exchange.

    A daemon that is away is waited for, too; only the first answer has to come within the client's timeout.
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
        """Wait until it has finished; False: it has not, in so many seconds (None: the client's timeout).

        That it finished between two questions, and has new tasks already, is seen by how often it has.

        Args:
            on_remaining: is told how far it is at first, and each WAIT_SECONDS; more often if there is ``progress``.
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
        """How far the project is, now and each time that this changes, until it has finished.

        Ends after so many seconds (None: the client's timeout) if it has not. The time limits each request, not what a
        caller does between two of them.
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
            # Between two questions it may have finished, and have new tasks already.
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
        """Wait until it is over, or for so many seconds (None: the client's timeout).

        Returns it as it was when it was last shown. One that runs again by then is waited for again.
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
        """Wait until it has ended, or for so many seconds (None: the client's timeout); returns how it stands then."""
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
        """Do something with several projects, and wait until it is done with each of them."""
        view = (await self._exchange.ask(request)).operation
        return view if view.ended_at else await self.ended(view.id, None, inf)

    async def operation(self, operation: int, seconds: float, patience: float | None = None) -> Operation:
        """How it stands: when it has ended, or in so many seconds."""
        return (await self._exchange.ask(OperationShow(id=operation, seconds=seconds), patience)).operation

    async def flow_ended(
        self,
        project: str,
        name: str,
        progress: Callable[[Flow], object] | None,
        timeout: float | None,  # noqa: ASYNC109 - ends without an error
    ) -> Flow:
        """Wait until it has ended, or for so many seconds (None: the client's timeout); returns how it stands then."""
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
        """How it stands: when it has ended, or in so many seconds."""
        return (await self._exchange.ask(FlowShow(project=project, flow=name, seconds=seconds), patience)).flow

    async def _wait(self, project: str, seconds: float, *, ignore_retries: bool) -> WaitReply:
        request = ProjectWait(project=project, seconds=seconds, ignore_retries=ignore_retries)
        return await self._exchange.ask(request, inf if seconds else None)

    def _limit(self, timeout: float | None) -> float | None:
        """Seconds as ``asyncio.timeout`` takes them."""
        return time_limit("timeout", self._exchange.patience if timeout is None else timeout)

    def _turn(self, thing: Thing) -> asyncio.Lock:
        """Held by the one who waits; forgotten when nobody does."""
        turn = self._turns.get(thing)
        if turn is None:
            turn = self._turns[thing] = asyncio.Lock()
        return turn


def _thing(project: str, ignore_retries: bool) -> Thing:
    return ("but retries", project, "") if ignore_retries else project


def _tell(progress: Callable[[T], object] | None, how_far: T) -> None:
    if progress is not None:
        progress(how_far)
