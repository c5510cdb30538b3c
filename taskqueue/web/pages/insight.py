"""Pages of failures by what they have in common (``/failures``), and of changes by users (``/log``)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskqueue.display.insight import CHANGE_COLUMNS, NAMELESS_GROUPS, share, what, who
from taskqueue.protocol.choices import FailuresBy
from taskqueue.protocol.insight import FailureGroup
from taskqueue.protocol.values import Change
from taskqueue.texts.units import EXAMPLES, parse_duration
from taskqueue.web.addresses import number_of, query, task_page, tasks_page
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

# ------------------------------------------------------------------------------------------------------------- failures

BYS: Final[tuple[FailuresBy, ...]] = get_args(FailuresBy)

FAILURE_AGES: Final = (
    ("5m", "in the last 5 minutes"),
    ("1h", "in the last hour"),
    ("1d", "in the last day"),
    ("7d", "in the last 7 days"),
)

USUAL_AGE: Final = "1d"

GROUPS: Final = 100

GLOB_MOST: Final = 256

FAILURES_EVERY_SECONDS: Final = 5.0
"""Time between two looks; each costs the daemon more than others, as it goes through all failures of that time."""


class FailureRow(NamedTuple):
    """Row of a group of failures.

    Attributes:
        part: percentage of all failures, 0 to 100.
        task: address of the task that failed last.
        lists: addresses of lists of its tasks, by state; none if a list can't select them.
    """

    group: FailureGroup
    name: str
    share: str
    part: float
    task: str
    lists: list[tuple[str, str]]


async def look_at_failures(request: Request) -> Mapping[str, Any]:
    """Fetch the failures that the query selects: ``by``, ``project``, ``since`` (an age, such as 2d)."""
    said = request.query_params
    by, project, since = said.get("by") or "error", said.get("project", ""), said.get("since") or USUAL_AGE
    if by not in BYS:
        raise HTTPException(400, f'by: "{by}" is none of {", ".join(BYS)}')
    seconds = parse_duration(since)
    if seconds is None:
        raise HTTPException(400, f'since: "{since}" is not a duration such as {EXAMPLES}')
    client = services_of(request).client
    found = await client.failures(project or None, by=by, since=max(0.0, time.time() - seconds), limit=GROUPS)
    return {
        "by": by,
        "project": project,
        "since": since,
        "ages": FAILURE_AGES,
        "bys": [(each, query("/failures", by=each, project=project, since=since)) for each in BYS],
        "found": found,
        "rows": [failure_row(group, by, found.failures, since) for group in found.groups],
        "hidden": found.count - len(found.groups),
    }


def failure_row(group: FailureGroup, by: FailuresBy, of: int, since: str) -> FailureRow:
    """Make the row of a group, ``of`` failures in all; its lists have tasks that ended within the age ``since``."""
    name = group.name or NAMELESS_GROUPS.get(by, "")
    part = 100 * group.failures / max(of, 1)
    task = task_page(group.project, group.taskid)
    return FailureRow(group, name, share(group.failures, of), round(part, 2), task, _lists(group, by, since))


def _lists(group: FailureGroup, by: FailuresBy, since: str) -> list[tuple[str, str]]:
    """Return lists of the group's tasks that have failed for good, and that wait for a retry."""
    if by == "fetcher":
        return []
    glob = {"error": f"*{_glob(group.name)}", "host": ""}.get(by, "")
    url = f"*://{group.name}*" if by == "host" and group.name else ""
    if max(len(glob), len(url)) > GLOB_MOST or (by in ("error", "host") and not group.name):
        return []
    states = (("failed", "failed"), ("to be retried", "delayed"))
    return [
        (words, tasks_page(group.project, state=state, url=url, error=glob, since=since)) for words, state in states
    ]


def _glob(kind: str) -> str:
    """Make a glob for errors of a kind; the parts that differ match anything."""
    escaped = "".join(f"[{char}]" if char in "*?[" else char for char in kind)
    return escaped.replace("<url>", "*").replace("#", "*")


# --------------------------------------------------------------------------------------------------- the log of changes

LOG_ROWS: Final = 100
"""Rows per page."""

LOG_AGES: Final = (("", "at any time"), ("1h", "in the last hour"), ("1d", "in the last day"),
            ("7d", "in the last week"), ("30d", "in the last 30 days"))  # fmt: skip

LOG_EVERY_SECONDS: Final = 2.0


class ChangeRow(NamedTuple):
    """Row of a change; ``project`` is the changed project if it has a page, else empty."""

    at: float
    who: str
    what: str
    project: str


async def look_at_log(request: Request) -> Mapping[str, Any]:
    """Fetch the changes that the query selects: ``project``, ``since`` (an age, such as 2d), ``before``."""
    query = request.query_params
    age = parse_duration(query.get("since", ""))
    before = number_of(request, "before")
    since = None if age is None else max(0.0, time.time() - age)
    page = await services_of(request).client.log.list(
        query.get("project") or None, since=since, after=str(before or ""), limit=LOG_ROWS
    )
    chosen = {"project": query.get("project", ""), "since": query.get("since", "") if age is not None else ""}
    return {
        "columns": CHANGE_COLUMNS, "rows": [_change_row(entry) for entry in page.items],
        "next": page.next, "before": before,
        "chosen": chosen, "ages": LOG_AGES,
    }  # fmt: skip


def _change_row(entry: Change) -> ChangeRow:
    return ChangeRow(entry.at, who(entry), what(entry), "" if entry.what == "project delete" else entry.project)


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(LivePage("/failures", "failures.html", look_at_failures, ("groups",), every=FAILURES_EVERY_SECONDS)),
    *routes_of(LivePage("/log", "log.html", look_at_log, ("changes",), every=LOG_EVERY_SECONDS)),
)
