"""Profile with a crew: fetchers that state names and priorities, and an operator who drains and resumes them.

The crew draws from generators of its own, so worlds without it don't change.
"""

from __future__ import annotations

from typing import Final

from taskqueue.core.model.hashes import derive
from tests.simulation.cast import Fetcher
from tests.simulation.client import Client, Message, Told
from tests.simulation.world import World

NAMES: Final = ("web1", "web1", "web2")
"""Names of the fetchers in all of their lives; two share one."""

MEAN_SECONDS: Final = 40.0

LOOK_SECONDS: Final = 4.0
"""Mean seconds between two lists of the fetchers."""


PRIORITIES: Final = (-1, 0, 0, 3, 7)


class CrewFetcher(Fetcher):
    """Fetcher with a name, which sometimes changes after a death, and with a priority, which changes.

    Some report hung places; one of these sometimes loses the token of one more.
    """

    def __init__(self, world: World, place: int, told: Told, pool: int) -> None:
        self._place = place
        self._priority_rng = world.rng(f"crew{place} priority")
        self._priority = 0
        self._hung_rng = world.rng(f"crew{place} hung")
        self._until: dict[int, float] = {}
        super().__init__(world, f"crew{place}", told, pool)

    def _facts(self) -> Message:
        moved = self._lives % 4 == 0
        if self._priority_rng.random() < 0.2:
            self._priority = self._priority_rng.choice(PRIORITIES)
        return {"name": NAMES[(self._place + moved) % len(NAMES)], "priority": self._priority} | self._hung()

    def _plan(self, task: Message) -> None:
        self._until[task["token"]] = self._world.clock.now + task["timeout"]
        super()._plan(task)

    def _hung(self) -> Message:
        """Report places whose leases have expired; the first fetcher never does."""
        now, is_lost = self._world.clock.now, self._hung_rng.random() < 0.3 and not self._world.is_calm
        until = [at for token, at in self._until.items() if token in self.running and at < now]
        places = len(self.running) + 1 if is_lost and self._place == 2 else len(until)
        if not places or not self._place:
            return {}
        task = {"project": "p1", "taskid": "p1.t1", "url": "http://a/"}
        return {"hung": {"places": places, "seconds": now - min(until, default=now)} | task}


class Drainer:
    """Operator who drains a name and resumes it after a while; in calm, resumes all names."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._rng = world.rng("drainer")
        self._client = Client(world, "drainer", told)
        self._drained: dict[str, None] = {}
        self._wait()

    def _wait(self) -> None:
        self._world.clock.after(self._world.wait(self._rng, MEAN_SECONDS), self._act)

    def _act(self) -> None:
        if self._world.is_calm:
            for name in self._drained:
                self._ask(name, "resume")
            return
        name = self._name()
        self._drained[name] = None
        self._ask(name, "drain")
        if self._rng.random() < 0.8:
            self._world.clock.after(self._rng.choice((0.0, 1.0, 20.0, 100.0)), lambda: self._ask(name, "resume"))
        self._wait()

    def _name(self) -> str:
        """Draw a name of the crew, an unused name, or the pseudonym of a fetcher without a name."""
        if self._rng.random() < 0.8:
            return self._rng.choice((*NAMES, "unused"))
        return derive(self._world.secret, f"fetcher{self._rng.randrange(4)}.1").pseudonym

    def _ask(self, name: str, action: str) -> None:
        self._client.ask("fetcher-do", fetcher=name, action=action)


class Watcher:
    """Client that lists the fetchers again and again."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._rng = world.rng("watcher")
        self._client = Client(world, "watcher", told)
        self._look()

    def _look(self) -> None:
        if not self._world.is_calm:
            self._client.ask("fetchers", limit=100)
            self._world.clock.after(self._world.wait(self._rng, LOOK_SECONDS), self._look)


def move_in(world: World, told: Told, pool: int) -> None:
    """Add the crew to the world."""
    for place in range(len(NAMES)):
        CrewFetcher(world, place, told, pool)
    Drainer(world, told)
    Watcher(world, told)
