"""All projects as they were a moment ago, for all browsers that look at them: one set of questions to the daemon.

    daemon ──states, counts, totals──► ProjectTable ──rows──► pages, as many as like
           ──windows, page by page──►       │
           ──minutes of those in sight──────┘

It asks while somebody looks, and stops soon after the last one has gone. A row is what pages show of a project; nothing
here makes HTML.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from taskqueue import AsyncClient
from taskqueue.errors import RequestRejected, TaskQueueError
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.views import Counts, Point, ProjectView, Totals, Windows

LOOK_SECONDS: Final = 0.5
"""Between two looks at what has changed."""

WINDOWS_SECONDS: Final = 1.0
"""Between two pages of windows, of up to WINDOWS_PAGE projects."""
WINDOWS_PAGE: Final = 100

STATUS_PAGE: Final = 200

FORGOTTEN_SECONDS: Final = 10.0
"""After so long without anybody who looks, nothing is asked any more."""

MINUTES: Final = 60
"""Of a project's past that are shown."""
MINUTES_AT_ONCE: Final = 10
"""Projects whose past is asked for at a time."""

SPEED_SECONDS: Final = 5.0
"""A speed is that of about so long."""

NO_WINDOWS: Final = Windows()


@dataclass(slots=True)
class ProjectRow:
    """A project.

    Attributes:
        why: it is not running, in words; empty: it is, or nobody has said.
        windows: what happened in the last 5 minutes, hour and day.
        minutes: tasks a second that were handed out, minute by minute, the last MINUTES of them.
        minutes_at: unix seconds when these were asked for.
        speed: tasks a second that are being handed out; None: not known yet.
    """

    name: str
    group: str
    state: ProjectState
    why: str
    rate: float
    burst: float
    counts: Counts
    totals: Totals
    windows: Windows = NO_WINDOWS
    minutes: list[float] = field(default_factory=list)
    minutes_at: float = 0.0
    speed: float | None = None
    looks: deque[tuple[float, int]] = field(default_factory=deque)

    def note_speed(self, at: float) -> None:
        """Take note of how many were handed out, ``at`` seconds of the monotonic clock."""
        looks = self.looks
        if looks and self.totals.selected < looks[-1][1]:
            looks.clear()  # it was deleted, and made again
        looks.append((at, self.totals.selected))
        while len(looks) > 1 and at - looks[1][0] >= SPEED_SECONDS:
            looks.popleft()
        since, selected = looks[0]
        self.speed = (self.totals.selected - selected) / (at - since) if at - since >= LOOK_SECONDS / 2 else None


class ProjectTable:
    """The projects of one daemon.

    Attributes:
        rows: by name.
    """

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.rows: dict[str, ProjectRow] = {}
        self._looked_at = 0.0
        self._asking: list[asyncio.Task[None]] = []
        self._complete = asyncio.Event()
        self._failure: TaskQueueError | None = None

    async def fresh(self) -> None:
        """See that the rows are those of about now.

        Raises:
            TaskQueueError: the daemon does not answer, or refuses.
        """
        self._looked_at = time.monotonic()
        if not self._asking:
            self._complete.clear()
            self._asking = [asyncio.create_task(each) for each in (self._follow(), self._follow_windows())]
        await self._complete.wait()
        if self._failure is not None:
            raise self._failure

    async def aclose(self) -> None:
        """Ask no more."""
        for task in self._asking:
            task.cancel()
        for task in self._asking:
            with suppress(asyncio.CancelledError):
                await task

    async def see_minutes(self, names: Iterable[str]) -> None:
        """Have the past of these rows, some of them at a time, those first that have none."""
        now = time.time()
        since = now // 60 * 60 - MINUTES * 60
        old = [row for name in names if (row := self.rows.get(name)) and now - row.minutes_at >= MINUTES]
        for row in old[:MINUTES_AT_ONCE]:
            row.minutes_at = now
            with suppress(RequestRejected):  # it has just been deleted
                reply = await self._client.history.list(row.name, since=since)
                row.minutes = _by_minute(reply.points, since)

    async def _follow(self) -> None:
        while self._is_looked_at():
            try:
                await self._look()
                self._failure = None
            except TaskQueueError as error:
                self._failure = error
            self._complete.set()
            await asyncio.sleep(LOOK_SECONDS)
        self._asking = []

    async def _look(self) -> None:
        found: dict[str, ProjectRow] = {}
        after, more = "", True
        while more:
            page = await self._client.status(after, STATUS_PAGE, fetchers=0)
            for view in page.projects:
                found[view.name] = self._row(view)
            after, more = page.projects[-1].name if page.projects else "", page.more
        self.rows = found

    def _row(self, view: ProjectView) -> ProjectRow:
        settings = view.settings
        row = self.rows.get(view.name)
        fresh = ProjectRow(
            view.name,
            str(settings["group"]),
            view.state,
            view.reason,
            float(settings["rate"]),  # type: ignore[arg-type]
            float(settings["burst"]),  # type: ignore[arg-type]
            view.counts,
            view.totals,
        )
        if row is not None:
            fresh.windows, fresh.minutes, fresh.minutes_at = row.windows, row.minutes, row.minutes_at
            fresh.looks = row.looks
        fresh.note_speed(time.monotonic())
        return fresh

    async def _follow_windows(self) -> None:
        after = ""
        while self._is_looked_at():
            with suppress(TaskQueueError):
                page = await self._client.stats.list(after, WINDOWS_PAGE)
                for stats in page.projects:
                    if stats.name in self.rows:
                        self.rows[stats.name].windows = stats.windows
                after = page.projects[-1].name if page.more else ""
            await asyncio.sleep(WINDOWS_SECONDS)

    def _is_looked_at(self) -> bool:
        return time.monotonic() - self._looked_at < FORGOTTEN_SECONDS


def _by_minute(points: Sequence[Point], since: float) -> list[float]:
    """Tasks a second that were handed out, a number a minute, also of those without a point."""
    minutes = [0.0] * MINUTES
    for point in points:
        place = int((point.at - since) // 60)
        if 0 <= place < MINUTES:
            minutes[place] = point.selected / 60
    return minutes
