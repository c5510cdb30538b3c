"""Play of one seed from beginning to end: bad weather, then calm, then the final checks.

0 ────────── bad weather ──────────► STORM_SECONDS ── calm: every accepted task ends ──► final checks
"""

from __future__ import annotations

import sys
from math import inf
from random import Random
from typing import Final, NamedTuple

from msgspec.structs import replace

from taskqueue.core.model.edges import TaskRef
from taskqueue.core.model.needs import Needs
from taskqueue.core.model.task import BLOCKED, OVER
from taskqueue.settings.settings import CoreConfig, Layer, Pace
from taskqueue.store.ledger import Ledger
from tests.simulation import crew, importers, visitors, weavers
from tests.simulation.cast import Fetcher, Operator, Producer
from tests.simulation.laws import Judge
from tests.simulation.site import Site
from tests.simulation.storage import MemoryDisk, Plan, Storage, StoreName, storage_of
from tests.simulation.tasks import (
    FETCHER_TIMEOUT,
    GROUP,
    ORDERS,
    PROCESSING_TIMEOUT,
    PROJECTS,
    RETRY_DELAY,
    SHARED,
    recurs,
)
from tests.simulation.truth import Name
from tests.simulation.world import Violation, Weather, World

STORM_SECONDS: Final = 900.0
SETTLE_SECONDS: Final = 100.0
"""Seconds after which no message of the storm is still on its way."""

CALM_SECONDS: Final = 3600.0
"""Seconds of calm in which every accepted task finishes (law L1), once the wall clock has caught up with its latest
time. A delayed task keeps its time when the clock is put back, by more than an hour in the restarts of one storm."""

OPERATING_SECONDS: Final = 36_000.0
"""Further seconds of calm in which operations end: a slow machine takes hours to get through dozens of them."""

LOOK_SECONDS: Final = 50.0

SYNCED_SHARE: Final = 0.6
"""Share of the worlds with durability ``commit`` whose hand-outs are synced."""

PLENTY: Final = 1 << 28
HEADS: Final = (
    (2, PLENTY, PLENTY),
    (2, 1100, PLENTY),
    (8, PLENTY, 6000),
    (4096, PLENTY, PLENTY),
)
"""Bounds of heads: tasks, bytes, bytes of all heads. A task takes about 550 bytes."""


class Played(NamedTuple):
    """Result of a world.

    Attributes:
        digest: of its trace; law D1: equal for equal seeds, for any PYTHONHASHSEED and any store.
        crowded: share of turns with several messages, among those with any.
        writes: batches to write.
        refills, busy_refills: reads that extended a head; those in turns with messages.
    """

    digest: str
    seconds: float
    turns: int
    crowded: float
    handed: int
    accepted: int
    crashes: int
    writes: int
    refills: int
    busy_refills: int


class Play:
    """World with its cast.

    Args:
        forgetful: whether a power cut loses unsynced writes; False lets the memory behave like a directory.
        plan: a fault for one particular write.
        crewed: add the crew: fetchers with names and priorities, which are drained now and then.
        graphs: add the weavers, who push tasks with parents.
        slotted: add the visitors, who push pages to projects that are divided into slots.
        restored: add the importer, who imports a project again and again.

    Attributes:
        world: clocks, network and trace.
        crewed, graphs, slotted, restored: the arguments.
    """

    def __init__(
        self,
        seed: int | str,
        storage: Storage | None = None,
        *,
        forgetful: bool = True,
        weather: Weather | None = None,
        storm_seconds: float = STORM_SECONDS,
        plan: Plan | None = None,
        crewed: bool = False,
        graphs: bool = False,
        slotted: bool = False,
        restored: bool = False,
    ) -> None:
        self.crewed, self.graphs, self.slotted, self.restored = crewed, graphs, slotted, restored
        self._projects = (
            *PROJECTS, *weavers.PROJECTS * graphs, *visitors.PROJECTS * slotted, *(importers.PROJECT,) * restored,
        )  # fmt: skip
        self.world = World(seed, weather)
        self._rng = self.world.rng("play")
        self._storm_seconds = storm_seconds
        self._keeps = self.world.rng("keeps")
        config = self._peopled(draw_config(self._rng, self._keeps))
        durability = self._rng.choice(("commit", "commit", "commit", "interval", "none"))
        if durability == "commit":
            config = replace(config, synced_handout=self.world.rng("handout").random() < SYNCED_SHARE)
        self.judge = Judge(self.world, config, durability == "commit")
        self.site = Site(
            self.world, storage or MemoryDisk(), self.judge, config, durability, forgetful=forgetful, plan=plan
        )
        self._people()
        self._plan_reload()
        self._plan_partition()

    def run(self) -> Played:
        """Play to the end.

        Raises:
            Violation: a law is broken.
        """
        clock = self.world.clock
        clock.run_until(self._storm_seconds)
        self.world.calm_down()
        clock.run_until(clock.now + SETTLE_SECONDS)
        self._operator.open_everything()
        end = clock.now + self.world.machine.wall_lag + CALM_SECONDS
        last = end + OPERATING_SECONDS
        while clock.now < end and self._is_busy():
            self._cancel_recurring(self._not_over())
            clock.run_until(clock.now + LOOK_SECONDS)
            if self.judge.truth.operating:  # they may let go of tasks with their last step
                end = min(last, max(end, clock.now + CALM_SECONDS))
        self._reckon()
        return self._played()

    def _people(self) -> None:
        rng, told = self._rng, self.judge.told
        pool = rng.choice((15, 40, 80))
        pace = rng.choice((3.0, 6.0, 15.0))
        for number in range(rng.choice((2, 3, 4))):
            Producer(self.world, f"producer{number}", told, pool, pace)
        for number in range(rng.choice((2, 4, 6))):
            Fetcher(self.world, f"fetcher{number}", told, pool)
        if self.crewed:
            crew.move_in(self.world, told, pool)
        if self.graphs:
            weavers.move_in(self.world, told)
        if self.slotted:
            visitors.move_in(self.world, told)
        if self.restored:
            importers.move_in(self.world, told)
        self._operator = Operator(self.world, told, pool, rng.choice((20.0, 60.0, 300.0)))

    def _peopled(self, config: CoreConfig) -> CoreConfig:
        config = weavers.with_graphs(self.world, config) if self.graphs else config
        return visitors.with_slots(self.world, config) if self.slotted else config

    # ------------------------------------------------------------------------------------ bad luck

    def _plan_reload(self) -> None:
        self.world.clock.after(self.world.wait(self._rng, 400), self._reload)

    def _reload(self) -> None:
        if not self.world.is_calm:
            self.site.configure(self._peopled(_with_other_rates(self.site.config, self._rng, self._keeps)))
            self._plan_reload()

    def _plan_partition(self) -> None:
        mean = self.world.weather.partition_every
        if mean:
            self.world.clock.after(self.world.wait(self._rng, mean), self._part)

    def _part(self) -> None:
        if not self.world.is_calm:
            peer = self._rng.choice(sorted(self.world.network.peers()))
            self.world.network.block(peer, self._rng.random() < 0.5, self._rng.choice((5.0, 30.0, 90.0)))
            self._plan_partition()

    # ------------------------------------------------------------------------------------ the end

    def _is_busy(self) -> bool:
        if self._not_over() or self.judge.projects.owed() or self.site.host is None:
            return True
        judge = self.judge
        return judge.edges.under_way() or judge.flows.under_way() or bool(judge.truth.operating)

    def _not_over(self) -> list[Name]:
        """List unfinished tasks; blocked ones have a law of their own."""
        return [name for name, held in self.judge.truth.tasks.items() if held.state not in (*OVER, BLOCKED)]

    def _cancel_recurring(self, rest: list[Name]) -> None:
        for project in self._projects:
            taskids = [name.taskid for name in rest if name.project == project and recurs(name.taskid)]
            if taskids:
                self._operator.end_for_good(project, taskids)

    def _reckon(self) -> None:
        """Judge law L1, and law S1 against the store as another process reads it."""
        self._must_be_over(self._not_over())
        for project in self.judge.projects.owed():
            raise Violation("F2", project, f"{project} has nothing left to do and has not finished")
        truth = self.judge.truth
        for number in truth.operating:
            raise Violation("L1", "daemon", f"operation id {number} has not ended after all this calm")
        self.judge.edges.reckon([name for name, held in truth.tasks.items() if held.state == BLOCKED])
        self.judge.flows.reckon()
        for name in self.judge.accepted():
            if name not in truth.tasks:
                raise Violation("S1", name.taskid, "it was accepted and is lost")
        self._reopen()

    def _must_be_over(self, rest: list[Name]) -> None:
        for name in rest:
            held = self.judge.truth.tasks[name]
            reason = f"in state {held.state} after all this calm; {len(rest)} tasks like it"
            raise Violation("L1", name.taskid, reason)

    def _reopen(self) -> None:
        """Check that the store, opened again at the end, has what was written."""
        if self.site.host is None:
            raise Violation("L1", "daemon", "no daemon runs after all this calm")
        self.site.stop()
        self.site.close()
        store = self.site.storage.open()
        self.judge.edges.reckon_with(store)
        self.judge.flows.reckon_with(store)
        ledger = Ledger(store)
        refs = {name: TaskRef(held.number, name.taskid) for name, held in self.judge.truth.tasks.items()}
        found = ledger.find(Needs(tasks=list(refs.values()))).tasks
        ledger.close()
        for name, ref in refs.items():
            if ref not in found or found[ref].state != self.judge.truth.tasks[name].state:
                raise Violation("S1", name.taskid, f"the store has {found.get(ref)} at the end")

    def _played(self) -> Played:
        return Played(
            digest=self.world.trace.digest(),
            seconds=self.world.clock.now,
            turns=self.site.turns,
            crowded=self.site.crowded / max(1, self.site.turns),
            handed=self.judge.handed,
            accepted=len(self.judge.truth.tasks),
            crashes=self.site.crashes,
            writes=self.site.plan.tried,
            refills=self.site.refills,
            busy_refills=self.site.busy_refills,
        )


def play(
    seed: int | str,
    store: StoreName = "memory",
    *,
    forgetful: bool = True,
    storm_seconds: float = STORM_SECONDS,
    crewed: bool = False,
    graphs: bool = False,
    slotted: bool = False,
    restored: bool = False,
) -> Played:
    """Play one seed; print a report if a law is broken.

    Raises:
        Violation: a law is broken.
    """
    with storage_of(store) as disk:
        one = Play(
            seed,
            disk,
            forgetful=forgetful and store == "memory",
            storm_seconds=storm_seconds,
            crewed=crewed,
            graphs=graphs,
            slotted=slotted,
            restored=restored,
        )
        return _play(one, store)


def _play(one: Play, store: StoreName) -> Played:
    try:
        return one.run()
    except BaseException as error:
        print(report(one, error, store), file=sys.stderr)
        raise


def report(one: Play, error: BaseException, store: StoreName) -> str:
    """Describe a violation: law, seed, last lines of the trace about its task, and the command that repeats it."""
    law = error.law if isinstance(error, Violation) else type(error).__name__
    task = error.task if isinstance(error, Violation) else ""
    world = one.world
    command = f".venv/bin/python -m tests.simulation --seed {world.seed}"
    option = ("" if store == "memory" else f" --store {store}") + (" --crewed" if one.crewed else "")
    option += (" --graphs" if one.graphs else "") + (" --slotted" if one.slotted else "")
    option += " --restored" if one.restored else ""
    lines = [f"law {law}, seed {world.seed}, at {world.clock.now:.3f} s: {error}", ""]
    return "\n".join([*lines, *world.trace.about(task), "", f"see it again: {command}{option}"])


def draw_config(rng: Random, keeps: Random) -> CoreConfig:
    """Draw the config of one world; some have tiny heads, some turns of three tasks."""
    defaults: Layer = {
        "processing_timeout": PROCESSING_TIMEOUT,
        "retry_delay": RETRY_DELAY,
        "retries": 2,
        "fail_pause_num": rng.choice((3, 3, 10)),
        "pause_time": 45.0,
    }
    auto_create = rng.random() < 0.5
    head_tasks, head_bytes, queue_bytes = rng.choice(HEADS)
    config = CoreConfig(
        defaults=defaults,
        projects={project: {} for project in PROJECTS},
        auto_create=auto_create,
        fetcher_timeout=FETCHER_TIMEOUT,
        head_tasks=head_tasks,
        head_bytes=head_bytes,
        queue_bytes=queue_bytes,
        turn_tasks=rng.choice((3, 2048, 2048)),
        select_bytes=rng.choice((1, 2000, 1 << 20)),
    )
    return _with_other_rates(config, rng, keeps)


def _with_other_rates(config: CoreConfig, rng: Random, keeps: Random) -> CoreConfig:
    paces: tuple[Layer, ...] = (
        {"rate": float("inf")},
        {"rate": 5.0, "burst": 10.0},
        {"rate": 1.0, "burst": 3.0},
        {"rate": 0.3, "burst": 1.0},
    )
    projects = {
        project: {**rng.choice(paces), **rng.choice(_MORE), **keeps.choice(_KEEPS), "order": keeps.choice(ORDERS)}
        for project in PROJECTS
    }
    buckets = {SHARED: rng.choice((Pace(0.2, 2.0), Pace(1.0, 4.0)))}
    fields = {key: getattr(config, key) for key in config.__struct_fields__}
    return CoreConfig(**{**fields, "projects": projects, "buckets": buckets})


_MORE: Final[tuple[Layer, ...]] = (
    {"group": GROUP},
    {"group": GROUP, "bucket": SHARED, "rate": inf},
    {"bucket": SHARED, "rate": inf, "on_finished": {}},
    {"on_finished": {"priority": 3}, "max_processing": 3.0},
    {"on_failure": {"priority": 1}, "retries": 0},
    {"on_failure": {"retries": 0, "body": "{error}"}},
)
"""Settings of a section of the config besides its pace."""

_KEEPS: Final[tuple[Layer, ...]] = (
    {},
    {"keep": {"success": 50.0, "failed": 200.0, "cancelled": 0.0}},
    {"keep": {"success": 0.0, "failed": 5.0, "then": "forget"}},
)
"""Settings ``keep`` of finished tasks."""
