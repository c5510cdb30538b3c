"""``client.slots``: the parts of a project's tasks, such as those of one host, that have paces of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.base import without_envelope
from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.slots import SlotDetails, SlotFact, SlotList, SlotPage, SlotSet, SlotShow


class AsyncSlots:
    """Slots of projects, as the daemon knows them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self,
        project: str,
        *,
        sort: SlotSort = "backlog",
        limit: int = 100,
        stored: bool = False,
    ) -> SlotPage:
        """The first slots of a project, in this order.

        Args:
            sort: those with the most ready tasks (backlog), the most errors or the longest delay first; or name.
            limit: 1 to 1,000.
            stored: also those that are in the store only; the daemon then looks at all of them, or by backlog at all
                ready tasks, a few thousand at a time between its other work. If not, those in memory, at once: all that
                may go on next.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or too many ask for all at once.
        """
        request = SlotList(project=project, by=sort, limit=limit, all=stored)
        return without_envelope(SlotPage, await self._exchange.ask(request))

    async def get(self, project: str, slot: str) -> SlotDetails:
        """All that is known of one slot, such as ``example.org``: its pace and who says so, and its next tasks.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or it has had no task of this slot.
        """
        return without_envelope(SlotDetails, await self._exchange.ask(SlotShow(project=project, slot=slot)))

    async def set(
        self,
        project: str,
        slot: str,
        *,
        delay: float | Literal["auto"] | None = None,
        rate: float | None = None,
        burst: float | None = None,
        max_processing: float | None = None,
        max_tasks: float | None = None,
        block_until: float | None = None,
    ) -> SlotDetails:
        """Say how one slot goes, such as ``example.org``, now and across restarts; it need not have had a task yet.

        What is said of a slot wins over the project's settings; what is None stays as it is.

        Args:
            delay: seconds from one hand-out to the next, 0 to 1,000,000, or "auto": as fast as it answers. A delay and
                a rate replace each other.
            rate: tasks handed out a second, on average; ``math.inf``: no delay.
            burst: with a rate: tasks that may be handed out at once after a quiet time.
            max_processing: tasks that fetchers have at once, at most; ``math.inf`` is unlimited.
            max_tasks: tasks that have been new in it at which further ones are rejected; ``math.inf`` is unlimited.
            block_until: nothing is handed out before, in unix seconds, whatever block there was, also one that its host
                has asked for; ``math.inf``: until it is unset.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or no task can be in that slot.
        """
        request = SlotSet(
            project=project,
            slot=slot,
            delay=delay,
            rate=rate,
            burst=burst,
            max_processing=max_processing,
            max_tasks=max_tasks,
            block_until=block_until,
        )
        return without_envelope(SlotDetails, await self._exchange.ask(request))

    async def unset(self, project: str, slot: str, facts: Iterable[SlotFact] = ()) -> SlotDetails:
        """Forget what ``set`` said of one slot; what the project's settings say of it is in force again.

        Args:
            facts: names of arguments of ``set``; none: all. With block_until every pause of the slot is over, also one
                that its host has asked for.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or no task can be in that slot.
        """
        request = SlotSet(project=project, slot=slot, unset=tuple(facts) or get_args(SlotFact))
        return without_envelope(SlotDetails, await self._exchange.ask(request))
