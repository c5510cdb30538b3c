"""Random ticks of a cron entry with a graph, beside a naive model: lists of flows and of waiting ticks.

The graph is a pair of tasks. At each minute the entry ticks; in between a flow ends in some way, one that has failed is
retried or cancelled, or the daemon is killed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from taskqueue.protocol.flows import FlowCancel, FlowList, FlowReply, FlowsReply
from taskqueue.protocol.tasks import TaskRetry, TasksReply
from taskqueue.settings.settings import CoreConfig
from tests.nightly import TIMES
from tests.unit.core.conftest import WALL, World

MINUTE: Final = 60
FIRST: Final = MINUTE - int(WALL) % MINUTE
MOST: Final = 10


@dataclass
class Flow:
    """Flow of the model: its tick and its state."""

    tick: int
    state: str = "running"


@dataclass
class Model:
    """Entry as the rules describe it."""

    overlap: str
    after_failure: str
    keep: int
    flows: list[Flow] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    ran: int = 0
    skipped: int = 0

    def running(self) -> list[Flow]:
        return [flow for flow in self.flows if flow.state == "running"]

    def tick(self, at: int) -> None:
        """Run, skip or keep a tick."""
        if not self.running():
            self._submit(at)
        elif self.overlap == "wait" and len(self.waiting) < MOST:
            self.waiting.append(at)
        elif self.overlap == "both" and len(self.running()) < MOST:
            self._submit(at)
        else:
            self.skipped += 1

    def end(self, flow: Flow, state: str) -> None:
        """End a flow, forget the oldest ended ones, and run waiting ticks."""
        flow.state = state
        over = [each for each in self.flows if each.state != "running"]
        for each in over[: -self.keep]:
            self.flows.remove(each)
        while self.waiting and not self.running():
            self._submit(self.waiting.pop(0))

    def _submit(self, at: int) -> None:
        over = [flow for flow in self.flows if flow.state != "running"]
        if self.after_failure == "skip" and over and over[-1].state == "failed":
            self.skipped += 1
            return
        self.ran += 1
        self.flows.append(Flow(at))


class Play:
    """World with the entry, drawn from a seed, and its model."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.model = Model(rng.choice(("skip", "wait", "both")), rng.choice(("run", "skip")), rng.choice((1, 3, 10)))
        entry: dict[str, Any] = {
            "every": "1m",
            "missed": "once",
            "overlap": self.model.overlap,
            "keep_flows": self.model.keep,
        }
        entry |= {"after_failure": self.model.after_failure, "tasks": {"sum": {"after": ["load"]}, "load": {}}}
        news: dict[str, Any] = {"cron": {"night": entry}, "fail_pause_num": 0}
        defaults = {"rate": inf, "processing_timeout": 86_400.0}
        heads = rng.choice((2, 4096))
        self.world = World(CoreConfig(defaults, {"news": news}, head_tasks=heads, fetcher_timeout=86_400.0))
        self.fetcher = self.world.fetcher(capacity=0)
        self.fetcher.capacity = 100
        self.ticks = 0

    def tick(self) -> None:
        """Let a minute pass, at the end of which the daemon may be killed, and start when the tick is due."""
        self.world.advance(MINUTE - 5 if self.ticks else FIRST - 5)
        if self.rng.random() < 0.3:
            self.world.elapsed += 5
            self.world.restart()
        else:
            self.world.advance(5)
        self.model.tick(int(WALL) + FIRST + self.ticks * MINUTE)
        self.ticks += 1

    def happen(self) -> None:
        """End a flow in some way, or retry or cancel one that has failed."""
        rng, model = self.rng, self.model
        failed = [flow for flow in model.flows if flow.state == "failed"]
        if failed and rng.random() < 0.4:
            flow = rng.choice(failed)
            taskids = [f"night-{flow.tick}.{name}" for name in ("load", "sum")]
            request = TaskRetry(session="person", n=self.world.n(), project="news", taskids=taskids)
            self.world.ask(TasksReply, request)
            flow.state = "running"
        elif failed and rng.random() < 0.4:
            flow = rng.choice(failed)
            self._end(f"night-{flow.tick}", "cancelled")
            flow.state = "cancelled"
        elif model.running():
            flow = rng.choice(model.running())
            state = rng.choice(("success", "success", "failed", "cancelled"))
            self._end(f"night-{flow.tick}", state)
            model.end(flow, state)

    def _end(self, name: str, state: str) -> None:
        if state == "cancelled":
            self.world.ask(FlowReply, FlowCancel(session="person", n=self.world.n(), project="news", flow=name))
            self.world.settle()
            return
        self.fetcher.hello()
        assert self.fetcher.done(f"{name}.load", ok=state == "success", retry=False) == "done"
        if state == "success":
            self.fetcher.hello()
            assert self.fetcher.done(f"{name}.sum") == "done"
        self.world.settle()

    def compare(self) -> None:
        (entry,) = self.world.project().cron
        request = FlowList(session="person", n=self.world.n(), project="news")
        views = self.world.ask(FlowsReply, request).flows
        model = self.model
        assert [(view.flow, view.state) for view in views] == [
            (f"night-{flow.tick}", flow.state) for flow in sorted(model.flows, key=lambda flow: flow.tick)
        ]
        assert (entry.ran, entry.skipped, entry.waiting) == (model.ran, model.skipped, len(model.waiting))


@settings(max_examples=20 * TIMES)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_happens_to_the_flows_of_an_entry_its_ticks_do_as_the_naive_model_says(seed: int) -> None:
    play = Play(seed)

    for _ in range(25):
        if play.rng.random() < 0.5:
            play.tick()
        else:
            play.happen()
        play.compare()
