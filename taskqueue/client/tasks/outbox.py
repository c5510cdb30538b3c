"""Pushes and reports of callers that can't await: each leaves soon, and its outcome is passed on when it comes.

    push ────► its task is being reported? ──no────────────────────► message ──► settled
                   └── yes: waits until that report is settled ────────┘  │
    report ──► earlier pushes unsettled? ──no──► part ──► … ──► message ──► settled
                   └── yes: waits until they are settled

Rules:
1. Pushes leave in the order of their calls, and so do reports.
2. A report never overtakes an earlier push: a page's links are known before the page has finished, so that a project
   does not look finished between the two.
3. A push of a task that was reported before waits for that report: else the daemon would ignore it, because the task
   still runs. Other pushes may overtake reports, so that pushes of several pages share messages.
4. Each entry waits for earlier ones only, so the oldest one can always leave.
5. At BUSY_AT unsettled ones no intake gives out tasks. At UNSETTLED_MOST, or UNSETTLED_BYTES, no push is accepted any
   more. Reports always are: there is one per task taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Struct

from taskqueue.client.connection.batching import Batching
from taskqueue.client.tasks.pushes import Push
from taskqueue.client.tasks.reports import Reported
from taskqueue.errors import BacklogFull, ClientClosed, ClientError
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.values import TaskReport

BUSY_AT: Final = 1000
"""Unsettled pushes and reports at which no more tasks are begun."""

UNSETTLED_MOST: Final = 10_000
"""Unsettled pushes and reports of one client at which no push is accepted."""

UNSETTLED_BYTES: Final = 64 << 20
"""Approximate bytes of unsettled pushes of one client at which no push is accepted."""

A = TypeVar("A")

NO_MORE: Final[Iterator[TaskReport]] = iter(())
"""Further parts of a report with a single part."""

Named = tuple[str, str]
"""Reference to a task: project and taskid."""


class Outgoing(Struct, eq=False):
    """A push, or the parts of a report, until it is settled. It is an Answer.

    Attributes:
        outbox: outbox that it is in.
        singles: batching that sends it.
        n: number in the order of calls.
        named: task that it is about.
        item: the push, or the current part of the report.
        parts: parts that follow; each is made when the one before it was stored.
        told: called once with the outcome or the error.
        size: approximate bytes of a push; 0 for reports, which are bounded by the tasks taken.
        waits_for: number of the report that has to be settled before; 0: none.
        kept: outcome of the parts that have left.
        is_over: it is settled.
        timer: ends the wait for an answer; None: nothing does.
    """

    outbox: Outbox
    singles: Batching[Any, Any]
    n: int
    named: Named
    item: Push | TaskReport
    parts: Iterator[TaskReport]
    told: Callable[[Any], object]
    size: int = 0
    waits_for: int = 0
    kept: Reported | None = None
    is_over: bool = False
    timer: asyncio.TimerHandle | None = None

    def leave(self) -> None:
        """Send the entry with the next message."""
        try:
            self.timer = self.singles.tell(self.item, self)
        except ClientError as error:
            self.end(error)

    def done(self) -> bool:
        """Return True if the entry is settled."""
        return self.is_over

    def set_result(self, said: Any) -> None:
        """Process an outcome: unless it is that of a part, it settles the entry."""
        if isinstance(said, Reported):
            said = said if self.kept is None else self.kept.and_then(said)
            if said.outcome == "kept":
                self.kept = said
                self._leave_next()
                return
        # As ``end`` does, without two more calls, because each run of a worker comes here.
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
        self.outbox.forget(self)
        self.told(said)

    def set_exception(self, error: Exception) -> None:
        """Settle the entry with an error."""
        self.end(error)

    def end(self, said: object) -> None:
        """Settle the entry, with an outcome or an error."""
        self._settle()
        self.told(said)

    def give_up(self) -> None:
        """Settle the entry without a call of ``told``. If it has not left, it does not leave."""
        self._settle()
        self.singles.forget()

    def _settle(self) -> None:
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
        self.outbox.forget(self)

    def _leave_next(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        try:
            self.item = next(self.parts)
        except Exception as error:  # The caller's iterator failed, or its item is not a task.
            self.end(error)
        else:
            self.leave()


class Outbox:
    """Unsettled pushes and reports of one client. Used in its event loop.

    Args:
        pushes, reports: those of the client.

    Attributes:
        is_busy: so much is unsettled that no more tasks are to be begun.
    """

    def __init__(self, pushes: Batching[Push, PushOutcome], reports: Batching[TaskReport, Reported]) -> None:
        self._pushes = pushes
        self._reports = reports
        self.is_busy = False
        self._last_n = 0
        self._bytes = 0
        self._unsettled: dict[int, Outgoing] = {}
        self._pushing: dict[int, None] = {}
        self._reporting: dict[Named, int] = {}
        self._waiting_pushes: deque[Outgoing] = deque()
        self._waiting_reports: deque[Outgoing] = deque()
        self._releasing = False
        self._settled = asyncio.Event()
        self._is_awaited = False
        self._when_idle: list[Callable[[], None]] = []

    def push(self, push: Push, told: Callable[[PushOutcome | Exception], object]) -> Outgoing:
        """Push a task.

        Raises:
            BacklogFull: nothing was done.
        """
        size = self._pushes.size_of(push)
        self._check_room(size)
        named = push.project, push.task.taskid
        outgoing = Outgoing(self, self._pushes, self._last_n + 1, named, push, NO_MORE, told, size)
        self._take(outgoing)
        self._bytes += size
        self._pushing[outgoing.n] = None
        outgoing.waits_for = self._reporting.get(named, 0)
        if outgoing.waits_for or self._waiting_pushes:
            self._waiting_pushes.append(outgoing)
        else:
            outgoing.leave()
        return outgoing

    def report(
        self,
        first: TaskReport,
        told: Callable[[Reported | Exception], object],
        parts: Iterator[TaskReport] = NO_MORE,
    ) -> Outgoing:
        """Report a task, by a first part and those that follow it."""
        named = first.project, first.taskid
        outgoing = Outgoing(self, self._reports, self._last_n + 1, named, first, parts, told)
        self._take(outgoing)
        self._reporting[named] = outgoing.n
        if self._pushing:
            self._waiting_reports.append(outgoing)
        else:
            outgoing.leave()
        return outgoing

    async def settled(self) -> None:
        """Wait until all earlier pushes and reports are settled."""
        last = self._last_n
        while next(iter(self._unsettled), inf) <= last:
            await self._wait()

    def when_idle(self, call: Callable[[], None]) -> Callable[[], None]:
        """Register a function to be called each time tasks may be begun again; returns a function that removes it."""
        self._when_idle.append(call)
        return partial(self._when_idle.remove, call)

    def forget(self, outgoing: Outgoing) -> None:
        """Remove a settled entry, and send those that have waited for it."""
        if self._unsettled.pop(outgoing.n, None) is None:
            return
        if outgoing.size:
            self._bytes -= outgoing.size
            del self._pushing[outgoing.n]
        elif self._reporting.get(outgoing.named) == outgoing.n:  # It may be reported twice.
            del self._reporting[outgoing.named]
        if self._is_awaited:
            self._settled.set()
        if (self._waiting_pushes or self._waiting_reports) and not self._releasing:
            self._release()
        if self.is_busy and len(self._unsettled) < BUSY_AT:
            self.is_busy = False
            for call in self._when_idle:
                call()

    def close(self) -> None:
        """Settle all entries that have not left yet, with ClientClosed."""
        unsaid = (each for each in (*self._waiting_pushes, *self._waiting_reports) if not each.is_over)
        waiting = sorted(unsaid, key=lambda each: each.n)
        self._waiting_pushes.clear()
        self._waiting_reports.clear()
        for outgoing in waiting:
            outgoing.end(ClientClosed("the client was closed"))

    def _check_room(self, size: int) -> None:
        count = len(self._unsettled)
        if count >= UNSETTLED_MOST or (count and self._bytes + size > UNSETTLED_BYTES):
            raise BacklogFull(
                f"{count} pushes and reports ({self._bytes} bytes) wait for the daemon's answer, and at most "
                f"{UNSETTLED_MOST} ({UNSETTLED_BYTES} bytes) may; push again when some have an outcome, or wait for "
                "client.settled()"
            )

    def _take(self, outgoing: Outgoing) -> None:
        self._last_n = outgoing.n
        self._unsettled[outgoing.n] = outgoing
        if len(self._unsettled) >= BUSY_AT:
            self.is_busy = True

    def _release(self) -> None:
        """Send all entries that wait for nothing any more."""
        # Not nested: entries that can't leave are settled at once, and 10,000 of them would be as many calls deep.
        self._releasing = True
        while (outgoing := self._next_free()) is not None:
            if outgoing.n in self._unsettled:  # It may have been given up.
                outgoing.leave()
        self._releasing = False

    def _next_free(self) -> Outgoing | None:
        if self._waiting_pushes and self._waiting_pushes[0].waits_for not in self._unsettled:
            return self._waiting_pushes.popleft()
        if self._waiting_reports and self._waiting_reports[0].n < next(iter(self._pushing), inf):
            return self._waiting_reports.popleft()
        return None

    async def _wait(self) -> None:
        self._is_awaited = True
        self._settled.clear()
        await self._settled.wait()


def in_future(future: asyncio.Future[A], outcome: A | Exception) -> None:
    """Set a future's outcome or error, unless its owner has cancelled it."""
    if future.done():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
