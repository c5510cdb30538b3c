"""What the endpoints of the web process work with, handed to them by the application.

Two of these services are defined here: ``Meters``, the speeds of counters while a browser looks at them, and
``Recent``, answers that are kept for a while, because asking again would cost the daemon more than they change.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.requests import HTTPConnection

from taskqueue import AsyncClient
from taskqueue.web.live.channels import Channels
from taskqueue.web.live.daemon import DaemonSamples
from taskqueue.web.live.flows import FlowReadings
from taskqueue.web.live.projects import ProjectTable
from taskqueue.web.metrics import Scrape
from taskqueue.web.options import WebOptions
from taskqueue.web.page_templates import Templates

T = TypeVar("T")

WINDOW_SECONDS: Final = 10.0
"""A speed is that of so many seconds, at most."""

FORGOTTEN_SECONDS: Final = 30.0
"""A counter that nobody has looked at for so long begins anew."""

LOOKED_AT_MOST: Final = 10_000
"""Counters that are remembered."""


class Meters:
    """Remembers what counters said, by name."""

    def __init__(self) -> None:
        self._looks: dict[str, deque[tuple[float, float]]] = {}

    def look(self, at: float, counters: Mapping[str, float]) -> dict[str, float]:
        """Speeds a second, ``at`` seconds of any clock; a counter that is new, or has begun anew, has none yet."""
        if len(self._looks) > LOOKED_AT_MOST:
            self._looks.clear()
        found = {name: self._speed(name, at, count) for name, count in counters.items()}
        return {name: speed for name, speed in found.items() if speed is not None}

    def _speed(self, name: str, at: float, count: float) -> float | None:
        looks = self._looks.setdefault(name, deque())
        if looks and (count < looks[-1][1] or at - looks[-1][0] > FORGOTTEN_SECONDS):
            looks.clear()
        while len(looks) > 1 and at - looks[1][0] >= WINDOW_SECONDS:
            looks.popleft()
        if not looks or at - looks[-1][0] >= 0.5:
            looks.append((at, count))
        since, first = looks[0]
        return (count - first) / (at - since) if at > since else None


ANSWERS_MOST: Final = 256


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
            while len(self._kept) >= ANSWERS_MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[what] = time.monotonic(), answer
        found: T = answer
        return found


@dataclass(frozen=True, slots=True)
class Services:
    """One set for each web process.

    Attributes:
        client: the connection to the daemon, shared by all browsers.
        channels: what browsers see change.
        projects: as they were a moment ago.
        templates: of the pages.
        scrape: the metrics, and whether the daemon is ready.
        meters: of fetchers.
        recent: answers that are kept for a while.
        flows: that browsers look at.
        samples: of what the daemon told of itself.
    """

    options: WebOptions
    client: AsyncClient
    channels: Channels
    projects: ProjectTable
    templates: Templates
    scrape: Scrape
    meters: Meters = field(default_factory=Meters)
    recent: Recent = field(default_factory=Recent)
    flows: FlowReadings = field(default_factory=FlowReadings)
    samples: DaemonSamples = field(default_factory=DaemonSamples)


def services_of(request: HTTPConnection) -> Services:
    """What the application has given its endpoints."""
    found: Services = request.app.state.services
    return found
