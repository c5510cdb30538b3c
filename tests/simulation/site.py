"""Site of the daemons, which run one after the other, sometimes two at once, and their bad luck."""

from __future__ import annotations

from typing import Any

from taskqueue.errors import StoreError
from taskqueue.settings.settings import CoreConfig
from tests.simulation.host import Host
from tests.simulation.laws import Judge
from tests.simulation.storage import FaultyStore, Plan, Storage
from tests.simulation.world import Crash, World


class Site:
    """Site of the daemons: the machine, its disk, the config.

    Attributes:
        crashes: deaths of daemons.
        turns, crowded: turns with messages; turns with several.
        refills, busy_refills: reads that extended a head; those in turns with messages.
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
        """Count a turn by its number of frames."""
        self.turns += frames > 0
        self.crowded += frames > 1

    def count_refills(self, orders: int, *, busy: bool) -> None:
        """Count the orders that a turn, with messages (``busy``) or without, has read further."""
        self.refills += orders
        self.busy_refills += orders * busy

    def configure(self, config: CoreConfig) -> None:
        """Use another config, at once or when the next daemon starts."""
        self.config = config
        if self.host is not None:
            self.host.configure(config)

    def stop(self) -> None:
        """Stop the running daemon, cleanly if possible."""
        if self.host is None:
            return
        try:
            self.host.stop()
        except (Crash, StoreError):
            self.host.die("dies as it stops")

    def close(self) -> None:
        """Close the store, after the last daemon has ended."""
        self.host = None
        self._store.close()

    # ------------------------------------------------------------------------------------ deaths and births

    def died(self, host: Host, how: str) -> None:
        """Record the death of a daemon, or of its machine."""
        self.crashes += 1
        host.die(how)
        if host is not self.host:
            return
        self._callers = []
        if self._rng.random() < self.world.weather.power_cut:
            self._cut_power()
        self._begin_later()

    def failed(self, host: Host) -> None:
        """Restart a daemon after a store error, from the store; its connections stay open."""
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
        """Stop the daemon cleanly, sometimes with its machine, and start it again."""
        if self.host is None:
            return
        self.stop()
        self._callers = []
        if self._rng.random() < 0.3:
            self.world.machine.boot(100.0)
        self._begin_later()

    def _usurp(self) -> None:
        """Start a second scheduler while the first, which only seemed dead, still has messages to process."""
        old = self.host
        if old is not None:
            old.is_succeeded = True
            self._callers = []
            self.world.trace.note(old.name, "is succeeded")
            self._start()

    def _step_forward(self) -> None:
        self.world.machine.step(self._rng.choice((0.5, 30.0, 400.0)))
