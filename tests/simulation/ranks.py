"""Laws P1 to P3: each task goes to the best waiting fetcher that could take it, and no task that goes before it waits.

Dispatches of a turn have growing numbers. A fetcher *surely waited* for one if by its own hello, and counting its
earlier tasks, it had a free place and wanted the project. Fetchers that may rest or drain need not have waited; a
suspect need not be for every fetcher. A rest has surely ended when the scheduler sleeps after its longest time: as long
as each turn leaves due work to the next, the end of the rest may be a part of that.

A due task is ready in the turn that dispatches a task of its project that it has to go before: one of a lower priority,
or of the same priority and younger. A project with too many due tasks for a turn dispatches nothing.

In a project that goes by due time, of two tasks that have waited, the one goes first that became due in an earlier
turn, or earlier among those of one turn, unless an operation was under way, or the task has got another place since.
Slots and suspects have ways of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from taskqueue.core.model.records import OperationRecord
from taskqueue.core.model.task import DELAYED, PROCESSING, READY, SEQ_BITS, Move, key_time
from tests.simulation.paces import Paces
from tests.simulation.tasks import FETCHER_TIMEOUT
from tests.simulation.truth import EPSILON, Held, Name, Truth
from tests.simulation.world import Violation, World

_SEQ: Final = (1 << SEQ_BITS) - 1


class HandOut(NamedTuple):
    """Dispatch of a task to a session; ``number`` gives the order."""

    number: int
    name: Name
    session: str
    is_suspect: bool


class Ranks:
    """Judge of priorities of fetchers and their tasks."""

    def __init__(self, world: World, truth: Truth, paces: Paces) -> None:
        self._world = world
        self._truth = truth
        self._paces = paces
        self._priorities: dict[str, int] = {}
        self._handed: list[HandOut] = []
        self._turns = 0
        self._is_quiet = True

    def stated(self, session: str, hello: dict[str, Any]) -> None:
        """Record a hello that is newer than all earlier ones of its session."""
        self._priorities[session] = hello.get("priority", 0)

    def restarted(self) -> None:
        """Record a restart: until a hello, the scheduler does not know the session's priority."""
        self._priorities.clear()

    def begin(self, operations: Sequence[OperationRecord]) -> None:
        """Begin to judge the tasks that a turn has written, with these steps of operations."""
        self._turns += 1
        operating = self._truth.operating
        self._is_quiet = not operating and not operations
        for record in operations:
            if record.progress.ended_at:
                self._truth.journal.drop(operating, record.progress.id)
            else:
                self._truth.journal.put(operating, record.progress.id, True)

    def became_due(self, name: Name, was: Held | None, move: Move, *, is_alone: bool) -> tuple[int, int] | None:
        """Return ``Held.became_due`` of a written task; ``is_alone`` if nothing else was done with it in this turn."""
        task, old_state, old_key, *_ = move
        if task.state not in (READY, PROCESSING):
            return None
        has_its_place = was is not None and was.ready_place & _SEQ == task.seq
        if old_state == DELAYED and is_alone:
            order = self._order(name.project)
            if order == "due" and self._is_quiet:
                return self._turns, old_key
            if order != "due" and not has_its_place:
                raise Violation("P3", name.taskid, "it became due, and lost its place")
        stays = was is not None and was.state in (READY, PROCESSING) and has_its_place
        return was.became_due if was is not None and stays else None

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
        projects = dict.fromkeys(each.name.project for each in handed)
        due: dict[str, list[Name]] = {project: [] for project in projects}
        ready: dict[str, list[Name]] = {project: [] for project in projects}
        for name, held in tasks.items():
            if name.project in projects and held.state == DELAYED and key_time(held.key) <= wall:
                due[name.project].append(name)
            elif name.project in projects and held.state == READY and not held.crashes:
                ready[name.project].append(name)
        for each in handed:
            project, taskid, order = *each.name, self._order(each.name.project)
            for other in due[project]:
                if _goes_before(order, tasks[other], tasks[each.name]):
                    raise Violation("P2", taskid, f"it was handed out, and {other.taskid}, which goes before, is due")
            if each.is_suspect or self._has_slots(project) or self._truth.projects[project].is_sorting:
                continue
            for other in ready[project]:
                if _goes_before(order, tasks[other], tasks[each.name]):
                    raise Violation("P3", taskid, f"it was handed out, and {other.taskid}, which goes before, is ready")

    def _order(self, project: str) -> str:
        return str(self._paces.setting(project, self._truth.projects[project].overrides, "order", "arrival"))

    def _has_slots(self, project: str) -> bool:
        return bool(self._paces.setting(project, self._truth.projects[project].overrides, "slot", {}))

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
        is_heard = truth.heard_at[session] + FETCHER_TIMEOUT > now + EPSILON
        return is_heard and session not in truth.released_at and not truth.draining.get(session)

    def _room(self, session: str) -> int:
        """Count the further tasks that the fetcher would surely take after the turn."""
        truth = self._truth
        held = [task.token for task in truth.tasks.values() if task.state == PROCESSING]
        holding = sum(truth.leases[token].session == session for token in held)
        over = sum(token not in truth.in_force for token in truth.mentioned.get(session, ()))
        return truth.facts[session][1] - holding - over - truth.unnamed.get(session, 0)


def _goes_before(order: str, one: Held, other: Held) -> bool:
    """Whether a waiting task goes surely before another one of its project, if it is ready."""
    if one.ready_place >> SEQ_BITS != other.ready_place >> SEQ_BITS:
        return one.ready_place < other.ready_place
    if order == "due":
        return one.became_due is not None and other.became_due is not None and one.became_due < other.became_due
    return one.ready_place > other.ready_place if order == "newest" else one.ready_place < other.ready_place
