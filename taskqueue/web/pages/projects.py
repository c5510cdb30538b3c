"""The page of all projects: what they do, at which pace, how it went; and what an operator may do with each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request

from taskqueue.display.counts import STATES, tasks
from taskqueue.display.counts import projects as so_many
from taskqueue.display.insight import pause_text
from taskqueue.display.projects import ALL, EVENTS, WINDOWS, events_text, pace_text, took_text
from taskqueue.protocol.choices import ProjectState
from taskqueue.protocol.insight import ProjectPulse, Window
from taskqueue.protocol.values import Counts, Totals
from taskqueue.web.access.visitors import root_of
from taskqueue.web.drawing.shares import shares
from taskqueue.web.drawing.sparkline import points
from taskqueue.web.live.channels import Picture
from taskqueue.web.live.project_table import LOOK_SECONDS, ProjectRow
from taskqueue.web.page_templates import Templates, link
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.queries import number_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

ROWS: Final = 50
"""Of a page."""

COLUMNS: Final = tuple(state for state in STATES if state not in ("success", "cancelled"))
"""States of tasks that have a column each."""

BAR_WIDTH: Final = 60.0

Cell = str | dict[str, str]


class Order(NamedTuple):
    """What rows may be sorted by.

    Attributes:
        head: of its column.
        largest_first: as numbers are; words come by the alphabet.
    """

    head: str
    key: Callable[[ProjectRow], Any]
    largest_first: bool = True


def _count_of(state: str) -> Callable[[ProjectRow], int]:
    return lambda row: getattr(row.counts, state)


ORDERS: Final[Mapping[str, Order]] = {
    "name": Order("project", lambda row: row.name, largest_first=False),
    "state": Order("state", lambda row: row.pulse.state, largest_first=False),
    "rate": Order("rate", lambda row: row.pulse.rate),
    **{state: Order(state, _count_of(state)) for state in COLUMNS},
    "speed": Order("tasks/s", lambda row: row.speed or 0.0),
    "5m": Order("5m", lambda row: _attempts(row.windows.minutes)),
    "1h": Order("1h", lambda row: _attempts(row.windows.hour)),
    "1d": Order("1d", lambda row: _attempts(row.windows.day)),
    ALL: Order(ALL, lambda row: row.totals.success + row.totals.retried + row.totals.failed),
    "mean": Order("mean", lambda row: row.windows.minutes.mean_seconds),
    "p95": Order("p95", lambda row: row.windows.minutes.p95_seconds),
}
"""By what the query says."""

GROUPED: Final = "group"
"""The order in which the projects of a group stand together."""


async def look(request: Request) -> Mapping[str, Any]:
    """The projects that the query means: ``filter``, ``group``, ``state``, ``sort``, ``skip``."""
    query = request.query_params
    table = services_of(request).projects
    await table.fresh()
    chosen = {name: query.get(name, "") for name in ("filter", "group", "state")}
    sort = query.get("sort", "")
    sort = sort if sort in (*ORDERS, GROUPED) else "name"
    skip = number_of(request, "skip")
    found = _sorted([row for row in table.rows.values() if _is_meant(row, chosen)], sort)
    shown = found[skip : skip + ROWS]
    await table.see_minutes(row.name for row in shown)
    return {
        "rows": [(row, cells_of(row, root_of(request))) for row in shown],
        "found": len(found), "skip": skip, "step": ROWS, "sort": sort, "chosen": chosen,
        "groups": sorted({row.pulse.group for row in table.rows.values() if row.pulse.group}),
        "states": get_args(ProjectState), "columns": COLUMNS, "orders": ORDERS, "summary": _summary(found),
    }  # fmt: skip


def parts(templates: Templates, context: Mapping[str, Any]) -> Picture:
    """The cells of the projects, their rows without them, and their order."""
    rows: Sequence[tuple[ProjectRow, Mapping[str, Cell]]] = context["rows"]
    visitor = context["visitor"]
    may = visitor.may("operator"), visitor.may("admin")
    return {
        "cells": {f"{row.name}/{name}": cell for row, cells in rows for name, cell in cells.items()},
        "rows": {row.name: _blank(templates, context["root"], row.name, *may) for row, _ in rows},
        "order": {"projects": [row.name for row, _ in rows]},
    }


def cells_of(row: ProjectRow, root: str = "") -> dict[str, Cell]:
    """What is seen of a row and changes, by the name of its place: a text, or attributes with their values."""
    cells: dict[str, Cell] = {
        "group": {"text": row.pulse.group, "href": root + link("/", {"group": row.pulse.group})},
        "state": {"text": row.pulse.state, "data-state": row.pulse.state},
        "why": pause_text(row.pulse),
        "rate": {"value": pace_text(row.pulse.rate)},
        "burst": {"value": pace_text(row.pulse.burst)},
        "speed": "" if row.speed is None else f"{row.speed:,.1f}",
        "spark": {"points": points(row.minutes)},
        "mean": _seconds(row.windows.minutes, "mean_seconds"),
        "p95": _seconds(row.windows.minutes, "p95_seconds"),
        "run": {"data-will": f"What is delayed, {tasks(row.counts.delayed)}, may go at once, at its pace."},
        "retry": {"data-will": f"What failed, {tasks(row.counts.failed)}, runs again, at its pace, with all retries."},
    }
    for state in COLUMNS:
        cells[state] = {
            "text": f"{getattr(row.counts, state):,}",
            "data-state": "" if getattr(row.counts, state) else "0",
        }
    for name, attribute in WINDOWS:
        cells |= _bar(name, getattr(row.windows, attribute))
    return cells | _bar(ALL, row.totals)


def _bar(name: str, events: Any) -> dict[str, Cell]:
    counts = [getattr(events, event) for event in EVENTS]
    told = f"{name}: {events_text(*counts)}"
    drawn = {part.name: part for part in shares(zip(EVENTS, counts, strict=True), sum(counts), BAR_WIDTH)}
    cells: dict[str, Cell] = {f"{name}-told": told}
    for event in EVENTS:
        part = drawn.get(event)
        cells[f"{name}-{event}"] = {"x": f"{part.x:g}" if part else "0", "width": f"{part.width:g}" if part else "0"}
    return cells


def _seconds(window: Window, name: str) -> str:
    return took_text(getattr(window, name)) if _attempts(window) else ""


def _attempts(window: Window) -> int:
    return window.success + window.retried + window.failed


def _is_meant(row: ProjectRow, chosen: Mapping[str, str]) -> bool:
    part, group, state = chosen["filter"].casefold(), chosen["group"], chosen["state"]
    return part in row.name.casefold() and group in ("", row.pulse.group) and state in ("", row.pulse.state)


def _sorted(rows: list[ProjectRow], sort: str) -> list[ProjectRow]:
    rows.sort(key=lambda row: row.name)
    if sort == GROUPED:
        rows.sort(key=lambda row: (row.pulse.group == "", row.pulse.group))
    elif sort != "name":
        order = ORDERS[sort]
        rows.sort(key=order.key, reverse=order.largest_first)
    return rows


def _summary(rows: Sequence[ProjectRow]) -> str:
    states = {state: sum(getattr(row.counts, state) for row in rows) for state in COLUMNS}
    speed = sum(row.speed or 0.0 for row in rows)
    return ", ".join([so_many(len(rows)), *(f"{count:,} {state}" for state, count in states.items())]) + (
        f"; {speed:,.1f} tasks/s"
    )


@lru_cache(maxsize=20_000)
def _blank(templates: Templates, root: str, name: str, is_operator: bool, is_admin: bool) -> str:
    """The row of a project before anything is known of it that changes."""
    row = ProjectRow(ProjectPulse(name, "", "running", "", 0.0, 0.0, "", (), ()), Counts(), Totals())
    shown = {"root": root, "name": name, "cells": cells_of(row, root), "columns": COLUMNS}
    context = {**shown, "is_operator": is_operator, "is_admin": is_admin}
    return templates.blocks("blank_project.html", context, ("row",))["row"]


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/", "projects.html", look, ("summary", "pages"), parts, every=LOOK_SECONDS)
)
