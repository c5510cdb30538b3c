"""Page of flows, of all projects or of one, with their progress; and the page of one flow.

The page of one flow shows its graph, its critical path, and its tasks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request

from taskqueue.display.flows import (
    COLUMNS,
    OVER,
    STATES,
    counted,
    counted_text,
    grouped,
    name_of,
    over,
    so_far,
    took,
    waits_for,
)
from taskqueue.protocol.choices import FlowState, RerunScope
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.texts.units import duration_text
from taskqueue.web.addresses import number_of, segment, task_page
from taskqueue.web.drawing.charts import Share, shares
from taskqueue.web.drawing.flow_drawing import FlowDrawing, critical_of_tasks, of_groups, of_tasks, state_text, title
from taskqueue.web.live.channels import Picture
from taskqueue.web.live.flows import FlowLook, FlowReading
from taskqueue.web.page_templates import Templates
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

ROWS: Final = 50
"""Rows per page."""

READ_MOST: Final = 2000
"""Flows that are sorted by age, at most; those after them by name are left out."""

EVERY_SECONDS: Final = 2.0

DRAWN: Final = (*OVER, "processing")
"""States that a bar shows."""


class Row(NamedTuple):
    """Row of a flow; ``title``: its tasks by state; ``others``: text of the link to its cron entry, if it is of one."""

    view: Flow
    title: str
    bar: Sequence[Share]
    others: str


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch the flows that the query selects: ``filter`` (in their names), ``state``, ``skip``; the newest first."""
    query, project = request.query_params, request.path_params.get("project", "")
    views, more = await _read(services_of(request), project)
    chosen = {name: query.get(name, "") for name in ("filter", "state")}
    found = grouped(sorted(filter(lambda view: _wanted(view, chosen), views), key=lambda view: -view.began_at))
    skip = number_of(request, "skip")
    return {
        "project": project, "rows": [_row(group) for group in found[skip : skip + ROWS]], "found": len(found),
        "columns": COLUMNS if not project else COLUMNS[1:], "chosen": chosen, "skip": skip, "step": ROWS,
        "states": get_args(FlowState), "unread": READ_MOST if more else 0, "any": bool(views),
        "here": f"/projects/{segment(project)}/flows" if project else "/flows",
    }  # fmt: skip


async def _read(services: Services, project: str) -> tuple[list[Flow], bool]:
    """Return the first READ_MOST flows by name, and whether there are more."""
    views: list[Flow] = []
    while len(views) < READ_MOST:
        after = f"{views[-1].project}/{views[-1].flow}" if views else ""
        page = await services.client.flows.list(project, after, limit=500)
        views += page.items
        if not page.next:
            return views, False
    return views, True


def _wanted(view: Flow, chosen: Mapping[str, str]) -> bool:
    named = chosen["filter"].lower() in f"{view.project}/{view.flow}".lower()
    return named and chosen["state"] in ("", view.state)


def _row(group: Sequence[Flow]) -> Row:
    view, earlier = group[0], len(group) - 1
    states = {state: getattr(view.counts, state) for state in view.counts.__struct_fields__}
    bar = shares([(state, states[state]) for state in DRAWN], view.tasks)
    others = f"and {earlier:,} earlier" if earlier else f"ticks of {view.cron}" if view.cron else ""
    return Row(view, counted_text(states), bar, others)


# ------------------------------------------------------------------------------------------------------------- one flow

SCOPES: Final[Mapping[RerunScope, str]] = {
    "task": "only this task",
    "downstream": "and all tasks that depend on it",
    "upstream-failed": "and failed tasks that it depends on",
    "only-failed": "only failed ones of it and all that depend on it",
}
assert tuple(SCOPES) == get_args(RerunScope)

STRETCHES_SHOWN: Final = 60


class TaskRow(NamedTuple):
    """Row of a task; ``layer`` counts from 1."""

    task: FlowTaskStatus
    layer: int
    name: str
    took: str
    waits_for: str


class LayerRow(NamedTuple):
    """Row of a layer, or of several."""

    layer: str
    tasks: int
    states: str


async def look_at_one(request: Request) -> Mapping[str, Any]:
    """Read the flow, and draw it."""
    found = await _read_one(request)
    reading = found.reading
    rows = _task_rows(reading) if reading is not None else []
    return {**_shared_context(found), "tasks": rows, "drawing": await _drawing(reading)}


async def look_at_one_again(request: Request) -> Mapping[str, Any]:
    """Continue reading; if tasks are shown one by one, their changes are sent without the drawing and the table."""
    found = await _read_one(request)
    reading = found.reading
    drawing = None if reading is not None and reading.tasks else await _drawing(reading)
    return {**_shared_context(found), "tasks": [], "drawing": drawing}


async def _read_one(request: Request) -> FlowLook:
    services, names = services_of(request), request.path_params
    return await services.flows.look(services.client, names["project"], names["flow"])


async def _drawing(reading: FlowReading | None) -> FlowDrawing | None:
    """Draw in a thread, so that other requests are answered meanwhile."""
    return await asyncio.to_thread(_drawn, reading) if reading is not None else None


def _shared_context(found: FlowLook) -> Mapping[str, Any]:
    """Return the context of a flow without its tasks and its drawing."""
    states = {state: getattr(found.view.counts, state) for state in found.view.counts.__struct_fields__}
    return {
        "view": found.view, "states": STATES, "scopes": SCOPES, "over": over(found.view),
        "said": so_far(found.view, time.time()), "counted": counted(states),
        "bar": shares([(state, states[state]) for state in DRAWN], found.view.tasks),
        "shape": _shape(found.reading), "reading": found.reading, "read": found.read,
        "task_page": task_page, **_path_and_layers(found.reading),
    }  # fmt: skip


def _shape(reading: FlowReading | None) -> str:
    """Identify the shape of the drawing; when it changes, the browser loads the page again."""
    if reading is None or not reading.tasks:
        return "groups"
    return f"{reading.view.tasks} {len(reading.edges)} {reading.view.began_at}"


def _drawn(reading: FlowReading) -> FlowDrawing:
    if reading.tasks:
        return of_tasks(reading.tasks, reading.graph, reading.edges, reading.path_tasks)
    path = [(reading.graph.layer_of[task], reading.states[task]) for task in reading.path_tasks]
    return of_groups(reading.graph, reading.links, path)


def _path_and_layers(reading: FlowReading | None) -> Mapping[str, Any]:
    """Return the context of the critical path and, for a large flow, of its layers."""
    if reading is None:
        return {"layers": [], "bad": [], "path": [], "left_out": 0, "critical": ""}
    path = [(task, name_of(task), duration_text(task.seconds)) for task in reading.path]
    return {
        "layers": _layer_rows(reading) if not reading.tasks else [],
        "bad": [(task, name_of(task), took(task)) for task in reading.bad] if not reading.tasks else [],
        "path": path,
        "left_out": len(reading.path_tasks) - len(path),
        "critical": duration_text(reading.graph.critical_seconds),
    }


def _task_rows(reading: FlowReading) -> list[TaskRow]:
    names = [name_of(task) for task in reading.tasks]
    rows = [
        TaskRow(task, reading.graph.layer_of[task.index] + 1, names[task.index], took(task), waits_for(task, names))
        for task in reading.tasks
    ]
    return sorted(rows, key=lambda row: (row.layer, row.task.index))


def _layer_rows(reading: FlowReading) -> list[LayerRow]:
    return [
        LayerRow(
            f"{each.first:,}" if each.first == each.last else f"{each.first:,}–{each.last:,}",
            each.tasks,
            counted_text(each.states),
        )
        for each in reading.graph.stretches(STRETCHES_SHOWN)
    ]


def parts(templates: Templates, context: Mapping[str, Any]) -> Picture:
    """Return the changes of each task if tasks are shown one by one; otherwise the graph and the tables as a whole."""
    reading: FlowReading | None = context["reading"]
    shape = {"graph/shape": {"data-state": context["shape"]}}
    if reading is None or not reading.tasks:
        return {"cells": shape, "blocks": templates.blocks("flow.html", context, ("drawing", "tables"))}
    critical = critical_of_tasks(reading.graph, reading.edges, reading.path_tasks)
    cells: dict[str, str | Mapping[str, str]] = {**shape, "graph/critical": {"d": critical}}
    for task in reading.tasks:
        cells[f"n{task.index}/look"] = {"data-state": task.state}
        cells[f"n{task.index}/sign"] = {"href": f"#sign-{task.state}"}
        cells[f"n{task.index}/said"] = state_text(task)
        cells[f"n{task.index}/title"] = title(task)
        cells[f"t{task.index}/state"] = {"text": task.state, "data-state": task.state}
        cells[f"t{task.index}/took"] = took(task)
    return {"cells": cells}


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/flows", "flows.html", look, ("flows",), every=EVERY_SECONDS)),
    *routes_of(LivePage("/projects/{project}/flows", "flows.html", look, ("flows",), every=EVERY_SECONDS)),
    *routes_of(
        LivePage(
            "/projects/{project}/flows/{flow}", "flow.html", look_at_one, ("state", "figures", "path"), parts,
            again=look_at_one_again,
        )
    ),
)  # fmt: skip
