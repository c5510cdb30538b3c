"""The findings of a consistency check: problems, per-project tallies of what was counted, and what is no problem.

What a sound store may lack, the exceptions to "each task has a record, an entry in its order, a spec":

| a task that is | has | may lack |
|---|---|---|
| ready, delayed | record, entry in the order, spec | |
| processing | lease, spec; its record may say where it was before | its record, while it is *unlisted* |
| over | record, entry in the order, spec | |
| over and *bare* | record | entry, spec, history: retention has deleted them |
| *cleared* | perhaps record and spec, until they are swept | its entry, which ``clear`` has dropped |

Bare tasks are counted among those of their state; cleared ones are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from msgspec import Struct, field

from taskqueue.core.model.records import ProjectRecord
from taskqueue.core.model.task import LIVE, OVER, STATE_NAMES, Task
from taskqueue.errors import StoreError
from taskqueue.store.contract import Family, StoreReader
from taskqueue.store.records import layout
from taskqueue.store.records.epochs import EPOCH_KEY
from taskqueue.store.records.layout import PROJECT_BYTES
from taskqueue.store.records.reading import stored_number

T = TypeVar("T")

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

    def count_record(self, task: Task) -> None:
        """Count a record."""
        self.ids += 1
        self.with_result += task.has_result
        self.bare[task.state] += task.bare and task.state in OVER

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


class Checked:
    """A store that is being checked: what is known of it so far, and what was found.

    Attributes:
        epoch: the newest one.
        tallies: of the projects, by number; filled while the projects are read, which come first.
    """

    def __init__(self, store: StoreReader, findings: Findings) -> None:
        self.store = store
        self.findings = findings
        self.epoch = stored_number(store, EPOCH_KEY, 0)
        self.tallies: dict[int, Tally] = {}

    def tally(self, family: Family, key: bytes) -> Tally | None:
        """The tally of the key's project; None, and a problem, if there is no such project."""
        tally = self.tallies.get(layout.project_of(key))
        if tally is None:
            self.note(family, key, "it is of no known project")
        return tally

    def read(self, family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T | None:
        """What lies at the key, decoded; None, and a problem, if it can't be."""
        try:
            return decode(*value)
        except layout.UNREADABLE as error:
            self.note(family, key, f"can't be read ({error})")
            return None

    def note(self, family: Family, key: bytes, reason: str, taskid: str = "") -> None:
        """Add a problem of the entry at a key, whose project is named if the family has projects."""
        number = layout.project_of(key) if len(key) >= PROJECT_BYTES and family in layout.PROJECT_FAMILIES else None
        known = None if number is None else self.tallies.get(number)
        project = known.name if known is not None else "" if number is None else f"#{number}"
        self.findings.note(family, project, taskid, key, reason)


def is_cleared(task: Task, cleared: int) -> bool:
    """Whether ``clear`` has dropped the task of this record; ``cleared`` is the largest seq that its project was
    cleared of.
    """
    return task.state in LIVE and task.seq <= cleared
