"""The page of one task: everything that is known of it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request

from taskqueue import AsyncClient
from taskqueue.display.tasks import PackedPage, error_line, packed_page, packed_text
from taskqueue.protocol.fields import NIL, Schedule
from taskqueue.protocol.tasks import TaskReply
from taskqueue.units import duration_text
from taskqueue.web.drawing.attempt_line import attempt_line
from taskqueue.web.pages.addresses import task_page, taskid_of
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.tasks import SENSIBLE, crumbs
from taskqueue.web.routes import WebRoute
from taskqueue.web.segments import segment
from taskqueue.web.services import services_of

EVERY_SECONDS: Final = 2.0
"""A look is four or five requests: pages of tasks are not shared by many browsers, as that of all projects is."""

RELATIVES_SHOWN: Final = 100
"""Of parents, and of children."""

RESULT_SHOWN: Final = 300
"""Characters of a parent's result."""

TOLD_APART: Final = ("priority", "exetime", "delay", "expires_at", "recrawl", "slot", "retries")
"""Fields of a schedule that stand elsewhere on the page."""

BLOCKS: Final = ("standing", "facts", "attempts", "relatives")

SCOPES: Final = (
    ("task", "This task alone"),
    ("downstream", "And all tasks that depend on it"),
    ("upstream-failed", "And those it depends on that failed"),
    ("only-failed", "Of it and all that depend on it, those that failed"),
)


class Relative(NamedTuple):
    """A task that this one waits for, or one that waits for it.

    Attributes:
        href: empty: its project is deleted.
        waits: it is still waited for, or still waits.
        result: what a parent has left behind, on one line.
    """

    name: str
    href: str
    state: str
    waits: bool
    result: str = ""


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for the task, why it is where it is, and what it waits for."""
    client, now = services_of(request).client, time.time()
    project = request.path_params["project"]
    taskid = taskid_of(request)
    task = await client.tasks.show(project, taskid)
    parents = [relative async for relative in _parents(client, project, taskid)]
    children = [relative async for relative in _children(client, project, taskid)]
    held_since = await _running_since(client, task, now)
    return {
        "task": task,
        "name": task.url or task.taskid,
        "why": await client.why(project, taskid),
        "crumbs": crumbs(project),
        "line": attempt_line(task.history, now, due_at=task.exetime, running_since=held_since),
        "attempts": list(enumerate(task.history)),
        "error_line": error_line,
        "schedule": _schedule(task.schedule),
        "recrawl": _recrawl(task.schedule),
        "body": packed_page(task.body),
        "result": _result(task),
        "parents": parents[:RELATIVES_SHOWN],
        "children": children[:RELATIVES_SHOWN],
        "more_parents": len(parents) > RELATIVES_SHOWN,
        "more_children": len(children) > RELATIVES_SHOWN,
        "actions": [action for action, states in SENSIBLE.items() if task.state in states],
        "scopes": SCOPES,
        "ids": json.dumps({"taskids": [taskid]}),
        "rerun_api": f"/api/v1{task_page(project, taskid)}/rerun",
        "api": f"/api/v1/projects/{segment(project)}/tasks",
    }


async def _running_since(client: AsyncClient, task: TaskReply, now: float) -> float:
    """When it was handed out, or its lease last extended, which is told of its end only; 0: it is not processing."""
    if not task.session:
        return 0.0
    whole = task.schedule.timeout or (await client.projects.show(task.project)).settings["processing_timeout"]
    return now - max(0.0, float(str(whole)) - task.lease_seconds)


async def _parents(client: AsyncClient, project: str, taskid: str) -> AsyncGenerator[Relative, None]:
    """What it waits for; one more than is shown, at most."""
    count = 0
    async for each in client.tasks.parents(project, taskid):
        result = packed_text(each.packed)[:RESULT_SHOWN]
        yield _relative(project, each.project, each.taskid, each.state, not each.satisfied, result)
        count += 1
        if count > RELATIVES_SHOWN:
            return


async def _children(client: AsyncClient, project: str, taskid: str) -> AsyncGenerator[Relative, None]:
    """What waits for it; one more than is shown, at most."""
    count = 0
    async for each in client.tasks.children(project, taskid):
        yield _relative(project, each.project, each.taskid, each.state, each.waits)
        count += 1
        if count > RELATIVES_SHOWN:
            return


def _relative(here: str, project: str, taskid: str, state: str, waits: bool, result: str = "") -> Relative:
    name = taskid if project == here else f"{project or 'deleted'}/{taskid}"
    return Relative(name, task_page(project, taskid) if project else "", state, waits, result)


def _schedule(schedule: Schedule) -> list[tuple[str, str]]:
    """What was said when it was pushed, but for what stands elsewhere."""
    said = msgspec.structs.asdict(schedule)
    return [(name, _value(name, value)) for name, value in said.items() if value and name not in TOLD_APART]


def _value(name: str, value: object) -> str:
    if name in ("age", "timeout") and isinstance(value, int | float):
        return duration_text(value)
    return "yes" if value is True else str(value)


def _recrawl(schedule: Schedule) -> str:
    bounds = schedule.recrawl
    return f"every {duration_text(bounds.min)} to {duration_text(bounds.max)}" if bounds else ""


def _result(task: TaskReply) -> PackedPage | None:
    """What it left behind; None: nothing."""
    if not task.result_bytes:
        return None
    if task.result == NIL:
        return PackedPage("", task.result_bytes, cut=True)
    return packed_page(task.result)


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/projects/{project}/tasks/{taskid:text}", "task.html", look, BLOCKS, every=EVERY_SECONDS)
)
