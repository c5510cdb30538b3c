"""Addresses of pages and operations: names as segments of a path, pages of tasks, numbers in a query.

The root path is put before them where they are shown. One rule for names of every kind: a name is percent-encoded, all
but letters, digits and ``-._~``. Browsers, clients and proxies take the segments ``.`` and ``..``, escaped or not, for
steps (RFC 3986, section 5.2.4; WHATWG URL, section 4.4), so a name of one or two dots has a ``~`` before it, and so has
one that would be read as such a name:

    .  ──►  ~.      ..  ──►  ~..      ~..  ──►  ~~..      http://a/  ──►  http%3A%2F%2Fa%2F
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request

_DOTS: Final = re.compile(r"~*\.{1,2}")


def segment(name: str) -> str:
    """Write a name as one segment of a path."""
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="")


def name_of(decoded: str) -> str:
    """Read the name that a segment says; it is percent-decoded already."""
    return decoded[1:] if decoded.startswith("~") and _DOTS.fullmatch(decoded) else decoded


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


DIGITS_MOST: Final = 18
"""Of a number: what has more is no place in any list."""


def number_of(request: Request, name: str) -> int:
    """The number of that name in the query; 0: there is none, or it is none that could be meant."""
    written = request.query_params.get(name, "")
    return int(written) if written.isascii() and written.isdecimal() and len(written) <= DIGITS_MOST else 0
