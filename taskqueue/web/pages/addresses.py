"""Addresses of tasks, whatever their names are.

A taskid is any text, so in a path it is one segment in which everything but letters, digits and ``-._~`` is escaped.
The ids ``.`` and ``..`` can't be said in a path at all, escaped or not (WHATWG URL, section 4.4: a browser takes them
for steps), so these two stand in the query: ``/projects/news/tasks/?id=..``
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request

DOTS: Final = (".", "..")

SEGMENTS_BEFORE: Final = 4
"""Slashes up to the taskid in ``/projects/news/tasks/TASKID``."""


def segment(name: str) -> str:
    """A name as one segment of a path."""
    return quote(name, safe="")


def query(path: str, **said: object) -> str:
    """A path with a query of what is said; what is empty is left out."""
    written = urlencode({name: value for name, value in said.items() if value not in ("", None, False)})
    return f"{path}?{written}" if written else path


def tasks_page(project: str, **said: object) -> str:
    """The list of a project's tasks, filtered."""
    return query(f"/projects/{segment(project)}/tasks", **said)


def task_page(project: str, taskid: str) -> str:
    """The page of a task."""
    path = f"/projects/{segment(project)}/tasks/"
    return query(path, id=taskid) if taskid in DOTS else path + segment(taskid)


def taskid_of(request: Request) -> str:
    """The taskid that a request for the page of a task, or for its stream, means; empty: none."""
    path = request.scope["raw_path"].decode("latin-1").removeprefix("/live")
    return unquote(path.split("/", SEGMENTS_BEFORE)[SEGMENTS_BEFORE]) or request.query_params.get("id", "")
