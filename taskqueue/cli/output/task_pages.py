"""Lists of tasks, page by page, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from taskqueue.cli.output.json_output import print_lines
from taskqueue.terminal.lines import say

if TYPE_CHECKING:
    from taskqueue import Client
    from taskqueue.protocol.choices import StateName
    from taskqueue.protocol.replies import TaskListReply
    from taskqueue.protocol.views import TaskRow

PAGE: Final = 500
"""Most tasks that the daemon lists at once."""


class Chosen(NamedTuple):
    """Which tasks are listed, and which way; see ``AsyncClient.tasks.list``."""

    project: str
    state: StateName
    url: str | None
    error: str | None
    since: float | None
    newest: bool


def pages(client: Client, chosen: Chosen, limit: int) -> Iterator[TaskListReply]:
    """Pages that together have no more tasks than ``limit``; there are more if the last one has a ``next``."""
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
        )
        yield page
        if not page.next:
            return
        after, left = page.next, left - len(page.tasks)


def print_table(found: Iterable[TaskListReply]) -> None:
    """One table of all pages, and whether there are more."""
    from taskqueue.cli.output import tables, task_tables

    rows: list[TaskRow] = []
    following = ""
    for page in found:
        rows += page.tasks
        following = page.next
    tables.show(task_tables.of_tasks(rows))
    if following:
        say("There are more; --limit shows them.", err=True)


def print_json(found: Iterable[TaskListReply]) -> None:
    """An object a line, as the pages come."""
    for page in found:
        print_lines(page.tasks)
