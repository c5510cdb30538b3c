"""Leases of one client: given back, prolonged, and known to have been handed out.

What a lease is, and when it ends by itself, is the daemon's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.task import Task
from taskqueue.protocol.fetchers import Extend, LeaseRef, Release, TokensReply
from taskqueue.protocol.operations import OperationList, OperationsReply

LEASES_MOST: Final = 2000
"""Leases in a message. Each takes 240 bytes at most, and a daemon takes messages of 512 KiB at least."""


class Leases:
    """What is asked about them, through an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def release(self, tasks: Sequence[Task]) -> int:
        """Hand tasks back; returns how many of their leases were in force."""
        counted = 0
        for leases in _chunks(tasks):
            reply = await self._exchange.ask(Release(session="", n=0, leases=leases), TokensReply)
            counted += reply.counted
        return counted

    def release_soon(self, tasks: Sequence[Task]) -> None:
        """Hand tasks back; nobody waits for the answer."""
        for leases in _chunks(tasks):
            self._exchange.post(Release(session="", n=0, leases=leases))

    async def extend(self, task: Task, seconds: float | None, patience: float | None = None) -> bool:
        """Give a lease ``seconds`` from now; None: the task's own timeout. False: it is not in force any more.

        Args:
            patience: seconds that the answer may take; None: the client's.
        """
        request = Extend(session="", n=0, leases=[_ref(task)], seconds=seconds)
        if (await self._exchange.ask(request, TokensReply, patience)).counted != 1:
            return False
        task.lease_ends_at = asyncio.get_running_loop().time() + (task.timeout if seconds is None else seconds)
        return True

    async def handed_out(self) -> None:
        """Wait until the daemon has handed out what it has ready for the wish that was stated last.

        It hands out at the end of the turn in which it hears the wish, or of the next one if the queue has to be read
        from its store first, and answers questions at the start of a turn. So the answer to the third one comes later.
        """
        for _ in range(3):
            await self._exchange.ask(OperationList(session="", n=0), OperationsReply)


def _chunks(tasks: Sequence[Task]) -> Iterator[list[LeaseRef]]:
    for start in range(0, len(tasks), LEASES_MOST):
        yield [_ref(task) for task in tasks[start : start + LEASES_MOST]]


def _ref(task: Task) -> LeaseRef:
    return LeaseRef(task.project, task.taskid, task.token)
