"""Work left for the turns to come: for projects, by number, and along the edges of tasks.

Rules that have work for steps register their kind here, so that a turn calls no idle step: a turn that
only pushed a task used to ask some thirty times. ``step_rules`` has the kinds.

    low        an order is to be read further                        until it has been read, or filled
    overdue    delayed tasks in memory are due                       share by share, in turns, until none is
    swept      what ``clear`` dropped is to be forgotten             page by page, in turns, until nothing is left
    old        finished tasks are past their retention              step by step, in turns, until none is
    barred     no waiting fetcher may take their first tasks         until a fetcher gets a free place
    sorting    ready tasks are to be sorted anew, from a place on    step by step, in turns, until all are
    moving     tasks are to be moved to slots, or out of them       step by step, in turns, until all are
    finishing  nothing was left to do at the end of a turn           until the next one
    uncounted  it is not known how many tasks wait for a retry       page by page, in turns, until it is

Propagations under way are in the store, between the two numbers of ``PropagationQueue``.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, Literal

from taskqueue.core.model.edges import Propagation
from taskqueue.core.model.project import Project
from taskqueue.core.model.slot_records import SlotName

StepKind = Literal[
    "cycles", "cron", "propagation", "operations", "flows", "slot_division", "sweep", "retention", "history",
    "old_failures", "failures", "slot_list", "retry_count", "sorting",
]  # fmt: skip
"""Kind of step."""

REFILLS_A_TURN: Final = 32
"""Orders that are read further in one turn, at most: with many projects a start is spread over several turns."""


class PendingWork:
    """Work left for later turns, by project number. The module lists the attributes, read-only for others.

    Attributes:
        steps: kinds of steps that may have something to do.
    """

    __slots__ = ("barred", "finishing", "low", "moving", "old", "overdue", "sorting", "steps", "swept", "uncounted")

    def __init__(self) -> None:
        self.steps: dict[StepKind, None] = {}
        self.low: dict[int, None] = {}
        self.overdue: dict[int, Project] = {}
        self.swept: dict[int, int] = {}
        self.old: dict[int, None] = {}
        self.barred: dict[int, Project] = {}
        self.finishing: dict[int, Project] = {}
        self.moving: dict[int, list[SlotName]] = {}
        self.uncounted: dict[int, None] = {}
        self.sorting: dict[int, int] = {}

    def begin(self, kind: StepKind) -> None:
        """Register work for steps of this kind."""
        self.steps[kind] = None

    def end(self, kind: StepKind) -> None:
        """Unregister a kind of step that has nothing left to do."""
        del self.steps[kind]

    def read_further(self, number: int) -> None:
        """Request that an order of the project is read further."""
        self.low[number] = None

    @property
    def turns_of_reading(self) -> int:
        """Number of turns until all low orders, two per project, have been read, and bodies one turn later."""
        return 2 + len(self.low) // (REFILLS_A_TURN // 2)

    def was_read(self, number: int) -> None:
        """Record that the project's orders have been read, or need not be."""
        self.low.pop(number, None)

    def promote(self, project: Project) -> None:
        """Queue a project whose delayed tasks are due, behind others that have some."""
        self.overdue[project.number] = project

    def take_overdue(self, most: int) -> list[Project]:
        """Take up to ``most`` projects whose due tasks become ready next; those with more of them are queued again."""
        taken = list(islice(self.overdue.values(), most))
        for project in taken:
            del self.overdue[project.number]
        return taken

    def sweep(self, number: int, bound: int) -> None:
        """Begin to forget the stored live tasks of the project with seqs up to ``bound``."""
        self.swept[number] = bound
        self.begin("sweep")

    def go_on_sweeping(self, number: int) -> None:
        """Move a project, after its step, behind the others to be swept."""
        self.swept[number] = self.swept.pop(number)

    def was_swept(self, number: int) -> None:
        """Record that nothing is left of the cleared tasks."""
        del self.swept[number]

    def drop_old(self, number: int) -> None:
        """Begin to drop tasks of the project that are past their retention."""
        self.old[number] = None
        self.begin("retention")

    def dropped_old(self, number: int, *, more: bool) -> None:
        """Record a project's step of retention; with ``more`` it is queued again."""
        del self.old[number]
        if more:
            self.old[number] = None

    def move(self, number: int) -> None:
        """Begin to move ready tasks of the project to the slots that they belong to now."""
        self.moving.setdefault(number, [])
        self.begin("slot_division")

    def go_on_moving(self, number: int, names: list[SlotName]) -> None:
        """Move a project behind the others; these names are to be looked up for its next step."""
        del self.moving[number]
        self.moving[number] = names

    def was_moved(self, number: int) -> None:
        """Record that all ready tasks of the project are in their slots."""
        self.moving.pop(number, None)

    def sort(self, number: int) -> None:
        """Begin to sort the project's ready tasks anew."""
        self.sorting[number] = 0
        self.begin("sorting")

    def go_on_sorting(self, number: int, start: int) -> None:
        """Move a project behind the others; its next step begins at the place ``start``."""
        del self.sorting[number]
        self.sorting[number] = start

    def was_sorted(self, number: int) -> None:
        """Record that all ready tasks of the project are in their places."""
        self.sorting.pop(number, None)

    def bar(self, project: Project) -> None:
        """Bar a project whose first tasks no waiting fetcher may take."""
        self.barred[project.number] = project

    def take_barred(self) -> list[Project]:
        """Take the barred projects, because fetchers have got free places."""
        barred = list(self.barred.values())
        self.barred.clear()
        return barred

    def finish(self, project: Project) -> None:
        """Record that the project has nothing left to do."""
        self.finishing[project.number] = project

    def take_finishing(self) -> list[Project]:
        """Take the projects that had nothing left to do at the end of the previous turn."""
        finishing = list(self.finishing.values())
        self.finishing.clear()
        return finishing

    def count(self, number: int) -> None:
        """Begin to count the project's tasks that wait for a retry."""
        self.uncounted[number] = None
        self.begin("retry_count")

    def was_counted(self, number: int) -> None:
        """Record that the project's tasks that wait for a retry have been counted."""
        self.uncounted.pop(number, None)

    def forget(self, number: int) -> None:
        """Drop the work of a deleted project; ``finishing`` is checked when it is taken."""
        self.low.pop(number, None)
        self.overdue.pop(number, None)
        self.moving.pop(number, None)
        self.sorting.pop(number, None)
        self.swept.pop(number, None)
        self.old.pop(number, None)
        self.barred.pop(number, None)
        self.uncounted.pop(number, None)


class PropagationQueue:
    """Propagations to be carried on, which are in the store.

    Attributes:
        first: lower bound of their numbers.
    """

    __slots__ = ("_last", "first")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self._last = last

    @property
    def pending(self) -> bool:
        """True if there may be any."""
        return self.first <= self._last

    def note_last(self, number: int) -> None:
        """Record the number of a new propagation; numbers grow."""
        self._last = max(self._last, number)

    def advance(self, rests: Mapping[int, Propagation | None]) -> None:
        """Record the rests of the propagations that came first when the turn began; None for one that has ended."""
        left = [number for number, rest in rests.items() if rest is not None]
        self.first = min(left) if left else max(rests, default=self._last) + 1
