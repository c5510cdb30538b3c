"""Blocking twin of ``taskqueue.client.asynchronous.slots``.

Made by ``python -m tools.blocking_client``; change the original.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from taskqueue.client.asynchronous.slots import AsyncSlots
from taskqueue.client.connection.background import Background
from taskqueue.protocol.choices import SlotSort
from taskqueue.protocol.slots import SlotDetails, SlotFact, SlotPage


class BlockingSlots:
    """Slots of projects, as the daemon knows them."""

    def __init__(self, background: Background, slots: AsyncSlots) -> None:
        self._background = background
        self._client = slots

    def list(self, project: str, *, sort: SlotSort = "backlog", limit: int = 100, stored: bool = False) -> SlotPage:
        """Return the first slots of a project, in the given order.

        Args:
            sort: those with the most ready tasks (backlog), the most errors or the longest delay first; or by name.
            limit: slots to return, 1 to 1,000.
            stored: include slots that are only in the store. The daemon then scans all slots (or, sorted by backlog,
                all ready tasks), a few thousand at a time between its other work. Without it the answer comes at once,
                from slots in memory: all that may dispatch next.

        Raises:
            RequestRejected: the project is unknown or not divided into slots, or too many clients ask for all slots at
                once.
        """
        return self._background.run(self._client.list(project, sort=sort, limit=limit, stored=stored))

    def get(self, project: str, slot: str) -> SlotDetails:
        """Return all facts of one slot, such as ``example.org``: its pace with its sources, and its next tasks.

        Raises:
            RequestRejected: the project is unknown or not divided into slots, or it has had no task of this slot.
        """
        return self._background.run(self._client.get(project, slot))

    def set(
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
        """Override the pace of one slot, such as ``example.org``, now and across restarts, even before its first task.

        These values override the project's settings; None leaves a value unchanged.

        Args:
            delay: seconds from one dispatch to the next, 0 to 1,000,000, or "auto": as fast as the site answers. A
                delay and a rate replace each other.
            rate: tasks dispatched per second, on average; ``math.inf``: no delay.
            burst: with a rate: tasks that may be dispatched at once after a quiet time.
            max_processing: tasks that fetchers may have at once; ``math.inf``: unlimited.
            max_tasks: number of tasks the slot has ever taken, beyond which new ones are rejected; ``math.inf``:
                unlimited.
            block_until: unix seconds before which the slot dispatches nothing; replaces every other block, also one
                that its host has asked for; ``math.inf``: until it is unset.

        Raises:
            RequestRejected: the project is unknown or not divided into slots, or no task can be in that slot.
        """
        return self._background.run(
            self._client.set(
                project,
                slot,
                delay=delay,
                rate=rate,
                burst=burst,
                max_processing=max_processing,
                max_tasks=max_tasks,
                block_until=block_until,
            )
        )

    def unset(self, project: str, slot: str, facts: Iterable[SlotFact] = ()) -> SlotDetails:
        """Remove overrides of one slot that ``set`` made; the project's settings apply again.

        Args:
            facts: names of arguments of ``set``; none: all. With ``block_until`` every pause of the slot ends, also one
                that its host has asked for.

        Raises:
            RequestRejected: the project is unknown or not divided into slots, or no task can be in that slot.
        """
        return self._background.run(self._client.unset(project, slot, facts))
