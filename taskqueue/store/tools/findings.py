"""What a check has found, by projects and in all: the values that it fills."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import STATE_NAMES
from taskqueue.errors import StoreError
from taskqueue.store.contract import Family

SHOWN_PROBLEMS: Final = 100
"""Kept, unless more are asked for; all are counted."""


class Problem(Struct, frozen=True):
    """Something that does not agree.

    Attributes:
        family: where it lies.
        project: its name, or ``#`` and its number if there is no such project.
        taskid: as far as it is known.
        key: in hex; empty if it is not about one.
        reason: what is there, and what was expected.
    """

    family: Family
    project: str
    taskid: str
    key: str
    reason: str

    def __str__(self) -> str:
        task = f" task {self.taskid!r}" if self.taskid else ""
        key = f" (key {self.key})" if self.key else ""
        return f"{self.family}: project {self.project or '-'}{task}{key}: {self.reason}"


class Findings(Struct):
    """Of one check.

    Attributes:
        most: problems to keep.
        problems: the first ones.
        found: how many there are.
        entries: that were looked at.
        tasks: that are known.
        unreadable: what the engine said of tables that it could not read, each once.
    """

    most: int = SHOWN_PROBLEMS
    problems: list[Problem] = field(default_factory=list)
    found: int = 0
    entries: int = 0
    tasks: int = 0
    unreadable: list[StoreError] = field(default_factory=list)

    def note_unreadable(self, error: StoreError) -> None:
        """Add that a table can't be read."""
        if str(error) not in map(str, self.unreadable):
            self.found += 1
            self.unreadable.append(error.with_traceback(None))

    def note(self, family: Family, project: str, taskid: str, key: bytes, reason: str) -> None:
        """Add a problem."""
        self.found += 1
        if len(self.problems) < self.most:
            self.problems.append(Problem(family, project, taskid, key.hex(), reason))


class Tally(Struct):
    """What was counted of one project.

    Attributes:
        places: entries of the orders, by state.
        bare: tasks of which only the record is left, by state.
        unfinished: see ``ProjectRecord``.
        ids: records that mean something.
        left: records that ``clear`` left.
        unlisted: leases of tasks that have no record.
        specs: of all tasks.
    """

    record: ProjectRecord
    places: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    bare: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    unfinished: int = 0
    ids: int = 0
    left: int = 0
    unlisted: int = 0
    specs: int = 0

    @property
    def name(self) -> str:
        """Of the project."""
        return self.record.name

    @property
    def lacks_places(self) -> bool:
        """Records and entries of the orders are not the same in number."""
        return self.ids + self.unlisted != sum(self.places) + sum(self.bare)

    @property
    def lacks_specs(self) -> bool:
        """Specs and tasks are not the same in number, as far as that can be said without looking at each."""
        return self.specs != self.ids + self.left + self.unlisted - sum(self.bare)
