"""Laws L2 and L3: the scheduler never sleeps past due work, and is awake only if there is work.

Due work is found by scanning the whole store at every turn: slow, and too simple to be wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final

from taskqueue.core.model.now import Now
from taskqueue.core.model.session import REST_MOST_SECONDS
from taskqueue.core.model.task import DELAYED, OVER, PROCESSING, READY, STATE_NAMES, key_time
from tests.simulation.paces import Paces
from tests.simulation.tasks import FETCHER_TIMEOUT
from tests.simulation.truth import EPSILON, Truth
from tests.simulation.visitors import PROJECTS as DIVIDED
from tests.simulation.world import Violation, World

OLD_LATE: Final = 60.0
"""Seconds that old tasks may stay, so that many are dropped at once."""

SPINS: Final = 50
"""Idle turns in a row that ask for another one at once, from which on the scheduler is said to spin: it neither sleeps,
sends nor writes. Fewer are allowed: the next turn reads what a turn needs, and may then write."""


class Sleep:
    """Judge of the scheduler's wake-ups."""

    def __init__(self, world: World, truth: Truth, paces: Paces) -> None:
        self._world = world
        self._paces = paces
        self._truth = truth
        self._was_idle = False
        self._spins = 0

    def turned(self, *, heard: bool, did: bool) -> None:
        """Judge a turn; ``heard``: it had requests; ``did``: it sent or wrote something."""
        self._was_idle = not heard and not did
        if did and not heard:
            self._spins = 0

    def until(self, now: Now, boot: float) -> None:
        """Judge a sleep until ``boot`` (boot-clock seconds), if no message comes."""
        self._count_spin(awake=boot <= now.boot)
        wakes_at = self._world.machine.when(boot)
        if wakes_at <= self._world.clock.now + EPSILON:
            return
        self._end_rests()
        for due_at, task, reason in self._due():
            if wakes_at > max(due_at, self._world.clock.now) + EPSILON:
                late = wakes_at - due_at
                raise Violation("L2", task, f"{reason} at {due_at:.3f}, {late:.3f} s before the next turn")

    def _end_rests(self) -> None:
        """End rests of fetchers that even the longest would not outlast; a scheduler that can't sleep may be late."""
        released_at, last = self._truth.released_at, self._world.clock.now - REST_MOST_SECONDS - EPSILON
        for session in [session for session, at in released_at.items() if at <= last]:
            del released_at[session]

    def _due(self) -> Iterable[tuple[float, str, str]]:
        """Yield (true time, taskid, reason) for all work that needs a turn, by a scan of everything."""
        offset = self._world.machine.wall_offset
        ready: dict[str, str] = {}
        suspected: dict[str, bool] = {}
        holding: dict[str, int] = {}
        out: dict[str, int] = {}
        kept: dict[tuple[str, int], float] = {}
        for name, held in self._truth.tasks.items():
            if held.state == READY and name.project not in DIVIDED:
                ready[name.project] = name.taskid
                suspected[name.project] = suspected.get(name.project, False) or held.crashes > 0
            elif held.state == DELAYED:
                yield key_time(held.key) - offset, name.taskid, "it is due"
            elif held.state == PROCESSING:
                lease = self._truth.leases[held.token]
                out[name.project] = out.get(name.project, 0) + 1
                holding[lease.session] = holding.get(lease.session, 0) + 1
                yield lease.latest, name.taskid, "its lease runs out"
                silent_since = self._truth.heard_at.get(lease.session, 0.0)
                yield silent_since + FETCHER_TIMEOUT, name.taskid, f"{lease.session} is silent for too long"
            elif held.state in OVER and not held.bare:
                keep = kept.get((name.project, held.state))
                if keep is None:
                    keep = kept[name.project, held.state] = self._keep(name.project, held.state)
                yield key_time(held.key) + keep + OLD_LATE - offset, name.taskid, "it is old"
        # A fetcher with suspects may get no other tasks, so tasks behind suspects may have to wait.
        sure = {project: taskid for project, taskid in ready.items() if not suspected[project]}
        yield from self._wanted(sure, holding, out)
        for record in self._truth.records.values():
            if record.check_at:
                yield record.check_at - offset, record.name, "it is to be checked"
            if record.until:
                yield record.until - offset, record.name, "its pause is over"

    def _keep(self, project: str, state: int) -> float:
        """Return the seconds for which finished tasks of this state are kept."""
        facts = self._truth.projects[project]
        return float(self._paces.setting(project, facts.overrides, f"keep_{STATE_NAMES[state]}", inf))

    def _wanted(
        self, ready: dict[str, str], holding: dict[str, int], out: dict[str, int]
    ) -> Iterable[tuple[float, str, str]]:
        for project, taskid in ready.items():
            facts = self._truth.projects[project]
            most = self._paces.setting(project, facts.overrides, "max_processing", inf)
            is_open = facts.state == "running" and out.get(project, 0) < most
            if is_open and (session := self._taker(project, holding)):
                yield self._paces.next_at(project) + EPSILON, taskid, f"{session} could have it"

    def _taker(self, project: str, holding: dict[str, int]) -> str:
        """Find a session whose hello says that it would take a task of the project now."""
        for session in self._truth.takers:
            if self._truth.draining.get(session):
                continue
            _, capacity, projects = self._truth.facts[session]
            heard_lately = self._truth.heard_at[session] + FETCHER_TIMEOUT > self._world.clock.now + EPSILON
            over = [token for token in self._truth.mentioned.get(session, ()) if token not in self._truth.in_force]
            has_room = capacity > holding.get(session, 0) + len(over) + self._truth.unnamed.get(session, 0)
            may_rest = session in self._truth.released_at
            if has_room and heard_lately and not may_rest and (projects is None or project in projects):
                return session
        return ""

    def _count_spin(self, *, awake: bool) -> None:
        self._spins = self._spins + self._was_idle if awake else 0
        if self._spins >= SPINS:
            raise Violation("L3", "", f"{SPINS} turns had nothing to do, and each wanted another one at once")
