"""The page of failures: what failed, counted by what the failures have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, get_args

from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskqueue.display.insight import NAMELESS_GROUPS, share
from taskqueue.protocol.choices import FailuresBy
from taskqueue.protocol.insight import FailureGroup
from taskqueue.units import EXAMPLES, parse_duration
from taskqueue.web.pages.addresses import query, task_page, tasks_page
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

BYS: Final[tuple[FailuresBy, ...]] = get_args(FailuresBy)

AGES: Final = (
    ("5m", "in the last 5 minutes"),
    ("1h", "in the last hour"),
    ("1d", "in the last day"),
    ("7d", "in the last 7 days"),
)

USUAL: Final = "1d"

GROUPS: Final = 100

GLOB_MOST: Final = 256

EVERY_SECONDS: Final = 5.0
"""It costs the daemon more than other looks: it goes through all that failed in that time."""


class Row(NamedTuple):
    """Failures with something in common.

    Attributes:
        part: of all, 0 to 100.
        task: address of the last one's task.
        lists: addresses of lists of the tasks, by state; none if a list can't tell them apart.
    """

    group: FailureGroup
    name: str
    share: str
    part: float
    task: str
    lists: list[tuple[str, str]]


async def look(request: Request) -> Mapping[str, Any]:
    """Ask for the failures that the query means: ``by``, ``project``, ``since`` (an age, such as 2d)."""
    said = request.query_params
    by, project, since = said.get("by") or "error", said.get("project", ""), said.get("since") or USUAL
    if by not in BYS:
        raise HTTPException(400, f'by: "{by}" is none of {", ".join(BYS)}')
    seconds = parse_duration(since)
    if seconds is None:
        raise HTTPException(400, f'since: "{since}" is no duration, such as {EXAMPLES}')
    client = services_of(request).client
    found = await client.tasks.failures(project or None, by=by, since=max(0.0, time.time() - seconds), limit=GROUPS)
    return {
        "by": by,
        "project": project,
        "since": since,
        "ages": AGES,
        "bys": [(each, query("/failures", by=each, project=project, since=since)) for each in BYS],
        "found": found,
        "rows": [row_of(group, by, found.failures, since) for group in found.groups],
        "hidden": found.count - len(found.groups),
    }


def row_of(group: FailureGroup, by: FailuresBy, of: int, since: str) -> Row:
    """Failures with something in common, ``of`` so many in all; its lists have tasks that ended since such an age."""
    name = group.name or NAMELESS_GROUPS.get(by, "")
    part = 100 * group.failures / max(of, 1)
    task = task_page(group.project, group.taskid)
    return Row(group, name, share(group.failures, of), round(part, 2), task, _lists(group, by, since))


def _lists(group: FailureGroup, by: FailuresBy, since: str) -> list[tuple[str, str]]:
    """Lists of the tasks that have not succeeded since: that failed for good, and that wait to be retried."""
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
    """A glob for the errors of a kind: what is different in each of them may be anything."""
    escaped = "".join(f"[{char}]" if char in "*?[" else char for char in kind)
    return escaped.replace("<url>", "*").replace("#", "*")


ROUTES: Final[tuple[WebRoute, ...]] = routes_of(
    LivePage("/failures", "failures.html", look, ("groups",), every=EVERY_SECONDS)
)
