"""Batches of ``push_many`` on their way to the daemon: so many messages at once, and no more.

send ──► fewer than ``most`` on their way? ──► message ──► counted
                └── no: one of them is waited for first
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from taskqueue.client.connection.background import Background, BackgroundCall
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.push_many import Answered, PushBatch, Pushed, ToldOutcome, is_too_large, too_large
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.tasks import NewTasks, NewTasksReply

Progress = Callable[[Pushed], object] | None
"""Called with the counts so far, after each message's answer."""


class Count(NamedTuple):
    """What becomes of the tasks: counted in ``pushed``, and told to the caller if it asks for that."""

    pushed: Pushed
    progress: Progress
    told: ToldOutcome

    @property
    def wants_states(self) -> bool:
        """Whether each task is told with its state."""
        return self.told is not None

    def add(self, answered: Answered) -> None:
        """Count and tell what became of a batch."""
        self.pushed.add(answered.pushed)
        if self.told is not None:
            for outcome in answered.outcomes:
                self.told(outcome)
        if self.progress is not None:
            self.progress(self.pushed)


class BatchSender:
    """Sends the batches of one client, through an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def send(self, project: str, batch: PushBatch, *, states: bool = False) -> Answered:
        """Send one batch; one that is too large goes in parts."""
        message = NewTasks(session="", n=0, project=project, tasks=list(batch.tasks), states=states)
        try:
            reply = await self._exchange.ask(message, NewTasksReply)
            return Answered(batch.count(reply), batch.outcomes(reply) if states else [])
        except (MessageTooLarge, RequestRejected) as error:
            if not is_too_large(error):
                raise
            if len(batch.tasks) == 1:
                return batch.rejected(str(too_large(batch.tasks[0], error)))
        answered = Answered(Pushed(), [])
        for half in batch.halves():
            part = await self.send(project, half, states=states)
            answered.pushed.add(part.pushed)
            answered.outcomes.extend(part.outcomes)
        return answered

    def window(self, project: str, most: int, pushed: Pushed, progress: Progress, told: ToldOutcome = None) -> Window:
        """Room for ``most`` batches on their way; ``pushed`` counts what becomes of their tasks."""
        return Window(self, project, most, Count(pushed, progress, told))


class Window:
    """Left, all have been answered; left by an error, those that have not are given up."""

    def __init__(self, sender: BatchSender, project: str, most: int, count: Count) -> None:
        self._sender = sender
        self._project = project
        self._most = most
        self._count = count
        self._sending: set[asyncio.Task[Answered]] = set()

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
        sending = self._sender.send(self._project, batch, states=self._count.wants_states)
        self._sending.add(asyncio.ensure_future(sending))

    async def _settle(self) -> None:
        """Wait for one of them, and count it; raises what the first of them raised."""
        done, self._sending = await asyncio.wait(self._sending, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for each in done if (error := each.exception()) is not None]
        for each in done:
            if each.exception() is None:
                self._count.add(each.result())
        if errors:
            raise errors[0]


class BlockingBatchSender:
    """A BatchSender for a thread: the loop in the background sends, and this one waits."""

    def __init__(self, background: Background, sender: BatchSender) -> None:
        self._background = background
        self._sender = sender

    def window(
        self, project: str, most: int, pushed: Pushed, progress: Progress, told: ToldOutcome = None
    ) -> BlockingWindow:
        """See ``BatchSender.window``; ``progress`` and ``told`` are called in this thread."""
        return BlockingWindow(self._background, self._sender, project, most, Count(pushed, progress, told))


class BlockingWindow:
    """A Window for a thread, which waits for the oldest batch first."""

    def __init__(self, background: Background, sender: BatchSender, project: str, most: int, count: Count) -> None:
        self._background = background
        self._sender = sender
        self._project = project
        self._most = most
        self._count = count
        self._sending: deque[BackgroundCall[Answered]] = deque()

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
        sending = self._sender.send(self._project, batch, states=self._count.wants_states)
        self._sending.append(self._background.start(sending))

    def _settle(self) -> None:
        self._count.add(self._sending.popleft().result())
