"""Laws of flows, judged by staged tasks and writes.

W1   each task of an accepted flow is made in exactly one turn, in the order in which it was staged
W2   when all is quiet: a flow that was not cancelled has all its tasks, and counts each under its state
W3   staged tasks belong to an existing flow
W4   a cron entry with a graph submits, for each of its ticks and not before, at most one flow, with all of its tasks;
     the ticks come in order, those that wait in that of their arrival; unless flows may overlap, all earlier flows of
     the entry have ended
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taskqueue.core.model.flow import DROPPED
from taskqueue.core.model.now import Now
from taskqueue.core.model.records import FlowRecord
from taskqueue.protocol.values import NewTask
from taskqueue.store.contract import Store
from taskqueue.store.records import layout
from tests.simulation.paces import Paces
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
    cron: str = ""
    is_over: bool = False

    def name_of(self, place: int) -> Name:
        """Name the task at an index."""
        return Name(self.project, self.tasks[place]["taskid"])


def _members(record: FlowRecord, entry: Message, staged: list[NewTask]) -> Iterable[Message]:
    """Yield the tasks of a cron entry's flow, as its settings describe them, in the order of the flow."""
    tasks = {f"{record.name}.{name}": said for name, said in entry["tasks"].items()}
    if sorted(tasks) != sorted(item.taskid for item in staged) or record.unrolled != len(tasks):
        raise Violation("W4", record.name, f"it has {record.unrolled} tasks, of {list(tasks)}")
    for item in staged:
        said = tasks[item.taskid]
        item_of: Message = {"taskid": item.taskid, "on_parent_failure": said["on_parent_failure"]}
        yield item_of | {"depends_on": [f"{record.name}.{parent}" for parent in said["after"]]}


class Flows:
    """Judge of flows."""

    def __init__(self, truth: Truth, paces: Paces) -> None:
        self._truth = truth
        self._paces = paces
        self._latest = 0.0

    def looked(self, now: Now) -> None:
        """Record the wall time of a turn: ticks that it shows again may come again."""
        self._latest = max(self._latest, now.wall)
        for key, (tick, lowest) in self._truth.ticks.items():
            if now.wall < lowest:
                self._truth.journal.put(self._truth.ticks, key, (tick, now.wall))

    def submitted(self, turn: Round, numbers: Mapping[int, str]) -> Iterable[tuple[Name, Message]]:
        """Yield the tasks of flows that cron entries have submitted at the beginning of the turn: law W4."""
        for record in turn.kept.flows:
            if record.cron and record.number not in self._truth.flows:
                project = numbers[record.project]
                overrides = self._truth.projects[project].overrides
                entry: Message = self._paces.setting(project, overrides, "cron", {})[record.cron]
                self._check_tick(record, project, entry, turn.now)
                tasks = tuple(
                    _members(record, entry, [each.task for each in turn.kept.staged if each.flow == record.number])
                )
                seen = Seen(project, record.name, tasks, len(tasks), 0, is_cancelled=False, counts=(), cron=record.cron)
                for place, item in enumerate(tasks):
                    self._truth.journal.put(self._truth.flow_of, seen.name_of(place), record.number)
                    yield seen.name_of(place), item
                self._truth.journal.put(self._truth.flows, record.number, seen)

    def _check_tick(self, record: FlowRecord, project: str, entry: Message, now: Now) -> None:
        key = record.project, record.cron
        last, lowest = self._truth.ticks.get(key, (0.0, inf))
        if (
            record.tick > self._latest  # a tick that waits may be of a time before the clock was put back
            or record.tick % int(entry["every"][:-1])
            or record.name != f"{record.cron}-{record.tick:.0f}"
        ):
            raise Violation("W4", record.name, f"it is the flow of {record.tick}, at {now.wall}")
        waiting = self._truth.waiting.get(key, ())
        if record.tick not in waiting[:1] and waiting:
            raise Violation("W4", record.name, f"of {waiting}, which wait, the first one comes first")
        # The clock may have been put back, and forward again, while it waited.
        if not waiting and record.tick <= last <= lowest:
            raise Violation("W4", record.name, f"a flow of {last} was submitted before it")
        others = [seen for seen in self._truth.flows.values() if (seen.project, seen.cron) == (project, record.cron)]
        if entry["overlap"] != "both" and not all(seen.is_over for seen in others):
            raise Violation("W4", record.name, f"{others[-1].name} has not ended")
        if not waiting or record.tick > last:
            self._truth.journal.put(self._truth.ticks, key, (record.tick, now.wall))

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
        for project in turn.kept.projects:
            for entry, kept in project.cron.items():
                waited = self._truth.waiting.get((project.number, entry), ())
                still = tuple(tick for tick in waited if tick in kept.waiting)
                more = tuple(tick for tick in kept.waiting if tick not in waited)
                self._truth.journal.put(self._truth.waiting, (project.number, entry), still + more)
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
                    is_over=record.ended_at > 0,
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
