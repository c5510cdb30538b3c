"""Addresses of pages and operations: names as path segments, pages of tasks, numbers in a query.

The root path is added where they are shown. One rule for all names: a name is percent-encoded, except letters, digits
and ``-._~``. Browsers, clients and proxies resolve the segments ``.`` and ``..``, even if escaped (RFC 3986, section
5.2.4; WHATWG URL, section 4.4), so a name of one or two dots gets a ``~`` before it, and so does a name that would be
read as one of these:

    .  ──►  ~.      ..  ──►  ~..      ~..  ──►  ~~..      http://a/  ──►  http%3A%2F%2Fa%2F
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request

_DOTS: Final = re.compile(r"~*\.{1,2}")


def segment(name: str) -> str:
    """Encode a name as one path segment."""
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="")


def name_of(decoded: str) -> str:
    """Read the name in a segment that is percent-decoded already."""
    return decoded[1:] if decoded.startswith("~") and _DOTS.fullmatch(decoded) else decoded


SEGMENTS_BEFORE: Final = 4
"""Slashes up to the taskid in ``/projects/news/tasks/TASKID``."""


def query(path: str, **said: object) -> str:
    """Return a path with a query; empty values are left out."""
    written = urlencode({name: value for name, value in said.items() if value not in ("", None, False)})
    return f"{path}?{written}" if written else path


def tasks_page(project: str, **said: object) -> str:
    """Return the address of the filtered list of a project's tasks."""
    return query(f"/projects/{segment(project)}/tasks", **said)


def task_page(project: str, taskid: str) -> str:
    """Return the address of the page of a task."""
    return f"/projects/{segment(project)}/tasks/{segment(taskid)}"


def taskid_of(request: Request) -> str:
    """Return the taskid in a request for the page of a task, or for its stream."""
    path = request.scope["raw_path"].decode("latin-1").removeprefix("/live")
    return name_of(unquote(path.split("/", SEGMENTS_BEFORE)[SEGMENTS_BEFORE]))


DIGITS_MOST: Final = 18
"""Longest number in digits; a longer one is invalid."""


def number_of(request: Request, name: str) -> int:
    """Return a number of the query; 0 if it is missing or invalid."""
    written = request.query_params.get(name, "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) <= DIGITS_MOST else 0
