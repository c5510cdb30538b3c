"""Services that the endpoints of the web process share, for each user of the daemon's access file.

    visitor ──reach──► UserServices ──► Services ──client, for: the user's name──► daemon

Some of them are defined here: ``Meters``, speeds of counters while a browser shows them; ``Recent``, answers that
are cached, because asking again would cost the daemon more than they change; and ``WaitingSessions`` of long polls.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from taskqueue import AsyncClient
from taskqueue.web.access.visitors import Visitor
from taskqueue.web.live.channels import Channels
from taskqueue.web.live.daemon import DaemonSamples
from taskqueue.web.live.flows import FlowReadings
from taskqueue.web.live.projects import ProjectPulses, ProjectTable
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


# ---------------------------------------------------------------------------------------------------------- long polls

FIRST_WAITING_NUMBER: Final = 1 << 62
"""First number of long polls; numbers of requests with an Idempotency-Key are smaller."""


class WaitingSessions:
    """Sessions for long polls, each of which waits for one thing at a time, and is used again."""

    def __init__(self) -> None:
        self._free: list[str] = []
        self._number = FIRST_WAITING_NUMBER

    @contextmanager
    def known_as(self) -> Iterator[tuple[str, int]]:
        """Yield an idle session, and a new number in it."""
        session = self._free.pop() if self._free else f"wait-{secrets.token_hex(16)}"
        self._number += 1
        try:
            yield session, self._number
        finally:
            self._free.append(session)


class Services:
    """Services for one user, or for all visitors of a daemon without keys.

    The daemon limits each answer to the user's projects, so nothing that was asked for one user is shown to another.

    Args:
        user: user for whom the daemon is asked; empty: the owner of this process's key.

    Attributes:
        options: options of the process.
        client: connection to the daemon.
        channels: live views of browsers.
        projects: table of all projects.
        templates: templates of the pages.
        scrape: metrics, and whether the daemon is ready.
        meters: speeds of fetchers.
        recent: cached answers.
        flows: flows that browsers show.
        samples: samples of the daemon's figures.
        waiting: sessions of long polls.
    """

    def __init__(self, options: WebOptions, templates: Templates, user: str = "") -> None:
        self.options = options
        # Not None, by which the client would look for a key itself.
        key = options.key or ""
        self.client = AsyncClient(options.daemon_url, name=options.name, timeout=options.timeout, key=key)
        if user:
            self.client._exchange.speak_for(user)
        self.channels = Channels()
        self._pulses = ProjectPulses(self.client)
        self.projects = ProjectTable(self.client, self._pulses)
        self.templates = templates
        self.scrape = Scrape(self.client, options.metrics_projects)
        self.meters = Meters()
        self.recent = Recent()
        self.flows = FlowReadings()
        self.samples = DaemonSamples()
        self.waiting = WaitingSessions()

    @property
    def holds_leases(self) -> bool:
        """Whether workers have tasks that were taken here, whose leases its hellos keep."""
        return self.client._exchange.holds_leases

    async def aclose(self) -> None:
        """Stop asking, and disconnect."""
        await self.projects.aclose()
        await self._pulses.aclose()
        await self.client.close()


# ---------------------------------------------------------------------------------------------------------------- users

USERS_MOST: Final = 128
"""Users with services, at most: each has a connection to the daemon."""

Reach = tuple[str, ...]
"""Owner, role and projects of a user: see ``User``."""

KEPT_SECONDS: Final = 900.0
"""Time without a request after which the services of a user are dropped; longer than between two scrapes."""


class UserServices:
    """Services of each user that is here, or was a moment ago; other ones once its role or projects have changed.

    Attributes:
        own: services that ask for no user: with keys, only who a user is.
    """

    def __init__(self, options: WebOptions) -> None:
        self._options = options
        self.own = Services(options, Templates())
        self._by_reach: dict[Reach, Services] = {}
        """Services by reach, the ones used longest ago first."""
        self._uses: Counter[Reach] = Counter()
        self._latest: dict[str, Reach] = {}
        """Latest reach of each owner with services."""
        self._used_at: dict[Reach, float] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @contextmanager
    def used(self, visitor: Visitor) -> Iterator[Services]:
        """Yield the visitor's services, which last as long as the block.

        Raises:
            HTTPException: 503: too many users are here.
        """
        if not (reach := visitor.reach):
            yield self.own
            return
        services = self._by_reach.pop(reach, None) or self._make(visitor.name)
        self._by_reach[reach] = services
        former, self._latest[visitor.owner] = self._latest.get(visitor.owner, reach), reach
        self._drop_former(former)
        self._uses[reach] += 1
        try:
            yield services
        finally:
            self._uses[reach] -= 1
            self._used_at[reach] = time.monotonic()
            self._drop_former(reach)
            self._sweep_later()

    async def aclose(self) -> None:
        """Close all of them."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for services in (self.own, *self._by_reach.values()):
            await services.aclose()
        await asyncio.gather(*self._closing)

    def _make(self, name: str) -> Services:
        if len(self._by_reach) >= USERS_MOST:
            if not (idle := [reach for reach in self._by_reach if self._is_idle(reach)]):
                raise HTTPException(503, "too many users are here", {"Retry-After": "5"})
            self._drop(idle[0])
        return Services(self._options, self.own.templates, name)

    def _drop_former(self, reach: Reach) -> None:
        """Drop idle services that were made before their user's role or projects changed.

        If they change back, what was read meanwhile must not be shown.
        """
        if reach != self._latest.get(reach[0]) and reach in self._by_reach and self._is_idle(reach):
            self._drop(reach)

    def _is_idle(self, reach: Reach) -> bool:
        return not self._uses[reach] and not self._by_reach[reach].holds_leases

    def _drop(self, reach: Reach) -> None:
        del self._uses[reach], self._used_at[reach]
        if self._latest.get(reach[0]) == reach:
            del self._latest[reach[0]]
        closing = asyncio.create_task(self._by_reach.pop(reach).aclose())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _sweep_later(self) -> None:
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Drop services that have not been used for long; look again later if some are left."""
        self._sweeping = None
        old = time.monotonic() - KEPT_SECONDS
        for reach in [reach for reach in self._by_reach if self._is_idle(reach) and self._used_at[reach] <= old]:
            self._drop(reach)
        if self._by_reach:
            self._sweep_later()


def services_of(request: HTTPConnection) -> Services:
    """Return the services of the visitor; those of a request that was refused before are the process's own."""
    found: Services | None = getattr(request.state, "services", None)
    return found or own_services_of(request)


def own_services_of(request: HTTPConnection) -> Services:
    """Return the services that ask for no user."""
    users: UserServices = request.app.state.users
    return users.own
