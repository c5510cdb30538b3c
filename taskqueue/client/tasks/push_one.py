"""Tasks that are pushed one by one, by callers who wait: ``new-task`` messages, each with all that gathered.

Tasks of several projects share a message: it names the project of the first, the others name their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import NamedTuple

import msgspec

from taskqueue.client.connection.batching import Batching, Outcomes
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.posted_request import PostedRequest
from taskqueue.client.tasks.push_many import is_too_large, size_of, too_large
from taskqueue.client.tasks.url_rules import check_meant
from taskqueue.errors import RequestRejected
from taskqueue.protocol.choices import NAME_WORDS, NewOutcome
from taskqueue.protocol.fields import NewTask, ProjectName
from taskqueue.protocol.tasks import NewTasks, NewTasksReply


class Push(NamedTuple):
    """One task, for a project."""

    project: str
    task: NewTask

    def under(self, project: str) -> NewTask:
        """The task, for a message that names that project."""
        return self.task if project == self.project else msgspec.structs.replace(self.task, project=self.project)


def single_pushes(exchange: Exchange) -> Batching[Push, NewOutcome]:
    """The single pushes of one client, which leave through this exchange."""

    async def send(pushes: list[Push]) -> list[NewOutcome | Exception]:
        return outcomes_of(await exchange.ask(_message(pushes), NewTasksReply, inf))

    def begin(pushes: list[Push], told: Callable[[Outcomes[NewOutcome]], None]) -> Callable[[], None] | None:
        request = PostedRequest(exchange, NewTasksReply, outcomes_of, told)
        return request.forget if request.send(_message(pushes)) else None

    async def send_alone(push: Push, refusal: Exception) -> NewOutcome:
        raise too_large(push.task, refusal) if is_too_large(refusal) else refusal

    return Batching(send, _size_of, exchange.patience, exchange.late, begin, send_alone)


def push_of(project: str, task: NewTask) -> Push:
    """What a caller pushes.

    Raises:
        ValueError: its url can't be one that is fetched.
        RequestRejected: no project can have that name. The daemon would refuse the whole message, others' tasks too.
    """
    check_meant(task.url)
    _check_name(project)
    return Push(project, task)


def outcomes_of(reply: NewTasksReply) -> list[NewOutcome | Exception]:
    """What became of each task of a message, or why it was rejected."""
    if "rejected" not in reply.outcomes:
        return list(reply.outcomes)
    errors = {error.index: RequestRejected(error.code or "rejected", error.reason) for error in reply.errors}
    return [
        errors.get(index, RequestRejected("rejected", outcome)) if outcome == "rejected" else outcome
        for index, outcome in enumerate(reply.outcomes)
    ]


def _message(pushes: list[Push]) -> NewTasks:
    project = pushes[0].project
    return NewTasks(session="", n=0, project=project, tasks=[push.under(project) for push in pushes])


def _size_of(push: Push) -> int:
    return size_of(push.task)


@lru_cache(maxsize=1024)
def _check_name(project: str) -> None:
    try:
        msgspec.convert(project, ProjectName)
    except msgspec.ValidationError:
        reason = f"project: {project!r} is no project name: 1 to 64 {NAME_WORDS}"
        raise RequestRejected("malformed", reason) from None
