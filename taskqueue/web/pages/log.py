"""The page of what people have changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from taskqueue.display.insight import CHANGE_HEADS, what, who
from taskqueue.protocol.insight import LogEntry
from taskqueue.units import parse_duration
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.pages.queries import number_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

ROWS: Final = 100
"""Of a page."""

AGES: Final = (("", "at any time"), ("1h", "in the last hour"), ("1d", "in the last day"), ("7d", "in the last week"),
               ("30d", "in the last 30 days"))  # fmt: skip

EVERY_SECONDS: Final = 2.0


class Row(NamedTuple):
    """A change; ``project``: that was changed, and has a page; empty: there is none."""

    at: float
    who: str
    what: str
    project: str


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for the changes that the query means: ``project``, ``since`` (an age, such as 2d), ``before``."""
    query = request.query_params
    age = parse_duration(query.get("since", ""))
    before = number_of(request, "before")
    since = None if age is None else max(0.0, time.time() - age)
    page = await services_of(request).client.log.list(
        query.get("project") or None, since=since, before=before, limit=ROWS
    )
    chosen = {"project": query.get("project", ""), "since": query.get("since", "") if age is not None else ""}
    return {
        "heads": CHANGE_HEADS, "rows": [_row(entry) for entry in page.entries], "next": page.next, "before": before,
        "chosen": chosen, "ages": AGES,
    }  # fmt: skip


def _row(entry: LogEntry) -> Row:
    return Row(entry.at, who(entry), what(entry), "" if entry.what == "project delete" else entry.project)


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/log", "log.html", look, ("changes",), every=EVERY_SECONDS),
)
