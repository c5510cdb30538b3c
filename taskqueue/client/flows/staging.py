"""How a flow gets to the daemon: its tasks in messages of bounded size, one after the other, then one that accepts all.

    tasks ──► batch ──► flow-stage ──► batch ──► flow-stage ──► … ──► flow-submit ──► the flow

Nothing of it runs before it is accepted, and what was staged by a producer that died is dropped by the daemon.

The answer to the last message may get lost, and the flow have been accepted: so a repeat of the call first asks for
that answer again, and stages only what the daemon does not have. Only who has sent it may take a flow of that name for
it: to all others the name is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.flows.plan import FlowPlan
from taskqueue.client.tasks.push_many import BATCH_BYTES, size_of, too_large
from taskqueue.errors import MessageTooLarge, RequestRejected
from taskqueue.protocol.fields import MAX_EDGES, NewTask
from taskqueue.protocol.flows import FlowReply, FlowStage, FlowStaged, FlowSubmit, FlowView

BATCH_TASKS: Final = 1000
"""Most tasks of one message."""

CHECKED_A_SECOND: Final = 1000
"""Tasks that the daemon checks in a second at the very least, before it accepts a flow."""

Progress = Callable[[int], object] | None
"""Called with how many tasks are staged."""


def batches(tasks: Iterable[NewTask]) -> Iterator[list[NewTask]]:
    """The tasks in parts, each of which fits into a message in number, parents and (about) bytes."""
    batch: list[NewTask] = []
    edges = size = 0
    for task in tasks:
        parents = len(task.depends_on)
        if batch and (len(batch) >= BATCH_TASKS or size >= BATCH_BYTES or edges + parents > MAX_EDGES):
            yield batch
            batch, edges, size = [], 0, 0
        batch.append(task)
        edges += parents
        size += size_of(task)
    if batch:
        yield batch


class Staging:
    """Sends a flow, through an exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._unanswered = 0
        """Tasks of the submission whose answer has not come; 0: none is awaited."""

    async def submit(self, plan: FlowPlan, reuse: bool, progress: Progress) -> FlowView:
        """Stage all tasks and have them accepted; if that has happened, and only the answer was lost, give it again.

        Raises:
            RequestRejected: one of them, or all together, can't be taken; nothing of the flow runs.
        """
        if self._unanswered == len(plan.tasks):
            try:
                return await self._have_accepted(plan, reuse)
            except RequestRejected as refusal:
                if refusal.code != "unknown-flow":
                    raise
        first = 0
        for batch in batches(plan.tasks):
            await self._stage(plan, first, batch)
            first += len(batch)
            if progress is not None:
                progress(first)
        return await self._have_accepted(plan, reuse)

    async def _have_accepted(self, plan: FlowPlan, reuse: bool) -> FlowView:
        count = self._unanswered = len(plan.tasks)
        request = FlowSubmit(session="", n=0, project=plan.project, flow=plan.name, count=count, reuse=reuse)
        patience = self._exchange.patience + count / CHECKED_A_SECOND
        try:
            flow = (await self._exchange.ask(request, FlowReply, patience)).flow
        except RequestRejected:
            self._unanswered = 0
            raise
        self._unanswered = 0
        return flow

    async def _stage(self, plan: FlowPlan, first: int, tasks: Sequence[NewTask]) -> None:
        """Stage some tasks; those that are too large for one message go in parts."""
        request = FlowStage(session="", n=0, project=plan.project, flow=plan.name, first=first, tasks=list(tasks))
        try:
            reply = await self._exchange.ask(request, FlowStaged)
        except MessageTooLarge as refusal:
            if len(tasks) == 1:
                raise too_large(tasks[0], refusal) from None
            half = len(tasks) // 2
            await self._stage(plan, first, tasks[:half])
            await self._stage(plan, first + half, tasks[half:])
            return
        if reply.errors:
            error = reply.errors[0]
            taskid = tasks[error.index].taskid
            raise RequestRejected("malformed", f"task {first + error.index} of the flow ({taskid}): {error.reason}")
