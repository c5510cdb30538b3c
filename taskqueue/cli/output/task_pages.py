"""Lists of tasks, page by page, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from taskqueue.cli.output.json_output import print_lines
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.choices import StateName
    from taskqueue.protocol.tasks import TaskListReply, TaskRow

PAGE: Final = 500
"""The most tasks that the daemon lists at once."""


class TaskQuery(NamedTuple):
    """A query for tasks; see ``AsyncClient.tasks.list``."""

    project: str
    state: StateName | None
    url: str | None
    error: str | None
    since: float | None
    newest: bool
    pushed_since: float | None = None
    pushed_before: float | None = None


def pages(client: Client, chosen: TaskQuery, limit: int) -> Iterator[TaskListReply]:
    """Pages with at most ``limit`` tasks together; there are more tasks if the last page has a ``next``."""
    after, left = "", limit
    while left:
        page = client.tasks.list(
            chosen.project,
            chosen.state,
            url=chosen.url,
            error=chosen.error,
            since=chosen.since,
            newest=chosen.newest,
            after=after,
            limit=min(left, PAGE),
            pushed_since=chosen.pushed_since,
            pushed_before=chosen.pushed_before,
        )
        yield page
        if not page.next:
            return
        after, left = page.next, left - len(page.tasks)


def print_table(found: Iterable[TaskListReply], state: StateName | None, *, tells_pushed: bool = False) -> None:
    """Print one table of all pages of tasks in this state (None: in any), and whether there are more tasks."""
    from taskqueue.cli.output import tables, task_tables

    rows: list[TaskRow] = []
    following = ""
    for page in found:
        rows += page.tasks
        following = page.next
    tables.show(task_tables.of_tasks(rows, state or "", tells_pushed=tells_pushed))
    if following:
        say("There are more; --limit shows them.", err=True)


def print_json(found: Iterable[TaskListReply]) -> None:
    """Print one object per line, as the pages arrive."""
    for page in found:
        print_lines(page.tasks)
