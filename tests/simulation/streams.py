"""Laws of flows, judged by staged tasks and writes.

W1   each task of an accepted flow is made in exactly one turn, in the order in which it was staged
W2   when all is quiet: a flow that was not cancelled has all its tasks, and counts each under its state
W3   staged tasks belong to an existing flow
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taskqueue.core.model.flow import DROPPED
from taskqueue.core.model.records import FlowRecord
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from tests.simulation.truth import Name, Truth
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from tests.simulation.laws import Round

Message = dict[str, Any]

EVERYTHING: Final = 1 << 30


class Seen(NamedTuple):
    """Accepted flow, as it was written last; ``ended`` are tasks that a cancel has processed."""

    project: str
    name: str
    tasks: tuple[Message, ...]
    unrolled: int
    ended: int
    is_cancelled: bool
    counts: tuple[int, ...]

    def name_of(self, place: int) -> Name:
        """Name the task at an index."""
        return Name(self.project, self.tasks[place]["taskid"])


class Streams:
    """Judge of flows."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def staged(self, request: Message, reply: Message) -> None:
        """Record staged tasks, or their refusal."""
        if not reply.get("errors"):
            key = request["project"], request["flow"]
            before = self._truth.stages.get(key, ()) if request["first"] else ()
            self._truth.journal.put(self._truth.stages, key, (*before, *request["tasks"]))

    def step(self, turn: Round, numbers: Mapping[int, str]) -> tuple[list[tuple[Name, Message]], list[Name]]:
        """List tasks that this turn makes, and those that a cancel processes: law W1."""
        made: list[tuple[Name, Message]] = []
        ended: list[Name] = []
        for number in turn.kept.dropped_flows:
            self._truth.journal.drop(self._truth.flows, number)
        for record in turn.kept.flows:
            if record.is_accepted:
                before = self._truth.flows.get(record.number) or self._begun(record, numbers[record.project])
                for name, item in self._made(before, record):
                    made.append((name, item))
                    self._truth.journal.put(self._truth.flow_of, name, record.number)
                ended += self._ended(before, record)
                after = before._replace(
                    unrolled=record.unrolled,
                    ended=record.cancelled_to,
                    is_cancelled=record.is_cancelled,
                    counts=tuple(record.counts),
                )
                self._truth.journal.put(self._truth.flows, record.number, after)
        return made, ended

    def _begun(self, record: FlowRecord, project: str) -> Seen:
        tasks = self._truth.stages.get((project, record.name), ())
        if len(tasks) != record.tasks:
            raise Violation("W1", record.name, f"{record.tasks} tasks of it were accepted, but {len(tasks)} staged")
        return Seen(project, record.name, tasks, 0, 0, is_cancelled=False, counts=())

    def _made(self, before: Seen, record: FlowRecord) -> Iterable[tuple[Name, Message]]:
        if not before.unrolled <= record.unrolled <= len(before.tasks):
            reason = f"{before.unrolled} of {len(before.tasks)} tasks had been made, and {record.unrolled} are made now"
            raise Violation("W1", record.name, reason)
        for place in range(before.unrolled, record.unrolled):
            yield before.name_of(place), before.tasks[place]

    def _ended(self, before: Seen, record: FlowRecord) -> Iterable[Name]:
        if record.cancelled_to < before.ended:
            raise Violation("W1", record.name, "a cancel goes through tasks twice")
        for passed in range(before.ended, record.cancelled_to):
            yield before.name_of(record.unrolled - 1 - passed)

    # ------------------------------------------------------------------------------------ the end

    def under_way(self) -> bool:
        """Whether tasks of flows are still to be made or ended."""
        return any(
            seen.ended < seen.unrolled if seen.is_cancelled else seen.unrolled < len(seen.tasks)
            for seen in self._truth.flows.values()
        )

    def reckon(self) -> None:
        """Judge law W2."""
        for number, seen in self._truth.flows.items():
            if not seen.is_cancelled and seen.unrolled < len(seen.tasks):
                raise Violation("W2", seen.name, f"{seen.unrolled} of {len(seen.tasks)} tasks are made")
            if sum(seen.counts) != seen.unrolled:
                raise Violation("W2", seen.name, f"it has {seen.unrolled} tasks, and counts {seen.counts}")
            names = [seen.name_of(place) for place in range(seen.unrolled)]
            held = [self._truth.tasks.get(name) if self._truth.flow_of[name] == number else None for name in names]
            dropped = [name in self._truth.dropped for name in names]
            states = [
                DROPPED if is_dropped else each.state for each, is_dropped in zip(held, dropped, strict=True) if each
            ]
            for state, count in enumerate(seen.counts):
                if not states.count(state) <= count <= states.count(state) + held.count(None):
                    raise Violation("W2", seen.name, f"it counts {count} tasks in state {state}, of {states}")

    def reckon_with(self, store: Store) -> None:
        """Judge law W3 of the store at the end."""
        top = b"\xff" * 9
        flows = {key[:4] for key, _ in store.scan(layout.FLOWS, b"", top, EVERYTHING)}
        for key, _ in store.scan(layout.STAGES, b"", top, EVERYTHING):
            if key[:4] not in flows:
                raise Violation("W3", "", f"flow {int.from_bytes(key[:4], 'big')} is gone, and tasks for it are left")
