"""Views of a project's windows, made from its counters."""

from __future__ import annotations

from taskqueue.core.parts.windows import Counters, WindowSums
from taskqueue.protocol.fields import Wall
from taskqueue.protocol.views import QUIET, Window, Windows


def windows_of(counters: Counters, now_wall: Wall) -> Windows:
    """The windows that end now (unix seconds)."""
    return Windows(*map(_window, counters.sums(now_wall)))


def _window(sums: WindowSums | None) -> Window:
    """The view of one window; QUIET itself if nothing happened, because a message omits that very value."""
    if sums is None:
        return QUIET
    new, selected, success, failed, retried, timeout = sums.events
    if sums.seconds is None:
        return Window(new, selected, success, failed, retried, timeout)
    return Window(new, selected, success, failed, retried, timeout, *sums.seconds)
