"""How much the tasks in memory take, all projects together.

Rules:
1. ``heads`` is the sum of what was noted last of each head; a head that holds nothing is not known here.
2. Each head that holds anything may have an equal share of the whole.
3. ``leased`` is the sum of the tasks that are handed out, ``leases`` their number, ``deferred`` the sum of the updates
   that wait for the ends of leases.

What must never come in here: which tasks are dropped when it is too much; that is decided in ``memory_limits``.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice


class MemoryUsage:
    """Sums of bytes.

    Attributes:
        heads: held by all heads together.
        leased: held by all tasks that are handed out.
        leases: how many these are.
        deferred: held by updates of these that wait for their ends.
        ended: how many leases have ended but still take room of their fetchers, or are said to.
    """

    __slots__ = ("_holders", "deferred", "ended", "heads", "leased", "leases")

    def __init__(self) -> None:
        self.heads = 0
        self.leased = 0
        self.leases = 0
        self.deferred = 0
        self.ended = 0
        self._holders: OrderedDict[tuple[int, int], int] = OrderedDict()

    def note(self, project: int, state: int, held: int) -> None:
        """The head of a project's order holds so many bytes now."""
        self.heads += held - self._holders.pop((project, state), 0)
        if held:
            self._holders[project, state] = held

    def noted(self, project: int, state: int) -> int:
        """What was noted last of a head."""
        return self._holders.get((project, state), 0)

    def share(self, whole: int) -> int:
        """What each head that holds anything may have of so many bytes."""
        return whole // max(1, len(self._holders))

    def longest_untouched(self, count: int) -> list[tuple[int, int]]:
        """(project number, state) of heads, the one that was noted longest ago first."""
        return list(islice(self._holders, count))
