"""Checks of decoded requests that types can't express: bytes of a taskid, a nil among tasks, a task's result, an option
of a task without the one that it needs.

An invalid item becomes None in its batch, like a malformed one. msgspec counts characters; only taskids that could have
too many bytes are encoded to count them, so that the check costs about 40 ns per task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from taskqueue.errors import Rejected
from taskqueue.protocol.exports import ProjectImport
from taskqueue.protocol.fields import MAX_EDGES, MAX_FOLLOWERS, MAX_RESULT_BYTES, MAX_TASKID_BYTES, NIL, TaskId
from taskqueue.protocol.flows import FlowStage
from taskqueue.protocol.messages import REQUESTS, AnyRequest, Flaw, Flaws
from taskqueue.protocol.tasks import Done, NewTasks
from taskqueue.protocol.values import PLAIN, NewTask, TaskReport

SHORT_TASKID: Final = MAX_TASKID_BYTES // 4
"""Longest taskid, in characters, that never has too many bytes."""

_NAMING: Final[Mapping[type, str]] = {
    kind: field for kind in REQUESTS for field in ("taskid", "taskids") if field in kind.__struct_fields__
}
"""Field that names tasks, by type of request."""


def check_envelope(request: AnyRequest) -> None:
    """Check that a decoded request has ``session`` and ``n``, which have defaults in Python but not on the wire.

    Raises:
        ValueError: a field is missing, in the words of msgspec.
    """
    if not request.session or not request.n:
        raise ValueError(f"Object missing required field `{'n' if request.session else 'session'}`")


def check_taskids(request: AnyRequest) -> Flaws:
    """Replace invalid items of a batch with None, and return flaws of these and of items sent as nil.

    Raises:
        Rejected: a taskid in a request that names tasks is too long, a task of a flow is invalid, or a ``done`` has too
            many new tasks.
    """
    flaws: Flaws = {}
    if isinstance(request, NewTasks):
        _check_new_tasks(request.tasks, (), flaws)
    elif isinstance(request, Done):
        _check_reports(request.tasks, flaws)
    elif isinstance(request, FlowStage):
        _check_staged(request.tasks)
    elif isinstance(request, ProjectImport):
        check_edges(sum(len(task.parents) for task in request.tasks))
    elif (field := _NAMING.get(type(request))) is not None:
        _refuse_long(getattr(request, field), field)
    return flaws


def _check_new_tasks(tasks: list[NewTask | None], parent: tuple[int, ...], flaws: Flaws) -> None:
    edges = 0
    for index, task in enumerate(tasks):
        if task is None:
            flaws[*parent, index] = Flaw(f"{item_name((*parent, index))}: expected map, got nil")
            continue
        if (
            len(task.taskid) > SHORT_TASKID
            or task.depends_on
            or task.schedule is not PLAIN
            or task.on_parent_failure != "fail"
        ):
            edges += len(task.depends_on)
            if flaw := task_flaw(task):
                flaws[*parent, index] = Flaw(f"{item_name((*parent, index))}.{flaw}")
                tasks[index] = None
    if edges:
        check_edges(edges)


def task_flaw(task: NewTask) -> str:
    """Return why a new task is invalid, starting with its field; empty: it is valid."""
    if len(task.taskid) > SHORT_TASKID and is_too_long(task.taskid):
        return long_reason("taskid")
    if any(is_too_long(each if isinstance(each, str) else each.taskid) for each in task.depends_on):
        return long_reason("depends_on")
    return lone_option(task)


def lone_option(task: NewTask) -> str:
    """Return which option of a new task has no effect without another one, starting with its field; empty: none."""
    schedule = task.schedule
    if schedule.repeat is not None and schedule.recrawl is None and not (schedule.auto_recrawl and schedule.age):
        return "schedule.repeat: goes with a task that recurs; give recrawl, or auto_recrawl and age, too"
    if schedule.auto_recrawl and not schedule.age and schedule.recrawl is None:
        return (
            "schedule.auto_recrawl: goes with age, after which the task runs again; give age, too, or recrawl instead"
        )
    if task.on_parent_failure == "only" and not task.depends_on:
        return 'on_parent_failure: "only" goes with parents that may fail; name them in depends_on (after, in a flow)'
    return ""


def check_edges(edges: int) -> None:
    """Check the number of edges in a message.

    Raises:
        Rejected: the message has more than MAX_EDGES.
    """
    if edges > MAX_EDGES:
        raise Rejected("too-large", f"depends_on: more than {MAX_EDGES} tasks to wait for in one message")


def _check_staged(tasks: list[NewTask]) -> None:
    edges = 0
    for index, task in enumerate(tasks):
        edges += len(task.depends_on)
        if flaw := task_flaw(task):
            raise Rejected("malformed", f"{item_name((index,))}.{flaw}")
    check_edges(edges)


def _check_reports(items: list[TaskReport | None], flaws: Flaws) -> None:
    new = edges = 0
    for index, item in enumerate(items):
        if item is None:
            flaws[index,] = Flaw(f"{item_name((index,))}: expected map, got nil")
        elif (
            item.new or item.part or item.again is not None or item.result is not NIL or len(item.taskid) > SHORT_TASKID
        ):
            new += len(item.new)
            edges += edges_of(item)
            check_follow_ups(new, edges)
            items[index] = check_report(item, index, flaws)


def check_report(item: TaskReport, index: int, flaws: Flaws) -> TaskReport | None:
    """Return a valid report, else None with a flaw; an invalid follow-up is a flaw of that follow-up only."""
    if len(item.taskid) > SHORT_TASKID and is_too_long(item.taskid):
        flaws[index,] = Flaw(long_reason(f"{item_name((index,))}.taskid"))
        return None
    if item.part and not (item.ok and item.result == NIL):
        flaws[index,] = Flaw(f"{item_name((index,))}.part: a part has new tasks only; the last report says the rest")
        return None
    if item.again is not None and (item.ok or not item.retry):
        flaws[index,] = Flaw(f"{item_name((index,))}.again: only a task that failed and is retried has a next attempt")
        return None
    if item.result is not NIL and (reason := _wrong_result(item)):
        flaws[index,] = Flaw(f"{item_name((index,))}.result: {reason}")
        return None
    if item.new:
        _check_new_tasks(item.new, (index,), flaws)
    return item


def _wrong_result(item: TaskReport) -> str:
    if len(item.result) > MAX_RESULT_BYTES:
        return f"{len(item.result)} bytes, at most {MAX_RESULT_BYTES} are taken"
    return "a task that failed has none" if not item.ok and item.result != NIL else ""


def edges_of(report: TaskReport) -> int:
    """Count the edges of a report's new tasks."""
    return sum(len(task.depends_on) for task in report.new if task is not None)


def check_follow_ups(new: int, edges: int) -> None:
    """Check the numbers of new tasks and of edges in a ``done``, over all its reports.

    Raises:
        Rejected: the message has more than MAX_FOLLOWERS new tasks, or more than MAX_EDGES edges.
    """
    if new > MAX_FOLLOWERS:
        raise Rejected("too-large", f"tasks: more than {MAX_FOLLOWERS} new tasks in one message")
    check_edges(edges)


def _refuse_long(named: Sequence[TaskId] | TaskId | None, field: str) -> None:
    taskids = [named] if isinstance(named, str) else named or ()
    if any(is_too_long(taskid) for taskid in taskids):
        raise Rejected("malformed", long_reason(field))


def is_too_long(taskid: str) -> bool:
    """Return whether a taskid has too many bytes; msgspec has only counted its characters."""
    return len(taskid.encode()) > MAX_TASKID_BYTES


def long_reason(field: str) -> str:
    """Return the reason for refusing a taskid that is too long."""
    return f"{field}: expected at most {MAX_TASKID_BYTES} bytes of utf-8"


def item_name(path: tuple[int, ...]) -> str:
    """Return the name of an item: ``tasks[2]`` for (2,), ``tasks[2].new[1]`` for (2, 1)."""
    first, *rest = path
    return f"tasks[{first}]" + "".join(f".new[{index}]" for index in rest)
