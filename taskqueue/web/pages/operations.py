"""Pages of operations: of all that are remembered, and of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskqueue.display.operations import action, outcome, progress, rerun_lines, undo_lines
from taskqueue.protocol.values import Operation
from taskqueue.web.addresses import segment, task_page
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

DIGITS_MOST: Final = 19
"""Digits of an operation's number, which has 64 bits."""


class Row(NamedTuple):
    """Row of an operation.

    Attributes:
        words: its progress, or its outcome.
        chosen: filter of its tasks, as rows of (name, value).
        projects: addresses and names.
        task: address and name of the task with which a rerun begins; None for others.
    """

    view: Operation
    action: str
    state: str
    words: str
    chosen: list[tuple[str, str]]
    projects: list[tuple[str, str]]
    task: tuple[str, str] | None


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch all operations."""
    views = await services_of(request).client.operations.list()
    return {"rows": [row_of(view) for view in views]}


async def look_at_one(request: Request) -> Mapping[str, Any]:
    """Fetch one operation."""
    number = request.path_params["id"]
    if not (number.isascii() and number.isdecimal() and len(number) <= DIGITS_MOST):
        raise HTTPException(404, "operations have numbers")
    view = await services_of(request).client.operations.get(int(number))
    lines = rerun_lines(view)[:-1] if view.rerun is not None and view.ended_at else undo_lines(view)[1:]
    return {"row": row_of(view), "lines": lines}


def row_of(view: Operation) -> Row:
    """Make the row of an operation."""
    state = "cancelled" if view.cancelled else "ended" if view.ended_at else "under way"
    if view.action == "rerun":
        words = rerun_lines(view)[-1] if view.ended_at else progress(view)
    else:
        words = outcome(view) if view.ended_at else progress(view)
    task = None
    if view.rerun is not None and view.projects:
        task = task_page(view.projects[0], view.rerun.taskid), view.rerun.taskid
    projects = [(f"/projects/{segment(name)}", name) for name in view.projects]
    return Row(view, action(view), state, words, _chosen(view), projects, task)


def _chosen(view: Operation) -> list[tuple[str, str]]:
    said = view.filter
    chosen = [("state", ", ".join(said.states)), ("url", said.url), ("error", said.error), ("job", said.job)]
    chosen += [("ignore case", "yes" * said.ignore_case), ("group", view.group)]
    if view.rerun is not None:
        chosen.append(("scope", view.rerun.scope))
    if view.priority is not None:
        chosen.append(("priority", str(view.priority)))
    return [(name, value) for name, value in chosen if value]


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/operations", "operations.html", look, ("list",))),
    *routes_of(LivePage("/operations/{id}", "operation.html", look_at_one, ("operation",))),
)
