"""Requests of the core to the store before it decides, and their answers: values without methods.

    begin(now, incoming) ──► Needs ──► store: look up ──► Found ──► decide(found)

The answers show the store at the look-up; the turn's own changes override them, so that a ``done`` and a ``new-task``
of one task in one turn see each other.

A page of a list ends at a key. Where the next page begins depends on the direction: at a key (forwards), or below
one.

Requests about edges are in ``edges``, those about slots that are needed to dispatch tasks in ``slot_records``. Requests
of clients about slots (``SlotLook`` and its neighbours) are here: they change nothing.
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
from taskqueue.core.model.undo_rows import FoundUndo, UndoRef
from taskqueue.protocol.values import Attempt, Change, NewTask

LOG_MOST = 100_000
"""Entries of ``taskqueue log`` that are kept; each has a few hundred bytes, at most 11 kB."""


class ChangeRecord(Change, frozen=True):
    """Entry of ``taskqueue log`` in the store, where the actor is called ``name``.

    Attributes:
        is_whole: True if the entry names all projects that the change was about; unknown in older stores.
    """

    actor: str = field(name="name")
    is_whole: bool = False


class LogRef(NamedTuple):
    """Request for entries of ``taskqueue log`` with numbers from ``first`` to below ``end``."""

    first: int
    end: int


class SpecRef(NamedTuple):
    """Place of a task's spec in the store: project number, seq."""

    project: int
    seq: int


class LeaseAnswer(NamedTuple):
    """Task that a ``done`` reports on, whether it succeeded or failed, and the token of the report."""

    project: int
    taskid: str
    token: int


class ListRef(NamedTuple):
    """Request for a range of an order to be listed: at most ``rows`` tasks of ``state`` that match the globs.

    Attributes:
        start, end: range of keys, the end excluded.
        newest: True to read backwards from the end.
        limit: tasks to examine, at most.
        limit_bytes: bytes of URLs and bodies at which the read ends, too, after one task at least.
        url, error: globs, the latter for the last attempt's error; empty for any.
        attempts: True to include the last attempts of tasks that have been run.
        pushed_since, pushed_before: see ``came_within``.
        ignore_case: True if letters of either case match the globs.
        job: name of a job; empty for any, or none.
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
    ignore_case: bool = False
    job: str = ""


class FoundList(Struct):
    """Answer to a ListRef.

    Attributes:
        tasks: tasks with specs, in order of their keys, or backwards.
        attempts: last attempts, by taskid.
        next: start of the next page; None if the range has no further tasks.
    """

    ref: ListRef
    tasks: list[Task]
    attempts: dict[str, Attempt]
    next: int | None


def page_with(newest: bool, key: int) -> int:
    """Return the start of a page whose first task has this key."""
    return key + newest


def page_past(newest: bool, key: int) -> int:
    """Return the start of the page after the task of this key."""
    return key + (not newest)


class OrderRef(NamedTuple):
    """Request for the next entries of an order: at most ``limit`` tasks of ``state`` with keys of at least ``start``.

    The read also ends when URLs and bodies come to ``limit_bytes``, after one task at least.

    Attributes:
        to_sort: True to read ready tasks, of slots, too, that are to be sorted anew; False to refill a head.
    """

    project: int
    state: int
    start: int
    limit: int
    limit_bytes: int
    to_sort: bool = False


class OldRef(NamedTuple):
    """Request for finished tasks past their retention.

    At most ``limit`` tasks of ``state`` with keys from ``start`` to below ``end``.
    """

    project: int
    state: int
    start: int
    end: int
    limit: int


class Old(NamedTuple):
    """Finished task without its spec, and how many entries of its history may be filled."""

    task: Task
    attempts: int


class PageRef(NamedTuple):
    """Request for known tasks of a project in order of their taskids, after ``after``.

    Attributes:
        limit: number of tasks, at most.
        whole: True to include their specs; fewer tasks if these are large.
        errors: True to include their last attempts, which have their errors.
        job: name of a job, to leave out the tasks of others; empty for all tasks.
    """

    project: int
    after: str
    limit: int
    whole: bool
    errors: bool
    job: str = ""


class StageRef(NamedTuple):
    """Request for tasks that were staged for a flow, from index ``first`` on, or back to its beginning.

    Attributes:
        limit: number of tasks, at most; fewer if they are large.
        shown: number of the project, to show progress: adds the tasks in their present state, their last attempts, and
            the indices of their parents; 0 for the staged tasks only.
        backwards: True to read ``first`` and the tasks before it, from the last one on.
    """

    flow: int
    first: int
    limit: int
    shown: int = 0
    backwards: bool = False


class MemberRef(NamedTuple):
    """Request for the index of a taskid in a flow."""

    flow: int
    taskid: str


class SlotLook(NamedTuple):
    """Request for one slot: by its number, else by its name, else by the taskid of a ready task in it.

    Attributes:
        number, name, taskid: the key of the look-up; the two others are empty.
        count_most: ready tasks that are counted, at most.
        tasks_most: next ready tasks that are read, at most.
    """

    project: int
    number: int
    name: str
    taskid: str
    count_most: int
    tasks_most: int


class SlotTallyRef(NamedTuple):
    """Request for counts by slot of ready tasks from the place ``start`` on; ``limit`` at most."""

    project: int
    start: int
    limit: int


class SlotRecordsRef(NamedTuple):
    """Request for slots from the number ``start`` on; ``limit`` at most."""

    project: int
    start: int
    limit: int


SlotQuestion = SlotLook | SlotTallyRef | SlotRecordsRef


class Needs(Struct):
    """Look-ups that the core needs before it decides.

    Attributes:
        tasks: tasks by (project number, taskid), without specs. Plain pairs, as there is one for each pushed task: a
            TaskRef, which may be among them, takes four times as long to make.
        whole: tasks with their specs.
        answered: tasks, with their specs if the tokens match.
        specs, later: specs of hollow tasks in memory; of ``later`` as many as are not too large together.
        orders: next entries of orders that ran low, or are to be sorted anew.
        sessions: sessions whose stored outcomes are needed.
        histories: tasks whose last attempts are needed.
        results: tasks whose results are needed.
        lists: ranges of orders to be shown to clients.
        pages: known tasks of a project, for operations and for sweeping up after ``clear``.
        old: finished tasks that may be past their retention.
        failures: failed attempts, to be counted or dropped.
        log, points: parts of ``taskqueue log``, and of the history of events.
        edges: edges of tasks; the tasks at their other ends are looked up like ``tasks``.
        parents: parents of tasks, looked up like ``tasks``, with their results, looked up like ``results``.
        propagations: propagations that take a step, with everything they need.
        walks: edges of many tasks, several steps far; the children are looked up like ``tasks``.
        stages: staged tasks of flows.
        members: taskids that may belong to flows.
        rerun: position of the rerun that takes a step, with everything it needs.
        undo: likewise of an undo.
        slot_names: slots by name.
        slot_records: those of ``slot_names`` whose records are needed.
        slots: slots by number, with their next tasks.
        slot_pages: next slots of orders.
        slot_questions: requests of clients about slots.
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
    undo: UndoRef | None = None
    slot_names: list[SlotName] = field(default_factory=list)
    slot_records: list[SlotName] = field(default_factory=list)
    slots: list[SlotRef] = field(default_factory=list)
    slot_pages: list[SlotPageRef] = field(default_factory=list)
    slot_questions: list[SlotQuestion] = field(default_factory=list)


class SetAside(NamedTuple):
    """Damaged place in an order, at which the store has nothing usable.

    Attributes:
        place: the key there; see ``seq_in``.
        apart: True if the project can be finished without the task, as far as is known.
        reason: the damage, described for the operator.
    """

    project: int
    state: int
    place: int
    apart: bool
    reason: str


class FoundOrder(Struct):
    """Answer to an OrderRef.

    Attributes:
        tasks: tasks with specs, in order of their keys; kept_state and kept_key are their places.
        following: key of the first entry after them; NO_FLOOR if there is none.
    """

    ref: OrderRef
    tasks: list[Task]
    following: int

    @property
    def end(self) -> bool:
        """True if there are no further entries in the order."""
        return self.following == NO_FLOOR


class FoundPage(Struct):
    """Answer to a PageRef.

    Attributes:
        tasks: tasks as stored; those in memory may be newer.
        attempts: last attempts, by taskid.
        end: True if there are no more.
        last: taskid of the last scanned entry.
    """

    ref: PageRef
    tasks: list[Task]
    attempts: dict[str, Attempt]
    end: bool
    last: str


class FoundOld(Struct):
    """Answer to an OldRef.

    Attributes:
        tasks: tasks in order of their keys.
        next: key of the first task in the order after these; None if there are no more.
    """

    ref: OldRef
    tasks: list[Old]
    next: int | None


class FoundStage(Struct):
    """Answer to a StageRef: staged tasks in order, and the last attempts of those that are shown, by taskid."""

    tasks: list[NewTask]
    attempts: dict[str, Attempt]


class FoundLook(Struct):
    """Answer to a SlotLook.

    Attributes:
        number: number of the slot; 0 if there is none.
        ready: counted ready tasks; with ``more`` there are others.
        tasks: next ready tasks, with specs.
    """

    number: int
    record: SlotRecord | None
    ready: int
    more: bool
    tasks: list[Task]


class FoundTally(NamedTuple):
    """Answer to a SlotTallyRef: slot numbers with their counts on this page, and where the next page begins.

    ``next`` is None if there are no more.
    """

    counts: list[tuple[int, int]]
    next: int | None


class FoundSlotRecords(NamedTuple):
    """Answer to a SlotRecordsRef: records by number, and where the next page begins; None if there are no more."""

    records: dict[int, SlotRecord]
    next: int | None


class SlotAnswers(Struct, frozen=True):
    """Answers to requests of clients about slots, by request."""

    looks: dict[SlotLook, FoundLook] = {}
    tallies: dict[SlotTallyRef, FoundTally] = {}
    records: dict[SlotRecordsRef, FoundSlotRecords] = {}


NO_ANSWERS: Final = SlotAnswers()


class Found(Struct):
    """Results of the look-ups; what the store doesn't have is absent from the maps.

    Attributes:
        tasks: answers to ``Needs.tasks``, ``whole`` and ``answered``, by TaskRef. A processing task here is older than
            its lease, which is in memory.
        later: those of ``Needs.later`` that are among ``specs``.
        sessions: answers as they were sent, by request number; empty for a session that the store doesn't have.
        histories: last attempts, by index.
        results: results as their fetchers gave them.
        lists, pages, old, failures: answers by request.
        log: entries by number.
        points: points by session and n, in order of their times; None where nothing happened.
        awaited: those of the unknown tasks looked up that other tasks wait for.
        edges, parents: answers by request.
        propagations: propagations in order of their numbers.
        walks: answers by request: the edges after each place reached.
        stages: answers by request.
        members: indices by request; absent if the taskid is not a member.
        rerun, undo: answers to ``Needs.rerun`` and ``Needs.undo``.
        slot_numbers: numbers by name; 0 if no slot has that name.
        slot_records: records that are needed, and those of a former division, by name.
        slots: answers by request.
        slot_pages: answers in order of the requests.
        set_aside: damaged places that were found; each is to be taken out of its order in this turn.
        unreadable: known tasks whose records can't be used.
        is_tolerant: True if the store reports single damaged entries; if not, a missing one is a bug.
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
    walks: dict[WalkRef, dict[EdgePlace, FoundEdges]] = field(default_factory=dict)
    stages: dict[StageRef, FoundStage] = field(default_factory=dict)
    members: dict[MemberRef, int] = field(default_factory=dict)
    rerun: FoundRerun | None = None
    undo: FoundUndo | None = None
    slot_numbers: dict[SlotName, int] = field(default_factory=dict)
    slot_records: dict[SlotName, SlotRecord] = field(default_factory=dict)
    slots: dict[SlotRef, FoundSlot] = field(default_factory=dict)
    slot_pages: list[FoundSlotPage] = field(default_factory=list)
    slot_answers: SlotAnswers = NO_ANSWERS
    set_aside: list[SetAside] = field(default_factory=list)
    unreadable: dict[tuple[int, str], None] = field(default_factory=dict)
    is_tolerant: bool = False
