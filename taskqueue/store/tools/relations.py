"""Check relations between tasks: edges, flows and slots; and those between operations and their rows for an undo.

Edges: each is in both orders, and children count the unsatisfied ones.

    parents    in the order of the children, so that the edges of a child are neighbours
    children   the same edges, in the order of the parents

Edges whose number is not their child's are void: they mean nothing, and are deleted later. An edge to a task of a
deleted project is in one order only.

Flows: each has its staged tasks, and the counts of its tasks.

    flows             come first: only tasks of known flows are counted, which takes a few numbers per flow
    leases, ids       are counted by flow and state; a task with a lease is processing
    stages, indices   each has one of every task of the flow

Tasks that retention has forgotten stay counted, so a flow may count more finished tasks than there are. A task may name
a forgotten flow.

Slots of divided projects: a slot with ready tasks is in the order of slots, and not too late.

    names, slots            name and number lead to each other, and unassigned numbers are not in use
    slots_ready, _waiting   come before the ready tasks; one bit per number notes an entry that is not late
    ready tasks             the first one of each slot: without such an entry it is never dispatched

Tasks in the range of number 0, or of a former division, wait to be moved, so the project must be moving. An entry may
be early, a slot may have several, and even one without ready tasks may have one: the daemon notices when it reads them.
Entries below the project's bound for the start of the order are never read.

Rows for an undo lie in pages, as many as the operation's record says, or that of the undo that goes through them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from taskqueue.core.model.edges import UNSATISFIED, Edge, Mark, TaskRef
from taskqueue.core.model.flow import counted_as
from taskqueue.core.model.records import FlowRecord
from taskqueue.core.model.slot_records import NUMBER_BITS, NUMBER_MASK, TIME_BYTES, DivisionRecord, SlotRecord
from taskqueue.core.model.slot_table import entry_of
from taskqueue.core.model.task import LIVE, PROCESSING, READY, SLOT_SHIFT, STATE_NAMES, Task
from taskqueue.store.contract import Entry, Family
from taskqueue.store.records import layout
from taskqueue.store.records.edges import BELOW_TASK, decode_mark, decode_propagation, edge_keys, task_key, tasks_of
from taskqueue.store.records.flows import decode_flow, decode_index, decode_staged, flow_key, flow_of
from taskqueue.store.records.layout import AWAITED, PROJECT_BYTES
from taskqueue.store.records.operations import rows_of, undo_place
from taskqueue.store.records.slots import BEST_BYTES, PREFIX, decode_slot, name_key
from taskqueue.store.tools.findings import Checked

# ------------------------------------------------------------------------------------------------ edges

_NO_EDGE: Final = TaskRef(0, "")


class EdgeCheck:
    """Check of PARENTS, of CHILDREN and of PROPAGATIONS, page by page in key order.

    ``finish`` follows the last page of PARENTS, ``finish_awaited`` that of PROPAGATIONS.
    """

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._child = _NO_EDGE
        self._unsatisfied: Counter[int] = Counter()
        self._unwaited: dict[TaskRef, bytes] = {}  # keys of awaited tasks without children

    def parents(self, page: Sequence[Entry]) -> None:
        """Check a page of the edges to parents."""
        edges = self._edges(layout.PARENTS, page, lambda pair: Edge(*pair))
        values = dict(page)
        self._find_others(layout.PARENTS, edges, values)
        for key, edge in edges:
            mark = self._checked.read(layout.PARENTS, key, decode_mark, values[key])
            if edge.child != self._child:
                self.finish()
                self._child = edge.child
            if mark is not None and Mark(*mark).state == UNSATISFIED:
                self._unsatisfied[Mark(*mark).number] += 1

    def children(self, page: Sequence[Entry]) -> None:
        """Check a page of the edges to children."""
        edges = self._edges(layout.CHILDREN, page, lambda pair: Edge(pair[1], pair[0]))
        self._find_others(layout.CHILDREN, edges, dict(page))

    def finish(self) -> None:
        """Compare the counted edges with the count of the last child."""
        child, counted = self._child, self._unsatisfied
        self._child, self._unsatisfied = _NO_EDGE, Counter()
        task = self._task(child) if child.project in self._checked.tallies else None
        if task is None or task.links is None:
            return
        there = counted[task.links.number]
        if there != task.links.missing:
            reason = f"{there} of its edges are not satisfied; it counts {task.links.missing}"
            self._checked.note(layout.PARENTS, task_key(*child), reason, child.taskid)

    def awaited(self, key: bytes) -> None:
        """Look up whether a task waits for an unknown task that is awaited."""
        taskid = self._checked.read(layout.IDS, key, bytes.decode, key[PROJECT_BYTES:])
        if taskid is None:
            return
        ref = TaskRef(layout.project_of(key), taskid)
        start = task_key(*ref)
        if not self._checked.store.scan(layout.CHILDREN, start, start + BELOW_TASK, 1):
            self._unwaited[ref] = key

    def propagations(self, page: Sequence[Entry]) -> None:
        """Check a page of propagations; a pending one may be about to end the wait for a forgotten task."""
        for key, value in page:
            propagation = self._checked.read(layout.PROPAGATIONS, key, decode_propagation, key, value)
            if propagation is not None and propagation.kind == "forgotten":
                self._unwaited.pop(TaskRef(propagation.project, propagation.taskid), None)

    def finish_awaited(self) -> None:
        """Report awaited tasks that no task waits for."""
        for ref, key in self._unwaited.items():
            self._checked.note(layout.IDS, key, "it is awaited, but no task waits for it", ref.taskid)

    def _edges(
        self, family: Family, page: Sequence[Entry], edge_of: Callable[[tuple[TaskRef, TaskRef]], Edge]
    ) -> list[tuple[bytes, Edge]]:
        pairs = [(key, self._checked.read(family, key, tasks_of, key)) for key, _ in page]
        return [(key, edge_of(pair)) for key, pair in pairs if pair is not None]

    def _find_others(self, family: Family, edges: Sequence[tuple[bytes, Edge]], own: Mapping[bytes, bytes]) -> None:
        """Check that the other order has the same edges.

        Args:
            own: values of this order, by key.
        """
        other, place = (layout.CHILDREN, 1) if family == layout.PARENTS else (layout.PARENTS, 0)
        values = self._checked.store.get(other, [edge_keys(edge)[place] for _, edge in edges])
        for (key, edge), value in zip(edges, values, strict=True):
            both = {edge.child.project, edge.parent.project} <= self._checked.tallies.keys()
            if value is None and both:
                self._checked.note(family, key, f"the edge is not among the {other}", edge.child.taskid)
            elif value is not None and value != own[key]:
                self._checked.note(family, key, f"the edge has another mark among the {other}", edge.child.taskid)

    def _task(self, ref: TaskRef) -> Task | None:
        """Read the current task; the lease of a processing task is authoritative."""
        key, leases = layout.id_key(*ref), layout.ORDERS[PROCESSING]
        value = self._checked.store.get(layout.IDS, [key])[0]
        task = None if value in (None, AWAITED) else self._checked.read(layout.IDS, key, layout.task_of, *ref, value)
        if task is not None and task.state in LIVE:
            place = layout.order_key(task.project, task.seq)
            lease = self._checked.store.get(leases, [place])[0]
            if lease is not None:
                return self._checked.read(leases, place, layout.decode_lease, task.project, lease)
        return task


# ------------------------------------------------------------------------------------------------ flows

_STAGED: Final[dict[Family, Callable[[bytes], object]]] = {
    layout.STAGES: decode_staged,
    layout.STAGE_IDS: decode_index,
}


class FlowCheck:
    """Check of flows: counts while the families are read, and compares at the end."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._flows: dict[int, FlowRecord] = {}
        self._states: dict[int, list[int]] = {}
        self._staged: dict[Family, Counter[int]] = {family: Counter() for family in _STAGED}

    def looks(self) -> dict[Family, Callable[[Sequence[Entry]], None]]:
        """Return the function that checks the pages of each family of staged tasks."""
        return {family: partial(self._stage, family) for family in _STAGED}

    def flows(self, page: Sequence[Entry]) -> None:
        """Read a page of the flows themselves."""
        for key, value in page:
            record = self._checked.read(layout.FLOWS, key, decode_flow, value)
            number = None if record is None else self._checked.read(layout.FLOWS, key, flow_of, key)
            if record is None or number is None:
                continue
            if record.number != number:
                self._checked.note(layout.FLOWS, key, f"the record has number {record.number}")
            self._flows[number] = record
            self._states[number] = [0] * len(STATE_NAMES)

    def count(self, task: Task) -> None:
        """Count a task by its record."""
        self._add(task, task.state, 1)

    def count_lease(self, leased: Task, recorded: Task) -> None:
        """Count a task by its lease instead of its record, by which it is counted as well."""
        self._add(leased, PROCESSING, 1)
        self._add(recorded, recorded.state, -1)

    def _stage(self, family: Family, page: Sequence[Entry]) -> None:
        for key, value in page:
            flow = self._checked.read(family, key, flow_of, key)
            if flow is not None:
                self._staged[family][flow] += 1
                self._checked.read(family, key, _STAGED[family], value)

    def finish(self) -> None:
        """Compare the counts with the records of flows."""
        for number, record in self._flows.items():
            for reason in self._problems(number, record):
                self._checked.note(layout.FLOWS, flow_key(number), f'flow "{record.name}": {reason}')
        for family, counts in self._staged.items():
            for number in counts.keys() - self._flows.keys():
                self._checked.note(family, flow_key(number), f"{counts[number]:,} of an unknown flow")

    def _add(self, task: Task, state: int, number: int) -> None:
        links = task.links
        counts = self._states.get(links.flow) if links is not None else None
        if links is not None and counts is not None:
            counts[counted_as(state, links)] += number

    def _problems(self, number: int, record: FlowRecord) -> Iterator[str]:
        for family, counts in self._staged.items():
            if counts[number] != record.tasks:
                yield f"there are {counts[number]:,} {family}; it has {record.tasks:,} tasks"
        for state, name in enumerate(("dropped", *STATE_NAMES[1:])):
            there, said = self._states[number][state], record.counts[state]
            if there != said if state in LIVE else there > said:
                yield f"there are {there:,} tasks {name}; it counts {said:,}"
        if sum(record.counts) != record.unrolled:
            yield f"it counts {sum(record.counts):,} tasks; {record.unrolled:,} have been made"


# ------------------------------------------------------------------------------------------------ operations


class RowsCheck:
    """Check of OPERATIONS, then of UNDO_ROWS; ``finish`` follows both."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._pages: dict[int, int] = {}
        self._found: Counter[int] = Counter()

    def operations(self, page: Sequence[Entry]) -> None:
        """Note the pages that each operation should have."""
        for key, value in page:
            record = self._checked.read(layout.OPERATIONS, key, layout.decode_operation, value)
            if record is not None and (having := rows_of(record)) is not None:
                self._pages[having[0]] = having[1].pages

    def rows(self, page: Sequence[Entry]) -> None:
        """Count the pages, and report those of no operation."""
        for key, value in page:
            self._checked.read(layout.UNDO_ROWS, key, layout.decode_undo_page, value)
            place = self._checked.read(layout.UNDO_ROWS, key, undo_place, key)
            if place is not None and place[1] >= self._pages.get(place[0], 0):
                self._checked.note(layout.UNDO_ROWS, key, "it belongs to no operation")
            elif place is not None:
                self._found[place[0]] += 1

    def finish(self) -> None:
        """Compare the numbers of pages."""
        for operation, pages in self._pages.items():
            if self._found[operation] != pages:
                reason = f"there are {self._found[operation]:,} pages of its rows; it has {pages:,}"
                self._checked.note(layout.OPERATIONS, layout.operation_key(operation), reason)


# ------------------------------------------------------------------------------------------------ slots

SLACK_MS: Final = 1000
"""Milliseconds by which an entry by time may follow the time in its slot's record, which is rounded differently."""

_UNDIVIDED: Final = DivisionRecord("none", 1, 1)


class SlotCheck:
    """Check of the families of slots, then of ready tasks in the order of their keys."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._found: dict[int, bytearray] = {}
        self._last = b""

    def looks(self) -> dict[Family, Callable[[Sequence[Entry]], None]]:
        """Return the function that checks the pages of each family of slots."""
        return {
            layout.SLOT_NAMES: self._names,
            layout.SLOTS: self._slots,
            layout.SLOTS_READY: self._ready,
            layout.SLOTS_WAITING: self._waiting,
        }

    def _names(self, page: Sequence[Entry]) -> None:
        """Check that the slots have the names that lead to them."""
        places = [key[:PROJECT_BYTES] + value for key, value in page]
        records = self._checked.store.get(layout.SLOTS, places)
        for (key, value), place, record in zip(page, places, records, strict=True):
            division = self._division(layout.SLOT_NAMES, key)
            found = None if record is None else self._slot(place, record)
            if division is not None and (found is None or found.name.encode() != key[PROJECT_BYTES:]):
                self._checked.note(layout.SLOT_NAMES, key, f"slot number {_number(value)} does not have this name")

    def _slots(self, page: Sequence[Entry]) -> None:
        """Check that the names of the slots in force lead to them."""
        records = [self._slot(key, value) for key, value in page]
        names = ["" if record is None else record.name for record in records]
        keys = [name_key(layout.project_of(key), name) for (key, _), name in zip(page, names, strict=True)]
        numbers = self._checked.store.get(layout.SLOT_NAMES, keys)
        for (key, _), record, number in zip(page, records, numbers, strict=True):
            division = self._division(layout.SLOTS, key)
            if division is None or record is None:
                continue
            if _number(key) >= division.next_slot:
                self._checked.note(layout.SLOTS, key, f"the next slot would get number {division.next_slot}")
            if _number(key) >= division.division and number != key[PROJECT_BYTES:]:
                self._checked.note(layout.SLOTS, key, f"its name {record.name!r} does not lead to it")

    def _ready(self, page: Sequence[Entry]) -> None:
        """Note slots that have an entry by best task that is not late."""
        for key, _ in page:
            division = self._division(layout.SLOTS_READY, key)
            if division is None or not self._is_whole(layout.SLOTS_READY, key, BEST_BYTES):
                continue
            entry = int.from_bytes(key[PREFIX:], "big")
            project, number = layout.project_of(key), entry & NUMBER_MASK
            first = self._first_entry(project, number)
            if first is not None and entry <= first:
                self._cover(division, key, number, self._checked.tallies[project].record.ready_low)

    def _waiting(self, page: Sequence[Entry]) -> None:
        """Note slots that have an entry by time that is not late."""
        keys = [key[:PROJECT_BYTES] + key[-PROJECT_BYTES:] for key, _ in page]
        for (key, _), place, value in zip(page, keys, self._checked.store.get(layout.SLOTS, keys), strict=True):
            division = self._division(layout.SLOTS_WAITING, key)
            record = None if value is None else self._slot(place, value)
            if division is None or record is None or not self._is_whole(layout.SLOTS_WAITING, key, TIME_BYTES):
                continue
            entry = int.from_bytes(key[PREFIX:], "big")
            until = max(record.next_at, record.blocked_until, record.backoff_until)
            if (entry >> NUMBER_BITS) <= until * 1000 + SLACK_MS:
                self._cover(division, key, entry & NUMBER_MASK, division.time_low)

    def tasks(self, page: Sequence[Entry]) -> None:
        """Check ready tasks; keys show the first one of each slot."""
        is_of_one = page[0][0][:PREFIX] == page[-1][0][:PREFIX]
        for key, _ in page[:1] if is_of_one else page:
            slot = key[:PREFIX]
            if slot != self._last and len(key) >= PREFIX:
                self._last = slot
                self._check_first(key, layout.project_of(key), _number(slot))

    def _check_first(self, key: bytes, project: int, number: int) -> None:
        tally = self._checked.tallies.get(project)
        if tally is None:
            return
        division = tally.record.slots or _UNDIVIDED
        is_in_force = number >= division.division if division.by != "none" else number == 0
        if not is_in_force and not division.is_moving:
            reason = f"it is in slot number {number}, but the project is not moving tasks"
            self._checked.note(layout.ORDERS[READY], key, reason)
        elif (number or division.by != "none") and not self._is_covered(project, number):
            reason = f"slot number {number} has no entry in its order that is not late"
            self._checked.note(layout.ORDERS[READY], key, reason)

    def _division(self, family: Family, key: bytes) -> DivisionRecord | None:
        """Return the division of the key's project; None, and a problem, if it is not divided."""
        tally = self._checked.tally(family, key)
        if tally is not None and tally.record.slots is None:
            self._checked.note(family, key, "its project is not divided into slots")
        return None if tally is None else tally.record.slots

    def _slot(self, key: bytes, value: bytes) -> SlotRecord | None:
        return self._checked.read(layout.SLOTS, key, decode_slot, value)

    def _is_whole(self, family: Family, key: bytes, size: int) -> bool:
        is_whole = len(key) == PREFIX + size
        if not is_whole:
            self._checked.note(family, key, f"{len(key)} bytes are not a key")
        return is_whole

    def _first_entry(self, project: int, number: int) -> int | None:
        """Return the entry of a slot's best ready task; None without ready tasks."""
        start, end = (layout.order_key(project, each << SLOT_SHIFT) for each in (number, number + 1))
        first = self._checked.store.scan(layout.ORDERS[READY], start, end, 1)
        return entry_of(int.from_bytes(first[0][0][PROJECT_BYTES:], "big")) if first else None

    def _cover(self, division: DivisionRecord, key: bytes, number: int, low: bytes) -> None:
        """Note that the slot of this number has an entry, unless that lies below the bound and is never read."""
        if (number >= division.division and key[PREFIX:] < low) or not _is_of(division, _number(key[:PREFIX]), number):
            return
        bits = self._found.setdefault(layout.project_of(key), bytearray())
        if len(bits) <= number >> 3:
            bits.extend(bytes((number >> 3) + 1 - len(bits)))
        bits[number >> 3] |= 1 << (number & 7)

    def _is_covered(self, project: int, number: int) -> bool:
        bits = self._found.get(project, b"")
        return number >> 3 < len(bits) and bool(bits[number >> 3] >> (number & 7) & 1)


def _is_of(division: DivisionRecord, entered: int, number: int) -> bool:
    """Whether the daemon reads an entry of this slot in the division that has it."""
    if division.by != "none" and division.division <= number < division.next_slot:
        return entered == division.division
    return number < division.next_slot and entered < division.division


def _number(key: bytes) -> int:
    return int.from_bytes(key[-PROJECT_BYTES:], "big")
