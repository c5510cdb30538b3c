"""Page of a project's tasks, with search and actions on several; and the page of one task.

A list is selected by a state, or any; globs; an age; and a cursor. The daemon lists one state at a time. A list of any
state goes through them one after the other, and its cursor names the present one: ``failed 0000018f``.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from taskqueue import AsyncClient
from taskqueue.client.tasks.new_task import default_taskid
from taskqueue.display.notes import note_text, progress_of
from taskqueue.display.tasks import PARENT_WORDS, PackedPage, error_line, packed_page, packed_text
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import LIVE_STATES, WAITING_STATES, TaskState
from taskqueue.protocol.fields import NIL
from taskqueue.protocol.packed_json import packed
from taskqueue.protocol.tasks import TaskReply, TaskRow, TaskShow
from taskqueue.protocol.values import Schedule, TaskCounts
from taskqueue.texts.units import EXAMPLES, duration_text, parse_duration
from taskqueue.web.access.visitors import root_of
from taskqueue.web.addresses import segment, task_page, taskid_of, tasks_page
from taskqueue.web.drawing.attempt_line import attempt_line
from taskqueue.web.pages.live_page import LivePage, routes_of
from taskqueue.web.routes import WebRoute
from taskqueue.web.services import services_of

AGES: Final = (
    ("", "at any time"),
    ("5m", "in the last 5 minutes"),
    ("1h", "in the last hour"),
    ("1d", "in the last day"),
    ("7d", "in the last 7 days"),
)

LIST_EVERY_SECONDS: Final = 2.0

TASKID_MOST: Final = 128
"""Longest taskid, in bytes."""

GLOB_MOST: Final = 256
"""Longest glob, in characters."""

SENSIBLE: Final[Mapping[str, tuple[str, ...]]] = {
    "retry": ("delayed", "success", "failed", "cancelled"),
    "cancel": LIVE_STATES,
    "reprioritise": LIVE_STATES,
}
"""States in which an action has an effect."""


class Tab(NamedTuple):
    """State to choose; ``tasks`` is the number of its tasks, None if it is not shown."""

    name: str
    href: str
    chosen: bool
    tasks: int | None


class Row(NamedTuple):
    """Row of a task.

    Attributes:
        packed: taskid as JSON in ASCII: HTML can't contain NUL, and drops line ends.
        name: URL, or the taskid if it was not made from the URL.
        url: URL, if it is not the name.
        held_seconds: seconds since its dispatch; None if it is not processing.
    """

    packed: str
    href: str
    name: str
    url: str
    state: str
    at: float
    priority: int
    retried: int
    error: str
    fetcher: str
    held_seconds: float | None
    lease_seconds: float


async def look(request: Request) -> Mapping[str, Any]:
    """Fetch a page of tasks."""
    services, now = services_of(request), time.time()
    search = _search(request)
    tabs = await look_again(request)
    found, following = await find(services.client, search, now)
    return {
        **tabs,
        "search": search,
        "crumbs": crumbs(search.project)[:1],
        "here": tasks_page(search.project),
        "cleared": tasks_page(search.project, state=search.state, newest="1" if search.newest else ""),
        "filter": _filter(search, now),
        "ages": AGES,
        "rows": [_row(search.project, each, now) for each in found],
        "next": tasks_page(search.project, **search.chosen, after=following) if following else "",
        "first": tasks_page(search.project, **search.chosen),
        "actions": [action for action, states in SENSIBLE.items() if not search.state or search.state in states],
    }


async def look_again(request: Request) -> Mapping[str, Any]:
    """Fetch the numbers of tasks only: a list must not change while a user selects from it."""
    search = _search(request)
    view = await services_of(request).client.projects.get(search.project)
    return {"tabs": _tabs(search, view.counts)}


async def jump(request: Request) -> Response:
    """Redirect to the task with this taskid or URL, or to a search for the URL."""
    project, said = request.path_params["project"], request.query_params.get("q", "").strip()
    client, root = services_of(request).client, root_of(request)
    for taskid in dict.fromkeys((said, default_taskid(said))):
        if not taskid or len(taskid.encode()) > TASKID_MOST:
            continue
        try:
            await client.tasks.get(project, taskid)
        except RequestRejected as error:
            if error.code != "unknown-task":
                raise
        else:
            return RedirectResponse(root + task_page(project, taskid), 303)
    return RedirectResponse(root + tasks_page(project, url=_contains(said) if said else ""), 303)


def _search(request: Request) -> TaskSearch:
    return search_of(request.path_params["project"], request.query_params)


def _contains(text: str) -> str:
    """Make a glob for URLs that contain a text; a glob stays as it is."""
    glob = text if "*" in text else f"*{text.replace('[', '[[]').replace('?', '[?]')}*"
    return glob if len(glob) <= GLOB_MOST else f"{glob[: GLOB_MOST - 4].rpartition('[')[0] or glob[: GLOB_MOST - 4]}*"


def _filter(search: TaskSearch, now: float) -> str:
    """Return the filter of an operation on all matching tasks, as the HTTP API takes it."""
    since = round(now - (parse_duration(search.since) or 0.0), 3) if search.since else 0
    said = {"states": [search.state] if search.state else [], "url": search.url, "error": search.error, "since": since}
    said["ignore_case"] = search.ignore_case
    said["job"] = search.job
    return json.dumps({name: value for name, value in said.items() if value})


def _tabs(search: TaskSearch, counts: TaskCounts) -> list[Tab]:
    chosen = {**search.chosen, "state": ""}
    tabs = [Tab("any state", tasks_page(search.project, **chosen), not search.state, None)]
    for state in STATES:
        href = tasks_page(search.project, **{**chosen, "state": state})
        tabs.append(Tab(state, href, search.state == state, getattr(counts, state)))
    return tabs


def _row(project: str, found: Found, now: float) -> Row:
    state, task = found
    is_default = bool(task.url) and task.taskid == default_taskid(task.url)
    return Row(
        json.dumps(task.taskid),
        task_page(project, task.taskid),
        task.url if is_default else task.taskid,
        "" if is_default else task.url,
        state,
        task.at,
        task.priority,
        task.retried,
        error_line(task),
        task.fetcher,
        max(0.0, now - task.at) if state == "processing" else None,
        task.lease_seconds,
    )


def crumbs(project: str) -> list[tuple[str, str]]:
    """Return addresses and names of the pages above a page of a project's tasks."""
    return [(f"/projects/{segment(project)}", project), (tasks_page(project), "Tasks")]


# ------------------------------------------------------------------------------------------------------------- one task

TASK_EVERY_SECONDS: Final = 2.0
"""Time between two looks of four or five requests; fewer browsers share a task's page than the list of projects."""

RELATIVES_SHOWN: Final = 100
"""Parents shown, and children shown, at most."""

RESULT_SHOWN: Final = 300
"""Characters of a parent's result that are shown."""

TOLD_APART: Final = ("priority", "exetime", "delay", "expires_at", "recrawl", "slot", "retries", "job")
"""Fields of a schedule that the page shows elsewhere."""

TASK_BLOCKS: Final = ("standing", "facts", "attempts", "relatives")

SCOPES: Final = (
    ("task", "Only this task"),
    ("downstream", "And all tasks that depend on it"),
    ("upstream-failed", "And failed tasks that it depends on"),
    ("only-failed", "Only failed ones of it and all that depend on it"),
)


class Relative(NamedTuple):
    """Parent or child of a task.

    Attributes:
        href: address of its page; empty if its project is deleted.
        waits: True if it is still waited for, or still waits.
        result: result of a parent, on one line.
    """

    name: str
    href: str
    state: str
    waits: bool
    result: str = ""


async def look_at_one(request: Request) -> Mapping[str, Any]:
    """Fetch the task, its why, its parents and its children."""
    client, now = services_of(request).client, time.time()
    project = request.path_params["project"]
    taskid = taskid_of(request)
    task = await client._ask(TaskShow(project=project, taskid=taskid))
    parents = [relative async for relative in _parents(client, project, taskid)]
    children = [relative async for relative in _children(client, project, taskid)]
    held_since = await _running_since(client, task, now)
    return {
        "task": task,
        "name": task.url or task.taskid,
        "why": await client.why(project, taskid),
        "crumbs": crumbs(project),
        "line": attempt_line(task.history, now, due_at=task.exetime, running_since=held_since),
        "attempts": list(enumerate(task.history)),
        "error_line": error_line,
        "note": note_text(task.note),
        "progress": progress_of(task.note),
        "schedule": _schedule(task.schedule),
        "recrawl": _recrawl(task.schedule),
        "of_parents": PARENT_WORDS[task.on_parent_failure],
        "of_job": tasks_page(project, job=task.job),
        "body": packed_page(task.body),
        "result": _result(task),
        "parents": parents[:RELATIVES_SHOWN],
        "children": children[:RELATIVES_SHOWN],
        "more_parents": len(parents) > RELATIVES_SHOWN,
        "more_children": len(children) > RELATIVES_SHOWN,
        "actions": [action for action, states in SENSIBLE.items() if task.state in states],
        "scopes": SCOPES,
        "ids": json.dumps({"taskids": [taskid]}),
        "rerun_api": f"/api/v1{task_page(project, taskid)}/rerun",
        "api": f"/api/v1/projects/{segment(project)}/tasks",
    }


async def _running_since(client: AsyncClient, task: TaskReply, now: float) -> float:
    """Return when the task was dispatched or its lease last extended, from the lease's end; 0 if it has none."""
    if not task.session:
        return 0.0
    whole = task.schedule.timeout or (await client.projects.get(task.project)).settings["processing_timeout"]
    return now - max(0.0, float(str(whole)) - task.lease_seconds)


async def _parents(client: AsyncClient, project: str, taskid: str) -> AsyncGenerator[Relative, None]:
    """Yield the parents of a task; at most one more than is shown."""
    count = 0
    async for each in client.tasks.parents(project, taskid):
        result = packed_text(packed(each.result))[:RESULT_SHOWN]
        yield _relative(project, each.project, each.taskid, each.state, not each.satisfied, result)
        count += 1
        if count > RELATIVES_SHOWN:
            return


async def _children(client: AsyncClient, project: str, taskid: str) -> AsyncGenerator[Relative, None]:
    """Yield the children of a task; at most one more than is shown."""
    count = 0
    async for each in client.tasks.children(project, taskid):
        yield _relative(project, each.project, each.taskid, each.state, each.waits)
        count += 1
        if count > RELATIVES_SHOWN:
            return


def _relative(here: str, project: str, taskid: str, state: str, waits: bool, result: str = "") -> Relative:
    name = taskid if project == here else f"{project or 'deleted'}/{taskid}"
    return Relative(name, task_page(project, taskid) if project else "", state, waits, result)


def _schedule(schedule: Schedule) -> list[tuple[str, str]]:
    """List what its push said, without what the page shows elsewhere."""
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
    """Format the task's result; None if there is none."""
    if not task.result_bytes:
        return None
    if task.result == NIL:
        return PackedPage("", task.result_bytes, cut=True)
    return packed_page(task.result)


# ----------------------------------------------------------------------------------------------------------- the search

STATES: Final[tuple[TaskState, ...]] = (
    "processing", "ready", "delayed", "blocked", "failed", "success", "cancelled",
)  # fmt: skip
"""States in the order in which a list of any state goes through them."""

FORWARDS_ONLY: Final = WAITING_STATES
"""States that can't be listed backwards."""

WITHOUT_ERRORS: Final = ("processing",)

ROWS: Final = 100
"""Rows per page."""

ASKS_MOST: Final = 14
"""Requests for one page, at most: globs that match little give short answers, which are joined."""


class Found(NamedTuple):
    """Task in a list, and the state in which it was listed."""

    state: TaskState
    row: TaskRow


class TaskSearch(NamedTuple):
    """Search for tasks.

    Attributes:
        state: state; empty for any.
        since: an age such as 2d; empty for any time.
        newest: backwards, where possible.
        after: cursor of the page; empty for the first one.
        ignore_case: letters of either case match the globs.
        job: name of a job; empty for any.
    """

    project: str
    state: TaskState | Literal[""] = ""
    url: str = ""
    error: str = ""
    since: str = ""
    newest: bool = False
    after: str = ""
    ignore_case: bool = False
    job: str = ""

    @property
    def chosen(self) -> dict[str, object]:
        """Arguments of the address of this search, without its cursor."""
        flags = {"newest": "1" if self.newest else "", "ignore_case": "1" if self.ignore_case else ""}
        said = {**self._asdict(), **flags}
        del said["project"], said["after"]
        return said

    @property
    def is_filtered(self) -> bool:
        """True if tasks are filtered by more than their state."""
        return bool(self.url or self.error or self.since or self.job)


def search_of(project: str, query: Mapping[str, str]) -> TaskSearch:
    """Read the query of an address.

    Raises:
        HTTPException: 400: an argument is invalid; the message says which.
    """
    state, since = query.get("state", ""), query.get("since", "")
    if state and state not in STATES:
        raise HTTPException(400, f'state: "{state}" is none of {", ".join(STATES)}')
    if since and parse_duration(since) is None:
        raise HTTPException(400, f'since: "{since}" is not a duration such as {EXAMPLES}')
    newest, ignore_case = bool(query.get("newest")), bool(query.get("ignore_case"))
    return TaskSearch(
        project,
        state,
        query.get("url", ""),
        query.get("error", ""),
        since,
        newest,
        query.get("after", ""),
        ignore_case,
        query.get("job", ""),
    )


async def find(client: AsyncClient, search: TaskSearch, now: float) -> tuple[list[Found], str]:
    """Return a page of tasks, and the cursor of the next page; empty if there is none."""
    found: list[Found] = []
    states = _states(search)
    begins, _, after = search.after.partition(" ")
    if begins in states:
        states = states[states.index(begins) :]
    asked = 0
    for state in states:
        after = after if state == begins else ""
        while True:
            page = await client.tasks.list(
                search.project,
                state,
                url=search.url,
                error=search.error,
                since=now - (parse_duration(search.since) or 0.0) if search.since else None,
                newest=search.newest and state not in FORWARDS_ONLY,
                after=after,
                limit=ROWS - len(found),
                ignore_case=search.ignore_case,
                job=search.job,
            )
            found += [Found(state, row) for row in page.items]
            after, asked = page.next, asked + 1
            if not after:
                break
            if len(found) >= ROWS or asked >= ASKS_MOST:
                return found, f"{state} {after}"
        if len(found) >= ROWS:
            further = states[states.index(state) + 1 :]
            return found, f"{further[0]} " if further else ""
    return found, ""


def _states(search: TaskSearch) -> list[TaskState]:
    if search.state:
        return [] if search.error and search.state in WITHOUT_ERRORS else [search.state]
    return [state for state in STATES if not (search.error and state in WITHOUT_ERRORS)]


ROUTES: Final[tuple[WebRoute, ...]] = (
    *routes_of(
        LivePage("/projects/{project}/tasks", "tasks.html", look, ("tabs",), again=look_again, every=LIST_EVERY_SECONDS)
    ),
    WebRoute("/projects/{project}/find", jump),
    *routes_of(
        LivePage(
            "/projects/{project}/tasks/{taskid:text}", "task.html", look_at_one, TASK_BLOCKS, every=TASK_EVERY_SECONDS
        )
    ),
)
