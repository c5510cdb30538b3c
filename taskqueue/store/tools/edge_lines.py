"""The edges of a task in an export: the tasks that it waits for, by name.

An export has the edges that count: those of a deferred update, if there is one, because an import applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from taskqueue.core.tasks.links import POLICIES, Links, Mark
from taskqueue.core.tasks.task import Task
from taskqueue.protocol.choices import ParentFailure
from taskqueue.protocol.fields import MAX_PARENTS, GroupName, TaskId
from taskqueue.store.records import layout
from taskqueue.store.records.decoding import decode_record
from taskqueue.store.records.edges import BELOW_TASK, decode_mark, task_key, tasks_of


class ParentLine(Struct, frozen=True, array_like=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task that another one waits for.

    Attributes:
        state: 0 not satisfied yet, 1 satisfied, 2 the parent has failed and the child runs all the same.
        project: None: that of the child; empty: one that was deleted, whose tasks will never succeed.
    """

    taskid: TaskId
    state: Annotated[int, Meta(ge=0, le=2)] = 0
    project: GroupName | None = None


ParentLines = Annotated[list[ParentLine], Meta(max_length=MAX_PARENTS)]


def parent_lines(entries: Iterable[tuple[bytes, bytes]], task: Task, names: Mapping[int, str]) -> Iterator[ParentLine]:
    """The tasks that a task waits for.

    Args:
        entries: of the task, in the family of edges to parents.
        names: of projects, by number.

    Raises:
        Unreadable: an entry can't be decoded.
    """
    links = counting_links(task)
    number = 0 if links is None else links.number
    for key, value in entries if number else ():
        _, parent = decode_record(layout.PARENTS, key, tasks_of, key)
        mark = Mark(*decode_record(layout.PARENTS, key, decode_mark, value))
        if mark.number == number:
            own = parent.project == task.project
            yield ParentLine(parent.taskid, mark.state, None if own else names.get(parent.project, ""))


def parents_range(task: Task) -> tuple[bytes, bytes]:
    """Where the edges of a task to its parents begin and end."""
    start = task_key(task.project, task.taskid)
    return start, start + BELOW_TASK


def policy_of(task: Task) -> ParentFailure:
    """What the task does when a parent fails."""
    links = counting_links(task)
    return "fail" if links is None else POLICIES[links.on_failure]


def counting_links(task: Task) -> Links | None:
    """The links that count once a deferred update of the task is applied."""
    if task.lease is not None and task.lease.deferred is not None:
        return task.lease.links
    return task.links
