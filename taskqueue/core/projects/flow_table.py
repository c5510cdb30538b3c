"""All flows, those that have a step to take in turns, and those that have ended and are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from taskqueue.core.projects.flow import Flow
from taskqueue.core.tasks.records import FlowRecord

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
