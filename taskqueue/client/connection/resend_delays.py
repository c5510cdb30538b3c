"""How long a session waits before it says something again: longer each time, so that a slow daemon recovers."""

from __future__ import annotations

from typing import Final

RESEND_SECONDS: Final = 5.0
RESEND_MOST_SECONDS: Final = 60.0

UNAVAILABLE_SECONDS: Final = 1.0
UNAVAILABLE_MOST_SECONDS: Final = 5.0

DROPS_AT_ONCE: Final = 3
DROPPED_SECONDS: Final = 1.0
DROPPED_MOST_SECONDS: Final = 60.0


def silence(tries: int) -> float:
    """Seconds without an answer after which what was sent ``tries`` times before is sent again."""
    return _doubled(RESEND_SECONDS, tries, RESEND_MOST_SECONDS)


def unavailable(tries: int) -> float:
    """Seconds after which a daemon is asked again that has said ``tries`` times that its store can't be used."""
    return _doubled(UNAVAILABLE_SECONDS, tries, UNAVAILABLE_MOST_SECONDS)


def dropped(times: int) -> float:
    """Seconds after which a call is sent again that the daemon has dropped ``times`` times.

    None for the first DROPS_AT_ONCE times; after that the call itself may be what its store fails at.
    """
    if times <= DROPS_AT_ONCE:
        return 0.0
    return _doubled(DROPPED_SECONDS, times - DROPS_AT_ONCE - 1, DROPPED_MOST_SECONDS)


def _doubled(seconds: float, times: int, most: float) -> float:
    return float(min(seconds * 2 ** min(times, 10), most))
