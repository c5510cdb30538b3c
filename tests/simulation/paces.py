"""Law S6: in any t seconds a project dispatches at most burst + rate * t, across restarts.

Each project has a bucket that is filled step by step and never refilled by a crash, its *ceiling*, which must never
become negative. A second one, its *floor*, has the tokens that the project surely has: a power cut empties it.
"""

from __future__ import annotations

from math import inf
from typing import Any, Final

from taskqueue.settings.settings import CoreConfig
from tests.simulation.truth import EPSILON, Facts, Name, Pace, Truth
from tests.simulation.world import Violation, World

LEAST_BURST: Final = 1.0
"""Tokens of the smallest burst of a project."""


class Paces:
    """Judge of dispatches and changes of rates."""

    def __init__(self, world: World, truth: Truth, config: CoreConfig) -> None:
        self._world = world
        self._truth = truth
        self._config = config
        self._drawn: set[str] = set()
        for name, pace in config.buckets.items():
            for shared in (truth.shared_ceilings, truth.shared_floors):
                shared[name] = Pace(pace.rate, pace.burst, pace.burst, 0.0)

    def made(self, name: str, facts: Facts) -> None:
        """Record a new project, whose bucket is full."""
        rate, burst = self._settings(name, facts)
        for paces in (self._truth.ceilings, self._truth.floors):
            paces[facts.number] = Pace(rate, burst, burst, self._world.clock.now)

    def kept_on(self, name: str, number: int, facts: Facts) -> None:
        """Record that a project continues under another number, at its pace."""
        for paces in (self._truth.ceilings, self._truth.floors):
            before = paces[number]
            paces[facts.number] = Pace(before.rate, before.burst, before.level, before.at)
        self.changed(name, facts)

    def changed(self, name: str, facts: Facts) -> None:
        """Record new settings of a project."""
        rate, burst = self._settings(name, facts)
        for pace in self._of(facts.number):
            pace.change(rate, burst, self._world.clock.now)

    def went_through_others(self, facts: Facts) -> None:
        """Record several settings in one turn: the project surely keeps only the tokens of the smallest burst."""
        _, floor = self._of(facts.number)
        floor.level = min(floor.level, LEAST_BURST)

    def configured(self, config: CoreConfig) -> None:
        """Record a new config."""
        self._config = config
        for name, facts in self._truth.projects.items():
            self.changed(name, facts)
        for name, pace in config.buckets.items():
            for shared in (self._truth.shared_ceilings, self._truth.shared_floors):
                shared[name].change(pace.rate, pace.burst, self._world.clock.now)
            self._fill(name)

    def _fill(self, name: str) -> None:
        """Fill a shared bucket that has never lost a token: it is full, at any former pace."""
        ceiling = self._truth.shared_ceilings[name]
        if name not in self._drawn:
            ceiling.level = ceiling.burst

    def restarted(self, config: CoreConfig, *, same_boot: bool) -> None:
        """Record a start; the settings may have changed at any time while no scheduler ran."""
        self._config = config
        for name, facts in self._truth.projects.items():
            rate, burst = self._settings(name, facts)
            ceiling, floor = self._of(facts.number)
            ceiling.rate, ceiling.burst = max(ceiling.rate, rate), max(ceiling.burst, burst)
            floor.rate, floor.burst = min(floor.rate, rate), min(floor.burst, burst)
            self.changed(name, facts)
            floor.level = floor.level if same_boot else 0.0
        for name, pace in config.buckets.items():
            ceiling, floor = self._truth.shared_ceilings[name], self._truth.shared_floors[name]
            ceiling.rate, ceiling.burst = max(ceiling.rate, pace.rate), max(ceiling.burst, pace.burst)
            floor.rate, floor.burst = min(floor.rate, pace.rate), min(floor.burst, pace.burst)
            for shared in (ceiling, floor):
                shared.change(pace.rate, pace.burst, self._world.clock.now)
            self._fill(name)
            floor.level = floor.level if same_boot else 0.0

    def power_cut(self) -> None:
        """Empty all floors until a scheduler starts again."""
        for pace in (*self._truth.floors.values(), *self._truth.shared_floors.values()):
            pace.level = -inf

    def pay(self, name: Name) -> None:
        """Spend a token for a task that is dispatched now."""
        for whose, (ceiling, floor) in self._paid(name.project):
            self._drawn.add(whose)
            for pace in (ceiling, floor):
                pace.settle(self._world.clock.now)
                pace.level -= pace.rate != inf
            if ceiling.level < -EPSILON:
                raise Violation("S6", name.taskid, f"{whose} is {-ceiling.level:.4f} tokens beyond its pace")

    def next_at(self, project: str) -> float:
        """Return the time at which the project surely has a token."""
        at = self._world.clock.now
        for _, (_, floor) in self._paid(project):
            floor.settle(self._world.clock.now)
            at = max(at, floor.next_at())
        return at

    def setting(self, name: str, overrides: dict[str, Any], key: str, default: Any) -> Any:
        """Look up a setting of a project with these overrides."""
        config = self._config
        layers: dict[str, Any] = {**config.defaults, **config.projects.get(name, {}), **overrides}
        return layers.get(key, default)

    def keep(self, name: str, overrides: dict[str, Any], key: str, default: Any) -> Any:
        """Look up a key of the setting ``keep`` of a project with these overrides."""
        layers = self._config.defaults, self._config.projects.get(name, {}), overrides
        tables: list[Any] = [layer.get("keep", {}) for layer in layers]
        return next((table[key] for table in reversed(tables) if key in table), default)

    def _paid(self, project: str) -> list[tuple[str, tuple[Pace, Pace]]]:
        facts = self._truth.projects[project]
        shared = self.setting(project, facts.overrides, "bucket", "")
        paid = [(project, self._of(facts.number))]
        if shared:
            paid.append((shared, (self._truth.shared_ceilings[shared], self._truth.shared_floors[shared])))
        return paid

    def _of(self, number: int) -> tuple[Pace, Pace]:
        return self._truth.ceilings[number], self._truth.floors[number]

    def _settings(self, name: str, facts: Facts) -> tuple[float, float]:
        shared = self.setting(name, facts.overrides, "bucket", "")
        says = {**self._config.projects.get(name, {}), **facts.overrides}
        rate = inf if shared and "rate" not in says else self.setting(name, facts.overrides, "rate", 1.0)
        return float(rate), float(self.setting(name, facts.overrides, "burst", 3.0))
