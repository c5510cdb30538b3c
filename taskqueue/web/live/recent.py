"""Answers that are kept for a while, because asking again would cost the daemon more than they change."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

KEPT_MOST: Final = 256


class Recent:
    """The answers of the last seconds, by what was asked."""

    def __init__(self) -> None:
        self._kept: dict[object, tuple[float, Any]] = {}

    async def ask(self, what: object, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        """The answer to ``what`` that is at most so many seconds old, or a new one."""
        at, answer = self._kept.get(what, (float("-inf"), None))
        if time.monotonic() - at >= seconds:
            answer = await ask()
            self._kept.pop(what, None)
            while len(self._kept) >= KEPT_MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[what] = time.monotonic(), answer
        found: T = answer
        return found
