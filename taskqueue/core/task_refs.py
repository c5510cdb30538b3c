"""How tasks are named to the store when they are looked up one by one."""

from __future__ import annotations

from typing import NamedTuple


class TaskRef(NamedTuple):
    """A task by its identity: project number, taskid."""

    project: int
    taskid: str


class SpecRef(NamedTuple):
    """A task's spec in the store: project number, seq."""

    project: int
    seq: int


class LeaseAnswer(NamedTuple):
    """A task that somebody reports as done, and the token that he says."""

    project: int
    taskid: str
    token: int
