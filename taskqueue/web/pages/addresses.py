"""Addresses of tasks, whatever their names are; the root path is put before them where they are shown."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote, urlencode

from starlette.requests import Request

from taskqueue.web.segments import name_of, segment

SEGMENTS_BEFORE: Final = 4
"""Slashes up to the taskid in ``/projects/news/tasks/TASKID``."""


def query(path: str, **said: object) -> str:
    """A path with a query of what is said; what is empty is left out."""
    written = urlencode({name: value for name, value in said.items() if value not in ("", None, False)})
    return f"{path}?{written}" if written else path


def tasks_page(project: str, **said: object) -> str:
    """The list of a project's tasks, filtered."""
    return query(f"/projects/{segment(project)}/tasks", **said)


def task_page(project: str, taskid: str) -> str:
    """The page of a task."""
    return f"/projects/{segment(project)}/tasks/{segment(taskid)}"


def taskid_of(request: Request) -> str:
    """The taskid that a request for the page of a task, or for its stream, means."""
    path = request.scope["raw_path"].decode("latin-1").removeprefix("/live")
    return name_of(unquote(path.split("/", SEGMENTS_BEFORE)[SEGMENTS_BEFORE]))
