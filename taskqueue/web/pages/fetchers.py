"""Pages of all fetchers, and of those of one name: what they hold, since when, and their outcomes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request

from taskqueue.display.columns import ListColumn
from taskqueue.display.fetchers import COLUMNS, hanging, held, hung_words, name_of
from taskqueue.protocol.choices import FetcherSort
from taskqueue.protocol.fetchers import Fetcher
from taskqueue.protocol.tasks import TaskRow
from taskqueue.web.addresses import name_of as name_of_segment
from taskqueue.web.addresses import number_of, task_page
from taskqueue.web.live.channels import Picture
from taskqueue.web.page_templates import Templates
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

ROWS: Final = 100
"""Rows per page."""

SPEED: Final = "done/s"
"""Column that this page has in addition to those of ``taskqueue top``."""

PAGE_COLUMNS: Final = (*COLUMNS[:6], ListColumn[Fetcher](SPEED, lambda view: ""), *COLUMNS[6:])

FIRST: Final[FetcherSort] = "oldest"
"""Default order of fetchers: stuck ones come first."""

HELD_PROJECTS: Final = 10
"""Projects in which the tasks of a fetcher are looked for, those with the most tasks in processing."""


class Row(NamedTuple):
    """Row of a fetcher.

    Attributes:
        session: pseudonym of its session.
        cells: texts by head of their column, without the name.
    """

    session: str
    name: str
    cells: Mapping[str, str]

    @property
    def blank(self) -> Row:
        """Row without the values that change."""
        return self._replace(cells={column.head: "" for column in PAGE_COLUMNS[1:]})


class Held(NamedTuple):
    """Task that a fetcher holds."""

    project: str
    task: TaskRow
    age: float


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch the fetchers that the query selects: ``filter``, ``sort``, ``skip``, ``project``, ``group``."""
    query = request.query_params
    sort = next((each for each in get_args(FetcherSort) if each == query.get("sort")), FIRST)
    skip = number_of(request, "skip")
    services = services_of(request)
    page = await services.client.fetchers.list(
        limit=ROWS,
        project=query.get("project", ""),
        group=query.get("group", ""),
        filter=query.get("filter", ""),
        sort=sort,
        skip=skip,
    )
    chosen = {name: query.get(name, "") for name in ("filter", "project", "group")}
    return {
        "summary": held(page), "rows": _rows(services, page.fetchers), "found": page.found, "skip": skip, "step": ROWS,
        "sort": sort, "chosen": chosen, "away": page.away, "columns": PAGE_COLUMNS,
    }  # fmt: skip


async def look_at_one(request: Request) -> Mapping[str, Any]:
    """Fetch the fetchers of a name, and the tasks that they hold."""
    services, name = services_of(request), name_of_segment(request.path_params["fetcher"])
    reply = await services.client.fetchers.get(name)
    return {
        "reply": reply, "rows": _rows(services, reply.fetchers), "columns": PAGE_COLUMNS,
        "held": await _held(services, name, reply.fetchers) if reply.holds else [], "task_page": task_page,
        "hung": [(view.hung, hung_words(view)) for view in hanging(reply.fetchers)],
    }  # fmt: skip


def parts(templates: Templates, context: Mapping[str, Any]) -> Picture:
    """Return the cells of the fetchers, their rows without values, and their order."""
    rows: Sequence[Row] = context["rows"]
    cells = {f"{row.session}/{head}": _cell(head, text) for row in rows for head, text in row.cells.items()}
    blank = {
        row.session: templates.blocks("fetchers.html", {**context, "row": row.blank}, ("row",))["row"] for row in rows
    }
    return {"cells": cells, "rows": blank, "order": {"fetchers": [row.session for row in rows]}}


def _cell(head: str, text: str) -> str | dict[str, str]:
    return {"text": text, "data-state": text} if head == "state" else text


def _rows(services: Services, views: Sequence[Fetcher]) -> list[Row]:
    speeds = services.meters.look(time.monotonic(), {view.session: view.done for view in views})
    return [_row(view, speeds.get(view.session)) for view in views]


def _row(view: Fetcher, speed: float | None) -> Row:
    cells = {column.head: column.text(view) for column in COLUMNS[1:]}
    return Row(view.session, name_of(view), cells | {SPEED: "" if speed is None else f"{speed:,.1f}"})


async def _held(services: Services, name: str, views: Sequence[Fetcher]) -> list[Held]:
    """List the tasks held by fetchers of this name, the earliest dispatched first."""
    busy = await services.client.projects.list(limit=HELD_PROJECTS, sort="processing")
    wanted = {project for view in views for project in view.projects or ()}
    everywhere = any(view.projects is None for view in views)
    found = []
    for project in busy.items:
        if project.counts.processing and (everywhere or project.name in wanted):
            page = await services.client.tasks.list(project.name, "processing", limit=500)
            found += [(project.name, task) for task in page.items if task.fetcher == name]
    now = time.time()
    return [Held(project, task, now - task.at) for project, task in sorted(found, key=lambda each: each[1].at)]


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/fetchers", "fetchers.html", look, ("summary", "away", "pages"), parts)),
    *routes_of(LivePage("/fetchers/{fetcher:text}", "fetcher.html", look_at_one, ("state", "figures", "held"), parts)),
)
