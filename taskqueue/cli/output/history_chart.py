"""``taskqueue stats --history``: how fast projects were, drawn in the terminal, beside the same time before.

points of minutes or hours ──spread evenly over their time──► CELLS parts of the time ──► ▁▂▅█▇▃
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from taskqueue.protocol.choices import Resolution
from taskqueue.protocol.insight import Point

if TYPE_CHECKING:
    from rich.table import Table

    from taskqueue import Client
    from taskqueue.terminal.screen import Text

CELLS: Final = 40
BARS: Final = "▁▂▃▄▅▆▇█"
EVENTS: Final = ("new", "success", "failed", "retried")
"""Events that are drawn, if there are any."""

MINUTES_KEPT: Final = 24 * 3600.0 + 60
"""Seconds for which the daemon keeps minutes; older times are fetched by hours."""

TOGETHER: Final = "all projects"


class Span(NamedTuple):
    """A time span in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


class ProjectHistory(Struct):
    """Events of a project in a time span (None: of all projects together), in points of one ``every`` each."""

    project: str | None
    every: Resolution
    points: list[Point]


class Comparison(NamedTuple):
    """Events now and in the span before."""

    now: ProjectHistory
    before: ProjectHistory


def fetch_history(client: Client, project: str | None, span: Span, now: float) -> ProjectHistory:
    """Events in a time span: by minutes as long as these are kept, else by hours."""
    every: Resolution = "minute" if now - span.start <= MINUTES_KEPT else "hour"
    return ProjectHistory(project, every, list(client.history.all(project, every, since=span.start, until=span.end)))


def compare(client: Client, project: str | None, span: Span) -> Comparison:
    """Events in a span that ends now, and in the span of the same length before it."""
    return Comparison(
        fetch_history(client, project, span, span.end), fetch_history(client, project, earlier(span), span.end)
    )


def earlier(span: Span) -> Span:
    """The span of the same length before this one."""
    return Span(span.start - span.seconds, span.start)


# ------------------------------------------------------------------------------------------------ drawing


def history_table(compared: Comparison, span: Span) -> Table:
    """Per kind of event a row of bars with its numbers, and below it one of the span before. In 80 columns."""
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


class EventCount(NamedTuple):
    """A number of events, evenly spread over a span."""

    span: Span
    number: float


def _events(history: ProjectHistory, name: str, now: float) -> Iterator[EventCount]:
    """Counts of one kind of event; the last hour ends now."""
    seconds = 60 if history.every == "minute" else 3600
    for point in history.points:
        end = min(point.at + seconds, now)
        if point.at < end:
            yield EventCount(Span(point.at, end), getattr(point, name))


def cells(events: Iterable[EventCount], span: Span, number: int = CELLS) -> list[float]:
    """Number of events in each of ``number`` equal parts of a span."""
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
    """One bar per count, the highest for ``most``; a blank for 0."""
    return "".join(BARS[min(int(count / most * len(BARS)), len(BARS) - 1)] if count else " " for count in counts)


def change(now: float, before: float) -> str:
    """``+12 %``; empty if there was nothing before."""
    return f"{(now - before) / before * 100:+,.0f} %" if before else ""
