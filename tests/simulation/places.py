"""Law H1: free, running and hung places of a fetcher add up to its hello, and replies show each as it is.

*Running* places are those of leases in the store. A place surely *hangs* if the fetcher says that it runs a task whose
lease has ended, and may hang if it has mentioned such a task, or may not have seen it yet, or if it states more hung
places than tasks. The first ``fetchers`` request of a turn is answered with the state at the end of the previous turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from taskqueue.core.model.hashes import derive
from taskqueue.core.model.task import PROCESSING
from tests.simulation.tasks import FETCHER_TIMEOUT
from tests.simulation.truth import EPSILON, Truth
from tests.simulation.world import Violation, World

Message = dict[str, Any]


class Held(NamedTuple):
    """Tasks that occupy places of a fetcher."""

    session: str
    capacity: int
    running: int
    hung_least: int
    hung_most: int


class Places:
    """Judge of replies about fetchers."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._truth = truth
        self._expected: dict[str, Held] | None = None

    def begin(self, requests: list[tuple[bytes, Message]], *, missed: bool) -> None:
        """Begin a turn with these requests; ``missed``: it first takes back tasks that could not be sent."""
        is_asked = bool(requests) and requests[0][1]["type"] == "fetchers" and not missed
        self._expected = self._held() if is_asked else None

    def told(self, reply: Message) -> None:
        """Judge the first reply of the turn to a ``fetchers``; later ones are not judged."""
        expected, self._expected = self._expected or {}, None
        for row in reply["fetchers"]:
            if row["session"] in expected:
                _check(expected[row["session"]], row)

    def _held(self) -> dict[str, Held]:
        """Map pseudonyms to the places of all fetchers that are surely heard."""
        truth, now = self._truth, self._world.clock.now
        leased: dict[str, set[int]] = {}
        for task in truth.tasks.values():
            if task.state == PROCESSING:
                leased.setdefault(truth.leases[task.token].session, set()).add(task.token)
        heard = [each for each in truth.takers if truth.heard_at[each] + FETCHER_TIMEOUT > now + EPSILON]
        return {derive(self._world.secret, each).pseudonym: self._of(each, leased.get(each, set())) for each in heard}

    def _of(self, session: str, leased: set[int]) -> Held:
        truth = self._truth
        unnamed = truth.unnamed.get(session, 0)
        least = len(truth.running.get(session, {}).keys() - leased) + unnamed
        most = len(truth.mentioned.get(session, {}).keys() - leased) + unnamed
        return Held(session, truth.facts[session][1], len(leased), least, most)


def _check(held: Held, row: Message) -> None:
    capacity, running, free = row["capacity"], row["holds"], row.get("free", 0)
    hung = row.get("hung", {}).get("places", 0)
    told = f"{held.session} is told to have {free} free, {running} running and {hung} hung places of {capacity}"
    if (capacity, running) != (held.capacity, held.running):
        raise Violation("H1", held.session, f"{told}, but {held.running} run of {held.capacity}")
    if not held.hung_least <= hung <= held.hung_most:
        raise Violation("H1", held.session, f"{told}, but {held.hung_least} to {held.hung_most} hang")
    if free != max(0, capacity - running - hung):
        raise Violation("H1", held.session, f"{told}, which is not the sum")
