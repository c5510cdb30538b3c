"""What became of tasks: ``done`` messages, each with everything that was reported at the same time.

done(a) ─┐
done(b) ─┼─ end of the loop's turn ──► one message ──► one reply ──► each caller its part
failed(c)┘
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import Struct

from taskqueue.core.messages import MAX_BATCH, Finished
from taskqueue.core.replies import DoneOutcome, DoneReply, NewOutcome
from taskqueue.core.requests import Done
from taskqueue.errors import MessageTooLarge, RequestRejected

Ask = Callable[[Done], Awaitable[DoneReply]]
"""Sends a request and waits for its answer."""


class Finish(NamedTuple):
    """What the daemon made of a report about a task.

    Attributes:
        outcome: ``done``: it counted. ``stale``: the task had been given to somebody else, cancelled or replaced
            meanwhile; nothing changed, its new tasks were not taken.
        new: what became of each new task, in order.
        reasons: of new tasks that were rejected, by their place.
    """

    outcome: DoneOutcome
    new: list[NewOutcome]
    reasons: dict[int, str]


class Report(Struct, eq=False):
    """One caller's report, waiting for its answer."""

    item: Finished
    answer: asyncio.Future[Finish]


class Finishing:
    """Collects reports during a turn of the event loop and sends them together.

    Args:
        ask: sends one message.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: list[Report] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def report(self, item: Finished) -> Finish:
        """Report one task; returns what the daemon made of it.

        Raises:
            RequestTimeout, RequestRejected, MessageTooLarge, Closed: see ``taskqueue.errors``.
        """
        loop = asyncio.get_running_loop()
        report = Report(item, loop.create_future())
        if not self._waiting:
            loop.call_soon(self._send)
        self._waiting.append(report)
        return await report.answer

    def _send(self) -> None:
        reports, self._waiting = self._waiting, []
        for start in range(0, len(reports), MAX_BATCH):
            sending = asyncio.ensure_future(self._exchange(reports[start : start + MAX_BATCH]))
            self._sending.add(sending)
            sending.add_done_callback(self._sending.discard)

    async def _exchange(self, reports: list[Report]) -> None:
        message = Done(session="", n=0, tasks=[report.item for report in reports])
        try:
            reply = await self._ask(message)
        except MessageTooLarge as error:
            await self._exchange_halves(reports, error)
        except Exception as error:
            _fail(reports, error)
        else:
            for index, report in enumerate(reports):
                _answer(report, reply, index)

    async def _exchange_halves(self, reports: list[Report], error: MessageTooLarge) -> None:
        half = len(reports) // 2
        if half == 0:
            _fail(reports, error)
            return
        await asyncio.gather(self._exchange(reports[:half]), self._exchange(reports[half:]))


def _fail(reports: list[Report], error: Exception) -> None:
    for report in reports:
        if not report.answer.done():
            report.answer.set_exception(error)


def _answer(report: Report, reply: DoneReply, index: int) -> None:
    if report.answer.done():
        return
    outcome = reply.outcomes[index]
    if outcome == "rejected":
        reason = next((e.reason for e in reply.errors if e.parent is None and e.index == index), "rejected")
        report.answer.set_exception(RequestRejected("rejected", reason))
        return
    reasons = {error.index: error.reason for error in reply.errors if error.parent == index}
    new = reply.new[index] if reply.new else []
    report.answer.set_result(Finish(outcome, new, reasons))
