"""Screen of ``taskqueue top``: as many columns and rows as fit, useful from 80 x 24 on.

    tcp://127.0.0.1:7400  taskqueue 0.1.0, up 3 d 2 h, epoch 4
    12,345 ready, 0 delayed, 50 processing; 12 fetchers hold 50 of 120
    new 12.0/s  selected 50.0/s  success 49.0/s  retried 1.0/s  failed 0.0/s

    project          state       ready  processing  selected/s  retried/s       the visible list
    ...
    fetcher          state  holds  oldest  done  failed                         below it, while there is room
    ...
    1-2 of 2 by selected_5m  q quit  s sort  / filter  f fetchers  j k scroll

Speeds are computed from totals that are sampled with each refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table

from taskqueue.cli.input.times import paused_until
from taskqueue.cli.input.top_keys import HELP, ListView, View
from taskqueue.cli.output import project_tables, tables
from taskqueue.display.columns import ListColumn
from taskqueue.display.counts import brief
from taskqueue.display.fetchers import COLUMNS, held
from taskqueue.display.projects import time_text
from taskqueue.protocol.choices import LIVE_STATES, FetcherSort, ProjectSort
from taskqueue.protocol.daemon import StatusReply
from taskqueue.protocol.fetchers import Fetcher, FetcherPage
from taskqueue.protocol.projects import Project
from taskqueue.protocol.values import EventTotals
from taskqueue.terminal.screen import Text
from taskqueue.texts.units import duration_text

T = TypeVar("T")

SHORTEST_SECONDS: Final = 0.5
"""Seconds between two samples that give a new speed, at least; in between the speed stays."""

LOOKED_AT_MOST: Final = 1000
"""Projects remembered besides those of the last sample, at most."""


class Speeds(msgspec.Struct, frozen=True):
    """Tasks per second."""

    new: float
    selected: float
    success: float
    retried: float
    failed: float


class Sample(NamedTuple):
    """Totals at a time (seconds of any clock), and the speeds until then."""

    at: float
    totals: EventTotals
    speeds: Speeds | None


class SpeedMeter:
    """Speeds of projects, computed from the last sample of each."""

    def __init__(self) -> None:
        self._looks: dict[str, Sample] = {}

    def look(self, at: float, totals: Mapping[str, EventTotals]) -> dict[str, Speeds]:
        """Take a sample, and return speeds since each project's last one; a new project has none."""
        seen = {name: _next_sample(self._looks.get(name), at, now) for name, now in totals.items()}
        self._looks = ({} if len(self._looks) > LOOKED_AT_MOST else self._looks) | seen
        return {name: look.speeds for name, look in seen.items() if look.speeds is not None}


def _next_sample(before: Sample | None, at: float, totals: EventTotals) -> Sample:
    if before is None:
        return Sample(at, totals, None)
    if at - before.at < SHORTEST_SECONDS:
        return before
    # Totals shrink when a project is deleted and made again, which is not a speed.
    gained = (max(0, getattr(totals, name) - getattr(before.totals, name)) for name in Speeds.__struct_fields__)
    return Sample(at, totals, Speeds(*(count / (at - before.at) for count in gained)))


AROUND: Final = 7
"""Lines around the list: three of the head, one empty, its header, one empty, the footer."""

NAME_LEAST, NAME_MOST = 12, 28
"""Characters of the first column, at least and at most, while there are others."""

ALL: Final = ""
"""Key of all projects together among the speeds."""


class Snapshot(NamedTuple):
    """Latest replies of the daemon, with speeds by project name; ``silent`` says why there are no newer ones."""

    status: StatusReply
    fetchers: FetcherPage
    speeds: Mapping[str, Speeds]
    silent: str = ""


class Column(NamedTuple, Generic[T]):
    """Column beside the name: header, width, the order that it shows, and its cells."""

    head: str
    width: int
    sort: str
    cell: Callable[[T, Speeds | None], Text]


def _tasks(state: str) -> Column[Project]:
    def cell(view: Project, speeds: Speeds | None) -> Text:
        number: int = getattr(view.counts, state)
        return Text(brief(number), style="" if number else "dim")

    return Column(state, max(len(state), 9), state, cell)


def _speed(event: str) -> Column[Project]:
    def cell(view: Project, speeds: Speeds | None) -> Text:
        if speeds is None:
            return Text("")
        number: float = getattr(speeds, event)
        style = {"failed": "red", "retried": "yellow"}.get(event, "")
        return Text(f"{number:,.1f}", style=style if number else "dim")

    return Column(f"{event}/s", max(len(event) + 2, 8), f"{event}_5m", cell)


def _remaining(view: Project, speeds: Speeds | None) -> Text:
    return Text(time_text(view.remaining) if view.remaining else "")


def _state(view: Project, speeds: Speeds | None) -> Text:
    return Text(view.state, style=tables.STYLES[view.state])


PROJECT_CELLS: Final[tuple[Column[Project], ...]] = (
    Column("state", 8, "", _state),
    _tasks("ready"),
    _tasks("delayed"),
    _tasks("processing"),
    Column("time left", 24, "", _remaining),
    Column("rate", 12, "", lambda view, speeds: project_tables.rate(view)),
    _speed("new"),
    _speed("selected"),
    _speed("success"),
    _speed("retried"),
    _speed("failed"),
)
PROJECT_FIRST: Final = (
    "state", "ready", "processing", "selected/s", "retried/s", "failed/s", "time left", "new/s", "delayed", "success/s",
    "rate",
)  # fmt: skip
"""Columns by importance; the last ones are left out first."""

FETCHER_WIDTHS: Final = {"state": 8, "holds": 13, "hung": 15, "priority": 8, "address": 15, "projects": 30, "note": 24}
FETCHER_WIDTH: Final = 9
"""Characters of each other column of fetchers."""


def _fetcher(column: ListColumn[Fetcher]) -> Column[Fetcher]:
    width = FETCHER_WIDTHS.get(column.head, FETCHER_WIDTH)
    return Column(column.head, width, column.sort, lambda view, speeds: Text(column.text(view)))


FETCHER_NAME: Final = COLUMNS[0]
FETCHER_CELLS: Final = tuple(map(_fetcher, COLUMNS[1:]))
FETCHER_FIRST: Final = (
    "holds", "hung", "slow", "state", "oldest", "failed", "silent", "done", "priority", "address", "note", "projects",
)  # fmt: skip


def rows_that_fit(height: int) -> int:
    """Compute the rows of the list on a screen of ``height`` lines."""
    return max(1, height - AROUND)


def render_screen(url: str, snapshot: Snapshot, view: View, width: int, height: int) -> RenderableType:
    """Draw the whole screen."""
    parts = [*_head(url, snapshot), Text("")]
    used = 4
    if view.fetchers_seen:
        parts.append(_fetchers(snapshot.fetchers.fetchers, view.fetchers, width))
        used += 1 + len(snapshot.fetchers.fetchers)
    else:
        parts.append(_projects(snapshot, view.projects, width))
        used += 1 + len(snapshot.status.projects)
        parts += _below(snapshot, view, width, height - used - 2)
        used += sum(_lines(part) for part in parts[5:])
    parts += [Text("")] * max(0, height - used - 1)
    return Group(*parts, _foot(view))


def _lines(part: RenderableType) -> int:
    return 1 + part.row_count if isinstance(part, Table) else 1


def _head(url: str, snapshot: Snapshot) -> list[RenderableType]:
    status, fetchers = snapshot.status, snapshot.fetchers
    first = _line(f"{url}  taskqueue {status.version}, up {duration_text(status.uptime_seconds)}, epoch {status.epoch}")
    if snapshot.silent:
        first = _line(f"{url}  {snapshot.silent}", "red")
    live = [state for state in LIVE_STATES if state != "blocked" or status.counts.blocked]
    counts = ", ".join(f"{brief(getattr(status.counts, state))} {state}" for state in live)
    second = _line(f"{counts}; {held(fetchers)}")
    speeds = snapshot.speeds.get(ALL)
    third = "  ".join(f"{name} {getattr(speeds, name):,.1f}/s" for name in Speeds.__struct_fields__) if speeds else ""
    return [first, second, _line(third)]


def _projects(snapshot: Snapshot, rows: ListView[ProjectSort], width: int) -> RenderableType:
    if not snapshot.status.projects:
        return _line("No project is named so." if rows.part else "No projects yet.")
    named = [(view.name, view, snapshot.speeds.get(view.name)) for view in snapshot.status.projects]
    return _table("project", named, _chosen(PROJECT_CELLS, PROJECT_FIRST, rows.sort), rows.sort, width)


def _fetchers(views: Sequence[Fetcher], rows: ListView[FetcherSort], width: int) -> RenderableType:
    if not views:
        return _line("No fetcher is named so." if rows.part else "No fetchers.")
    named = [(FETCHER_NAME.text(view), view, None) for view in views]
    return _table(FETCHER_NAME.head, named, _chosen(FETCHER_CELLS, FETCHER_FIRST, rows.sort), rows.sort, width)


def _below(snapshot: Snapshot, view: View, width: int, left: int) -> list[RenderableType]:
    """Draw pauses and the first fetchers in ``left`` lines."""
    parts: list[RenderableType] = []
    projects = snapshot.status.projects
    reasons = [
        f"{each.name}: {each.reason or paused_until(each.paused_until)}"
        for each in projects
        if each.reason or each.paused_until
    ]
    for reason in reasons[: max(0, left - 1)]:
        parts.append(_line(reason, "yellow"))
        left -= 1
    if left >= 3 and snapshot.fetchers.fetchers:
        parts += [Text(""), _fetchers(snapshot.fetchers.fetchers[: left - 2], view.fetchers, width)]
    return parts


def _chosen(cells: Iterable[Column[T]], first: Sequence[str], sort: str) -> list[tuple[int, Column[T]]]:
    """Choose the columns that fit, by importance; the column of the order is always among them."""
    return [(-1 if sort and cell.sort == sort else first.index(cell.head), cell) for cell in cells]


def _table(
    head: str,
    rows: Sequence[tuple[str, T, Speeds | None]],
    ranked: Iterable[tuple[int, Column[T]]],
    sort: str,
    width: int,
) -> Table:
    """Make a table with one line per row and as many columns as fit."""
    name_width = max(NAME_LEAST, min(NAME_MOST, max(len(name) for name, _, _ in rows)))
    left = width - name_width
    fitting: list[Column[T]] = []
    ranked = list(ranked)
    for _, cell in sorted(ranked, key=lambda each: each[0]):
        if left > cell.width:
            left -= cell.width + 1
            fitting.append(cell)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column(_title(head, sort == "name"), width=name_width + left, no_wrap=True, overflow="ellipsis")
    columns = [cell for _, cell in ranked if cell in fitting]
    for cell in columns:
        is_word = cell.head in ("state", "address", "projects")
        justify = "left" if is_word else "right"
        title = _title(cell.head, cell.sort == sort)
        table.add_column(title, width=cell.width, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for name, view, speeds in rows:
        table.add_row(Text(name, style="bold"), *(cell.cell(view, speeds) for cell in columns))
    return table


def _line(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis")


def _title(head: str, is_sorted_by: bool) -> Text:
    return Text(head, style="not dim reverse" if is_sorted_by else "")


def _foot(view: View) -> Text:
    rows = view.rows
    if view.typing:
        return _line(f"filter: {rows.part}_  Enter takes it, Escape drops it")
    last = min(rows.skip + rows.seen, rows.found)
    where = f"{min(rows.skip + 1, last):,}-{last:,} of {rows.found:,} by {rows.sort}"
    part = f' with "{rows.part}"' if rows.part else ""
    help_text = HELP.format(other="projects" if view.fetchers_seen else "fetchers")
    return _line(f"{where}{part}  {help_text}", "dim")
