"""The demo's display: a live table on a terminal, elsewhere a plain line a second.

It only displays ``Scene`` values that it is given.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from taskqueue.protocol.views import ProjectView
from taskqueue.terminal.screen import Text

SPEED_SECONDS = 3.0
"""Speed is the mean of so many seconds."""
LINE_SECONDS = 1.0

STYLES = {"running": "green", "paused": "yellow", "stopped": "red"}


class Scene(NamedTuple):
    """The state of a crawl at one moment.

    Attributes:
        seconds: since this start of the demo began to fetch.
        projects: with their pages per second.
        done: number of finished pages, of ``pages``.
        pages: number of pages of the site; 0 if the crawl is not expected to end.
    """

    seconds: float
    projects: Sequence[tuple[ProjectView, float]]
    done: int
    pages: int


class Display(Protocol):
    """Displays scenes."""

    def show(self, scene: Scene) -> None:
        """Display the scene, at once or when the next line is due."""


class Speed:
    """Pages per second, from counts that are sampled now and then."""

    def __init__(self) -> None:
        self._told: deque[tuple[float, int]] = deque()

    def tell(self, at: float, count: int) -> float:
        """Add a sample; returns the mean speed of the last seconds."""
        self._told.append((at, count))
        while at - self._told[0][0] > SPEED_SECONDS:
            self._told.popleft()
        since, before = self._told[0]
        return (count - before) / (at - since) if at > since else 0.0


@contextmanager
def open_display(console: Console, hint: str) -> Iterator[Display]:
    """The display that suits the console; ``hint`` stands below the live table."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    with Live(console=console, refresh_per_second=8, transient=False) as live:
        yield _Table(live, hint)


class _Table:
    def __init__(self, live: Live, hint: str) -> None:
        self._live = live
        self._hint = hint

    def show(self, scene: Scene) -> None:
        progress = [_progress(scene)] if scene.pages else []
        paces = [Text(f"{view.name}, {_pace(view)}", style="dim") for view, _ in scene.projects]
        self._live.update(Group(table(scene), *paces, "", *progress, Text(self._hint, style="dim")))


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_at = 0.0
        self._last = ""

    def show(self, scene: Scene) -> None:
        text = "\n".join(line(view, speed) for view, speed in scene.projects)
        if scene.seconds < self._next_at or text == self._last:
            return
        self._next_at = scene.seconds + LINE_SECONDS
        self._last = text
        self._console.print(f"{scene.seconds:6.1f} s  {text}", highlight=False, soft_wrap=True)


def line(view: ProjectView, speed: float) -> str:
    """A project in one line."""
    counts = view.counts
    return (
        f"{view.name}: {counts.ready} ready, {counts.delayed} delayed, {counts.processing} processing, "
        f"{counts.success} success, {counts.failed} failed; {speed:.1f} pages/s ({_pace(view)})"
    )


def _pace(view: ProjectView) -> str:
    """The highest rate at which the scheduler hands out; more pages than that may end in a second, after a burst."""
    return f"handed out: at most {view.settings['burst']:g} at once, then {view.settings['rate']:g}/s"


def table(scene: Scene) -> Table:
    """A row per project; fits into 80 columns."""
    drawn = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("project", "state"):
        drawn.add_column(name)
    for name in ("ready", "delayed", "processing", "success", "failed", "rate", "pages/s"):
        drawn.add_column(name, justify="right", min_width=5)
    for view, speed in scene.projects:
        drawn.add_row(*_cells(view, speed))
    return drawn


def _cells(view: ProjectView, speed: float) -> Iterator[RenderableType]:
    counts = view.counts
    yield Text(view.name, style="bold")
    yield Text(view.state, style=STYLES[view.state])
    for count in (counts.ready, counts.delayed, counts.processing):
        yield f"{count:,}"
    yield Text(f"{counts.success:,}", style="green")
    yield Text(f"{counts.failed:,}", style="red" if counts.failed else "")
    yield f"{view.settings['rate']:g}/s"
    yield Text(f"{speed:.1f}", style="bold cyan")


def _progress(scene: Scene) -> RenderableType:
    row = Table.grid(padding=(0, 2, 0, 0))
    bar = ProgressBar(total=max(1, scene.pages), completed=scene.done, width=50)
    row.add_row(bar, f"{scene.done:,} of {scene.pages:,} pages", f"{scene.seconds:.1f} s")
    return row
