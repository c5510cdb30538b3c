"""``taskqueue stats --history``: how fast projects were, drawn in the terminal, beside the same time before.

points of minutes or hours ──spread evenly over their time──► CELLS parts of the time ──► ▁▂▅█▇▃
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.views import Point

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.terminal.screen import Text

CELLS: Final = 40
BARS: Final = "▁▂▃▄▅▆▇█"
EVENTS: Final = ("new", "success", "failed", "retried")
"""That are drawn, if there are any."""

MINUTES_KEPT: Final = 24 * 3600.0 + 60
"""Seconds; what is longer ago is told by hours."""

TOGETHER: Final = "all projects"


class Span(NamedTuple):
    """Some time: unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.end - self.start


class Told(Struct):
    """What happened in a time, to a project; ``project`` None: to all together. ``every`` is what ``points`` are of."""

    project: str | None
    every: Resolution
    points: list[Point]


class Compared(NamedTuple):
    """The same of now and of before."""

    now: Told
    before: Told


def ask(client: Client, project: str | None, span: Span, now: float) -> Told:
    """What happened in a time: by minutes where these are still kept."""
    every: Resolution = "minute" if now - span.start <= MINUTES_KEPT else "hour"
    return Told(project, every, list(client.history.all(project, every, since=span.start, until=span.end)))


def compare(client: Client, project: str | None, span: Span) -> Compared:
    """What happened in a time that ends now, and in as long a time before."""
    return Compared(ask(client, project, span, span.end), ask(client, project, earlier(span), span.end))


def earlier(span: Span) -> Span:
    """As long a time before."""
    return Span(span.start - span.seconds, span.start)


# ------------------------------------------------------------------------------------------------ drawing


def of_history(compared: Compared, span: Span) -> Table:
    """For each kind of event a line of bars and its numbers, and under it one of the time before. In 80 columns."""
    from taskqueue.cli.output.tables import bare_table
    from taskqueue.units import duration_text

    length = duration_text(span.seconds)
    table = bare_table(["", f"the last {length}"], ["in all", "/min", "change"])
    table.title, table.title_justify, table.title_style = compared.now.project or TOGETHER, "left", "bold"
    for name in EVENTS:
        counts = cells(_events(compared.now, name, span.end), span)
        before = cells(_events(compared.before, name, span.end), earlier(span))
        if any(counts) or any(before) or name == "success":
            most = max(*counts, *before)
            table.add_row(*_row(name, counts, most, span), change(sum(counts), sum(before)))
            table.add_row(*_row("before", before, most, span, "dim"))
    return table


def _row(name: str, counts: Sequence[float], most: float, span: Span, style: str = "") -> Iterator[Text]:
    from taskqueue.terminal.screen import Text

    count = sum(counts)
    numbers = f"{count:,.0f}", f"{count * 60 / span.seconds:,.1f}"
    yield from (Text(cell, style) for cell in (name, bars(counts, most), *numbers))


class Happened(NamedTuple):
    """So many events, evenly over a time."""

    span: Span
    number: float


def _events(told: Told, name: str, now: float) -> Iterator[Happened]:
    """What has happened in an hour that is not over has happened until now."""
    seconds = 60 if told.every == "minute" else 3600
    for point in told.points:
        end = min(point.at + seconds, now)
        if point.at < end:
            yield Happened(Span(point.at, end), getattr(point, name))


def cells(events: Iterable[Happened], span: Span, number: int = CELLS) -> list[float]:
    """How many there were in each of so many equal parts of a time."""
    width = span.seconds / number
    found = [0.0] * number
    for (start, end), number_of in events:
        first = max(0, int((start - span.start) // width))
        last = min(number - 1, int((end - span.start) // width))
        for cell in range(first, last + 1):
            part = span.start + cell * width
            inside = min(end, part + width) - max(start, part)
            found[cell] += number_of * max(0.0, inside) / (end - start)
    return found


def bars(counts: Sequence[float], most: float) -> str:
    """A bar each, the highest for ``most``; nothing where there is nothing."""
    return "".join(BARS[min(int(count / most * len(BARS)), len(BARS) - 1)] if count else " " for count in counts)


def change(now: float, before: float) -> str:
    """``+12 %``; "" if there was nothing before."""
    return f"{(now - before) / before * 100:+,.0f} %" if before else ""
