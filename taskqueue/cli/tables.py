"""Tables for people: projects, fetchers, settings. Everything that is shown comes from the daemon's own views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from taskqueue.cli.settings import text
from taskqueue.core.replies import Counts, FetcherView, ProjectView

STATES = Counts.__struct_fields__
LIVE = ("ready", "delayed", "processing")
STYLES = {"running": "green", "paused": "yellow", "stopped": "red", "success": "green", "failed": "red"}
UNITS = (("d", 86_400), ("h", 3600), ("m", 60))

WIDE = 400
"""Columns."""


class Speeds(msgspec.Struct, frozen=True):
    """Tasks of a project per second."""

    new: float
    selected: float
    success: float
    failed: float


def console() -> Console:
    """Standard output; where it is no terminal, wide enough to cut nothing."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=WIDE)


def of_projects(views: Iterable[ProjectView]) -> Table:
    """A row a project: all its tasks by state, and its pace. Fits into 80 columns."""
    table = _table(["project", "state"], [*STATES, "rate", "burst"])
    for view in views:
        table.add_row(*_names(view), *_counts(view, STATES), _rate(view), Text(text(view.settings["burst"])))
    return table


def of_moving_projects(views: Iterable[ProjectView], speeds: Mapping[str, Speeds]) -> Table:
    """A row a project: its live tasks, its pace, and how fast it goes, by name. Fits into 80 columns."""
    table = _table(["project", "state"], [*LIVE, "rate", *(f"{name}\n/s" for name in Speeds.__struct_fields__)])
    for view in views:
        table.add_row(*_names(view), *_counts(view, LIVE), _rate(view), *_speed_cells(speeds.get(view.name)))
    return table


def _names(view: ProjectView) -> Iterator[Text]:
    yield Text(view.name, style="bold")
    yield Text(view.state, style=STYLES[view.state])


def _counts(view: ProjectView, states: Iterable[str]) -> Iterator[Text]:
    for name in states:
        count: int = getattr(view.counts, name)
        yield Text(f"{count:,}", style=STYLES.get(name, "") if count else "dim")


def _rate(view: ProjectView) -> Text:
    return Text(f"{text(view.settings['rate'])}/s")


def _speed_cells(speeds: Speeds | None) -> Iterator[Text]:
    for speed in msgspec.structs.astuple(speeds) if speeds else ():
        yield Text(f"{speed:,.1f}", style="" if speed else "dim")


def of_fetchers(views: Iterable[FetcherView]) -> Table:
    """A row a fetcher."""
    table = _table(["fetcher"], ["holds", "capacity", "silent"], ["projects"])
    for view in views:
        projects = "any" if view.projects is None else ", ".join(view.projects)
        numbers = (f"{view.holds:,}", f"{view.capacity:,}", duration(view.silent_seconds))
        table.add_row(*map(Text, (view.name or view.session, *numbers, projects)))
    return table


def of_settings(view: ProjectView) -> Table:
    """A row a setting, and who said it."""
    table = _table(["setting", "value", "said by"], [])
    for name, value in view.settings.items():
        source = "project set" if name in view.overrides else "config file or default"
        table.add_row(Text(name), Text(text(value), style="bold"), Text(source, style="dim"))
    return table


def of_fields(fields: Mapping[str, str]) -> Table:
    """A row a field, for one thing looked at closely."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, value in fields.items():
        table.add_row(Text(name, style="dim"), Text(value))
    return table


def _table(words: Iterable[str], numbers: Iterable[str], more_words: Iterable[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in words:
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for name in more_words:
        table.add_column(name)
    return table


def duration(seconds: float) -> str:
    """``93784`` as ``1 d 2 h``, in two units at most."""
    for place, (unit, size) in enumerate(UNITS):
        if seconds >= size:
            rest, below = seconds % size, (*UNITS, ("s", 1))[place + 1]
            return f"{seconds // size:.0f} {unit} {rest // below[1]:.0f} {below[0]}"
    return f"{seconds:.1f} s"


def as_plain(value: object) -> Any:
    """A message's view as JSON can hold it: every field, in order; infinite numbers as text."""
    if isinstance(value, msgspec.Struct):
        return {name: as_plain(part) for name, part in msgspec.structs.asdict(value).items()}
    if isinstance(value, Mapping):
        return {str(name): as_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_plain(part) for part in value]
    return str(value) if value in (float("inf"), float("-inf")) else value
