"""Reports of tasks: ``done`` messages, each with all reports that were made while the last one was unanswered.

A report with many new tasks goes in parts, each of which is answered before the next one is made:

    new ──► gathered, to PART_TASKS or PART_BYTES ──► part ──► part ──► … ──► the last report, which ends the lease

A part that is still too large, because the daemon accepts less than usual, is divided further.

A failure and its new tasks are one message: parts of a late one would be stored, although it is stale. A success may
have a ``Result``: any MessagePack value of at most 64 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from taskqueue.client.arguments import checked_seconds
from taskqueue.client.connection.batching import Batching
from taskqueue.client.connection.exchange import Exchange
from taskqueue.client.tasks.new_task import packed
from taskqueue.client.tasks.push_options import Duration, seconds
from taskqueue.client.tasks.pushes import Item, as_new_task, check_several, is_too_large, size_of, too_large
from taskqueue.client.tasks.task import Task
from taskqueue.errors import ClientError, MessageTooLarge, RequestRejected
from taskqueue.protocol.choices import PushOutcome
from taskqueue.protocol.fields import MAX_BATCH, MAX_EDGES, MAX_RESULT_BYTES, MAX_RETRY_AFTER_SECONDS, NIL
from taskqueue.protocol.message_room import room_beside
from taskqueue.protocol.reasons import reason_of
from taskqueue.protocol.tasks import Done, DoneReply, ReportOutcome
from taskqueue.protocol.values import Again, NewTask, TaskReport
from taskqueue.texts.error_texts import cut_text, kind_in, kind_line


class Result:
    """Result of a task, returned or yielded by its handler, alone or beside new tasks; stored if the task succeeds.

    It is kept as long as the task's body, until its next success, unless that reports an unchanged page (304, or
    ``changed=False``) and brings no result. ``client.tasks.get`` returns it.

    Args:
        value: at most 65,536 bytes as MessagePack; None: no result.

    Raises:
        TypeError, ValueError: the value has no form in MessagePack, or is too large.
    """

    __slots__ = ("packed",)

    def __init__(self, value: Any) -> None:
        self.packed = packed_result(value)


def packed_result(value: Any) -> Raw:
    """Encode a result; nil for None.

    Raises:
        TypeError, ValueError: the value has no form in MessagePack, or is too large.
    """
    if value is None:
        return NIL
    result = packed(value, {"result": value})
    if len(result) > MAX_RESULT_BYTES:
        raise ValueError(f"result: {len(result)} bytes as MessagePack, at most {MAX_RESULT_BYTES} are accepted")
    return result


PART_TASKS: Final = 5000
"""New tasks at which a part of a report is full; a message may have twice as many."""

PART_BYTES: Final = 4 << 20
"""Approximate bytes at which a part is full: half of what a daemon accepts in a message by default."""

FAILURE_NEW: Final = "a failure and its new tasks are kept together or not at all; push the others with push_many"


class Reported(NamedTuple):
    """The daemon's answer to a report.

    Attributes:
        outcome: ``done``: it counted. ``kept``: it was a part, and counted. ``stale``: the task had been dispatched
            again, cancelled or replaced meanwhile; nothing changed, and its new tasks were not stored, except for those
            of earlier parts.
        new: outcome of each new task, in order; of a stale report, those of earlier parts.
        reasons: reasons of rejected new tasks, by their index, unless their slot is full.
    """

    outcome: ReportOutcome
    new: list[PushOutcome]
    reasons: dict[int, str]

    def and_then(self, later: Reported) -> Reported:
        """Join the outcome of a part with that of the parts after it."""
        moved = {len(self.new) + place: reason for place, reason in later.reasons.items()}
        return Reported(later.outcome, self.new + later.new, self.reasons | moved)


class NewTasksGathered:
    """New tasks of one report, as many as a part takes.

    Attributes:
        tasks: the tasks, in order.
    """

    __slots__ = ("_bytes", "_edges", "tasks")

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.tasks: list[NewTask] = []
        self._bytes = self._edges = 0

    def has_room(self, task: NewTask) -> bool:
        """Return True if the task fits into the part."""
        if len(self.tasks) >= PART_TASKS or self._bytes >= PART_BYTES:
            return False
        return not task.depends_on or self._edges + len(task.depends_on) <= MAX_EDGES or not self.tasks

    def add(self, task: NewTask) -> None:
        """Add a task for which there is room."""
        self.tasks.append(task)
        self._bytes += size_of(task)
        self._edges += len(task.depends_on)

    def take(self) -> list[NewTask]:
        """Return the tasks, and begin anew."""
        tasks = self.tasks
        self._clear()
        return tasks


def single_reports(
    exchange: Exchange, leaving: Callable[[list[int]], None], answered: Callable[[list[int]], None]
) -> Batching[TaskReport, Reported]:
    """Make the batching of the reports of one client.

    Args:
        leaving: called with the tokens of the tasks whose last reports a message has, before it is sent.
        answered: called with the same tokens when the message has been answered, whatever the outcome, or given up.
    """

    def message(reports: list[TaskReport]) -> Done:
        leaving(_ended(reports))
        return Done(tasks=[*reports])

    def ended(reports: list[TaskReport]) -> None:
        answered(_ended(reports))

    async def send_alone(report: TaskReport, refusal: Exception) -> Reported:
        """Send a report that was refused although it was alone: in two if it was too large."""
        if not is_too_large(refusal):
            raise refusal
        first, rest = _divided(report, refusal)
        kept = await ask(first)
        return kept if kept.outcome == "stale" else kept.and_then(await ask(rest))

    async def ask(report: TaskReport) -> Reported:
        try:
            [said] = await singles.send([report])
        except ClientError as refusal:
            return await send_alone(report, refusal)
        if isinstance(said, Exception):
            raise said
        return said

    singles = Batching(exchange, _size_of, message, _parts, send_alone, ended)
    return singles


def reports_of(task: Task, new: Iterable[Item], result: Raw = NIL) -> Iterator[TaskReport]:
    """Iterate over the reports of a success: parts of its new tasks as they are full, and the last one.

    Raises:
        ValueError, TypeError: an element of ``new`` is no task; those before it may already be in parts.
    """
    check_several("new", new)
    gathered = NewTasksGathered()
    for item in new:
        each = as_new_task(item)
        if not gathered.has_room(each):
            yield part_of(task, gathered.take())
        gathered.add(each)
    yield success_with(task, gathered.tasks, result)


def joined(said: list[Reported]) -> Reported:
    """Join the outcomes of a report that went in these parts."""
    whole = said[0]
    for each in said[1:]:
        whole = whole.and_then(each)
    return whole


def part_of(task: Task, new: list[NewTask]) -> TaskReport:
    """Make a part of the report of a task that goes on."""
    followers: list[NewTask | None] = [*new]
    return TaskReport(task.project, task.taskid, task.token, new=followers, part=True)


def success_with(task: Task, new: list[NewTask], result: Raw) -> TaskReport:
    """Make the report of a success, with its new tasks, its result and the facts of its fetch."""
    followers: list[NewTask | None] = [*new]
    report = TaskReport(
        task.project, task.taskid, task.token, retry_after=task.asked_pause, new=followers, result=result,
        fetched=task.how_fetched,
    )  # fmt: skip
    task.note_report(report)
    return report


def failure_of(
    task: Task,
    error: str,
    retry_after: float | None,
    retry: bool,
    kind: str = "",
    new: Sequence[NewTask] = (),
    again: Again | None = None,
) -> TaskReport:
    """Make the report of a failure, with the beginning and end of its error, and the facts of its fetch.

    Args:
        kind: subject of the error; empty: derived from the error, here only if its text is cut.
        new: new tasks; see ``new_of_failure``.
        again: changes to its next attempt.
    """
    said = cut_text(error)
    if not kind and said != error:
        kind = kind_in(error)
    pause = task.asked_pause if retry_after is None else retry_after
    report = TaskReport(
        task.project, task.taskid, task.token, False, said, pause, retry, [*new], fetched=task.how_fetched,
        kind=kind_line(kind), again=again,
    )  # fmt: skip
    task.note_report(report)
    return report


def new_of_failure(new: Iterable[Item]) -> list[NewTask]:
    """Return the new tasks of a failure.

    Raises:
        ValueError, TypeError: an element is no task, or they are more than one message takes.
    """
    check_several("new", new)
    tasks: list[NewTask] = []
    for item in new:
        if len(tasks) == MAX_BATCH:
            raise ValueError(f"new: more than {MAX_BATCH} tasks; {FAILURE_NEW}")
        tasks.append(as_new_task(item))
    if sum(len(task.depends_on) for task in tasks) > MAX_EDGES:
        raise ValueError(f"new: they wait for more than {MAX_EDGES} tasks; {FAILURE_NEW}")
    return tasks


def next_attempt(counts: bool | None, body: Any, priority: int | None) -> Again | None:
    """Return the changes to the next attempt of a failed task; None if there are none.

    Raises:
        ValueError, TypeError: an argument is invalid; the message names it.
    """
    if counts is None and body is None and priority is None:
        return None
    again = Again(counts, NIL if body is None else packed(body, {"body": body}), priority)
    try:
        return msgspec.convert(msgspec.structs.asdict(again), Again)
    except msgspec.ValidationError as error:
        raise ValueError(reason_of(error, kind=Again)) from None


def check_fits(error: str | None, result: Any, retry: bool, **of_failure: object) -> None:
    """Check that all arguments belong to a success, or all to a failure.

    Args:
        error: None: the task succeeded.
        of_failure: arguments of a failure, by name; None or empty: not given.

    Raises:
        ValueError: they do not; the message names the argument.
    """
    said = [name for name, value in of_failure.items() if value not in (None, "")]
    if error is not None and result is not None:
        raise ValueError("result: only a success has one, and error reports a failure")
    if error is None and (said or not retry):
        raise ValueError(f"{(said or ['retry'])[0]}: only a failure has it; give error, too")
    if not retry and (said := [name for name in said if name in ("counts", "body", "priority")]):
        raise ValueError(f"{said[0]}: there is no next attempt that could have it with retry=False")


def check_body(task: Task, again: Again | None, max_message: int) -> None:
    """Check that a body could be dispatched again in a message of at most ``max_message`` bytes.

    Raises:
        MessageTooLarge: it could not.
    """
    room = room_beside(task.url, task.schedule, max_message)
    if again is not None and len(again.body) > room:
        raise MessageTooLarge(f"body: {len(again.body)} bytes, at most {max(0, room)} are accepted with this URL")


def checked_after(after: Duration | None, name: str = "after") -> float | None:
    """Return the seconds until a task is to run again, from the caller's argument of that name; None: not given.

    Raises:
        TypeError: the argument is not a duration.
        ValueError: it is out of range.
    """
    if after is None:
        return None
    return checked_seconds(name, seconds(name, after), MAX_RETRY_AFTER_SECONDS)


def refusal_of(task: Task, refusal: Exception) -> TaskReport:
    """Make the report that a task failed because its own report was refused, without anything that could be refused."""
    said = cut_text(f"its report was refused: {refusal}")
    return TaskReport(task.project, task.taskid, task.token, False, said, kind=kind_line(said))


def _ended(reports: list[TaskReport]) -> list[int]:
    return [report.token for report in reports if not report.part]


def _divided(report: TaskReport, refusal: Exception) -> tuple[TaskReport, TaskReport]:
    """Divide a report into a part, and the rest.

    Raises:
        MessageTooLarge: it has at most one new task; the message names that.
    """
    new = report.new
    if not new or not report.ok:
        raise refusal
    if report.part and len(new) == 1:
        raise too_large(new[0], refusal)
    half = max(1, len(new) // 2)
    first = TaskReport(report.project, report.taskid, report.token, new=new[:half], part=True)
    return first, replace(report, new=new[half:])


def _size_of(item: TaskReport) -> int:
    new = sum(size_of(task) for task in item.new if task is not None) if item.new else 0
    body = len(item.again.body) if item.again is not None else 0
    return 256 + len(item.error) + len(item.kind) + len(item.result) + new + body


def _parts(reply: DoneReply) -> list[Reported | Exception]:
    if not reply.new and not reply.errors and "rejected" not in reply.outcomes:  # Nearly always.
        return [Reported(outcome, [], {}) for outcome in reply.outcomes]
    return [_part(reply, index) for index in range(len(reply.outcomes))]


def _part(reply: DoneReply, index: int) -> Reported | Exception:
    outcome = reply.outcomes[index]
    if outcome == "rejected":
        error = next((each for each in reply.errors if each.parent is None and each.index == index), None)
        return (
            RequestRejected(error.code or "rejected", error.reason) if error else RequestRejected("rejected", outcome)
        )
    # The daemon reports a full slot once: a line for each page that the slot has no room for would be too many.
    told = [error for error in reply.errors if error.parent == index and error.code != "slot-full"]
    reasons = {error.index: error.reason for error in told}
    return Reported(outcome, reply.new[index] if reply.new else [], reasons)
