"""Laws P1 and P2: each task goes to the best waiting fetcher that could take it, and no better task is due then.

Dispatches of a turn have growing numbers. A fetcher *surely waited* for one if by its own hello, and counting its
earlier tasks, it had a free place and wanted the project. Fetchers that may rest or drain need not have waited; a
suspect need not be for every fetcher.

A due task is ready in the turn that dispatches a task of its project that it has to go before: one of a lower priority,
or of the same priority and younger. A project with too many due tasks for a turn dispatches nothing.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import Any, NamedTuple

from taskqueue.core.model.session import REST_MOST_SECONDS
from taskqueue.core.model.task import DELAYED, PROCESSING, key_time
from tests.simulation.tasks import FETCHER_TIMEOUT
from tests.simulation.truth import EPSILON, Name, Truth
from tests.simulation.world import Violation, World


class HandOut(NamedTuple):
    """Dispatch of a task to a session; ``number`` gives the order."""

    number: int
    name: Name
    session: str
    is_suspect: bool


class Ranks:
    """Judge of priorities of fetchers and their tasks."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth
        self._priorities: dict[str, int] = {}
        self._handed: list[HandOut] = []

    def stated(self, session: str, hello: dict[str, Any]) -> None:
        """Record a hello that is newer than all earlier ones of its session."""
        self._priorities[session] = hello.get("priority", 0)

    def restarted(self) -> None:
        """Record a restart: until a hello, the scheduler does not know the session's priority."""
        self._priorities.clear()

    def handed(self, hand_out: HandOut) -> None:
        """Record a dispatch of this turn."""
        self._handed.append(hand_out)

    def turned(self, wall: float) -> None:
        """Judge the dispatches of a turn at wall time ``wall``."""
        handed, self._handed = sorted(self._handed), []
        if handed:
            self._check_order(handed, wall)
        if not any(self._priorities.values()):
            return
        rooms = {session: self._room(session) for session in self._truth.takers if self._surely_waits(session)}
        later = Counter(each.session for each in handed)
        for each in handed:
            mine = self._priorities.get(each.session, 0)
            for session in self._waiting(each, rooms, later):
                if self._priorities.get(session, 0) > mine and not each.is_suspect:
                    raise Violation(
                        "P1", each.name.taskid, f"{each.session} got it, and {session}, a better one, waited"
                    )
            later[each.session] -= 1

    def _check_order(self, handed: list[HandOut], wall: float) -> None:
        tasks = self._truth.tasks
        due: dict[str, tuple[int, str]] = {}
        for name, held in tasks.items():
            if held.state == DELAYED and key_time(held.key) <= wall:
                place = held.ready_place, name.taskid
                due[name.project] = min(due.get(name.project, place), place)
        for each in handed:
            first = due.get(each.name.project)
            if first is not None and first[0] < tasks[each.name].ready_place:
                raise Violation("P2", each.name.taskid, f"it was handed out, and {first[1]}, which goes before, is due")

    def _waiting(self, hand_out: HandOut, rooms: dict[str, int], later: Counter[str]) -> list[str]:
        """List fetchers that could have had the task when it was dispatched."""
        could = []
        for session, room in rooms.items():
            wishes = self._truth.facts[session][2]
            if room + later[session] > 0 and (wishes is None or hand_out.name.project in wishes):
                could.append(session)
        return could

    def _surely_waits(self, session: str) -> bool:
        """Whether the fetcher would have got a task, if it had room."""
        now, truth = self._world.clock.now, self._truth
        may_rest = truth.released_at.get(session, -inf) + REST_MOST_SECONDS > now - EPSILON
        is_heard = truth.heard_at[session] + FETCHER_TIMEOUT > now + EPSILON
        return is_heard and not may_rest and not truth.draining.get(session)

    def _room(self, session: str) -> int:
        """Count the further tasks that the fetcher would surely take after the turn."""
        truth = self._truth
        held = [task.token for task in truth.tasks.values() if task.state == PROCESSING]
        holding = sum(truth.leases[token].session == session for token in held)
        over = sum(token not in truth.in_force for token in truth.mentioned.get(session, ()))
        return truth.facts[session][1] - holding - over - truth.unnamed.get(session, 0)
