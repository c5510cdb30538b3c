"""What became of tasks: ``done`` messages, each with everything that was reported while the last one was unanswered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import NamedTuple

from msgspec import Raw

from taskqueue.client.connection.batching import Batching, Outcomes
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.connection.posted_request import PostedRequest
from taskqueue.client.tasks.push_many import Item, as_new_task, check_several, size_of
from taskqueue.client.tasks.task import Task
from taskqueue.errors import RequestRejected
from taskqueue.protocol.fields import MAX_ERROR_CHARS, NIL, NewTask, TaskReport
from taskqueue.protocol.replies import DoneOutcome, DoneReply, NewOutcome
from taskqueue.protocol.requests import Done


class Reported(NamedTuple):
    """What the daemon made of a report about a task.

    Attributes:
        outcome: ``done``: it counted. ``stale``: the task had been given to somebody else, cancelled or replaced
            meanwhile; nothing changed, its new tasks were not taken.
        new: what became of each new task, in order.
        reasons: of new tasks that were rejected, by their place.
    """

    outcome: DoneOutcome
    new: list[NewOutcome]
    reasons: dict[int, str]


def single_reports(exchange: Exchange, leaving: Callable[[list[int]], None]) -> Batching[TaskReport, Reported]:
    """The reports of one client, which leave through this exchange.

    Args:
        leaving: told the tokens of the tasks that a message is about, before it is sent.
    """

    async def send(reports: list[TaskReport]) -> list[Reported | Exception]:
        await exchange.ready(inf)
        leaving([report.token for report in reports])
        return _parts(await exchange.ask(Done(session="", n=0, tasks=list(reports)), DoneReply, inf))

    def begin(reports: list[TaskReport], told: Callable[[Outcomes[Reported]], None]) -> Callable[[], None] | None:
        if not exchange.is_free:
            return None
        leaving([report.token for report in reports])
        request = PostedRequest(exchange, DoneReply, _parts, told)
        return request.forget if request.send(Done(session="", n=0, tasks=list(reports))) else None

    return Batching(send, _size_of, exchange.patience, exchange.late, begin)


def success_of(task: Task, new: Iterable[Item], result: Raw = NIL) -> TaskReport:
    """The report that a task succeeded, what came out of it, and how its fetch went.

    Raises:
        ValueError, TypeError: one of ``new`` is no task.
    """
    check_several("new", new)
    return success_with(task, [as_new_task(item) for item in new], result)


def success_with(task: Task, new: list[NewTask], result: Raw) -> TaskReport:
    """The report that a task succeeded, what came out of it, and how its fetch went."""
    followers: list[NewTask | None] = [*new]
    return TaskReport(
        task.project, task.taskid, task.token, retry_after=_asked_pause(task), new=followers, result=result,
        fetched=task.how_fetched,
    )  # fmt: skip


def failure_of(task: Task, error: str, retry_after: float | None, retry: bool) -> TaskReport:
    """The report that a task failed, with the end of what there is to say about it, and how its fetch went."""
    said = error.encode(errors="replace").decode()[-MAX_ERROR_CHARS:]
    pause = _asked_pause(task) if retry_after is None else retry_after
    return TaskReport(
        task.project, task.taskid, task.token, False, said, pause, retry, fetched=task.how_fetched
    )  # fmt: skip


def _asked_pause(task: Task) -> float | None:
    """The Retry-After of a task's answer, if the task has a slot: elsewhere nothing limits how often it is obeyed."""
    return None if task.start_within is None else task.retry_after


def _size_of(item: TaskReport) -> int:
    new = sum(size_of(task) for task in item.new if task is not None) if item.new else 0
    return 256 + len(item.error) + len(item.result) + new


def _parts(reply: DoneReply) -> list[Reported | Exception]:
    if not reply.new and not reply.errors and "rejected" not in reply.outcomes:  # Nearly always.
        return [Reported(outcome, [], {}) for outcome in reply.outcomes]
    return [_part(reply, index) for index in range(len(reply.outcomes))]


def _part(reply: DoneReply, index: int) -> Reported | Exception:
    outcome = reply.outcomes[index]
    if outcome == "rejected":
        reason = next((e.reason for e in reply.errors if e.parent is None and e.index == index), "rejected")
        return RequestRejected("rejected", reason)
    reasons = {error.index: error.reason for error in reply.errors if error.parent == index}
    return Reported(outcome, reply.new[index] if reply.new else [], reasons)
