"""Delays sent to slots: once for each change, and again after a while if sending failed.

Several origins may share a slot, such as http and https of one host. The slot then gets the longest of their delays; if
the origin that asked for it asks for less, the slot follows, and the next origin that asks for more wins.

A delay that no origin asks for any more stays: an operator may have set the same delay since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from taskqueue.hosts.ascii_hosts import ascii_host
from taskqueue.hosts.url_hosts import host_of

AGAIN_SECONDS: Final = 60.0
"""Time between two attempts to send to one slot."""


class Slots(Protocol):
    """Type of ``client.slots`` of a ``Client``."""

    def set(self, project: str, slot: str, /, *, delay: float) -> object:
        """Set the seconds between two dispatches of a slot."""


class AsyncSlots(Protocol):
    """Type of ``client.slots`` of an ``AsyncClient``."""

    def set(self, project: str, slot: str, /, *, delay: float) -> Awaitable[object]:
        """Set the seconds between two dispatches of a slot."""


class SlotDelay(NamedTuple):
    """Delay to be sent to a slot."""

    slot: str
    delay: float


class _Sent(NamedTuple):
    """Delay that was sent; ``again_at``: when it is sent again, inf after a success."""

    origin: str
    delay: float
    again_at: float


class SlotDelays:
    """Delays sent to the ``most`` slots used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    def news(self, slot: str, origin: str, delay: float | None, now: float) -> SlotDelay | None:
        """Return the delay to send now that an origin asks for it, counted as sent; None if there is nothing to send.

        Args:
            delay: seconds; None if the origin asks for none.
        """
        sent = self._sent.get(slot)
        if sent is not None:
            self._sent.move_to_end(slot)
            if sent.origin != origin and (delay is None or delay <= sent.delay):
                return None
            if sent.delay == delay and now < sent.again_at:
                return None
        if delay is None:
            self._sent.pop(slot, None)
            return None
        self._sent[slot] = _Sent(origin, delay, inf)
        if len(self._sent) > self._most:
            self._sent.popitem(last=False)
        return SlotDelay(slot, delay)

    def unheard(self, news: SlotDelay, now: float) -> None:
        """Record that a delay could not be sent."""
        sent = self._sent.get(news.slot)
        if sent is not None and sent.delay == news.delay:
            self._sent[news.slot] = sent._replace(again_at=now + AGAIN_SECONDS)


def slot_of_host(url: str) -> str:
    """Return the slot of a URL in projects with ``slot.by = "host"``; empty if it has none."""
    return host_of(url, ascii_host)


def several_projects(projects: Iterable[str], *, needed: bool) -> tuple[str, ...]:
    """Return the projects as a tuple.

    Raises:
        TypeError: it is a single string, whose letters would be projects.
        ValueError: no project is given, and one is needed.
    """
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several, got {projects!r}; put it into a list")
    named = tuple(projects)
    if needed and not named:
        raise ValueError("projects: name the projects whose slots get the crawl-delays")
    return named
