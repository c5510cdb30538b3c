"""Where the propagations are that are under way, in the store: between two numbers."""

from __future__ import annotations

from collections.abc import Mapping

from taskqueue.core.tasks.links import Propagation


class PropagationQueue:
    """The propagations that are to be carried on; the store has them.

    Attributes:
        first: none has a smaller number.
    """

    __slots__ = ("_last", "first")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self._last = last

    @property
    def pending(self) -> bool:
        """Whether there may be any."""
        return self.first <= self._last

    def note_last(self, number: int) -> None:
        """One was begun; numbers grow."""
        self._last = max(self._last, number)

    def told(self, step: Mapping[int, Propagation | None]) -> None:
        """The first ones, of those that were there when the turn began, were carried on; None: one has ended."""
        left = [number for number, rest in step.items() if rest is not None]
        self.first = min(left) if left else max(step, default=self._last) + 1
