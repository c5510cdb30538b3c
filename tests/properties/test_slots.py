"""Random traffic in a project with slots, on the real scheduler, beside a naive model of them and beside plain laws.

Events are drawn from a seed. Memory is tiny in many worlds, so that slots come and go all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskqueue.core.model import slot_table
from taskqueue.core.moves import slots
from taskqueue.core.steps import slot_division
from taskqueue.protocol.projects import ProjectDo, ProjectSet
from taskqueue.protocol.tasks import DoneReply, TaskCancel, TaskRetry
from taskqueue.protocol.values import Fetched, NewTask
from taskqueue.settings.settings import CoreConfig
from tests.properties.slot_model import OWN_PATTERN, Pace, Page, SlotModel, WatchedWorld
from tests.unit.core.conftest import task

SEEDS: Final = st.integers(0, 1 << 32)
STEPS: Final = 40
TASKS: Final = 40
CALM_STEPS: Final = 400
"""Steps of half a minute, within which every task ends."""

OUTCOMES: Final[tuple[dict[str, Any], ...]] = (
    {}, {}, {}, {}, {"ok": False, "retry": False}, {"ok": False, "error": "HTTP 404"},
)  # fmt: skip
DIVISIONS: Final = ("host", "domain", "named")


@contextmanager
def tiny_memory(rng: Random) -> Iterator[None]:
    """Draw bounds of memory, and of the reads and moves of a turn."""
    bounds: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
        (slot_table, "FRONT_SLOTS", (2, 512)),
        (slot_table, "FIRST_TASKS", (1, 2, 8)),
        (slots, "FIRST_TASKS", (1, 2, 8)),
        (slots, "SLOTS_A_TURN", (1, 2, 256)),
        (slot_table, "WANTED_MOST", (2, 4096)),
        (slots, "SLOTS_LEAST", (1, 2, 5, 256)),
        (slot_division, "MOVED_TASKS", (1, 3, 256)),
    )
    with pytest.MonkeyPatch.context() as patch:
        for module, name, values in bounds:
            patch.setattr(module, name, rng.choice(values))
        yield


class Play:
    """World drawn from a seed, a fetcher, and the events so far, to be shown with a failure."""

    def __init__(self, rng: Random, *, is_tiny: bool = True) -> None:
        self.rng = rng
        hosts = [f"h{number}.example{number % 3}.org" for number in range(rng.choice((2, 6, 12)))]
        self.pages = {
            f"t{number}": Page(hosts[number % len(hosts)] if number % 7 else "", rng.choice((None, None, "own", "x y")))
            for number in range(TASKS)
        }
        by, (config, pace, own) = rng.choice(DIVISIONS), _draw_pace(rng)
        self.model = SlotModel(by, self.pages, pace, own)
        self.world = WatchedWorld(
            CoreConfig(
                defaults={"rate": inf, "fail_pause_num": 0, "slot": {"by": by, **config}},
                projects={"news": {}},
                head_tasks=rng.choice((2, 4096)) if is_tiny else 4096,
                turn_tasks=rng.choice((2, 3, 5, 2048)) if is_tiny else 2048,
                slots_in_memory=1 if is_tiny else 100_000,
            ),
            self.model,
        )
        self.fetcher = self.world.fetcher(rng.choice((1, 3, 100)))
        self.happened: list[object] = []
        self._is_running = True

    def traffic(self) -> None:
        """Do something at random."""
        rng, luck = self.rng, self.rng.random()
        if luck < 0.42:
            self.world.turn(self.world.new_tasks("news", *[self._draw() for _ in range(rng.randint(1, 6))]))
        elif luck < 0.75:
            self.report()
        elif luck < 0.79:
            self._ask(rng.choice((TaskRetry, TaskCancel)))
        elif luck < 0.83:
            self.act(rng.choice(("clear", "pause", "resume")))
        elif luck < 0.95:
            self.advance(rng.choice((0.25, 1.0, 5.0, 30.0)))
        else:
            self.world.settle()

    def die(self) -> None:
        """Kill or stop the daemon or the machine, and start another one."""
        luck = self.rng.random()
        self.happened.append("dies")
        if luck < 0.4:
            self.world.restart()
        elif luck < 0.6:
            self.world.crash()
        else:
            self.world.reboot(clean=luck < 0.8)

    def divide(self) -> None:
        """Divide the project anew, or no longer."""
        by = self.rng.choice(("none", *DIVISIONS))
        self.happened.append(by)
        self.model.divided(by, self.world.elapsed)
        self.world.turn(ProjectSet(session="person", n=self.world.n(), project="news", settings={"slot": {"by": by}}))

    def act(self, action: Any) -> None:
        self.happened.append(action)
        self._is_running = {"pause": False, "resume": True}.get(action, self._is_running)
        self.world.turn(ProjectDo(session="person", n=self.world.n(), project="news", action=action))

    def advance(self, seconds: float) -> None:
        self.happened.append(seconds)
        self.fetcher.hello()
        self.world.advance(seconds)

    def report(self, most: int = 3, outcomes: tuple[dict[str, Any], ...] = OUTCOMES) -> None:
        """Report on some leases; now and then with the seconds of the fetch."""
        self.fetcher.hello()
        held = sorted(self.fetcher.held)
        taskids = self.rng.sample(held, min(len(held), self.rng.randint(1, most)))
        if not taskids:
            return
        handed = [self.fetcher.held[taskid] for taskid in taskids]
        took = [self.rng.choice((None, 0.0, 0.1, 1.0)) for _ in taskids]
        done = self.fetcher.answers(
            *[
                self.fetcher.finished(
                    taskid, **self.rng.choice(outcomes), fetched=None if seconds is None else Fetched(seconds=seconds)
                )
                for taskid, seconds in zip(taskids, took, strict=True)
            ]
        )
        self.happened.append(done)
        # Reports that count are known after the turn, but its dispatches have to be judged before.
        in_force = {each.token for each in self.world.leased()}
        for each, seconds in zip(handed, took, strict=True):
            if seconds is not None and each.token in in_force:
                self.model.reported(each, self.world.elapsed - seconds)
        for reply in self.world.turn(done):
            assert isinstance(reply, DoneReply)

    def at_rest(self) -> None:
        """Check that no task of a slot that may go waits while the fetcher waits."""
        self.world.settle()
        self.fetcher.hello()  # the answer names ended leases …
        self.fetcher.hello()  # … and this hello shows that they are dropped
        ready = self.model.rested(self.world)
        leased = {each.token for each in self.world.leased()}
        has_room = len(leased) < self.fetcher.capacity and leased.issuperset(self.fetcher.holds)
        if not self._is_running or not has_room:
            return
        if any(each.crashes for each in ready):
            return
        waits = [each.taskid for each in ready if self.model.surely_goes(each.taskid, self.world.elapsed)]
        assert not waits, f"{waits} could go, and the fetcher has room"

    def come_to_an_end(self) -> None:
        """Let all pushed tasks be done."""
        self.act("resume")
        for _ in range(CALM_STEPS):
            self.at_rest()
            while self.fetcher.held:
                self.report(100, OUTCOMES[:1])
            counts = self.world.counts()
            if not counts.ready + counts.delayed + counts.processing:
                return
            self.advance(30.0)
        raise AssertionError(f"{counts} are left")

    def _draw(self) -> NewTask:
        rng = self.rng
        taskid = rng.choice(list(self.pages))
        page = self.pages[taskid]
        schedule: dict[str, Any] = {"priority": rng.choice((0, 0, 0, -1, 1, 5))}
        optional = {"force_update": True, "delay": rng.choice((1, 10)), "age": 1, "retries": 1}
        schedule |= {key: value for key, value in optional.items() if rng.random() < 0.2}
        if page.named:
            schedule["slot"] = page.named
        self.happened.append((taskid, schedule))
        return task(taskid, url=f"http://{page.host}/{taskid}" if page.host else f"data:{taskid}", **schedule)

    def _ask(self, kind: type[TaskCancel | TaskRetry]) -> None:
        taskids = self.rng.sample(list(self.pages), 2)
        self.happened.append((kind.__name__, taskids))
        self.world.turn(kind(session="person", n=self.world.n(), project="news", taskids=taskids))


def _draw_pace(rng: Random) -> tuple[dict[str, Any], Pace, Pace]:
    """Draw the setting ``slot``, the pace of each slot by it, and that of slots with a pace of their own."""
    most = rng.choice((1, 1, 1, 3, inf))
    own = {"patterns": {OWN_PATTERN: {"delay": 7.0, "max_processing": 2}}}
    if rng.random() < 0.25:
        rate, burst = rng.choice((0.5, 2.0)), rng.choice((1.0, 3.0))
        pace = Pace(1 / rate, (burst - 1) / rate, most)
        config: dict[str, Any] = {"rate": rate, "burst": burst}
    else:
        pace = Pace(rng.choice((0.0, 0.5, 2.0, 100.0)), 0.0, most)
        config = {"delay": pace.interval}
    config["max_processing"] = most
    if rng.random() < 0.5:
        return config, pace, pace
    return config | own, pace, Pace(7.0, 0.0, 2)


@settings(max_examples=40)
@given(seed=SEEDS)
def test_of_all_slots_that_may_go_the_one_with_the_best_task_is_next(seed: int) -> None:
    rng = Random(seed)
    play = Play(rng, is_tiny=False)
    play.model.is_ordered = True

    for _ in range(STEPS):
        play.traffic()
        play.at_rest()
    play.come_to_an_end()


@settings(max_examples=50)
@given(seed=SEEDS)
def test_no_slot_goes_early_or_has_too_much_out_and_none_is_left_out_whatever_dies_when(seed: int) -> None:
    rng = Random(seed)
    with tiny_memory(rng):
        play = Play(rng)

        for _ in range(STEPS):
            play.traffic()
            if rng.random() < 0.1:
                play.die()
            if rng.random() < 0.3:
                play.at_rest()
        play.come_to_an_end()


@settings(max_examples=50)
@given(seed=SEEDS)
def test_nothing_is_lost_or_early_however_often_a_project_is_divided_anew(seed: int) -> None:
    rng = Random(seed)
    with tiny_memory(rng):
        play = Play(rng)

        for _ in range(STEPS):
            play.traffic()
            if rng.random() < 0.15:
                play.divide()
            if rng.random() < 0.08:
                play.die()
            if rng.random() < 0.2:
                play.at_rest()
        play.come_to_an_end()
