"""Laws S13 to S15: across restarts, no slot dispatches before its time, has more processing tasks than its maximum, or
takes more new tasks than its maximum, or fewer.

Each slot has its theoretical arrival time on the true clock, which no crash takes back. A power cut takes back the
number of new tasks with the tasks.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from taskqueue.core.model.task import PROCESSING
from tests.simulation.truth import EPSILON, Name, Truth
from tests.simulation.visitors import PROJECTS, host_of, most_tasks, pace_of
from tests.simulation.world import Violation, World

AHEAD: Final = 1.0
"""Seconds by which a task may be dispatched before its start, if several may run at once."""


class Slots:
    """Judge of dispatches in projects that are divided by hosts."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth
        self._due: dict[tuple[str, str], float] = {}
        self._paces = {project: pace_of(world, project) for project in PROJECTS}
        self._started_at = float("-inf")
        self._taken: dict[tuple[str, str], int] = {}

    def restarted(self) -> None:
        """Record a start: the daemon assumes that dispatches that it does not know were a moment ago."""
        if self._due:
            self._started_at = self._world.clock.now

    def handed(self, name: Name) -> None:
        """Record a task that was dispatched in this turn."""
        if name.project not in self._paces:
            return
        interval, tolerance, most = self._pace(name.project)
        at, slot = self._world.clock.now, (name.project, host_of(name.taskid))
        due = self._due.get(slot, float("-inf"))
        early = due - tolerance - (AHEAD if most > 1 else 0.0) - at
        if early > EPSILON:
            raise Violation("S13", name.taskid, f"{slot[1]} goes {early:.3f} s before its time")
        if most == 1 and at < self._started_at + interval - EPSILON:
            raise Violation("S13", name.taskid, f"{slot[1]} goes {at - self._started_at:.3f} s after a start")
        self._due[slot] = max(due, at) + interval

    def turned(self, handed: list[Name]) -> None:
        """Judge the dispatches of a turn."""
        slots = {(name.project, host_of(name.taskid)) for name in handed if name.project in self._paces}
        if not slots:
            return
        out = Counter(
            (name.project, host_of(name.taskid))
            for name, held in self._truth.tasks.items()
            if name.project in self._paces and held.state == PROCESSING
        )
        for project, host in sorted(slots):
            if out[project, host] > self._pace(project)[2]:
                raise Violation("S14", host, f"{out[project, host]} tasks of {host} are out in {project}")

    def pushed(self, name: Name, outcome: str, code: str = "") -> None:
        """Record a task that was pushed, or a follow-up."""
        if name.project not in self._paces:
            return
        slot, most = (name.project, host_of(name.taskid)), most_tasks(self._world, name.project)
        taken = self._taken.get(slot, 0) + (outcome == "new")
        if outcome == "new":
            self._truth.journal.put(self._taken, slot, taken)
            if taken > most:
                raise Violation("S15", name.taskid, f"{taken} tasks have been new in {slot[1]}, at most {most:g} may")
        elif code == "slot-full" and taken < most:
            raise Violation("S15", name.taskid, f"{slot[1]} is full with {taken} tasks, though {most:g} may be new")

    def cleared(self, project: str) -> None:
        """Restart the count of a project's new tasks."""
        for slot in [slot for slot in self._taken if slot[0] == project]:
            self._truth.journal.drop(self._taken, slot)

    def _pace(self, project: str) -> tuple[float, float, float]:
        """Return seconds between tasks, seconds by which one may be early, and how many may be processing."""
        said = self._paces[project]
        rate, burst, most = said.get("rate"), said.get("burst", 1.0), said["max_processing"]
        return (1 / rate, (burst - 1) / rate, most) if rate else (said["delay"], 0.0, most)
