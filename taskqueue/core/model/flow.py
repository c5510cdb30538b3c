"""Flows: graphs of tasks of one project that are accepted at once. The rules are in ``moves/flows``.

    staged ──submit──► checked ──accepted──► unrolling ──all made──► running ──none live──► success, failed, …
       └── an hour, cancel ──► gone              └───────cancel─────────┴────────────────────► cancelled

An ended flow, even a cancelled one, runs again as soon as a task of it does, after a retry. If
tasks of a cancelled flow had not been made yet, it ends as cancelled again.

``FlowTable`` has all flows: those with steps to take, which take turns, and ended ones that are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from taskqueue.core.model.edges import Links
from taskqueue.core.model.needs import StageRef
from taskqueue.core.model.records import FlowRecord
from taskqueue.core.model.task import CANCELLED, FAILED, LIVE
from taskqueue.core.model.waiters import Waiters
from taskqueue.protocol.choices import FlowState
from taskqueue.protocol.flows import Flow as FlowView
from taskqueue.protocol.values import NewTask, TaskCounts

StepKind = Literal["check", "make", "cancel"]

DROPPED: Final = 0
"""Index in the counts of a flow of tasks that were dropped: they ran ``only`` after a failure, and there was none."""

KNOWN_NAMED: Final = 5
"""Known tasks that are named in the refusal of a flow, at most."""


def counted_as(state: int, links: Links) -> int:
    """Return the index in the counts of a flow at which it counts a task with these links."""
    return DROPPED if state == CANCELLED and links.dropped else state


class Check:
    """Check of a flow that a client has submitted; lost if the daemon stops, and begun anew by a repeat.

    Attributes:
        reuse: True if known tasks become part of the flow.
        is_scoped: True if a client that submits it does not reach all projects; reasons name no task of another one.
        checked: number of checked tasks.
        known: taskids of the first known tasks.
        known_count: number of known tasks.
        awaited: taskid of a task that other tasks wait for already; empty if there is none.
        outside: a task outside the flow that one of it waits for, or a reused one; empty if there is none.
        problem: reason why the flow can't be accepted; empty so far.
    """

    __slots__ = ("awaited", "checked", "is_scoped", "known", "known_count", "outside", "problem", "reuse")

    def __init__(self, *, reuse: bool) -> None:
        self.reuse = reuse
        self.is_scoped = False
        self.checked = 0
        self.known: list[str] = []
        self.known_count = 0
        self.awaited = ""
        self.outside = ""
        self.problem = ""


class Flow:
    """Flow, with the requests that wait for its end or its acceptance.

    Attributes:
        check: check under way; None if there is none.
        submitters: requests that wait for its acceptance.
        waiters: requests that wait for its end.
        page: next staged tasks to go through; empty if they have to be read.
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
        """Number by which its tasks refer to the flow."""
        return self.record.number

    @property
    def is_unrolling(self) -> bool:
        """True while tasks of the flow are still to be made."""
        record = self.record
        return record.is_accepted and not record.is_cancelled and record.unrolled < record.tasks

    @property
    def is_being_cancelled(self) -> bool:
        """True while tasks of the flow are still to be cancelled."""
        return self.record.is_cancelled and self.record.cancelled_to < self.record.unrolled

    @property
    def is_settled(self) -> bool:
        """True if the flow has no more tasks to make or cancel: it then runs as long as a task is live."""
        return self.record.is_accepted and not self.is_unrolling and not self.is_being_cancelled

    @property
    def is_active(self) -> bool:
        """True if the flow has a step to take."""
        return self.check is not None or self.is_unrolling or self.is_being_cancelled

    @property
    def reserved(self) -> int:
        """Number of tasks of the flow that room is still reserved for."""
        return min(self.record.new, self.record.tasks - self.record.unrolled) if self.is_unrolling else 0

    @property
    def live(self) -> int:
        """Number of live tasks of the flow."""
        return sum(self.record.counts[state] for state in LIVE)

    @property
    def next_step(self) -> StepKind:
        """Kind of the next step of an active flow."""
        return "check" if self.check is not None else "make" if self.is_unrolling else "cancel"

    @property
    def cursor(self) -> int:
        """Number of tasks that the flow's steps have gone through; cancelling goes from the last task on."""
        if self.check is not None:
            return self.check.checked
        return self.record.unrolled if self.is_unrolling else self.record.cancelled_to

    @property
    def state(self) -> FlowState:
        """Progress or outcome of the flow."""
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
        """Return the flow as replies show it."""
        record = self.record
        counts = TaskCounts(*record.counts[1:])
        counts.cancelled += record.counts[DROPPED]
        return FlowView(
            project, record.name, self.state, record.tasks, counts, record.unrolled, record.began_at, record.ended_at,
            record.cron, record.tick,
        )  # fmt: skip


class FlowStep:
    """Step of a flow that a turn takes.

    Attributes:
        kind: kind of step.
        part: tasks that it goes through.
        ahead: page of the next step, if it is looked up in advance.
    """

    __slots__ = ("ahead", "flow", "kind", "part")

    def __init__(self, flow: Flow, part: Sequence[NewTask]) -> None:
        self.flow = flow
        self.kind = flow.next_step
        self.part = part
        self.ahead: StageRef | None = None


RUNNING_MOST = 1000
"""Flows that are accepted and have not ended, at most."""

ENDED_KEPT = 1000
"""Ended flows that are remembered, besides the last one of each cron entry; beyond it the oldest is forgotten."""


class FlowTable:
    """All flows.

    Attributes:
        next_number: number of the next new flow.
        by_number, by_name: flows by number, and by project number and name. Read-only for others.
        by_cron: flows of cron entries by number, by project number and cron entry. Read-only for others.
        active: flows with a step to take, by number, the next one first. Read-only for others.
        stages: number of flows that are not accepted.
    """

    __slots__ = ("_ended", "_lasts", "active", "by_cron", "by_name", "by_number", "next_number", "stages")

    def __init__(self, next_number: int, records: Iterable[FlowRecord]) -> None:
        self.next_number = next_number
        self.by_number: dict[int, Flow] = {}
        self.by_name: dict[tuple[int, str], Flow] = {}
        self.by_cron: dict[tuple[int, str], dict[int, Flow]] = {}
        self.active: OrderedDict[int, Flow] = OrderedDict()
        self.stages = 0
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._lasts: OrderedDict[tuple[int, str], int] = OrderedDict()
        for record in sorted(records, key=lambda record: record.ended_at):
            self._add(Flow(record))
            if record.ended_at:
                self._ended[record.number] = None
        for project, cron in self.by_cron:
            self._spare_last(project, cron)

    @property
    def running(self) -> int:
        """Number of flows that are accepted and have not ended."""
        return len(self.by_number) - self.stages - len(self._ended) - len(self._lasts)

    @property
    def crowd(self) -> str:
        """Reason why no further flow can run now; empty if one can."""
        return f"{RUNNING_MOST} flows are running already, the most allowed" if self.running >= RUNNING_MOST else ""

    def begin(self, project: int, name: str, now: float, cron: str = "", tick: float = 0.0) -> Flow:
        """Create a stage at ``now`` (unix seconds), maybe for a tick of a cron entry."""
        flow = Flow(FlowRecord(self.next_number, project, name, staged_at=now, began_at=now, cron=cron, tick=tick))
        self.next_number += 1
        self._add(flow)
        return flow

    def note(self, flow: Flow) -> None:
        """Record whether the flow has a step to take."""
        if flow.is_active:
            self.active.setdefault(flow.number, flow)
        else:
            self.active.pop(flow.number, None)

    def pass_on(self, flow: Flow) -> None:
        """Move a flow, after its step, behind the others."""
        self.active.move_to_end(flow.number)

    def accept(self, flow: Flow) -> None:
        """Make a stage an accepted flow."""
        flow.record.is_accepted = True
        self.stages -= 1

    @property
    def too_old(self) -> Flow | None:
        """Ended flow that is to be forgotten; None if there is none."""
        return self.by_number[next(iter(self._ended))] if len(self._ended) > ENDED_KEPT else None

    def end(self, flow: Flow) -> None:
        """Record the end of a flow."""
        self._ended[flow.number] = None
        self._spare_last(flow.record.project, flow.record.cron)

    def go_on(self, flow: Flow) -> None:
        """Record that an ended flow runs again."""
        self._leave_ended(flow)

    def drop(self, flow: Flow) -> None:
        """Remove a flow."""
        del self.by_number[flow.number]
        del self.by_name[flow.record.project, flow.record.name]
        self.active.pop(flow.number, None)
        self._leave_ended(flow)
        self.stages -= not flow.record.is_accepted
        if flow.record.cron:
            of_cron = self.by_cron[flow.record.project, flow.record.cron]
            del of_cron[flow.number]
            if not of_cron:
                del self.by_cron[flow.record.project, flow.record.cron]

    def next_last(self) -> Flow | None:
        """Return the last ended flow of a cron entry, each time that of another one; None if there is none."""
        if not self._lasts:
            return None
        key = next(iter(self._lasts))
        self._lasts.move_to_end(key)
        return self.by_number[self._lasts[key]]

    def stop_sparing(self, flow: Flow) -> None:
        """Let the last ended flow of a cron entry, which is gone, be forgotten like other flows."""
        del self._lasts[flow.record.project, flow.record.cron]
        self._ended[flow.number] = None

    def of_project(self, project: int) -> list[Flow]:
        """Return the flows of a project; costs a pass over all flows."""
        return [flow for flow in self.by_number.values() if flow.record.project == project]

    def of_cron(self, project: int, cron: str) -> list[Flow]:
        """Return the flows of a cron entry in the order in which they were submitted."""
        flows = self.by_cron.get((project, cron))
        return [] if flows is None else [flows[number] for number in sorted(flows)]

    def running_of_cron(self, project: int, cron: str) -> int:
        """Return the number of flows of a cron entry that have not ended."""
        return sum(not flow.record.ended_at for flow in self.of_cron(project, cron))

    def _spare_last(self, project: int, cron: str) -> None:
        """Let the last ended flow of a cron entry not be forgotten: the entry's next tick may depend on it."""
        if not cron:
            return
        former = self._lasts.pop((project, cron), 0)
        if former:
            self._ended[former] = None
        last = max((number for number in self.by_cron.get((project, cron), ()) if number in self._ended), default=0)
        if last:
            del self._ended[last]
            self._lasts[project, cron] = last

    def _leave_ended(self, flow: Flow) -> None:
        """Take a flow out of the ended ones; the one before it is then the last one of its cron entry."""
        key = flow.record.project, flow.record.cron
        self._ended.pop(flow.number, None)
        if self._lasts.get(key) == flow.number:
            del self._lasts[key]
            self._spare_last(*key)

    def _add(self, flow: Flow) -> None:
        self.by_number[flow.number] = flow
        self.by_name[flow.record.project, flow.record.name] = flow
        self.stages += not flow.record.is_accepted
        if flow.record.cron:
            self.by_cron.setdefault((flow.record.project, flow.record.cron), {})[flow.number] = flow
        self.note(flow)
