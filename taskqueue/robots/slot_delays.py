"""Which delay each slot has been told: once for each change, and again after a while if nobody heard it.

Several origins may be one slot, such as http and https of one host. Then the slot has the delay of the one that asks
for the most; if that one asks for less, the slot follows, and the next one that asks for more is told instead.

A delay that nobody asks for any more is not taken back: it may be what a person has said since.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Iterable
from math import inf
from typing import Final, NamedTuple, Protocol

from taskqueue.ascii_hosts import ascii_host
from taskqueue.hosts import host_of

AGAIN_SECONDS: Final = 60.0
"""Between two attempts to tell one slot."""


class Slots(Protocol):
    """``client.slots`` of a ``Client``."""

    def set(self, project: str, slot: str, /, *, delay: float) -> object:
        """Say how many seconds lie between two hand-outs of a slot."""


class AsyncSlots(Protocol):
    """``client.slots`` of an ``AsyncClient``."""

    def set(self, project: str, slot: str, /, *, delay: float) -> Awaitable[object]:
        """Say how many seconds lie between two hand-outs of a slot."""


class SlotDelay(NamedTuple):
    """What is to be told."""

    slot: str
    delay: float


class _Told(NamedTuple):
    """``again_at``: when it is told again, because nobody heard it; inf: somebody did."""

    origin: str
    delay: float
    again_at: float


class SlotDelays:
    """What was told to whom; of ``most`` slots, those that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._told: OrderedDict[str, _Told] = OrderedDict()

    def news(self, slot: str, origin: str, delay: float | None, now: float) -> SlotDelay | None:
        """What is to be told now that an origin asks for this delay, and counts as told; None: nothing.

        Args:
            delay: seconds; None: it asks for nothing.
        """
        told = self._told.get(slot)
        if told is not None:
            self._told.move_to_end(slot)
            if told.origin != origin and (delay is None or delay <= told.delay):
                return None
            if told.delay == delay and now < told.again_at:
                return None
        if delay is None:
            self._told.pop(slot, None)
            return None
        self._told[slot] = _Told(origin, delay, inf)
        if len(self._told) > self._most:
            self._told.popitem(last=False)
        return SlotDelay(slot, delay)

    def unheard(self, news: SlotDelay, now: float) -> None:
        """It could not be told."""
        told = self._told.get(news.slot)
        if told is not None and told.delay == news.delay:
            self._told[news.slot] = told._replace(again_at=now + AGAIN_SECONDS)


def slot_of_host(url: str) -> str:
    """The slot of a url in projects with ``slot.by = "host"``; empty: it has none."""
    return host_of(url, ascii_host)


def several_projects(projects: Iterable[str], *, needed: bool) -> tuple[str, ...]:
    """The projects.

    Raises:
        TypeError: it is one text, which would be a project a letter.
        ValueError: there are none, and some are needed.
    """
    if isinstance(projects, str):
        raise TypeError(f"projects: expected several, got {projects!r}; put it into a list")
    named = tuple(projects)
    if needed and not named:
        raise ValueError("projects: say whose slots are to be told")
    return named
