"""A waiting line: the highest priority first, and first come, first served among equals.

    front     5:  C ─► E            served in turn
    behind    1:  D
              0:  A ─► B            whoever is first comes to the front when nobody better is left

While all have one priority there is nothing but the front, and the line costs what an ordered map costs. With ``m``
priorities to enter or leave takes O(log m); a priority that nobody has any more stays in the heap until it comes up, or
until half of the heap is such.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

SWEEP_AT_LEAST: Final = 64
"""Fewer dead entries than this are not worth a sweep."""

K = TypeVar("K", bound=Hashable)
W = TypeVar("W")


class WaitingLine(Generic[K, W]):
    """Those who wait, by key. Whoever wants another priority leaves, and enters with that.

    Attributes:
        front: who has the highest priority, in order; empty: nobody waits. For others it is read-only.
        priority: theirs.
    """

    __slots__ = ("_aside", "_behind", "_heap", "front", "priority")

    def __init__(self) -> None:
        self.front: OrderedDict[K, W] = OrderedDict()
        self.priority = 0
        self._behind: dict[int, OrderedDict[K, W]] = {}
        self._heap: list[int] = []
        self._aside: list[tuple[int, OrderedDict[K, W]]] = []

    @property
    def has_others(self) -> bool:
        """Whether somebody waits behind the front."""
        return bool(self._behind)

    @property
    def is_skipped(self) -> bool:
        """Whether somebody has been skipped, and not restored since."""
        return bool(self._aside)

    def enter(self, key: K, who: W, priority: int) -> None:
        """Wait behind all others of this priority; whoever waits with it already keeps the place."""
        if priority != self.priority:
            if not self.front:
                self.priority = priority
            elif priority > self.priority:
                self._come_before(OrderedDict(), priority)
            else:
                self._line_behind(priority).setdefault(key, who)
                return
        self.front.setdefault(key, who)

    def leave(self, key: K, priority: int) -> None:
        """Wait no more, or not at all, with this priority."""
        line = self.front if priority == self.priority else self._behind.get(priority)
        if line is not None and line.pop(key, None) is not None and not line:
            self._left_empty(priority)

    def go_last(self, key: K, priority: int) -> None:
        """Give way to all others of this priority."""
        (self.front if priority == self.priority else self._behind[priority]).move_to_end(key)

    def serve(self, *, again: bool) -> None:
        """The first has been served; ``again``: waits for more, behind all others of the same priority."""
        key, who = self.front.popitem(last=False)
        if again:
            self.front[key] = who
        elif not self.front:
            self._advance()

    def skip(self) -> None:
        """Pass over all in front until ``restore``; nobody may enter or leave meanwhile who is not in front then."""
        self._aside.append((self.priority, self.front))
        self._advance()

    def restore(self) -> None:
        """Let those who were skipped wait where they did."""
        while self._aside:
            priority, line = self._aside.pop()
            self._come_before(line, priority)

    def _line_behind(self, priority: int) -> OrderedDict[K, W]:
        line = self._behind.get(priority)
        return line if line is not None else self._begin(priority, OrderedDict())

    def _come_before(self, line: OrderedDict[K, W], priority: int) -> None:
        if self.front:
            self._begin(self.priority, self.front)
        self.front, self.priority = line, priority

    def _begin(self, priority: int, line: OrderedDict[K, W]) -> OrderedDict[K, W]:
        self._behind[priority] = line
        heappush(self._heap, -priority)
        if len(self._heap) > 2 * len(self._behind) + SWEEP_AT_LEAST:
            self._heap = [-priority for priority in self._behind]
            heapify(self._heap)
        return line

    def _left_empty(self, priority: int) -> None:
        if priority == self.priority:
            self._advance()
        else:
            del self._behind[priority]

    def _advance(self) -> None:
        """The best of those behind come to the front."""
        while self._heap:
            priority = -heappop(self._heap)
            if (line := self._behind.pop(priority, None)) is not None:
                self.front, self.priority = line, priority
                return
        self.front = OrderedDict()
