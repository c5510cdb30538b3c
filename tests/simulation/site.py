"""Where daemons run, one after the other, sometimes two at once: the machine, its disk, the config, and bad luck."""

from __future__ import annotations

from typing import Any

from taskqueue.errors import StoreError
from taskqueue.settings.settings import CoreConfig
from tests.simulation.host import Host
from tests.simulation.laws import Judge
from tests.simulation.storage import FaultyStore, Plan, Storage
from tests.simulation.world import Crash, World


class Site:
    """Where daemons run, one after the other, sometimes two at once: the machine, its disk, the config.

    Attributes:
        crashes: deaths of daemons.
        turns, crowded: that heard something; that heard more than one message.
        refills, busy_refills: orders that were read further; those in turns that heard something.
    """

    def __init__(
        self,
        world: World,
        storage: Storage,
        judge: Judge,
        config: CoreConfig,
        durability: str,
        *,
        forgetful: bool = True,
        plan: Plan | None = None,
    ) -> None:
        self.world = world
        self.storage = storage
        self.judge = judge
        self.config = config
        self.durability = durability
        self.plan = plan or Plan()
        self.turns = self.crowded = self.crashes = 0
        self.refills = self.busy_refills = 0
        self._forgetful = forgetful
        self._rng = world.rng("site")
        self._hosts = 0
        self.host: Host | None = None
        self._callers: list[bytes] = []
        self._begin()
        self._plan_bad_luck("stop_every", self._restart)
        self._plan_bad_luck("usurp_every", self._usurp)
        self._plan_bad_luck("wall_step_every", self._step_forward)

    def count(self, frames: int) -> None:
        """A turn heard so many frames."""
        self.turns += frames > 0
        self.crowded += frames > 1

    def count_refills(self, orders: int, *, busy: bool) -> None:
        """A turn, which heard something or not, read so many orders further."""
        self.refills += orders
        self.busy_refills += orders * busy

    def configure(self, config: CoreConfig) -> None:
        """Use another config, at once or when the next daemon starts."""
        self.config = config
        if self.host is not None:
            self.host.configure(config)

    def stop(self) -> None:
        """Stop the daemon that runs, in good order if that can be had."""
        if self.host is None:
            return
        try:
            self.host.stop()
        except (Crash, StoreError):
            self.host.die("dies as it stops")

    def close(self) -> None:
        """Let go of the store; no daemon runs any more."""
        self.host = None
        self._store.close()

    # ------------------------------------------------------------------------------------ deaths and births

    def died(self, host: Host, how: str) -> None:
        """A daemon died, or its whole machine."""
        self.crashes += 1
        host.die(how)
        if host is not self.host:
            return
        self._callers = []
        if self._rng.random() < self.world.weather.power_cut:
            self._cut_power()
        self._begin_later()

    def failed(self, host: Host) -> None:
        """The store failed a daemon, which begins again from what the store has; its connections stay open."""
        host.die("gives up: the store failed")
        if host is self.host:
            self._callers = list(host.callers)
            self._begin_later()

    def _begin_later(self) -> None:
        self.host = None
        self._store.close()
        if not self.world.is_calm and self._rng.random() < 0.3:
            self.world.machine.step(-self._rng.choice((0.5, 30.0, 500.0)))
        self.world.clock.after(self._rng.choice((0.1, 5.0, 40.0)), self._begin)

    def _begin(self) -> None:
        self._store = FaultyStore(self.storage.open(), self.plan)
        self._start()

    def _start(self) -> None:
        self._hosts += 1
        try:
            self.host = Host(self, self._store, self._hosts, self._callers)
        except (Crash, StoreError):
            self.crashes += 1
            self.world.trace.note("machine", "a daemon dies as it begins")
            self._begin_later()
            return
        self.world.network.scheduler = self.host.hear

    def _cut_power(self) -> None:
        journal = self.judge.truth.journal
        lucky = self._rng.randrange(journal.unsynced + 1) if self._forgetful else journal.unsynced
        self.world.trace.note("machine", "loses its power")
        self.storage.power_cut(lucky)
        self.judge.power_cut(lucky)
        self.world.machine.boot(self._rng.choice((10.0, 5000.0)))

    # ------------------------------------------------------------------------------------ bad luck

    def _plan_bad_luck(self, kind: str, befall: Any) -> None:
        mean = getattr(self.world.weather, kind)
        if mean:
            self.world.clock.after(self.world.wait(self._rng, mean), lambda: self._befall(kind, befall))

    def _befall(self, kind: str, befall: Any) -> None:
        if not self.world.is_calm:
            befall()
            self._plan_bad_luck(kind, befall)

    def _restart(self) -> None:
        """An orderly stop, sometimes of the machine as well."""
        if self.host is None:
            return
        self.stop()
        self._callers = []
        if self._rng.random() < 0.3:
            self.world.machine.boot(100.0)
        self._begin_later()

    def _usurp(self) -> None:
        """A second scheduler starts, while the first, which only seemed dead, still has messages to work on."""
        old = self.host
        if old is not None:
            old.is_succeeded = True
            self._callers = []
            self.world.trace.note(old.name, "is succeeded")
            self._start()

    def _step_forward(self) -> None:
        self.world.machine.step(self._rng.choice((0.5, 30.0, 400.0)))
