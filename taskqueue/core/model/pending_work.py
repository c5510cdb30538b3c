"""What is left to do in the turns to come: for projects, by their numbers, and along the edges of tasks.

Whatever has work for steps registers their kind here, so that a turn calls no step that has nothing to do: a turn that
only pushes a task asked some thirty times. ``step_rules`` has the kinds.

    low        an order of theirs is to be read further              until it has been read, or has been filled
    overdue    delayed tasks in memory are due                       share by share, in turns, until none is
    swept      what ``clear`` dropped is to be forgotten             page by page, in turns, until nothing is left
    old        something is too old                                  step by step, in turns, until nothing is
    barred     nobody who waits may take their first tasks           until somebody has got a free place
    moving     tasks are to be moved to slots, or out of them       step by step, in turns, until all are
    finishing  nothing was left to do at the end of a turn           until the next one
    uncounted  it is not known how many tasks wait for a retry       page by page, in turns, until it is

Propagations that are under way are in the store, between the two numbers of ``PropagationQueue``.
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
    "old_failures", "failures", "slot_list", "retry_count",
]  # fmt: skip
"""A kind of steps."""

REFILLS_A_TURN: Final = 32
"""Orders that are read further in one turn: with many projects a start is spread over several turns."""


class PendingWork:
    """Work left for later turns, by project number. The attributes are read-only for others; the module lists them.

    Attributes:
        steps: kinds of steps that may have something to do.
    """

    __slots__ = ("barred", "finishing", "low", "moving", "old", "overdue", "steps", "swept", "uncounted")

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

    def begin(self, kind: StepKind) -> None:
        """There is work for steps of this kind."""
        self.steps[kind] = None

    def end(self, kind: StepKind) -> None:
        """Steps of this kind have nothing left to do."""
        del self.steps[kind]

    def read_further(self, number: int) -> None:
        """An order of the project is to be read further."""
        self.low[number] = None

    @property
    def turns_of_reading(self) -> int:
        """Turns after which all that is low now has been read, of each project two orders; and bodies one later."""
        return 2 + len(self.low) // (REFILLS_A_TURN // 2)

    def was_read(self, number: int) -> None:
        """The project's orders have been read, or need not be."""
        self.low.pop(number, None)

    def promote(self, project: Project) -> None:
        """Delayed tasks of the project are due; other projects that have some have their turns first."""
        self.overdue[project.number] = project

    def take_overdue(self, most: int) -> list[Project]:
        """The next projects whose due tasks become ready, at most so many; who has more of them comes again."""
        taken = list(islice(self.overdue.values(), most))
        for project in taken:
            del self.overdue[project.number]
        return taken

    def sweep(self, number: int, bound: int) -> None:
        """Forget what the store has of the project's live tasks with seqs up to ``bound``."""
        self.swept[number] = bound
        self.begin("sweep")

    def go_on_sweeping(self, number: int) -> None:
        """Another project has its turn; this one comes again."""
        self.swept[number] = self.swept.pop(number)

    def was_swept(self, number: int) -> None:
        """Nothing is left of what was cleared."""
        del self.swept[number]

    def drop_old(self, number: int) -> None:
        """Something of the project is too old."""
        self.old[number] = None
        self.begin("retention")

    def dropped_old(self, number: int, *, more: bool) -> None:
        """The project has had its turn; ``more``: it comes again."""
        del self.old[number]
        if more:
            self.old[number] = None

    def move(self, number: int) -> None:
        """Ready tasks of the project are to be moved to the slots that they belong to now."""
        self.moving.setdefault(number, [])
        self.begin("slot_division")

    def go_on_moving(self, number: int, names: list[SlotName]) -> None:
        """Another project has its turn; for the next step of this one these names are to be looked up."""
        del self.moving[number]
        self.moving[number] = names

    def was_moved(self, number: int) -> None:
        """All ready tasks of the project are in their slots."""
        self.moving.pop(number, None)

    def bar(self, project: Project) -> None:
        """Nobody who waits may take the project's first tasks."""
        self.barred[project.number] = project

    def take_barred(self) -> list[Project]:
        """Somebody may take them now, maybe."""
        barred = list(self.barred.values())
        self.barred.clear()
        return barred

    def finish(self, project: Project) -> None:
        """The project has nothing left to do."""
        self.finishing[project.number] = project

    def take_finishing(self) -> list[Project]:
        """Projects that had nothing left to do at the end of the previous turn."""
        finishing = list(self.finishing.values())
        self.finishing.clear()
        return finishing

    def count(self, number: int) -> None:
        """Have the tasks of a project counted that wait for a retry."""
        self.uncounted[number] = None
        self.begin("retry_count")

    def was_counted(self, number: int) -> None:
        """The tasks of a project that wait for a retry have been counted."""
        self.uncounted.pop(number, None)

    def forget(self, number: int) -> None:
        """Drop the work of a deleted project; ``finishing`` is checked when it is taken."""
        self.low.pop(number, None)
        self.overdue.pop(number, None)
        self.moving.pop(number, None)
        self.swept.pop(number, None)
        self.old.pop(number, None)
        self.barred.pop(number, None)
        self.uncounted.pop(number, None)


class PropagationQueue:
    """The propagations that are to be carried on; the store has them.

    Attributes:
        first: none has a smaller number.
    """

    __slots__ = ("_last", "first")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self._last = last

    @property
    def pending(self) -> bool:
        """Whether there may be any."""
        return self.first <= self._last

    def note_last(self, number: int) -> None:
        """One was begun; numbers grow."""
        self._last = max(self._last, number)

    def told(self, step: Mapping[int, Propagation | None]) -> None:
        """The first ones, of those that were there when the turn began, were carried on; None: one has ended."""
        left = [number for number, rest in step.items() if rest is not None]
        self.first = min(left) if left else max(step, default=self._last) + 1
