"""The windows of a project as people see them, made of what its counters say."""

from __future__ import annotations

from taskqueue.core.parts.windows import Counters, WindowSums
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.views import QUIET, Window, Windows


def windows_of(counters: Counters, now_wall: Wall) -> Windows:
    """The windows that end now (unix seconds)."""
    return Windows(*map(_window, counters.sums(now_wall)))


def _window(sums: WindowSums | None) -> Window:
    """What did not happen is the very default: a message leaves that out, but not what equals it."""
    if sums is None:
        return QUIET
    new, selected, success, failed, retried, timeout = sums.events
    if sums.seconds is None:
        return Window(new, selected, success, failed, retried, timeout)
    return Window(new, selected, success, failed, retried, timeout, *sums.seconds)
