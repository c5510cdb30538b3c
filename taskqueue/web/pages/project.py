"""The page of a project: what it does and why not, how it went, what is next, what failed, and its settings."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from taskqueue.display.counts import STATES
from taskqueue.display.projects import (
    ALL,
    EVENTS,
    SAID,
    WINDOWS,
    events_text,
    flat_settings,
    is_empty_setting,
    pace_text,
    remaining_text,
    said_by,
    setting_text,
)
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import FailuresBy, Resolution
from taskqueue.protocol.fields import Setting
from taskqueue.protocol.insight import Point, Stats, StatsReply, Window, Windows
from taskqueue.protocol.projects import ProjectView
from taskqueue.protocol.slots import SlotListReply
from taskqueue.protocol.values import Totals
from taskqueue.web.drawing.history_chart import HEIGHT, WIDTH, Chart, draw
from taskqueue.web.pages.failures import Row, row_of
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

EVERY_SECONDS: Final = 1.0
SLOW_SECONDS: Final = 15.0
"""How long an answer is shown that costs the daemon more."""

FAILURES_BY: Final[tuple[FailuresBy, ...]] = ("error", "host")
DUE_SHOWN: Final = 5
GROUPS_SHOWN: Final = 6
SLOTS_SHOWN: Final = 10
DAY: Final = 86_400.0
LATELY_SECONDS: Final = 300.0


class Span(NamedTuple):
    """A time that is drawn: the last ``parts`` minutes or hours, ``each`` of them to a bar."""

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
    """A setting, or a key of a table, by its flat name; ``is_said``: while the daemon ran, so it can be taken back."""

    name: str
    value: str
    source: str
    is_unused: bool
    is_said: bool
    type: str


class WindowRow(NamedTuple):
    """A time before now, and what happened in it."""

    name: str
    events: Window | Totals
    told: str


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for everything about one project; the query says which ``span`` is drawn."""
    services, name = services_of(request), request.path_params["project"]
    chosen = request.query_params.get("span", USUAL)
    chosen = chosen if chosen in SPANS else USUAL
    client = services.client
    project = await client.projects.show(name)
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
        "due": (await client.tasks.list(name, "delayed", limit=DUE_SHOWN)).tasks if project.counts.delayed else [],
        "failures": [(by, await _failures(services, name, by)) for by in FAILURES_BY],
        "slots": slots, "slots_limited": slots is not None and any(slot.max_tasks is not None for slot in slots.slots),
        "settings_rows": _settings(project),
        "chosen": chosen, "spans": [(key, span.words) for key, span in SPANS.items()],
        "chart": await _chart(services, name, SPANS[chosen]), "chart_width": WIDTH, "chart_height": HEIGHT,
        "times": _times(SPANS[chosen]),
    }  # fmt: skip


def _number(project: ProjectView, setting: str) -> float:
    return float(project.settings[setting])  # type: ignore[arg-type]


def _level(project: ProjectView) -> float:
    """How full its bucket is, 0 to 1."""
    burst = _number(project, "burst")
    return min(1.0, project.tokens / burst) if burst > 0 else 0.0


async def _stats(services: Services, name: str) -> Windows:
    """The windows of one project: the page of projects that begins with it."""
    before = name[:-1] + chr(ord(name[-1]) - 1) + "\U0010ffff"
    reply = await services.client.ask(Stats(session="", n=0, after=before, limit=1), StatsReply)
    return next((stats.windows for stats in reply.projects if stats.name == name), Windows())


def _windows(totals: Totals, windows: Windows) -> list[WindowRow]:
    found: list[tuple[str, Window | Totals]] = [(name, getattr(windows, attribute)) for name, attribute in WINDOWS]
    return [
        WindowRow(name, events, events_text(*(getattr(events, event) for event in EVENTS)))
        for name, events in [*found, (ALL, totals)]
    ]


async def _failures(services: Services, name: str, by: FailuresBy) -> list[Row]:
    async def ask() -> list[Row]:
        since = time.time() - DAY
        found = await services.client.tasks.failures(name, by=by, since=since, limit=GROUPS_SHOWN)
        return [row_of(group, by, found.failures, "1d") for group in found.groups]

    return await services.recent.ask(("failures", name, by), SLOW_SECONDS, ask)


async def _slots(services: Services, project: ProjectView) -> SlotListReply | None:
    if project.slots is None or project.slots.by == "none":
        return None

    async def ask() -> SlotListReply | None:
        try:
            return await services.client.slots.list(project.name, limit=SLOTS_SHOWN)
        except RequestRejected:  # it was divided a moment ago
            return None

    return await services.recent.ask(("slots", project.name), SLOW_SECONDS, ask)


def _settings(project: ProjectView) -> list[SettingRow]:
    """Those that somebody said first, then the rest, each as the daemon has them."""
    rows = [_setting(project, name, value) for name, value in flat_settings(project.settings)]
    return sorted(rows, key=lambda row: (row.source == "default", row.is_unused))


def _setting(project: ProjectView, name: str, value: Setting) -> SettingRow:
    source = said_by(project, name)
    kinds = {float: "number", str: "text", list: "list", tuple: "list"}
    return SettingRow(
        name, setting_text(value), source, is_empty_setting(value), source == SAID, kinds.get(type(value), "json")
    )


# ------------------------------------------------------------------------------------------------ over time


async def _chart(services: Services, name: str, span: Span) -> Chart:
    async def ask() -> list[Point]:
        return [point async for point in services.client.history.all(name, span.every, since=_begin(span, time.time()))]

    points = await services.recent.ask(("history", name, span), SLOW_SECONDS, ask)
    return draw(*_parts(points, span, _begin(span, time.time())))


def _begin(span: Span, now: float) -> float:
    """Unix seconds at which the first part begins; the last one is over."""
    return now // span.seconds * span.seconds - span.seconds * span.parts


def _parts(points: Sequence[Point], span: Span, begin: float) -> tuple[list[dict[str, float]], list[str]]:
    """Events a minute in each part, and what is told of it."""
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
    """Unix seconds of the marks below the drawing."""
    begin = _begin(span, time.time())
    return [begin + span.seconds * span.parts * mark / (TIMES_SHOWN - 1) for mark in range(TIMES_SHOWN)]


BLOCKS: Final = ("about", "queue", "pace", "chart", "happened", "next", "failed", "hosts", "settings")

ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/projects/{project}", "project.html", look, BLOCKS, every=EVERY_SECONDS)
)
