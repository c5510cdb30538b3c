"""Naive model of slots: when the next task of each may go, and how many leases it has.

It watches every turn, and reads the disk rather than the scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from math import inf
from typing import Final, NamedTuple

from taskqueue.core.model.daemon_minutes import DaemonMinute
from taskqueue.core.model.slot_records import NUMBER_MASK
from taskqueue.core.model.slot_table import entry_of
from taskqueue.core.model.task import READY, SLOT_SHIFT, Task
from taskqueue.protocol.base import AnyReply
from taskqueue.protocol.fetchers import Select
from taskqueue.protocol.fields import Peer
from taskqueue.protocol.messages import AnyRequest, Flaws
from taskqueue.protocol.values import Assignment
from taskqueue.settings.settings import CoreConfig
from taskqueue.store.records import layout
from tests.unit.core.conftest import World

TICK: Final = 1e-5
"""Seconds by which sums may differ; the clock of slots has ten ticks in it."""

SURE: Final = 0.01
"""Seconds after which times that the store keeps in whole milliseconds have certainly passed."""

ANEW: Final = 60.0
"""Seconds of the longest window that begins anew when the daemon starts."""

AHEAD: Final = 1.0
"""Seconds by which a task may be dispatched before its start, in slots that may run several at once."""

OWN_PATTERN: Final = "*.example0.org"


def _rank(task: Task) -> tuple[int, int]:
    """Return the sort key of a task, the best one first."""
    return -task.priority, task.seq


class Pace(NamedTuple):
    """At least ``interval`` seconds between tasks, of which one may come ``tolerance`` early; ``most`` at once."""

    interval: float
    tolerance: float
    most: float


class Page(NamedTuple):
    """Properties of a task that decide its slot."""

    host: str
    named: str | None

    def slot(self, by: str) -> str:
        """Return the name of its slot; empty if no task waits for another."""
        if by == "none":
            return ""
        own = {"host": self.host, "domain": self.host.partition(".")[2], "named": ""}[by]
        return self.named or own


def ready_tasks(world: World) -> list[Task]:
    """Return the ready tasks on disk; of tasks that a clear has dropped it still knows the taskids."""
    places = {int.from_bytes(key[4:], "big") for key in world.disk.families[layout.ORDERS[READY]].values}
    return [each for each in world.known() if each.state == READY and each.key in places]


class SlotModel:
    """Watcher of one world with one project.

    Args:
        pages: pages by taskid.
        pace, own: pace of each slot, and of those that match ``OWN_PATTERN``.

    Attributes:
        is_ordered: True if all slots with tasks are in memory when the daemon rests, so that their order is exact then.
    """

    def __init__(self, by: str, pages: dict[str, Page], pace: Pace, own: Pace) -> None:
        self._by = by
        self._pages = pages
        self._pace, self._own = pace, own
        self._due: dict[str, float] = {}
        self._latest: dict[str, float] = {}
        self._starts: dict[int, float] = {}
        self._out: dict[int, str] = {}
        self._since = self._anew_at = -inf
        self._is_new = True
        self._waiting: set[tuple[str, int, int]] = set()
        self.is_ordered = False

    # ------------------------------------------------------------------------------------ what happens

    def started(self, at: float) -> None:
        """Start a daemon: dispatches that it does not know count as just made."""
        if not self._is_new:
            self._begin_anew(at)
        self._is_new = False

    def divided(self, by: str, at: float) -> None:
        """Divide the project anew; windows of slots whose names stay are kept."""
        if by != self._by:
            self._by = by
            self._out.clear()
            self._begin_anew(at)

    def _begin_anew(self, at: float) -> None:
        """Begin windows of up to a minute now, except in slots that never had a dispatch."""
        self._anew_at = at
        if self._starts:
            self._since = at

    def reported(self, handed: Assignment, began: float) -> None:
        """Apply a report that counts, with the time at which its fetch began; tasks of former divisions are ignored."""
        name = self._out.get(handed.token)
        if name and began > self._starts[handed.token]:
            due = began + self._pace_of(name).interval
            self._due[name], self._latest[name] = max(self._due[name], due), max(self._latest[name], due)

    def rested(self, world: World) -> list[Task]:
        """Check the order after all reads; return the ready tasks."""
        ready = ready_tasks(world)
        self._waiting = {(each.taskid, *_rank(each)) for each in ready}
        return ready

    def turned(self, world: World) -> None:
        """Judge the dispatches of a turn that has ended."""
        leased = {task.token: task for task in world.leased()}
        ready = ready_tasks(world)
        self._out = {token: name for token, name in self._out.items() if token in leased}
        messages = [each.message for each in world.said if isinstance(each.message, Select)]
        handed = [each for message in messages for each in message.tasks if each.token not in self._starts]
        for place, each in enumerate(handed):
            if self.is_ordered:
                others = [*ready, *(leased[other.token] for other in handed[place + 1 :])]
                self._check_order(leased[each.token], others, world.elapsed)
            self._hand(each, world.elapsed)
        self._check_disk(world, ready)

    # ------------------------------------------------------------------------------------ what must hold

    def _hand(self, handed: Assignment, at: float) -> None:
        name, start = self._slot_of(handed.taskid), at + handed.not_before
        pace, due = self._pace_of(name), self._due.get(name, -inf)
        self._starts[handed.token] = start
        assert start >= due - pace.tolerance - TICK, f"{name}: {handed.taskid} at {start}, it is due at {due}"
        if not pace.tolerance:
            anew = self._since + min(pace.interval, ANEW)
            assert start >= anew - TICK, f"{name}: {handed.taskid} at {start}, its window ends at {anew}"
        self._due[name] = max(due, start) + pace.interval
        self._latest[name] = max(self._latest_of(name), start) + pace.interval
        self._out[handed.token] = name
        assert Counter(self._out.values())[name] <= pace.most, f"{name} has more than {pace.most} out"

    def _check_order(self, handed: Task, others: Iterable[Task], at: float) -> None:
        for other in others:
            is_better = _rank(other) < _rank(handed) and (other.taskid, *_rank(other)) in self._waiting
            assert not (is_better and self.surely_goes(other.taskid, at)), f"{other.taskid} before {handed.taskid}"

    def _check_disk(self, world: World, ready: Iterable[Task]) -> None:
        """Check that a daemon starting now finds every ready task by an entry that is not late, or is to move it."""
        families, projects = world.disk.families, world.disk.families[layout.PROJECTS].values
        record = layout.decode_project(next(iter(projects.values())))
        division = record.slots
        if division is None:
            return
        best: dict[int, int] = {}
        for key in families[layout.SLOTS_READY].values:
            entry = int.from_bytes(key[8:], "big")
            best[entry & NUMBER_MASK] = min(entry, best.get(entry & NUMBER_MASK, entry))
        timed = {int.from_bytes(key[-4:], "big") for key in families[layout.SLOTS_WAITING].values}
        is_divided = division.by != "none"
        for task in ready:
            number = task.key >> SLOT_SHIFT
            if is_divided or number:
                is_found = number in timed or best.get(number, inf) <= entry_of(task.key)
                assert is_found, f"{task.taskid}: no entry of slot {number} leads to it"
            assert division.is_moving or (number >= division.division if is_divided else not number), task.taskid

    # ------------------------------------------------------------------------------------ what may go

    def surely_goes(self, taskid: str, at: float) -> bool:
        """Return whether the slot of the task may dispatch it at this time."""
        name = self._slot_of(taskid)
        pace = self._pace_of(name)
        goes_at = self._latest_of(name) - pace.tolerance - (AHEAD if pace.most > 1 else 0.0)
        return Counter(self._out.values())[name] < pace.most and goes_at + SURE <= at

    def _latest_of(self, name: str) -> float:
        """Return when the next task of the slot is due at the latest."""
        pace = self._pace_of(name)
        window = pace.interval + pace.tolerance + (AHEAD if pace.most > 1 else 0.0)
        return max(self._latest.get(name, -inf), self._anew_at + min(window, ANEW))

    def _slot_of(self, taskid: str) -> str:
        return self._pages[taskid].slot(self._by)

    def _pace_of(self, name: str) -> Pace:
        if not name:
            return Pace(0.0, 0.0, inf)
        return self._own if fnmatch(name, OWN_PATTERN) else self._pace


class WatchedWorld(World):
    """World that reports its turns and starts to a model."""

    def __init__(self, config: CoreConfig, model: SlotModel) -> None:
        self._model = model
        super().__init__(config)

    def turn(
        self,
        *requests: AnyRequest,
        flaws: Sequence[Flaws] = (),
        config: CoreConfig | None = None,
        figures: DaemonMinute | None = None,
        cut: Sequence[Peer | str] = (),
    ) -> list[AnyReply]:
        """Take a turn; see World."""
        replies = super().turn(*requests, flaws=flaws, config=config, figures=figures, cut=cut)
        self._model.turned(self)
        return replies

    def _start(self) -> None:
        self._model.started(self.elapsed)
        super()._start()
