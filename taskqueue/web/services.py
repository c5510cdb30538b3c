"""Services that the endpoints of the web process share.

Two of them are defined here: ``Meters``, speeds of counters while a browser shows them, and ``Recent``, answers that
are cached, because asking again would cost the daemon more than they change.
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
"""Time over which a speed is averaged, at most."""

FORGOTTEN_SECONDS: Final = 30.0
"""Time without a look after which a counter begins anew."""

LOOKED_AT_MOST: Final = 10_000
"""Counters that are remembered, at most."""


class Meters:
    """Speeds of counters, by name."""

    def __init__(self) -> None:
        self._looks: dict[str, deque[tuple[float, float]]] = {}

    def look(self, at: float, counters: Mapping[str, float]) -> dict[str, float]:
        """Return speeds per second, at ``at`` seconds of any clock; new and restarted counters have none yet."""
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
    """Cached answers, by question."""

    def __init__(self) -> None:
        self._kept: dict[object, tuple[float, Any]] = {}

    async def ask(self, what: object, seconds: float, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the cached answer to ``what`` if it is at most ``seconds`` old, or a new one."""
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
    """Services of one web process.

    options: options of the process.
    client: connection to the daemon, shared by all browsers.
    channels: live views of browsers.
    projects: table of all projects.
    templates: templates of the pages.
    scrape: metrics, and whether the daemon is ready.
    meters: speeds of fetchers.
    recent: cached answers.
    flows: flows that browsers show.
    samples: samples of the daemon's figures.
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
    """Return the services of the application."""
    found: Services = request.app.state.services
    return found
