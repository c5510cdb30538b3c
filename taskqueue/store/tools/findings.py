"""The findings of a consistency check: problems, and per-project tallies of what was counted."""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field

from taskqueue.core.tasks.records import ProjectRecord
from taskqueue.core.tasks.task import STATE_NAMES
from taskqueue.errors import StoreError
from taskqueue.store.contract import Family

SHOWN_PROBLEMS: Final = 100
"""Problems kept by default; all are counted."""


class Problem(Struct, frozen=True):
    """An inconsistency.

    Attributes:
        family: where it was found.
        project: name of the project, or ``#`` and its number if no such project exists.
        taskid: empty if unknown.
        key: in hex; empty if the problem is not about a single key.
        reason: what was found, and what was expected.
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
    """The result of one check.

    Attributes:
        most: number of problems to keep.
        problems: the first ones.
        found: number of all problems.
        entries: number of entries that were read.
        tasks: number of known tasks.
        unreadable: the engine's errors about tables that it could not read, each once.
    """

    most: int = SHOWN_PROBLEMS
    problems: list[Problem] = field(default_factory=list)
    found: int = 0
    entries: int = 0
    tasks: int = 0
    unreadable: list[StoreError] = field(default_factory=list)

    def note_unreadable(self, error: StoreError) -> None:
        """Add a table that can't be read."""
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
        bare: tasks with only a record, by state.
        unfinished, held_back: see ``ProjectRecord``.
        ids: records, those of cleared tasks excluded.
        left: records of cleared tasks.
        unlisted: leases of tasks without a record.
        specs: of all tasks.
        with_result: tasks that have a result, as their records say; those of cleared tasks excluded.
        results: of these tasks, stored.
    """

    record: ProjectRecord
    places: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    bare: list[int] = field(default_factory=lambda: [0] * len(STATE_NAMES))
    unfinished: int = 0
    held_back: int = 0
    ids: int = 0
    left: int = 0
    unlisted: int = 0
    specs: int = 0
    with_result: int = 0
    results: int = 0

    @property
    def name(self) -> str:
        """The project's name."""
        return self.record.name

    @property
    def lacks_places(self) -> bool:
        """Whether records and entries of the orders differ in number."""
        return self.ids + self.unlisted != sum(self.places) + sum(self.bare)

    @property
    def lacks_specs(self) -> bool:
        """Whether specs and tasks differ in number, as far as that can be told without looking at each."""
        return self.specs != self.ids + self.left + self.unlisted - sum(self.bare)
