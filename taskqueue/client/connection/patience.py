"""How long a caller waits for its answer: seconds, and ``inf`` for ever."""

from __future__ import annotations

from math import isinf


def limit(patience: float) -> float | None:
    """What asyncio wants to hear: None, not inf, for no limit."""
    return None if isinf(patience) else patience
