"""Projects as they are now, for all browsers: one set of requests to the daemon.

    daemon ──states, counts, totals──► ProjectPulses ──► ProjectTable ──rows──► any number of pages
           ──windows, page by page─────────────────────►       │
           ──minutes of visible rows───────────────────────────┘

The table asks while browsers show it, and stops soon after the last one has gone. Nothing here makes HTML. One
subscription, ``watch``, keeps the pulses up to date:

without a follower    a request per call: what has changed since the last one?
with a follower       a request always waits at the daemon, and is answered when something has changed
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from taskqueue import AsyncClient
from taskqueue.errors import RequestRejected, TaskQueueError
from taskqueue.protocol.insight import HistoryPoint, ProjectPulse, StatsHistory, Watch, Windows
from taskqueue.protocol.values import EventTotals, TaskCounts

LOOK_SECONDS: Final = 0.5
"""Time between two pictures."""

WINDOWS_SECONDS: Final = 2.0
"""Time between two pages of windows, each of up to WINDOWS_PAGE projects."""
WINDOWS_PAGE: Final = 100

FORGOTTEN_SECONDS: Final = 10.0
"""Time without a browser after which the table stops asking."""

MINUTES: Final = 60
"""Minutes shown of a project's past."""
MINUTES_AT_ONCE: Final = 10
"""Projects whose past is requested at a time."""

SPEED_SECONDS: Final = 5.0
"""Time over which speed is averaged."""

NO_WINDOWS: Final = Windows()


@dataclass(slots=True)
class ProjectRow:
    """Row of a project.

    Attributes:
        windows: events in the last 5 minutes, hour and day.
        minutes: tasks dispatched a second, by minute, the last MINUTES of them.
        minutes_at: unix seconds when these were requested.
        speed: tasks dispatched a second now; None if unknown.
    """

    pulse: ProjectPulse
    counts: TaskCounts
    totals: EventTotals
    windows: Windows = NO_WINDOWS
    minutes: list[float] = field(default_factory=list)
    minutes_at: float = 0.0
    speed: float | None = None
    looks: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def name(self) -> str:
        """Name of the project."""
        return self.pulse.name

    def note_speed(self, at: float) -> None:
        """Update the speed from the number of dispatches, at ``at`` seconds of the monotonic clock."""
        looks = self.looks
        if looks and (self.totals.selected < looks[-1][1] or at - looks[-1][0] > FORGOTTEN_SECONDS):
            looks.clear()  # the project was created anew, or no browser was there for a while
        looks.append((at, self.totals.selected))
        while len(looks) > 1 and at - looks[1][0] >= SPEED_SECONDS:
            looks.popleft()
        since, selected = looks[0]
        self.speed = (self.totals.selected - selected) / (at - since) if at - since >= LOOK_SECONDS / 2 else None


class ProjectTable:
    """Table of one daemon's projects.

    Attributes:
        rows: rows by name.
    """

    def __init__(self, client: AsyncClient, pulses: ProjectPulses) -> None:
        self._client = client
        self._pulses = pulses
        self.rows: dict[str, ProjectRow] = {}
        self._looked_at = 0.0
        self._metered_at = 0.0
        self._version = -1
        self._following: asyncio.Task[None] | None = None

    async def fresh(self) -> None:
        """Update the rows to about now.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        self._looked_at = time.monotonic()
        is_first = self._following is None
        if is_first:
            self._pulses.follow()
            self._following = asyncio.create_task(self._follow_windows())
        pulses = await self._pulses.now()
        if self._version != self._pulses.version:
            self._version = self._pulses.version
            self.rows = {name: self._row(pulse) for name, pulse in pulses.items()}
        if self._looked_at - self._metered_at >= LOOK_SECONDS / 2:  # another view may just have done so
            self._metered_at = self._looked_at
            for row in self.rows.values():
                row.note_speed(self._looked_at)
        if is_first:
            await self._see_windows("")

    async def aclose(self) -> None:
        """Stop asking."""
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following

    async def see_minutes(self, names: Iterable[str]) -> None:
        """Update the past of some of these rows, those without one first."""
        now = time.time()
        since = now // 60 * 60 - MINUTES * 60
        old = [row for name in names if (row := self.rows.get(name)) and now - row.minutes_at >= MINUTES]
        for row in old[:MINUTES_AT_ONCE]:
            row.minutes_at = now
            with suppress(RequestRejected):  # the project has just been deleted
                reply = await self._client._ask(StatsHistory(project=row.name, since=since))
                row.minutes = _by_minute(reply.points, since)

    def _row(self, pulse: ProjectPulse) -> ProjectRow:
        row = self.rows.get(pulse.name)
        if row is None:
            return ProjectRow(pulse, TaskCounts(*pulse.counts), EventTotals(*pulse.totals))
        if row.pulse is not pulse:
            row.pulse, row.counts, row.totals = pulse, TaskCounts(*pulse.counts), EventTotals(*pulse.totals)
        return row

    async def _follow_windows(self) -> None:
        after = ""
        while self._is_looked_at():
            await asyncio.sleep(WINDOWS_SECONDS)
            with suppress(TaskQueueError):
                after = await self._see_windows(after)
        self._following = None
        await self._pulses.unfollow()

    async def _see_windows(self, after: str) -> str:
        """Update a page of windows; return the project after which the next page begins."""
        page = await self._client.stats.list(after, WINDOWS_PAGE)
        for stats in page.items:
            if stats.name in self.rows:
                self.rows[stats.name].windows = stats.windows
        return page.next

    def _is_looked_at(self) -> bool:
        return time.monotonic() - self._looked_at < FORGOTTEN_SECONDS


def _by_minute(points: Sequence[HistoryPoint], since: float) -> list[float]:
    """Return tasks dispatched a second by minute, 0 for minutes without a point."""
    minutes = [0.0] * MINUTES
    for point in points:
        place = int((point.at - since) // 60)
        if 0 <= place < MINUTES:
            minutes[place] = point.selected / 60
    return minutes


# --------------------------------------------------------------------------------------------------------------- pulses

WAIT_SECONDS: Final = 30.0
"""Longest wait of a request at the daemon for a change."""

ROWS_A_SECOND: Final = 500
"""Rows requested a second: if thousands of projects change all the time, each is updated a little later, and the daemon
spends less than a hundredth of a core on it."""

AGAIN_SECONDS: Final = 1.0
"""Pause after a request without an answer."""


class ProjectPulses:
    """State, counts and totals of one daemon's projects.

    Attributes:
        version: grows with each answer.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._pulses: dict[str, ProjectPulse] = {}
        self._since = ""
        self._asking = asyncio.Lock()
        self._following: asyncio.Task[None] | None = None
        self._failure: TaskQueueError | None = None
        self._known = asyncio.Event()
        self._news = asyncio.Event()
        self.version = 0

    async def now(self) -> Mapping[str, ProjectPulse]:
        """Return the current pulses by name; read them before awaiting anything else.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        if self._following is None:
            async with self._asking:
                await self._ask(0.0)
        else:
            await self._known.wait()
            if self._failure is not None:
                raise self._failure
        return self._pulses

    async def after(self, version: int) -> None:
        """Wait for an answer after that version; ``follow`` must be on."""
        while self.version <= version:
            await self._news.wait()

    def follow(self) -> None:
        """Keep a request waiting at the daemon from now on; no effect if one waits already."""
        if self._following is None:
            self._known.clear()
            self._following = asyncio.create_task(self._follow())
            self._following.add_done_callback(self._note_end)

    async def unfollow(self) -> None:
        """Stop following; ``now`` asks by itself again."""
        following, self._following = self._following, None
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def aclose(self) -> None:
        """Stop asking."""
        await self.unfollow()

    def _note_end(self, following: asyncio.Task[None]) -> None:
        """Let ``now`` ask by itself after following has failed."""
        if not following.cancelled() and following.exception() is not None:
            self._following = None
            self._known.set()

    async def _follow(self) -> None:
        async with self._asking:
            wait = 0.0
            while True:
                pause = AGAIN_SECONDS
                try:
                    pause = await self._ask(wait) / ROWS_A_SECOND
                    self._failure, wait = None, WAIT_SECONDS
                except TaskQueueError as error:
                    self._failure = error
                self._known.set()
                await asyncio.sleep(pause)

    async def _ask(self, seconds: float) -> int:
        """Apply all changes and return their number; wait up to ``seconds`` for the first one."""
        more, rows = True, 0
        found = self._pulses
        while more:
            reply = await self._client._ask(Watch(since=self._since, seconds=seconds), self._client.timeout + seconds)
            if reply.anew:
                found = {}
            for name in reply.gone:
                found.pop(name, None)
            found.update((pulse.name, pulse) for pulse in reply.projects)
            rows += len(reply.projects)
            self._since, more, seconds = reply.since, reply.more, 0.0
        # Not before, so that no caller sees a part of a list that begins anew.
        self._pulses = found
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()
        return rows
