"""Laws P1 and P2: each task goes to the best waiting fetcher that could take it, and no better one is due meanwhile.

Hand-outs of a turn have numbers that grow. A fetcher *surely waited* for one of them if by its own words, and counting
what it had been given before that, it had a free place and wanted the project. Who may rest, or drains, need not have
waited; a suspect need not be for everybody.

A task that is due is ready in the turn in which one of its project is handed out that it has to go before: of a higher
priority, or of the same one and older. A project whose due tasks are too many for a turn hands out nothing.
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
    """A task is given to a session; ``number`` says in which order."""

    number: int
    name: Name
    session: str
    is_suspect: bool


class Ranks:
    """Watches who has which priority, and who gets what."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth
        self._priorities: dict[str, int] = {}
        self._handed: list[HandOut] = []

    def stated(self, session: str, hello: dict[str, Any]) -> None:
        """A hello was heard that is newer than all of its session before."""
        self._priorities[session] = hello.get("priority", 0)

    def restarted(self) -> None:
        """A scheduler has loaded the store; until it hears a hello it knows no priority."""
        self._priorities.clear()

    def handed(self, hand_out: HandOut) -> None:
        """A task was given to a session, in this turn."""
        self._handed.append(hand_out)

    def turned(self, wall: float) -> None:
        """A turn is over, in which the wall clock showed ``wall``."""
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
        """Who could have had it when it was given away."""
        could = []
        for session, room in rooms.items():
            wishes = self._truth.facts[session][2]
            if room + later[session] > 0 and (wishes is None or hand_out.name.project in wishes):
                could.append(session)
        return could

    def _surely_waits(self, session: str) -> bool:
        """Whether it would have been given something, if it had room."""
        now, truth = self._world.clock.now, self._truth
        may_rest = truth.released_at.get(session, -inf) + REST_MOST_SECONDS > now - EPSILON
        is_heard = truth.heard_at[session] + FETCHER_TIMEOUT > now + EPSILON
        return is_heard and not may_rest and not truth.draining.get(session)

    def _room(self, session: str) -> int:
        """How many tasks more it would surely take after the turn."""
        truth = self._truth
        held = [task.token for task in truth.tasks.values() if task.state == PROCESSING]
        holding = sum(truth.leases[token].session == session for token in held)
        over = sum(token not in truth.in_force for token in truth.mentioned.get(session, ()))
        return truth.facts[session][1] - holding - over - truth.unnamed.get(session, 0)
