"""The findings of a consistency check: problems, counts per project, and permitted gaps.

Permitted gaps, the exceptions to "each task has a record, an entry in its order, a spec":

| state of the task | has | may lack |
|---|---|---|
| ready, delayed | record, entry in the order, spec | |
| processing | lease, spec; its record may name its former place | its record, while it is *unlisted* |
| finished | record, entry in the order, spec | |
| finished and *bare* | record | entry, spec, history: retention has deleted them |
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
from taskqueue.store.records.format import EPOCH_KEY
from taskqueue.store.records.layout import PROJECT_BYTES
from taskqueue.store.records.reading import stored_number

T = TypeVar("T")

SHOWN_PROBLEMS: Final = 100
"""Problems kept by default, at most; all are counted."""


class Problem(Struct, frozen=True):
    """Inconsistency in a store.

    Attributes:
        family: family in which it was found.
        project: name of the project, or ``#`` and its number if no such project exists.
        taskid: empty if unknown.
        key: key in hex; empty if the problem is not about a single key.
        reason: found and expected values.
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
    """Result of one check.

    Attributes:
        most: number of problems to keep.
        problems: first problems.
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
    """Counts of one project's entries.

    Attributes:
        places: entries of the orders, by state.
        bare: tasks with only a record, by state.
        unfinished, held_back: see ``ProjectRecord``.
        ids: records, without those of cleared tasks.
        left: records of cleared tasks.
        unlisted: leases of tasks without a record.
        specs: specs of all tasks.
        with_result: tasks with a result according to their records, without cleared tasks.
        results: stored results of these tasks.
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
        """Name of the project."""
        return self.record.name

    @property
    def lacks_places(self) -> bool:
        """Whether records and entries of the orders differ in number."""
        return self.ids + self.unlisted != sum(self.places) + sum(self.bare)

    @property
    def lacks_specs(self) -> bool:
        """Whether specs and tasks differ in number, as far as the counts show."""
        return self.specs != self.ids + self.left + self.unlisted - sum(self.bare)


class Checked:
    """Store under check, with all that is known of it so far and its findings.

    Attributes:
        epoch: newest epoch.
        tallies: tallies of the projects by number; complete once the projects, which come first, have been read.
    """

    def __init__(self, store: StoreReader, findings: Findings) -> None:
        self.store = store
        self.findings = findings
        self.epoch = stored_number(store, EPOCH_KEY, 0)
        self.tallies: dict[int, Tally] = {}

    def tally(self, family: Family, key: bytes) -> Tally | None:
        """Return the tally of the key's project; None, and a problem, if the project is unknown."""
        tally = self.tallies.get(layout.project_of(key))
        if tally is None:
            self.note(family, key, "its project is unknown")
        return tally

    def read(self, family: Family, key: bytes, decode: Callable[..., T], *value: object) -> T | None:
        """Decode the value at a key; None, and a problem, if it is malformed."""
        try:
            return decode(*value)
        except layout.UNREADABLE as error:
            self.note(family, key, f"can't be read ({error})")
            return None

    def note(self, family: Family, key: bytes, reason: str, taskid: str = "") -> None:
        """Add a problem of the entry at a key; the project is named if the family has projects."""
        number = layout.project_of(key) if len(key) >= PROJECT_BYTES and family in layout.PROJECT_FAMILIES else None
        known = None if number is None else self.tallies.get(number)
        project = known.name if known is not None else "" if number is None else f"#{number}"
        self.findings.note(family, project, taskid, key, reason)


def is_cleared(task: Task, cleared: int) -> bool:
    """Whether ``clear`` has dropped the task of this record.

    Args:
        cleared: largest seq of the project's cleared tasks.
    """
    return task.state in LIVE and task.seq <= cleared
