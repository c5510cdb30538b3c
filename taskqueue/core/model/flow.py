"""A flow: a graph of tasks of one project that is accepted at once; and all flows there are. Rules: ``moves/flows``.

    staged ──submit──► checked ──accepted──► unrolling ──all made──► running ──nothing live──► success, failed, …
       └── an hour, cancel ──► gone              └───────cancel─────────┴────────────────────► cancelled

What has ended runs again as soon as a task of it does, because somebody has retried it; what was cancelled, too. If
tasks of that had not been made yet, it ends as cancelled again.

``FlowTable`` has all flows, those that have a step to take in turns, and those that have ended and are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from taskqueue.core.model.needs import StageRef
from taskqueue.core.model.records import FlowRecord
from taskqueue.core.model.task import CANCELLED, FAILED, LIVE
from taskqueue.core.model.waiters import Waiters
from taskqueue.protocol.choices import FlowState
from taskqueue.protocol.flows import Flow as FlowView
from taskqueue.protocol.values import NewTask, TaskCounts

StepKind = Literal["check", "make", "cancel"]

KNOWN_NAMED: Final = 5
"""Tasks that are named when a flow is refused because they are known."""


class Check:
    """The check of a flow that somebody wants to have accepted; lost with the daemon, and begun anew by a repeat.

    Attributes:
        reuse: tasks that are known already become part of it.
        checked: tasks that have been looked at.
        known: taskids of those that are known already: the first ones, or only how many there are.
        known_count: how many there are.
        awaited: one that somebody waits for already; empty: none.
        outside: a task outside that one of it waits for, or that it has reused; empty: none.
        problem: why it can't be accepted at all; empty: nothing so far.
    """

    __slots__ = ("awaited", "checked", "known", "known_count", "outside", "problem", "reuse")

    def __init__(self, *, reuse: bool) -> None:
        self.reuse = reuse
        self.checked = 0
        self.known: list[str] = []
        self.known_count = 0
        self.awaited = ""
        self.outside = ""
        self.problem = ""


class Flow:
    """A flow, with the requests that wait for its end or its acceptance.

    Attributes:
        check: under way; None: it is not being checked.
        submitters: requests that wait for its acceptance.
        waiters: requests that wait for its end.
        page: the next staged tasks to go through; empty: they have to be read.
    """

    __slots__ = ("check", "page", "record", "submitters", "waiters")

    def __init__(self, record: FlowRecord) -> None:
        self.record = record
        self.check: Check | None = None
        self.submitters = Waiters()
        self.waiters = Waiters()
        self.page: Sequence[NewTask] = ()

    @property
    def number(self) -> int:
        """The number that its tasks know it by."""
        return self.record.number

    @property
    def is_unrolling(self) -> bool:
        """Whether tasks of it are still to be made."""
        record = self.record
        return record.is_accepted and not record.is_cancelled and record.unrolled < record.tasks

    @property
    def is_being_cancelled(self) -> bool:
        """Whether tasks of it are still to be ended."""
        return self.record.is_cancelled and self.record.cancelled_to < self.record.unrolled

    @property
    def is_settled(self) -> bool:
        """Whether no tasks of it are still to be made or ended: it runs as long as one is live."""
        return self.record.is_accepted and not self.is_unrolling and not self.is_being_cancelled

    @property
    def is_active(self) -> bool:
        """Whether there is a step to take."""
        return self.check is not None or self.is_unrolling or self.is_being_cancelled

    @property
    def reserved(self) -> int:
        """Tasks that there has to be room for still."""
        return min(self.record.new, self.record.tasks - self.record.unrolled) if self.is_unrolling else 0

    @property
    def live(self) -> int:
        """Number of its tasks that are live."""
        return sum(self.record.counts[state] for state in LIVE)

    @property
    def next_step(self) -> StepKind:
        """What its next step does, if it is active."""
        return "check" if self.check is not None else "make" if self.is_unrolling else "cancel"

    @property
    def cursor(self) -> int:
        """How many tasks its steps have gone through; those that are to be ended from the last one on."""
        if self.check is not None:
            return self.check.checked
        return self.record.unrolled if self.is_unrolling else self.record.cancelled_to

    @property
    def state(self) -> FlowState:
        """How far it is, or how it ended."""
        record = self.record
        if not record.is_accepted:
            return "staged"
        if self.is_unrolling:
            return "unrolling"
        if record.is_cancelled and (self.is_being_cancelled or not self.live):
            return "cancelled"
        if self.live or not record.ended_at:
            return "running"
        if record.counts[FAILED]:
            return "failed"
        return "cancelled" if record.counts[CANCELLED] else "success"

    def view(self, project: str) -> FlowView:
        """The flow as people see it."""
        record = self.record
        counts = TaskCounts(*record.counts[1:])
        return FlowView(
            project, record.name, self.state, record.tasks, counts, record.unrolled, record.began_at, record.ended_at
        )


class FlowStep:
    """A step that a turn takes.

    Attributes:
        kind: what it does.
        part: tasks that it goes through.
        ahead: the page that the next one goes through, if it is looked up.
    """

    __slots__ = ("ahead", "flow", "kind", "part")

    def __init__(self, flow: Flow, part: Sequence[NewTask]) -> None:
        self.flow = flow
        self.kind = flow.next_step
        self.part = part
        self.ahead: StageRef | None = None


ENDED_KEPT = 1000
"""Flows that have ended and are remembered; beyond it the one that ended first is forgotten."""


class FlowTable:
    """All flows.

    Attributes:
        next_number: the number of the next new one.
        by_number, by_name: by number; by number of the project and name. Read-only for others.
        active: by number, those that have a step to take, whose turn it is first; read-only for others.
        stages: how many are not accepted.
    """

    __slots__ = ("_ended", "active", "by_name", "by_number", "next_number", "stages")

    def __init__(self, next_number: int, records: Iterable[FlowRecord]) -> None:
        self.next_number = next_number
        self.by_number: dict[int, Flow] = {}
        self.by_name: dict[tuple[int, str], Flow] = {}
        self.active: OrderedDict[int, Flow] = OrderedDict()
        self.stages = 0
        self._ended: OrderedDict[int, None] = OrderedDict()
        for record in sorted(records, key=lambda record: record.ended_at):
            self._add(Flow(record))
            if record.ended_at:
                self._ended[record.number] = None

    @property
    def running(self) -> int:
        """Number of those that are accepted and have not ended."""
        return len(self.by_number) - self.stages - len(self._ended)

    def begin(self, project: int, name: str, now: float) -> Flow:
        """A new stage, begun at ``now`` (unix seconds)."""
        flow = Flow(FlowRecord(self.next_number, project, name, staged_at=now, began_at=now))
        self.next_number += 1
        self._add(flow)
        return flow

    def note(self, flow: Flow) -> None:
        """It may have a step to take now, or none any more."""
        if flow.is_active:
            self.active.setdefault(flow.number, flow)
        else:
            self.active.pop(flow.number, None)

    def pass_on(self, flow: Flow) -> None:
        """It has had its turn: move it behind the others."""
        self.active.move_to_end(flow.number)

    def accept(self, flow: Flow) -> None:
        """It is no stage any more."""
        flow.record.is_accepted = True
        self.stages -= 1

    def end(self, flow: Flow) -> Flow | None:
        """It has ended; returns the one that is to be forgotten for it, if any."""
        self._ended[flow.number] = None
        return self.by_number[next(iter(self._ended))] if len(self._ended) > ENDED_KEPT else None

    def go_on(self, flow: Flow) -> None:
        """It had ended and runs again."""
        self._ended.pop(flow.number, None)

    def drop(self, flow: Flow) -> None:
        """Know it no more."""
        del self.by_number[flow.number]
        del self.by_name[flow.record.project, flow.record.name]
        self.active.pop(flow.number, None)
        self._ended.pop(flow.number, None)
        self.stages -= not flow.record.is_accepted

    def of_project(self, project: int) -> list[Flow]:
        """Those of a project; costs a look at all."""
        return [flow for flow in self.by_number.values() if flow.record.project == project]

    def _add(self, flow: Flow) -> None:
        self.by_number[flow.number] = flow
        self.by_name[flow.record.project, flow.record.name] = flow
        self.stages += not flow.record.is_accepted
        self.note(flow)
