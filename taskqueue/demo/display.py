"""Shows how far the crawl is: in place on a terminal, elsewhere a plain line a second."""

from __future__ import annotations

from collections import deque
from typing import get_args

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from taskqueue.protocol.choices import LiveState, OverState
from taskqueue.protocol.values import Counts
from taskqueue.terminal.screen import Text

SPEED_SECONDS = 3.0
"""The speed is the mean of so many seconds."""
LINE_SECONDS = 1.0
SHOWN = ("ready", "delayed", "processing", "success", "failed")


class Display:
    """Shows the crawl while the block runs; the hint stands below what is shown on a terminal."""

    def __init__(self, console: Console, hint: str) -> None:
        self._console = console
        self._hint = hint
        self._live = Live(console=console, refresh_per_second=8)
        self._seen: deque[tuple[float, int]] = deque()
        self._next_at = 0.0
        self._shown = Counts()

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, seconds: float, counts: Counts) -> None:
        """Show the tasks by state, so many seconds after the crawl began; between two lines, nothing."""
        states = ", ".join(f"{getattr(counts, state):,} {state}" for state in SHOWN)
        line = f"{states}; {self._speed(seconds, over(counts)):.1f} pages/s"
        if self._console.is_terminal:
            self._live.update(Group(_bar(seconds, counts), line, "", Text(self._hint, style="dim")))
        elif seconds >= self._next_at and counts != self._shown:
            self._next_at, self._shown = seconds + LINE_SECONDS, counts
            self._console.print(f"{seconds:6.1f} s  {line}", highlight=False, soft_wrap=True)

    def _speed(self, seconds: float, pages: int) -> float:
        self._seen.append((seconds, pages))
        while seconds - self._seen[0][0] > SPEED_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (pages - before) / (seconds - since) if seconds > since else 0.0


def _bar(seconds: float, counts: Counts) -> Table:
    bar = Table.grid(padding=(0, 2, 0, 0))
    known = over(counts) + live(counts)
    far = ProgressBar(total=max(1, known), completed=over(counts), width=40)
    bar.add_row(far, f"{over(counts):,} of {known:,} known pages", f"{seconds:.1f} s")
    return bar


def over(counts: Counts) -> int:
    """Number of pages that are done."""
    return sum(getattr(counts, state) for state in get_args(OverState))


def live(counts: Counts) -> int:
    """Number of known pages that are still to be done."""
    return sum(getattr(counts, state) for state in get_args(LiveState))


def is_finished(counts: Counts) -> bool:
    """Whether all pages are done. The links of a page are committed with its end, so none is missing in between."""
    return over(counts) > 0 and not live(counts)
