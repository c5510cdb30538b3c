"""The pages of all flows, and of those of a project: how far each is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from starlette.requests import Request

from taskqueue.display.flows import HEADS, OVER, counted, over, took
from taskqueue.protocol.choices import FlowState
from taskqueue.protocol.flows import FlowView
from taskqueue.web.drawing.shares import Share, shares
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.queries import number_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.segments import segment
from taskqueue.web.services import Services, services_of

ROWS: Final = 50
"""Of a page."""

READ_MOST: Final = 2000
"""Flows that are put in order by age; those after them, in the order of their names, are left out."""

EVERY_SECONDS: Final = 2.0

DRAWN: Final = (*OVER, "processing")
"""States that a bar shows."""


class Row(NamedTuple):
    """A flow; ``told``: its tasks by state, in words."""

    view: FlowView
    over: int
    took: str
    told: str
    bar: Sequence[Share]


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for the flows that the query means: ``filter`` (in their names), ``state``, ``skip``; the newest first."""
    query, project = request.query_params, request.path_params.get("project", "")
    views, more = await _read(services_of(request), project)
    chosen = {name: query.get(name, "") for name in ("filter", "state")}
    found = sorted(filter(lambda view: _wanted(view, chosen), views), key=lambda view: -view.began_at)
    skip = number_of(request, "skip")
    return {
        "project": project, "rows": [_row(view) for view in found[skip : skip + ROWS]], "found": len(found),
        "heads": HEADS if not project else HEADS[1:], "chosen": chosen, "skip": skip, "step": ROWS,
        "states": get_args(FlowState), "unread": READ_MOST if more else 0, "any": bool(views),
        "here": f"/projects/{segment(project)}/flows" if project else "/flows",
    }  # fmt: skip


async def _read(services: Services, project: str) -> tuple[list[FlowView], bool]:
    """The first READ_MOST flows by name, and whether there are more."""
    views: list[FlowView] = []
    while len(views) < READ_MOST:
        after = f"{views[-1].project}/{views[-1].flow}" if views else ""
        page = await services.client.flows.list(project, after, limit=500)
        views += page.flows
        if not page.more:
            return views, False
    return views, True


def _wanted(view: FlowView, chosen: Mapping[str, str]) -> bool:
    named = chosen["filter"].lower() in f"{view.project}/{view.flow}".lower()
    return named and chosen["state"] in ("", view.state)


def _row(view: FlowView) -> Row:
    states = {state: getattr(view.counts, state) for state in view.counts.__struct_fields__}
    told = ", ".join(f"{count:,} {state}" for state, count in counted(states))
    bar = shares([(state, states[state]) for state in DRAWN], view.tasks)
    return Row(view, over(view), took(view), told, bar)


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/flows", "flows.html", look, ("flows",), every=EVERY_SECONDS)),
    *routes_of(LivePage("/projects/{project}/flows", "flows.html", look, ("flows",), every=EVERY_SECONDS)),
)
