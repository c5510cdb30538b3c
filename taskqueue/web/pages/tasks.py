"""The page of a project's tasks: to search them, and to do something with several."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.display.tasks import error_line
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import LIVE_STATES
from taskqueue.protocol.values import Counts
from taskqueue.units import parse_duration
from taskqueue.web.access.visitors import root_of
from taskqueue.web.pages.addresses import task_page, tasks_page
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.task_search import STATES, Found, TaskSearch, find, search_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.segments import segment
from taskqueue.web.services import services_of

AGES: Final = (
    ("", "at any time"),
    ("5m", "in the last 5 minutes"),
    ("1h", "in the last hour"),
    ("1d", "in the last day"),
    ("7d", "in the last 7 days"),
)

EVERY_SECONDS: Final = 2.0

TASKID_MOST: Final = 128
"""Bytes."""

GLOB_MOST: Final = 256
"""Characters."""

SENSIBLE: Final[Mapping[str, tuple[str, ...]]] = {
    "retry": ("delayed", "success", "failed", "cancelled"),
    "cancel": LIVE_STATES,
    "reprioritise": LIVE_STATES,
}
"""States in which an action changes something."""


class Tab(NamedTuple):
    """A state to choose; ``tasks``: how many it has, None: it is not told."""

    name: str
    href: str
    chosen: bool
    tasks: int | None


class Row(NamedTuple):
    """A task as it is listed.

    Attributes:
        packed: its taskid as JSON in ASCII: HTML can't say NUL, and forgets line ends.
        name: its url, or its taskid if it has another than clients make of the url.
        url: if that is not its name.
        held_seconds: since it was handed out; None: it is not processing.
    """

    packed: str
    href: str
    name: str
    url: str
    state: str
    at: float
    priority: int
    retried: int
    error: str
    fetcher: str
    held_seconds: float | None
    lease_seconds: float


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for a page of tasks."""
    services, now = services_of(request), time.time()
    search = _search(request)
    tabs = await look_again(request)
    found, following = await find(services.client, search, now)
    return {
        **tabs,
        "search": search,
        "crumbs": crumbs(search.project)[:1],
        "here": tasks_page(search.project),
        "cleared": tasks_page(search.project, state=search.state, newest="1" if search.newest else ""),
        "filter": _filter(search, now),
        "ages": AGES,
        "rows": [_row(search.project, each, now) for each in found],
        "next": tasks_page(search.project, **search.chosen, after=following) if following else "",
        "first": tasks_page(search.project, **search.chosen),
        "actions": [action for action, states in SENSIBLE.items() if not search.state or search.state in states],
    }


async def look_again(request: Request) -> Mapping[str, Any]:
    """Ask how many tasks there are: a list that changed while somebody chooses from it would be no help."""
    search = _search(request)
    view = await services_of(request).client.projects.show(search.project)
    return {"tabs": _tabs(search, view.counts)}


async def jump(request: Request) -> Response:
    """Go to the task that is meant by a taskid or a url; to a search for the url if there is none."""
    project, said = request.path_params["project"], request.query_params.get("q", "").strip()
    client, root = services_of(request).client, root_of(request)
    for taskid in dict.fromkeys((said, default_taskid(said))):
        if not taskid or len(taskid.encode()) > TASKID_MOST:
            continue
        try:
            await client.tasks.show(project, taskid)
        except RequestRejected as error:
            if error.code != "unknown-task":
                raise
        else:
            return RedirectResponse(root + task_page(project, taskid), 303)
    return RedirectResponse(root + tasks_page(project, url=_contains(said) if said else ""), 303)


def _search(request: Request) -> TaskSearch:
    return search_of(request.path_params["project"], request.query_params)


def _contains(text: str) -> str:
    """A glob for urls that contain it; one that is a glob already stays as it is."""
    glob = text if "*" in text else f"*{text.replace('[', '[[]').replace('?', '[?]')}*"
    return glob if len(glob) <= GLOB_MOST else f"{glob[: GLOB_MOST - 4].rpartition('[')[0] or glob[: GLOB_MOST - 4]}*"


def _filter(search: TaskSearch, now: float) -> str:
    """Which tasks an operation on all that match is about, as the interface takes it."""
    since = round(now - (parse_duration(search.since) or 0.0), 3) if search.since else 0
    said = {"states": [search.state] if search.state else [], "url": search.url, "error": search.error, "since": since}
    return json.dumps({name: value for name, value in said.items() if value})


def _tabs(search: TaskSearch, counts: Counts) -> list[Tab]:
    chosen = {**search.chosen, "state": ""}
    tabs = [Tab("any state", tasks_page(search.project, **chosen), not search.state, None)]
    for state in STATES:
        href = tasks_page(search.project, **{**chosen, "state": state})
        tabs.append(Tab(state, href, search.state == state, getattr(counts, state)))
    return tabs


def _row(project: str, found: Found, now: float) -> Row:
    state, task = found
    is_default = bool(task.url) and task.taskid == default_taskid(task.url)
    return Row(
        json.dumps(task.taskid),
        task_page(project, task.taskid),
        task.url if is_default else task.taskid,
        "" if is_default else task.url,
        state,
        task.at,
        task.priority,
        task.retried,
        error_line(task),
        task.fetcher,
        max(0.0, now - task.at) if state == "processing" else None,
        task.lease_seconds,
    )


def crumbs(project: str) -> list[tuple[str, str]]:
    """Where a page of a project's tasks stands: addresses and names of the pages above it."""
    return [(f"/projects/{segment(project)}", project), (tasks_page(project), "Tasks")]


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(
        LivePage("/projects/{project}/tasks", "tasks.html", look, ("tabs",), again=look_again, every=EVERY_SECONDS)
    ),
    WebRoute("/projects/{project}/find", jump),
)
