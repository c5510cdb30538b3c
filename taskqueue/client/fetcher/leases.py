"""Leases of one client: given back, extended, kept for callers that have tasks in hand, passed on to other processes.

The daemon decides what a lease is, and when it ends by itself. The client extends those of tasks that are kept, and
sets ``task.lost`` when they end:

    keep ──► EXTEND_AT of the lease ──► extended ──► … ──► the last of ``most`` leases ──► ended: task.lost
      ├── reported, released, passed on, left: no more extensions
      └── the daemon has ended it: task.lost

1. A task has ``most`` leases in all, one after the other, so a loop or a handler that hangs keeps no task for ever.
2. ``task.lost`` is set when the daemon says that the lease is not in force, or when it ends by this client's clock
   because no extension was answered in time. It stays set if one is answered later.
3. A task that another process has sent here is extended at once: nothing is known of its lease.
4. Before a report leaves, its task is kept no longer, so no extension comes after it.

Hellos say of tasks that were passed on to another process that they occupy no place here any more (``Relay``). Each
hello lists all held tokens, so the more have been passed on, the rarer hellos are: at once if none was sent lately,
else together with the next ones. The number of tasks passed on and not reported yet is bounded, too: beyond PASSED_MOST
they keep their places, so that a fetcher whose processors are gone comes to rest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from math import inf
from typing import Final, NamedTuple

from taskqueue.client.arguments import checked_number
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.session import ClientSession
from taskqueue.client.tasks.task import Cancelled, Task
from taskqueue.errors import ClientError
from taskqueue.protocol.fetchers import Extend, LeaseRef, Release
from taskqueue.texts.visible_text import visible

log = logging.getLogger("taskqueue.client")

LEASES_MOST: Final = 2000
"""Leases per message. Each takes 240 bytes at most, and a daemon accepts messages of at least 512 KiB."""


class Leases:
    """Requests about leases."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def release(self, tasks: Sequence[Task]) -> int:
        """Give tasks back; returns how many of their leases were in force."""
        counted = 0
        for leases in _chunks(tasks):
            reply = await self._exchange.ask(Release(leases=leases))
            counted += reply.counted
        return counted

    def release_soon(self, tasks: Sequence[Task]) -> None:
        """Give tasks back without waiting for the answer."""
        for leases in _chunks(tasks):
            self._exchange.post(Release(leases=leases))

    async def extend(self, task: Task, seconds: float | None, patience: float | None = None) -> bool:
        """Extend a lease to ``seconds`` from now (None: the task's own timeout); False: it has ended.

        Args:
            patience: seconds that the answer may take; None: the client's.
        """
        if (await self._exchange.ask(Extend(leases=[_ref(task)], seconds=seconds), patience)).counted != 1:
            return False
        task.lease_ends_at = asyncio.get_running_loop().time() + (task.timeout if seconds is None else seconds)
        return True


def _chunks(tasks: Sequence[Task]) -> Iterator[list[LeaseRef]]:
    for start in range(0, len(tasks), LEASES_MOST):
        yield [_ref(task) for task in tasks[start : start + LEASES_MOST]]


def _ref(task: Task) -> LeaseRef:
    return LeaseRef(task.project, task.taskid, task.token)


EXTEND_AT: Final = 2 / 3
"""Part of a lease after which it is extended."""

EXTEND_MOST: Final = 10.0
"""Default of the leases that a task has in all."""

ExtendLease = Callable[[Task, float | None, float | None], Awaitable[bool]]
"""Type of ``Leases.extend``."""


def checked_extend_most(leases: float) -> float:
    """Return the number of leases that a task may have.

    Raises:
        TypeError, ValueError: it is less than 1, or not a number.
    """
    return checked_number("extend_most", leases, least=1)


class Keeping:
    """Extender of one task's lease until ``end``, or until its last lease has ended.

    Args:
        extend: asks the daemon.
        task: its lease is in force until ``task.lease_ends_at``.
        most: leases that it has in all.
        owner: see ``KeptLeases.leave``.
    """

    __slots__ = ("_asking", "_extend", "_loop", "_task", "_timer", "_until", "owner")

    def __init__(self, extend: ExtendLease, task: Task, most: float, owner: object = None) -> None:
        self._extend = extend
        self._loop = asyncio.get_running_loop()
        self._task = task
        self._until = task.lease_ends_at + (most - 1) * task.timeout
        self._asking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.owner = owner
        self._look()

    def end(self) -> None:
        """Stop extending the lease; it runs out by itself."""
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _look(self) -> None:
        now, ends_at = self._loop.time(), self._task.lease_ends_at
        if now >= ends_at:
            self._task.lost.set()
        if self._asking is None and now >= self._due_at():
            self._asking = self._loop.create_task(self._ask())
        next_at = ends_at if self._asking is not None else min(ends_at, self._due_at())
        if next_at > now:
            self._timer = self._loop.call_at(next_at, self._look)

    def _due_at(self) -> float:
        """Return the time of the next extension; inf: the last lease has begun."""
        ends_at = self._task.lease_ends_at
        return inf if ends_at >= self._until else ends_at - (1 - EXTEND_AT) * self._task.timeout

    async def _ask(self) -> None:
        try:
            is_in_force = await self._extended()
        except ClientError as error:
            # Not asked again: the daemon refuses it, or the client is closed. The timer rings when the lease ends.
            _warn(self._task, error)
            return
        if not is_in_force:
            self._task.lost.set()
            return
        self._asking = None
        if self._timer is not None:
            self._timer.cancel()
        self._look()

    async def _extended(self) -> bool:
        seconds = min(self._task.timeout, self._until - self._loop.time())
        return seconds > 0 and await self._extend(self._task, seconds, inf)


class InHand(NamedTuple):
    """A task that a caller has; ``keeping`` extends its lease, and may be None."""

    task: Task
    keeping: Keeping | None = None

    def end(self) -> None:
        """Stop extending the task's lease."""
        if self.keeping is not None:
            self.keeping.end()


class KeptLeases:
    """Tasks of one client that callers have in hand.

    Args:
        extend: asks the daemon.
    """

    def __init__(self, extend: ExtendLease) -> None:
        self._extend = extend
        self._in_hand: dict[int, list[InHand]] = {}

    def hand_over(self, task: Task, most: float = 1, owner: object = None) -> None:
        """Record that a caller has a task, until it is reported; keep its lease if it may have more than one."""
        if most > 1:
            self.keep(task, most, owner)
        else:
            self._add(InHand(task))

    def keep(self, task: Task, most: float, owner: object = None) -> InHand:
        """Extend the lease of a task, up to ``most`` leases in all, until it is reported, or ``end`` is called."""
        return self._add(InHand(task, Keeping(self._extend, task, most, owner)))

    def _add(self, in_hand: InHand) -> InHand:
        self._in_hand.setdefault(in_hand.task.token, []).append(in_hand)
        return in_hand

    def end(self, in_hand: InHand) -> None:
        """End what ``keep`` has begun, for this caller; other callers may have the same task."""
        in_hand.end()
        token = in_hand.task.token
        others = [other for other in self._in_hand.pop(token, ()) if other is not in_hand]
        if others:
            self._in_hand[token] = others

    @asynccontextmanager
    async def keeping(self, task: Task, most: float) -> AsyncIterator[Cancelled]:
        """Keep the lease of a task inside the block; yields the event of its loss."""
        if task.lease_ends_at == inf and not await self._extend(task, None, None):
            task.lost.set()  # Nothing is known of its lease, so there is nothing to wait for.
            yield task.lost
            return
        kept = self.keep(task, most)
        try:
            yield task.lost
        finally:
            self.end(kept)

    def finish(self, tokens: Iterable[int]) -> None:
        """Forget tasks that are reported, given back, or passed on."""
        for token in tokens:
            for in_hand in self._in_hand.pop(token, ()):
                in_hand.end()

    def lose(self, tokens: Iterable[int]) -> None:
        """Set ``lost`` of the tasks whose leases the daemon has ended."""
        for token in tokens:
            for in_hand in self._in_hand.pop(token, ()):
                in_hand.end()
                in_hand.task.lost.set()

    def leave(self, owner: object) -> None:
        """Stop extending the leases of this owner, which may never report its tasks."""
        for in_hand in chain.from_iterable(self._in_hand.values()):
            if in_hand.keeping is not None and in_hand.keeping.owner is owner:
                in_hand.end()

    def close(self) -> None:
        """Set ``lost`` of all tasks: those of a closed client go back."""
        self.lose(list(self._in_hand))


def _warn(task: Task, error: ClientError) -> None:
    log.warning("event=not-extended project=%s taskid=%s reason=%r", task.project, visible(task.taskid), str(error))


PASSED_MOST: Final = 10_000
"""Tasks that are passed on and not reported, as far as is known here."""

PAUSE_SECONDS: Final = 0.001
"""Shortest time between two hellos."""
PAUSE_EACH_SECONDS: Final = 0.000_01
"""Addition to that time for each task that the hellos list as passed on."""
FULL_SECONDS: Final = 1.0
"""Time between two hellos that only ask whether some of the tasks have been reported."""


class Relay:
    """Passed on tasks of one client.

    Args:
        session: states them.
        restate: called when the session has something new to state.
    """

    def __init__(self, session: ClientSession, restate: Callable[[], None]) -> None:
        self._session = session
        self._restate = restate
        self._untold: list[int] = []
        self._timer: asyncio.TimerHandle | None = None

    def pass_on(self, tokens: Iterable[int]) -> None:
        """Record that other processes report the tasks of these tokens."""
        self._untold.extend(tokens)
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Cancel the timer, and record all tasks that wait for it."""
        if self._timer is not None:
            self._timer.cancel()
        self._tell_all(self._untold)

    def _tell(self) -> None:
        self._timer = None
        if not self._untold:
            return
        room = max(0, PASSED_MOST - self._session.passed)
        told, self._untold = self._untold[:room], self._untold[room:]
        self._tell_all(told)
        if not told:
            self._session.say_hello()
        self._restate()
        pause = max(PAUSE_SECONDS, PAUSE_EACH_SECONDS * self._session.passed) if told else FULL_SECONDS
        self._timer = asyncio.get_running_loop().call_later(pause, self._tell)

    def _tell_all(self, tokens: Iterable[int]) -> None:
        for token in tokens:
            self._session.pass_on(token)
