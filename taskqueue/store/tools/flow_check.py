"""Checks flows: what was staged for each is there, and its counts are those of its tasks.

    flows             come first: only tasks of those that there are are counted, so a few numbers a flow are kept
    leases, ids       how many tasks of a flow are in which state; a task with a lease is processing
    stages, indices   each has one of every task of the flow

What retention has forgotten stays counted, so a flow may count more tasks that are over than there are. A task whose
flow is forgotten names it still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from taskqueue.core.tasks.records import FlowRecord
from taskqueue.core.tasks.task import LIVE, PROCESSING, STATE_NAMES, Task
from taskqueue.store.contract import Entry, Family
from taskqueue.store.records import layout
from taskqueue.store.records.flows import decode_flow, decode_index, decode_staged, flow_key, flow_of

Note = Callable[[Family, bytes, str], object]
"""Reports what is wrong with an entry: family, key, reason."""

_DECODE: Final[dict[Family, Callable[[bytes], object]]] = {
    layout.STAGES: decode_staged,
    layout.STAGE_IDS: decode_index,
}


class FlowCheck:
    """Counts while the families are read, and compares at the end."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._flows: dict[int, FlowRecord] = {}
        self._states: dict[int, list[int]] = {}
        self._staged: dict[Family, Counter[int]] = {family: Counter() for family in _DECODE}

    def flows(self, page: Sequence[Entry]) -> None:
        """Read a page of the flows themselves."""
        for key, value in page:
            try:
                record, number = decode_flow(value), flow_of(key)
            except layout.UNREADABLE as error:
                self._note(layout.FLOWS, key, f"can't be read ({error})")
                continue
            if record.number != number:
                self._note(layout.FLOWS, key, f"the record has number {record.number}")
            self._flows[number] = record
            self._states[number] = [0] * len(STATE_NAMES)

    def count(self, task: Task) -> None:
        """Count a task as its record says."""
        self._add(task, task.state, 1)

    def count_lease(self, leased: Task, recorded: Task) -> None:
        """Count a task by its lease, and not as its record says, by which it is counted, too."""
        self._add(leased, PROCESSING, 1)
        self._add(recorded, recorded.state, -1)

    def staged(self, family: Family, page: Sequence[Entry]) -> None:
        """Read a page of what was staged, or of its indices."""
        for key, value in page:
            try:
                self._staged[family][flow_of(key)] += 1
                _DECODE[family](value)
            except layout.UNREADABLE as error:
                self._note(family, key, f"can't be read ({error})")

    def finish(self) -> None:
        """Compare what was counted with what the flows say."""
        for number, record in self._flows.items():
            for reason in (*self._stage_problems(number, record), *_count_problems(record, self._states[number])):
                self._note(layout.FLOWS, flow_key(number), f'flow "{record.name}": {reason}')
        for family, counts in self._staged.items():
            for number in counts.keys() - self._flows.keys():
                self._note(family, flow_key(number), f"{counts[number]:,} of a flow that there is not")

    def _add(self, task: Task, state: int, number: int) -> None:
        counts = self._states.get(task.links.flow) if task.links is not None else None
        if counts is not None:
            counts[state] += number

    def _stage_problems(self, number: int, record: FlowRecord) -> list[str]:
        there = {family: counts[number] for family, counts in self._staged.items()}
        return [
            f"there are {there[family]:,} {family}; it has {record.tasks:,} tasks"
            for family in there
            if there[family] != record.tasks
        ]


def _count_problems(record: FlowRecord, there: Sequence[int]) -> list[str]:
    problems = [
        f"there are {there[state]:,} tasks {name}; it counts {record.counts[state]:,}"
        for state, name in enumerate(STATE_NAMES)
        if (there[state] != record.counts[state] if state in LIVE else there[state] > record.counts[state])
    ]
    if sum(record.counts) != record.unrolled:
        problems.append(f"it counts {sum(record.counts):,} tasks, and {record.unrolled:,} of it are made")
    return problems
