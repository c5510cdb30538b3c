"""The request for the tasks that wait for a task, and what answers it, as values without methods."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from taskqueue.protocol.crawl_requests import Request
from taskqueue.protocol.fields import ProjectName, TaskId
from taskqueue.protocol.reply import Reply


class TaskChildren(Request, tag="task-children"):
    """Which tasks wait for a task, or have waited for it? A page of them.

    Attributes:
        after: the ``next`` of the page before; empty: from the first one.
    """

    project: ProjectName
    taskid: TaskId
    after: Annotated[str, Meta(max_length=600)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class ChildView(Struct, omit_defaults=True, gc=False):
    """A task that waits for another one, or has waited for it.

    Attributes:
        waits: it still does.
    """

    project: str
    taskid: str
    state: str
    waits: bool = False


class TaskChildrenReply(Reply, tag="task-children-reply"):
    """Answers ``task-children``: a page, which may be short; ``next`` asks for the next one, empty: there is none."""

    children: list[ChildView]
    next: str = ""
