"""Batches of ``push_many`` on their way to the daemon: so many messages at once, and no more.

send ──► fewer than ``most`` on their way? ──► message ──► counted
                └── no: one of them is waited for first
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self

from taskqueue.client.connection.background import Background, BackgroundCall
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_many import PushBatch, Pushed, is_too_large, too_large
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.replies import NewTasksReply
from taskqueue.protocol.requests import NewTasks

Progress = Callable[[Pushed], object] | None
"""Called with the counts so far, after each message's answer."""


class BatchSender:
    """Sends the batches of one client, through an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, project: str, batch: PushBatch) -> Pushed:
        """Send one batch; one that is too large goes in parts."""
        message = NewTasks(session="", n=0, project=project, tasks=list(batch.tasks))
        try:
            return batch.count(await self._exchange.ask(message, NewTasksReply))
        except (MessageTooLarge, RequestRejected) as error:
            if not is_too_large(error):
                raise
            if len(batch.tasks) == 1:
                return batch.rejected(str(too_large(batch.tasks[0], error)))
        pushed = Pushed()
        for half in batch.halves():
            pushed.add(await self.send(project, half))
        return pushed

    def window(self, project: str, most: int, pushed: Pushed, progress: Progress) -> Window:
        """Room for ``most`` batches on their way; ``pushed`` counts what becomes of their tasks."""
        return Window(self, project, most, pushed, progress)


class Window:
    """Left, all have been answered; left by an error, those that have not are given up."""

    def __init__(self, sender: BatchSender, project: str, most: int, pushed: Pushed, progress: Progress) -> None:
        self._sender = sender
        self._project = project
        self._most = most
        self._pushed = pushed
        self._progress = progress
        self._sending: set[asyncio.Task[Pushed]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._sending and error is None:
                await self._settle()
        finally:
            for unsettled in self._sending:
                unsettled.cancel()
            # One that failed before it could be cancelled has an error that is nobody's concern any more.
            await asyncio.gather(*self._sending, return_exceptions=True)

    async def send(self, batch: PushBatch) -> None:
        """Send a batch, as soon as there is room for it."""
        if len(self._sending) >= self._most:
            await self._settle()
        self._sending.add(asyncio.ensure_future(self._sender.send(self._project, batch)))

    async def _settle(self) -> None:
        """Wait for one of them, and count it; raises what the first of them raised."""
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for each in done if (error := each.exception()) is not None]
        for each in done:
            if each.exception() is None:
                _count(self._pushed, each.result(), self._progress)
        if errors:
            raise errors[0]


class BlockingBatchSender:
    """A BatchSender for a thread: the loop in the background sends, and this one waits."""

    def __init__(self, background: Background, sender: BatchSender) -> None:
        self._background = background
        self._sender = sender

    def window(self, project: str, most: int, pushed: Pushed, progress: Progress) -> BlockingWindow:
        """See ``BatchSender.window``; ``progress`` is called in this thread."""
        return BlockingWindow(self._background, self._sender, project, most, pushed, progress)


class BlockingWindow:
    """A Window for a thread, which waits for the oldest batch first."""

    def __init__(
        self,
        background: Background,
        sender: BatchSender,
        project: str,
        most: int,
        pushed: Pushed,
        progress: Progress,
    ) -> None:
        self._background = background
        self._sender = sender
        self._project = project
        self._most = most
        self._pushed = pushed
        self._progress = progress
        self._sending: deque[BackgroundCall[Pushed]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            while self._sending and error is None:
                self._settle()
        finally:
            for unsettled in self._sending:
                unsettled.cancel()

    def send(self, batch: PushBatch) -> None:
        """Send a batch, as soon as there is room for it."""
        if len(self._sending) >= self._most:
            self._settle()
        self._sending.append(self._background.start(self._sender.send(self._project, batch)))

    def _settle(self) -> None:
        _count(self._pushed, self._sending.popleft().result(), self._progress)


def _count(pushed: Pushed, answered: Pushed, progress: Progress) -> None:
    pushed.add(answered)
    if progress is not None:
        progress(pushed)
