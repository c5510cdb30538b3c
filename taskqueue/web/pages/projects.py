"""Page of all projects, with pace, recent past and actions of each; and the page of one project.

The page of one project shows its state and reason, its history, what is due next, failures, and settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request

from taskqueue.display.counts import STATES
from taskqueue.display.counts import projects as counted_projects
from taskqueue.display.insight import pause_text
from taskqueue.display.projects import (
    ALL,
    EVENTS,
    SAID,
    WINDOWS,
    events_text,
    is_empty_setting,
    pace_text,
    remaining_text,
    said_by,
    setting_text,
    took_text,
)
from taskqueue.display.slots import columns_of as slot_columns
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import FailuresBy, ProjectState, Resolution
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.insight import HistoryPoint, ProjectPulse, Stats, Window, Windows
from taskqueue.protocol.projects import Project
from taskqueue.protocol.slots import SlotPage
from taskqueue.protocol.values import EventTotals, TaskCounts
from taskqueue.settings.flat_names import flat
from taskqueue.web.access.visitors import root_of
from taskqueue.web.addresses import number_of
from taskqueue.web.drawing.charts import CHART_HEIGHT, CHART_WIDTH, Chart, draw_chart, shares, spark_points
from taskqueue.web.live.channels import Picture
from taskqueue.web.live.projects import LOOK_SECONDS, ProjectRow
from taskqueue.web.page_templates import Templates, link
from taskqueue.web.pages.insight import FailureRow, failure_row
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

ROWS: Final = 50
"""Rows per page."""

COLUMNS: Final = tuple(state for state in STATES if state not in ("success", "cancelled"))
"""States of tasks that have a column each."""

BAR_WIDTH: Final = 60.0

Cell = str | dict[str, str]


class Order(NamedTuple):
    """Order of rows.

    Attributes:
        head: title of its column.
        largest_first: True for numbers; False for words, in alphabetical order.
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
"""Orders by their names in the query."""

GROUPED: Final = "group"
"""Order in which the projects of a group stand together."""


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch the projects that the query selects: ``filter``, ``group``, ``state``, ``sort``, ``skip``."""
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
    """Return the cells of the projects, their rows without values, and their order."""
    rows: Sequence[tuple[ProjectRow, Mapping[str, Cell]]] = context["rows"]
    visitor = context["visitor"]
    may = visitor.may("run"), visitor.may("rule")
    return {
        "cells": {f"{row.name}/{name}": cell for row, cells in rows for name, cell in cells.items()},
        "rows": {row.name: _blank(templates, context["root"], row.name, *may) for row, _ in rows},
        "order": {"projects": [row.name for row, _ in rows]},
    }


def cells_of(row: ProjectRow, root: str = "") -> dict[str, Cell]:
    """Return the changing values of a row by name of their cell: a text, or attributes with their values."""
    cells: dict[str, Cell] = {
        "group": {"text": row.pulse.group, "href": root + link("/", {"group": row.pulse.group})},
        "state": {"text": row.pulse.state, "data-state": row.pulse.state},
        "why": pause_text(row.pulse),
        "rate": {"value": pace_text(row.pulse.rate)},
        "burst": {"value": pace_text(row.pulse.burst)},
        "speed": "" if row.speed is None else f"{row.speed:,.1f}",
        "spark": {"points": spark_points(row.minutes)},
        "mean": _seconds(row.windows.minutes, "mean_seconds"),
        "p95": _seconds(row.windows.minutes, "p95_seconds"),
        "run": {"data-will": f"Delayed tasks ({row.counts.delayed:,}) become ready now and run at the project's pace."},
        "retry": {"data-will": f"Failed tasks ({row.counts.failed:,}) run again, at its pace and with all retries."},
    }
    for state in COLUMNS:
        cells[state] = {
            "text": f"{getattr(row.counts, state):,}",
            "data-state": "" if getattr(row.counts, state) else "0",
        }
    for name, attribute in WINDOWS.items():
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
    return ", ".join([counted_projects(len(rows)), *(f"{count:,} {state}" for state, count in states.items())]) + (
        f"; {speed:,.1f} tasks/s"
    )


@lru_cache(maxsize=20_000)
def _blank(templates: Templates, root: str, name: str, may_run: bool, may_rule: bool) -> str:
    """Render the row of a project without the values that change."""
    row = ProjectRow(ProjectPulse(name, "", "running", "", 0.0, 0.0, "", (), ()), TaskCounts(), EventTotals())
    shown = {"root": root, "name": name, "cells": cells_of(row, root), "columns": COLUMNS}
    context = {**shown, "may_run": may_run, "may_rule": may_rule}
    return templates.blocks("blank_project.html", context, ("row",))["row"]


# ---------------------------------------------------------------------------------------------------------- one project

PROJECT_EVERY_SECONDS: Final = 1.0
SLOW_SECONDS: Final = 15.0
"""Time for which answers that cost the daemon more are cached."""

FAILURES_BY: Final[tuple[FailuresBy, ...]] = ("error", "host")
DUE_SHOWN: Final = 5
GROUPS_SHOWN: Final = 6
SLOTS_SHOWN: Final = 10
DAY: Final = 86_400.0
LATELY_SECONDS: Final = 300.0


class Span(NamedTuple):
    """Time that is drawn: the last ``parts`` minutes or hours, ``seconds`` to a bar."""

    words: str
    every: Resolution
    seconds: int
    parts: int


SPANS: Final[Mapping[str, Span]] = {
    "2h": Span("2 hours", "minute", 60, 120),
    "1d": Span("day", "minute", 900, 96),
    "7d": Span("7 days", "hour", 3600 * 2, 84),
    "90d": Span("90 days", "hour", 86_400, 90),
}
USUAL: Final = "2h"
TIMES_SHOWN: Final = 5


class SettingRow(NamedTuple):
    """Row of a setting, or of a key of a table, by flat name; ``is_said``: it is an override, and can be removed."""

    name: str
    value: str
    source: str
    is_unused: bool
    is_said: bool
    type: str


class WindowRow(NamedTuple):
    """Row of a time before now and its events."""

    name: str
    events: Window | EventTotals


async def look_at_one(request: Request) -> Mapping[str, Any]:
    """Fetch everything about one project; the query says which ``span`` is drawn."""
    services, name = services_of(request), request.path_params["project"]
    chosen = request.query_params.get("span", USUAL)
    chosen = chosen if chosen in SPANS else USUAL
    client = services.client
    project = await client.projects.get(name)
    windows = await _stats(services, name)
    slots = await _slots(services, project)
    return {
        "project": project,
        "why": await client.why(name),
        "rate": pace_text(_number(project, "rate")), "burst": pace_text(_number(project, "burst")),
        "level": _level(project),
        "remaining": remaining_text(project.remaining) if project.remaining else "",
        "windows": _windows(project.totals, windows), "lately": windows.minutes.selected / LATELY_SECONDS,
        "events": EVENTS, "task_states": STATES,
        "due": (await client.tasks.list(name, "delayed", limit=DUE_SHOWN)).items if project.counts.delayed else [],
        "failures": [(by, await _failures(services, name, by)) for by in FAILURES_BY],
        "slots": slots, "slot_columns": slot_columns(slots.slots if slots else ()),
        "settings_rows": _settings(project),
        "chosen": chosen, "spans": [(key, span.words) for key, span in SPANS.items()],
        "chart": await _chart(services, name, SPANS[chosen]), "chart_width": CHART_WIDTH, "chart_height": CHART_HEIGHT,
        "times": _times(SPANS[chosen]),
    }  # fmt: skip


def _number(project: Project, setting: str) -> float:
    return float(project.settings[setting])  # type: ignore[arg-type]


def _level(project: Project) -> float:
    """Return how full the project's bucket is, 0 to 1."""
    burst = _number(project, "burst")
    return min(1.0, project.tokens / burst) if burst > 0 else 0.0


async def _stats(services: Services, name: str) -> Windows:
    """Return the windows of one project: a page of one that begins with it."""
    before = name[:-1] + chr(ord(name[-1]) - 1) + "\U0010ffff"
    reply = await services.client._ask(Stats(after=before, limit=1))
    return next((stats.windows for stats in reply.projects if stats.name == name), Windows())


def _windows(totals: EventTotals, windows: Windows) -> list[WindowRow]:
    found: list[tuple[str, Window | EventTotals]] = [(name, getattr(windows, field)) for name, field in WINDOWS.items()]
    return [WindowRow(name, events) for name, events in [*found, (ALL, totals)]]


async def _failures(services: Services, name: str, by: FailuresBy) -> list[FailureRow]:
    async def ask() -> list[FailureRow]:
        since = time.time() - DAY
        found = await services.client.failures(name, by=by, since=since, limit=GROUPS_SHOWN)
        return [failure_row(group, by, found.failures, "1d") for group in found.groups]

    return await services.recent.ask(("failures", name, by), SLOW_SECONDS, ask)


async def _slots(services: Services, project: Project) -> SlotPage | None:
    if project.slots is None or project.slots.by == "none":
        return None

    async def ask() -> SlotPage | None:
        try:
            return await services.client.slots.list(project.name, limit=SLOTS_SHOWN)
        except RequestRejected:  # the project was divided a moment ago
            return None

    return await services.recent.ask(("slots", project.name), SLOW_SECONDS, ask)


def _settings(project: Project) -> list[SettingRow]:
    """List the settings, those with a source other than the default first."""
    rows = [_setting(project, name, value) for name, value in flat(project.settings)]
    return sorted(rows, key=lambda row: (row.source == "default", row.is_unused))


def _setting(project: Project, name: str, value: Setting) -> SettingRow:
    source = said_by(project, name)
    kinds = {float: "number", str: "text", list: "list", tuple: "list"}
    return SettingRow(
        name, setting_text(value), source, is_empty_setting(value), source == SAID, kinds.get(type(value), "json")
    )


# ------------------------------------------------------------------------------------------------ one project over time


async def _chart(services: Services, name: str, span: Span) -> Chart:
    async def ask() -> list[HistoryPoint]:
        return [
            point async for point in services.client.stats.history(name, span.every, since=_begin(span, time.time()))
        ]

    points = await services.recent.ask(("history", name, span), SLOW_SECONDS, ask)
    return draw_chart(*_parts(points, span, _begin(span, time.time())))


def _begin(span: Span, now: float) -> float:
    """Return the unix seconds at which the first part begins; the last one has passed."""
    return now // span.seconds * span.seconds - span.seconds * span.parts


def _parts(points: Sequence[HistoryPoint], span: Span, begin: float) -> tuple[list[dict[str, float]], list[str]]:
    """Return events per minute in each part, and its description."""
    sums = [dict.fromkeys(EVENTS, 0.0) for _ in range(span.parts)]
    for point in points:
        place = int((point.at - begin) // span.seconds)
        if 0 <= place < span.parts:
            for event in EVENTS:
                sums[place][event] += getattr(point, event)
    told = [
        f"{_moment(begin + place * span.seconds)}: {events_text(*(int(each[event]) for event in EVENTS))}"
        for place, each in enumerate(sums)
    ]
    minutes = span.seconds / 60
    return [{event: count / minutes for event, count in each.items()} for each in sums], told


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _times(span: Span) -> list[float]:
    """Return the unix seconds of the marks below the drawing."""
    begin = _begin(span, time.time())
    return [begin + span.seconds * span.parts * mark / (TIMES_SHOWN - 1) for mark in range(TIMES_SHOWN)]


PROJECT_BLOCKS: Final = ("about", "queue", "pace", "chart", "happened", "next", "failed", "hosts", "settings")


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/", "projects.html", look, ("summary", "pages"), parts, every=LOOK_SECONDS)),
    *routes_of(
        LivePage("/projects/{project}", "project.html", look_at_one, PROJECT_BLOCKS, every=PROJECT_EVERY_SECONDS)
    ),
)
