"""What the core asks the store before it decides, and the answers: values without methods.

    begin(now, incoming) ──► Needs ──► store: look up ──► Found ──► decide(found)

The answers are as old as the look-up; the core overlays the turn's own changes, so that a ``done`` and a ``new-task``
of one task in one turn see each other.

A page of a list ends at a key. Where the next one begins depends on the direction: forwards at a key, backwards below
one.

Questions and answers about edges are in ``edges``, those about slots of which tasks are handed out in ``slot_records``.
What people ask about slots (``SlotLook`` and what follows) is here: it changes nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Raw, Struct, field

from taskqueue.core.model.attempt_records import FailuresRef, FoundFailures
from taskqueue.core.model.edges import (
    EdgePlace,
    EdgesRef,
    FoundEdges,
    FoundParents,
    FoundPropagation,
    ParentsRef,
    PropagationsRef,
    TaskRef,
    WalkRef,
)
from taskqueue.core.model.history import PointsRef, Row
from taskqueue.core.model.rerun_set import FoundRerun, RerunRef
from taskqueue.core.model.slot_records import FoundSlot, FoundSlotPage, SlotName, SlotPageRef, SlotRecord, SlotRef
from taskqueue.core.model.spec import Spec
from taskqueue.core.model.task import NO_FLOOR, Task
from taskqueue.protocol.values import Attempt, Change, NewTask

LOG_MOST = 100_000
"""Entries kept in the change log; a few hundred bytes each, and 11 kB at most."""


class ChangeRecord(Change, frozen=True):
    """An entry of the change log in the store, where the actor is called ``name``."""

    actor: str = field(name="name")


class LogRef(NamedTuple):
    """Entries of the log with numbers from ``first`` to below ``end``."""

    first: int
    end: int


class SpecRef(NamedTuple):
    """A task's spec in the store: project number, seq."""

    project: int
    seq: int


class LeaseAnswer(NamedTuple):
    """A task that a ``done`` reports on, whether it succeeded or failed, and the token of the report."""

    project: int
    taskid: str
    token: int


class ListRef(NamedTuple):
    """A range of an order to be listed: at most ``rows`` tasks of ``state`` that match the globs.

    Attributes:
        start, end: keys, the second one excluded.
        newest: backwards from the end.
        limit: tasks to examine, at most.
        limit_bytes: the read also ends when urls and bodies come to this, but not before the first task.
        url, error: globs; the latter on the last attempt's error. Empty: any.
        attempts: include the last attempts of tasks that have been run.
        pushed_since, pushed_before: see ``came_within``.
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
    pushed_since: float = 0.0
    pushed_before: float = 0.0


class FoundList(Struct):
    """Answer to a ListRef.

    Attributes:
        tasks: with specs, in the order of their keys, or backwards.
        attempts: the last ones, by taskid.
        next: where the next page begins; None: the range has no further tasks.
    """

    ref: ListRef
    tasks: list[Task]
    attempts: dict[str, Attempt]
    next: int | None


def page_with(newest: bool, key: int) -> int:
    """Where a page begins whose first task has this key."""
    return key + newest


def page_past(newest: bool, key: int) -> int:
    """Where the page begins that follows the task of this key."""
    return key + (not newest)


class OrderRef(NamedTuple):
    """The next entries of an order: at most ``limit`` tasks of ``state`` with keys of at least ``start``.

    The read also ends when the urls and bodies read come to ``limit_bytes``, but not before the first task.
    """

    project: int
    state: int
    start: int
    limit: int
    limit_bytes: int


class OldRef(NamedTuple):
    """Finished tasks past their retention: at most ``limit`` tasks of ``state`` with keys from ``start`` to below
    ``end``.
    """

    project: int
    state: int
    start: int
    end: int
    limit: int


class Old(NamedTuple):
    """A finished task without its spec, and how many entries of its history may be filled."""

    task: Task
    attempts: int


class PageRef(NamedTuple):
    """Known tasks of a project in the order of their taskids, after ``after``.

    Attributes:
        limit: number of tasks, at most.
        whole: with their specs; fewer tasks if these are large.
        errors: with their last attempts, which have their errors.
    """

    project: int
    after: str
    limit: int
    whole: bool
    errors: bool


class StageRef(NamedTuple):
    """Tasks that were staged for a flow, from index ``first`` on, or back to its beginning.

    Attributes:
        limit: number of tasks, at most; fewer if they are large.
        shown: number of their project, to show how far they are: with the tasks themselves, as they are now, their last
            attempts, and the indices of those that they wait for; 0: only what was staged.
        backwards: ``first`` is the last one, and the others are those before it, in this order.
    """

    flow: int
    first: int
    limit: int
    shown: int = 0
    backwards: bool = False


class MemberRef(NamedTuple):
    """Which index has a taskid in a flow?"""

    flow: int
    taskid: str


class SlotLook(NamedTuple):
    """One slot: by its number, else by its name, else that in which a ready task is.

    Attributes:
        number, name, taskid: two of them say nothing.
        count_most: ready tasks that are counted.
        tasks_most: next ready tasks that are read.
    """

    project: int
    number: int
    name: str
    taskid: str
    count_most: int
    tasks_most: int


class SlotTallyRef(NamedTuple):
    """Ready tasks from the place ``start`` on, counted by slot; ``limit`` at most."""

    project: int
    start: int
    limit: int


class SlotRecordsRef(NamedTuple):
    """Slots from the number ``start`` on; ``limit`` at most."""

    project: int
    start: int
    limit: int


SlotQuestion = SlotLook | SlotTallyRef | SlotRecordsRef


class Needs(Struct):
    """What the core wants looked up before it decides.

    Attributes:
        tasks: by (project number, taskid), without their specs. Plain pairs, as there is one for each task that is
            pushed: a TaskRef, which may be among them, is made in four times as long.
        whole: by taskid, with their specs.
        answered: by taskid, with their specs if the tokens match.
        specs, later: of hollow tasks in memory; of ``later`` as many as are not too large together.
        orders: the next entries of orders that ran low.
        sessions: whose stored outcomes are needed.
        histories: tasks whose last attempts are needed.
        results: tasks whose results are needed.
        lists: ranges of orders to be shown to people.
        pages: known tasks of a project, for operations and for sweeping up after ``clear``.
        old: finished tasks that may be past their retention.
        failures: failed attempts, to be counted or to be dropped.
        log, points: parts of the change log, and of the history of events.
        edges: of tasks; the tasks at their other ends are looked up like ``tasks``.
        parents: of tasks; these are looked up like ``tasks``, and their results like ``results``.
        propagations: those that take a step, with all that it needs.
        walks: edges of many tasks, several steps far; the children are looked up like ``tasks``.
        stages: what was staged for flows.
        members: whether taskids belong to flows.
        rerun: where the rerun stands that takes a step, with all that it needs.
        slot_names: slots by their names.
        slot_records: those of them whose records are needed.
        slots: slots by their numbers, with their next tasks.
        slot_pages: the next slots of orders.
        slot_questions: what people ask about slots.
    """

    tasks: list[tuple[int, str]] = field(default_factory=list)
    whole: list[TaskRef] = field(default_factory=list)
    answered: list[LeaseAnswer] = field(default_factory=list)
    specs: list[SpecRef] = field(default_factory=list)
    later: list[SpecRef] = field(default_factory=list)
    orders: list[OrderRef] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    histories: list[TaskRef] = field(default_factory=list)
    results: list[TaskRef] = field(default_factory=list)
    lists: list[ListRef] = field(default_factory=list)
    pages: list[PageRef] = field(default_factory=list)
    old: list[OldRef] = field(default_factory=list)
    failures: list[FailuresRef] = field(default_factory=list)
    log: list[LogRef] = field(default_factory=list)
    points: list[PointsRef] = field(default_factory=list)
    edges: list[EdgesRef] = field(default_factory=list)
    parents: list[ParentsRef] = field(default_factory=list)
    propagations: PropagationsRef | None = None
    walks: list[WalkRef] = field(default_factory=list)
    stages: list[StageRef] = field(default_factory=list)
    members: list[MemberRef] = field(default_factory=list)
    rerun: RerunRef | None = None
    slot_names: list[SlotName] = field(default_factory=list)
    slot_records: list[SlotName] = field(default_factory=list)
    slots: list[SlotRef] = field(default_factory=list)
    slot_pages: list[SlotPageRef] = field(default_factory=list)
    slot_questions: list[SlotQuestion] = field(default_factory=list)


class SetAside(NamedTuple):
    """A place in an order at which the store has nothing that can be used.

    Attributes:
        place: the key there; its lower half is the task's seq.
        apart: the project can be finished without the task, as far as is known.
        reason: for people: what is wrong with it.
    """

    project: int
    state: int
    place: int
    apart: bool
    reason: str


class FoundOrder(Struct):
    """Answer to an OrderRef.

    Attributes:
        tasks: with specs, in the order of their keys; their kept_state and kept_key say where they are.
        following: key of the first entry after them; NO_FLOOR: there is none.
    """

    ref: OrderRef
    tasks: list[Task]
    following: int

    @property
    def end(self) -> bool:
        """Whether there are no further entries in the order."""
        return self.following == NO_FLOOR


class FoundPage(Struct):
    """Answer to a PageRef.

    Attributes:
        tasks: as the store has them; what is in memory may know better.
        attempts: the last ones, by taskid.
        end: there are no further ones.
        last: taskid of the last entry that was looked at.
    """

    ref: PageRef
    tasks: list[Task]
    attempts: dict[str, Attempt]
    end: bool
    last: str


class FoundOld(Struct):
    """Answer to an OldRef.

    Attributes:
        tasks: in the order of their keys.
        next: key of the first task in the order after these; None: there are no further ones.
    """

    ref: OldRef
    tasks: list[Old]
    next: int | None


class FoundStage(Struct):
    """Answer to a StageRef: what was staged, in its order, and by taskid the last attempts of those that are shown."""

    tasks: list[NewTask]
    attempts: dict[str, Attempt]


class FoundLook(Struct):
    """Answer to a SlotLook.

    Attributes:
        number: 0: there is none.
        ready: its ready tasks, as far as they were counted; ``more``: there are more.
        tasks: the next ones, with specs.
    """

    number: int
    record: SlotRecord | None
    ready: int
    more: bool
    tasks: list[Task]


class FoundTally(NamedTuple):
    """Answer to a SlotTallyRef: numbers of slots, with how many tasks each has here, and the place after the last one;
    None: there are no more.
    """

    counts: list[tuple[int, int]]
    next: int | None


class FoundSlotRecords(NamedTuple):
    """Answer to a SlotRecordsRef: records by number, and the number after the last one; None: there are no more."""

    records: dict[int, SlotRecord]
    next: int | None


class SlotAnswers(Struct, frozen=True):
    """Answers by their questions."""

    looks: dict[SlotLook, FoundLook] = {}
    tallies: dict[SlotTallyRef, FoundTally] = {}
    records: dict[SlotRecordsRef, FoundSlotRecords] = {}


NO_ANSWERS: Final = SlotAnswers()


class Found(Struct):
    """The results of the look-up. What the store doesn't have is absent from the maps.

    Attributes:
        tasks: answers ``Needs.tasks``, ``whole`` and ``answered``, by TaskRef. For a processing task it is older
            than its lease, which is in memory.
        later: of ``Needs.later``, those that are among ``specs``.
        sessions: answers as they were sent, by request number; empty for a session that the store doesn't have.
        histories: last attempts, by index.
        results: as their fetchers gave them.
        lists, pages, old, failures: by what was asked for.
        log: entries by number.
        points: by session and n, in the order of their times; None: nothing happened.
        awaited: of the tasks that were looked up and are unknown, those that somebody waits for.
        edges, parents: by what was asked for.
        propagations: in the order of their numbers.
        walks: in the order in which they were asked for: the edges after each place that was come to.
        stages: by what was asked for.
        members: indices, by what was asked for; absent: it is no member.
        rerun: what was asked for.
        slot_numbers: by what was asked for; 0: no slot has that name.
        slot_records: of those whose records are needed, and of those of a former division; by what was asked for.
        slots: by what was asked for.
        slot_pages: in the order in which they were asked for.
        set_aside: damaged places that were come upon; each is to be taken out of its order in this turn.
        unreadable: tasks that are known, and whose records can't be used.
        is_tolerant: the store tells of single damaged entries; if not, what is missing is a bug.
    """

    tasks: dict[tuple[int, str], Task] = field(default_factory=dict)
    specs: dict[SpecRef, Spec] = field(default_factory=dict)
    later: list[SpecRef] = field(default_factory=list)
    orders: list[FoundOrder] = field(default_factory=list)
    sessions: dict[str, dict[int, Raw]] = field(default_factory=dict)
    histories: dict[TaskRef, dict[int, Attempt]] = field(default_factory=dict)
    results: dict[TaskRef, Raw] = field(default_factory=dict)
    lists: dict[ListRef, FoundList] = field(default_factory=dict)
    pages: dict[PageRef, FoundPage] = field(default_factory=dict)
    old: dict[OldRef, FoundOld] = field(default_factory=dict)
    failures: dict[FailuresRef, FoundFailures] = field(default_factory=dict)
    log: dict[int, ChangeRecord] = field(default_factory=dict)
    points: dict[tuple[str, int], tuple[PointsRef, list[Row | None]]] = field(default_factory=dict)
    awaited: dict[TaskRef, None] = field(default_factory=dict)
    edges: dict[EdgesRef, FoundEdges] = field(default_factory=dict)
    parents: dict[ParentsRef, FoundParents] = field(default_factory=dict)
    propagations: list[FoundPropagation] = field(default_factory=list)
    walks: list[dict[EdgePlace, FoundEdges]] = field(default_factory=list)
    stages: dict[StageRef, FoundStage] = field(default_factory=dict)
    members: dict[MemberRef, int] = field(default_factory=dict)
    rerun: FoundRerun | None = None
    slot_numbers: dict[SlotName, int] = field(default_factory=dict)
    slot_records: dict[SlotName, SlotRecord] = field(default_factory=dict)
    slots: dict[SlotRef, FoundSlot] = field(default_factory=dict)
    slot_pages: list[FoundSlotPage] = field(default_factory=list)
    slot_answers: SlotAnswers = NO_ANSWERS
    set_aside: list[SetAside] = field(default_factory=list)
    unreadable: dict[tuple[int, str], None] = field(default_factory=dict)
    is_tolerant: bool = False
