"""What a list of tasks asks of the store, and what it is answered: values without methods.

A page ends at a key. Where the next one begins depends on the way: from the start it begins with a key, backwards it
goes on below one.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from taskqueue.core.task import Task
from taskqueue.core.views import Attempt


class ListRef(NamedTuple):
    """A part of an order to be shown: at most ``rows`` tasks of ``state`` that the globs let through.

    Attributes:
        start, end: keys from the first up to below the second.
        newest: from the end backwards.
        limit: tasks looked at, at most.
        limit_bytes: the read also ends when the urls and bodies read come to so many, but not before the first task.
        url, error: globs; the latter is about the last attempt. Empty: any.
        attempts: with the last attempts of tasks that have been run.
    """

    project: int
    state: int
    start: int
    end: int
    newest: bool
    rows: int
    limit: int
    limit_bytes: int
    url: str
    error: str
    attempts: bool


class FoundList(Struct):
    """Answer to a ListRef.

    Attributes:
        tasks: with specs, in the order of their keys, or backwards.
        attempts: by taskid, their last ones.
        next: where the next page begins; None: there are no further tasks in the part.
    """

    ref: ListRef
    tasks: list[Task]
    attempts: dict[str, Attempt]
    next: int | None


def page_with(newest: bool, key: int) -> int:
    """Where a page begins whose first task has this key."""
    return key + newest


def page_past(newest: bool, key: int) -> int:
    """Where the page begins after the task of this key."""
    return key + (not newest)
