"""An answer that is told to a function, once, without a future or a coroutine that waits for it."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Generic, TypeVar

A = TypeVar("A")


class ToldAnswer(Generic[A]):
    """An Answer.

    Args:
        told: called with the outcome, or with the reason why there is none; nothing is told to who has given up.

    Attributes:
        timer: ends the waiting, and ends with it; None: nothing does.
    """

    __slots__ = ("_told", "timer")

    def __init__(self, told: Callable[[A | Exception], object]) -> None:
        self._told: Callable[[A | Exception], object] | None = told
        self.timer: TimerHandle | None = None

    def done(self) -> bool:
        """It was told, or nobody wants to be told any more."""
        return self._told is None

    def set_result(self, result: A) -> None:
        """The outcome."""
        self._tell(result)

    def set_exception(self, error: Exception) -> None:
        """There won't be one."""
        self._tell(error)

    def give_up(self) -> None:
        """Nobody wants to be told any more."""
        self._told = None
        if self.timer is not None:
            self.timer.cancel()

    def _tell(self, outcome: A | Exception) -> None:
        told, self._told = self._told, None
        if self.timer is not None:
            self.timer.cancel()
        if told is not None:
            told(outcome)
