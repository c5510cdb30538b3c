"""The page of one task: everything that is known of it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec
from starlette.requests import Request

from taskqueue import AsyncClient
from taskqueue.display.errors import last_line
from taskqueue.display.packed_pages import PackedPage, packed_page
from taskqueue.display.packed_text import packed_text
from taskqueue.protocol.fields import NIL, Schedule
from taskqueue.protocol.replies import TaskReply
from taskqueue.units import duration_text
from taskqueue.web.drawing.attempt_line import attempt_line
from taskqueue.web.pages.addresses import segment, task_page, taskid_of
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.tasks import SENSIBLE, crumbs
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

PARENTS_SHOWN: Final = 100

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
    """A task that this one waits for; ``href`` is empty if its project is deleted."""

    name: str
    href: str
    state: str
    awaited: bool
    result: str


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for the task, why it is where it is, and what it waits for."""
    client, now = services_of(request).client, time.time()
    project = request.path_params["project"]
    taskid = taskid_of(request)
    task = await client.tasks.show(project, taskid)
    parents, more_parents = await _parents(client, project, taskid)
    held_since = _running_since(task, now)
    return {
        "task": task,
        "name": task.url or task.taskid,
        "why": await client.why(project, taskid),
        "crumbs": crumbs(project),
        "line": attempt_line(task.history, now, due_at=task.exetime, running_since=held_since),
        "attempts": list(enumerate(task.history)),
        "last_line": last_line,
        "schedule": _schedule(task.schedule),
        "recrawl": _recrawl(task.schedule),
        "body": packed_page(task.body),
        "result": _result(task),
        "parents": parents,
        "more_parents": more_parents,
        "actions": [action for action, states in SENSIBLE.items() if task.state in states],
        "scopes": SCOPES,
        "ids": json.dumps({"taskids": [taskid]}),
        "rerun_api": f"/api/v1/projects/{segment(project)}/tasks/{segment(taskid)}/rerun",
        "api": f"/api/v1/projects/{segment(project)}/tasks",
    }


def _running_since(task: TaskReply, now: float) -> float:
    """About when it was handed out: its lease has been longer before it was extended, which nobody tells."""
    if not task.session:
        return 0.0
    ended = task.history[0].at if task.history else 0.0
    return max(ended, now - max(0.0, (task.schedule.timeout or task.lease_seconds) - task.lease_seconds))


async def _parents(client: AsyncClient, project: str, taskid: str) -> tuple[list[Relative], bool]:
    found: list[Relative] = []
    async for each in client.tasks.parents(project, taskid):
        if len(found) == PARENTS_SHOWN:
            return found, True
        name = each.taskid if each.project == project else f"{each.project or 'deleted'}/{each.taskid}"
        href = task_page(each.project, each.taskid) if each.project else ""
        found.append(Relative(name, href, each.state, not each.satisfied, packed_text(each.packed)[:RESULT_SHOWN]))
    return found, False


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
    LivePage("/projects/{project}/tasks/{taskid:text}", "task.html", look, BLOCKS)
)
