"""Page of a cron entry: when it runs, and the tasks of its last flows as a grid.

           03:00   03:00   03:00 ◄─── a column per tick: the flow that the entry submitted, the newest on the right
prices       ✓       ✓       ✓
stock        ✓       ✗       ▶   ◄─── a cell per task: its state by colour, sign and word
report       ✓       ✗       ‖
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskqueue.display.flows import over, so_far, took
from taskqueue.display.projects import schedule_of
from taskqueue.protocol.flows import Flow, FlowTaskStatus
from taskqueue.settings.own_tasks import TICK, flow_name
from taskqueue.web.addresses import task_page
from taskqueue.web.live.flows import FlowLook
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import Services, services_of

TICKS: Final = 10
"""Ticks that are shown, at most."""

EVERY_SECONDS: Final = 2.0

READ_MOST: Final = 2000
"""Flows of the project that are looked through for those of the entry, at most."""


class Column(NamedTuple):
    """Tick, as the flow that was submitted at it; ``title``: its progress in words."""

    view: Flow
    title: str


class Cell(NamedTuple):
    """Task of a tick; ``title``: task, tick, state and duration in words."""

    state: str
    href: str
    title: str


class Row(NamedTuple):
    """Task of the graph; None for ticks that don't have it."""

    name: str
    cells: Sequence[Cell | None]


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch the entry, its last flows and their tasks.

    Raises:
        HTTPException: the project has no such entry.
    """
    services, names = services_of(request), request.path_params
    project = await services.client.projects.get(names["project"])
    entry = next((each for each in project.cron if each.entry == names["entry"]), None)
    if entry is None:
        raise HTTPException(404, f'project "{project.name}" has no cron entry "{names["entry"]}"')
    settings: Any = project.settings.get("cron")
    setting: Mapping[str, Any] = settings[entry.entry]
    views = await _last_flows(services, project.name, entry.entry) if "tasks" in setting else []
    looks = await asyncio.gather(*(services.flows.look_at(services.client, view) for view in views))
    return {
        "project": project.name, "entry": entry, "schedule": schedule_of(setting), "setting": setting,
        "columns": [Column(look.view, _progress(look.view)) for look in looks], "rows": rows(looks),
        "most": TICKS,
    }  # fmt: skip


async def _last_flows(services: Services, project: str, entry: str) -> list[Flow]:
    """Return the last flows of an entry, the newest one last; flows come by name, so an entry's stand together."""
    prefix = flow_name(entry, "")
    after, found, read = f"{project}/{prefix}", list[Flow](), 0
    while read < READ_MOST:
        page = await services.client.flows.list(project, after, limit=500)
        found += [view for view in page.items if view.cron == entry]
        if not page.next or not page.items[-1].flow.startswith(prefix):
            break
        read += len(page.items)
        after = f"{project}/{page.items[-1].flow}"
    return sorted(found, key=lambda view: view.tick)[-TICKS:]


def rows(looks: Sequence[FlowLook]) -> list[Row]:
    """Make a row per task of the flows, in the order of the newest flow that has been read."""
    cells: dict[str, dict[int, Cell]] = {}
    for place, each in reversed(list(enumerate(looks))):
        for task in each.reading.tasks if each.reading is not None else []:
            name = name_of(each.view, task)
            cells.setdefault(name, {})[place] = _cell(each.view, name, task)
    return [Row(name, [by_place.get(place) for place in range(len(looks))]) for name, by_place in cells.items()]


def name_of(view: Flow, task: FlowTaskStatus) -> str:
    """Return the task's name in its graph; of one with a taskid of its own, that with ``{tick}``."""
    prefix = f"{view.flow}."
    if task.taskid.startswith(prefix):
        return task.taskid.removeprefix(prefix)
    return task.taskid.replace(str(int(view.tick)), TICK)


def _cell(view: Flow, name: str, task: FlowTaskStatus) -> Cell:
    lasted = f", took {took(task)}" if task.seconds else ""
    return Cell(task.state, task_page(view.project, task.taskid), f"{name} of {view.flow}: {task.state}{lasted}")


def _progress(view: Flow) -> str:
    lasted = f", {so_far(view, view.ended_at)}" if view.ended_at else f", {over(view)} of {view.tasks} tasks finished"
    return f"{view.flow}: {view.state}{lasted}"


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/projects/{project}/cron/{entry}", "cron.html", look, ("facts", "grid"), every=EVERY_SECONDS)
)
