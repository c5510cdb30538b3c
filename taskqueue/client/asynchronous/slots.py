"""``client.slots``: the parts of a project's tasks, such as those of one host, that have paces of their own."""

from __future__ import annotations

from taskqueue.client.connection.exchange import Exchange
from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.replies import SlotListReply, SlotReply
from taskqueue.protocol.requests import SlotList, SlotShow


class AsyncSlots:
    """Slots of projects, as the daemon knows them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def list(
        self,
        project: str,
        *,
        by: SlotSort = "backlog",
        limit: int = 100,
        all: bool = False,
    ) -> SlotListReply:
        """The first slots of a project, in this order.

        Args:
            by: those with the most ready tasks (backlog), the most errors or the longest delay first; or name.
            limit: 1 to 1,000.
            all: also those that are in the store only; the daemon then looks at all of them, or by backlog at all ready
                tasks, a few thousand at a time between its other work. If not, those in memory, at once: all that may
                go on next.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or too many ask for all at once.
        """
        request = SlotList(session="", n=0, project=project, by=by, limit=limit, all=all)
        return await self._exchange.ask(request, SlotListReply)

    async def show(self, project: str, slot: str) -> SlotReply:
        """All that is known of one slot, such as ``example.org``: its pace and who says so, and its next tasks.

        Raises:
            RequestRejected: there is no such project, it is not divided into slots, or it has had no task of this slot.
        """
        return await self._exchange.ask(SlotShow(session="", n=0, project=project, slot=slot), SlotReply)
