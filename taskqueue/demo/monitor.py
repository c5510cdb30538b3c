"""Monitors a crawl: samples the scheduler a few times a second, displays it, restarts processes that died."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import get_args

from rich.console import Console

from taskqueue import Client
from taskqueue.demo.pace_check import Sample
from taskqueue.demo.processes import Processes
from taskqueue.demo.progress_display import Display, Scene, Speed
from taskqueue.demo.services import PROJECT
from taskqueue.errors import RequestTimeout
from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.protocol.views import Counts, ProjectView

LOOK_SECONDS = 0.1


class CrawlMonitor:
    """Monitors one start of the demo, from outside.

    Args:
        pages: number of pages of the site.

    Attributes:
        samples: for the check of the pace; none are added once the crawl is finished.
    """

    def __init__(self, client: Client, processes: Processes, console: Console, pages: int) -> None:
        self._client = client
        self._processes = processes
        self._console = console
        self._pages = pages
        self._speeds: dict[str, Speed] = {}
        self.samples: list[Sample] = []
        self.counts = Counts()
        self.started_at = time.monotonic()

    @property
    def was_interrupted(self) -> bool:
        """Whether a process died on the way."""
        return self._processes.restarts > 0

    def look(self) -> list[ProjectView]:
        """Sample once; [] if the scheduler doesn't answer."""
        asked_at = time.monotonic()
        try:
            views = list(self._client.status().projects)
        except RequestTimeout:
            return []
        for view in views:
            if view.name == PROJECT:
                self._note(asked_at, view)
        return views

    def until_finished(self, screen: Display) -> None:
        """Monitor until no page is left to fetch."""
        for _ in self._moments(screen, self._pages):
            if is_finished(self.counts):
                return

    def forever(self, screen: Display) -> None:
        """Monitor until interrupted."""
        for _ in self._moments(screen, 0):
            self.samples.clear()

    def _moments(self, screen: Display, pages: int) -> Iterator[None]:
        while True:
            self._revive()
            if views := self.look():
                screen.show(self._scene(views, pages))
                yield
            time.sleep(LOOK_SECONDS)

    def _note(self, asked_at: float, view: ProjectView) -> None:
        settings = view.settings
        rate, burst = float(settings["rate"]), float(settings["burst"])  # type: ignore[arg-type]
        self.samples.append(Sample(asked_at, view.totals.selected, rate, burst))
        self.counts = view.counts

    def _scene(self, views: list[ProjectView], pages: int) -> Scene:
        now = time.monotonic()
        rows = [(view, self._speed(view, now)) for view in views]
        return Scene(now - self.started_at, rows, over(self.counts), pages)

    def _speed(self, view: ProjectView, now: float) -> float:
        return self._speeds.setdefault(view.name, Speed()).tell(now, over(view.counts))

    def _revive(self) -> None:
        for name, ending in self._processes.dead().items():
            pid = self._processes.pid(name)
            self._processes.revive(name)
            again = f"started again as pid {self._processes.pid(name)}, goes on where it was"
            self._console.print(f"  {name} (pid {pid}) {ending}: {again}", highlight=False, soft_wrap=True)


def over(counts: Counts) -> int:
    """Number of finished pages."""
    return sum(getattr(counts, state) for state in get_args(OverState))


def is_finished(counts: Counts) -> bool:
    """Whether all tasks are finished, and there were some. New tasks are committed together with the end of the task
    that found them, so this can't be true between a page and its links.
    """
    return over(counts) > 0 and not any(getattr(counts, state) for state in get_args(LiveState))
